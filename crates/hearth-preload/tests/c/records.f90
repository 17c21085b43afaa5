! Formatted and unformatted files of Fortran.
program records
  implicit none
  integer :: i, sum, value
  open(10, file='table', status='replace')
  do i = 1, 1000
    write(10, '(i8)') i
  end do
  close(10)
  sum = 0
  open(10, file='table', status='old')
  do i = 1, 1000
    read(10, '(i8)') value
    sum = sum + value
  end do
  close(10)
  open(11, file='block', form='unformatted', access='stream', status='replace')
  write(11) (i, i = 1, 5000)
  close(11)
  print *, sum
end program
