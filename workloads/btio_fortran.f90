! Direct access, unformatted: how a Fortran program without MPI-IO shares a file. A record is one
! point of the grid, five double precision numbers.
module btio_fortran
  use, intrinsic :: iso_c_binding
  implicit none
  private

  integer, parameter :: numbers_per_point = 5

contains

  ! Opens a file and gives its unit; a status other than 0 says that it did not work.
  subroutine fortran_open(path, length, unit, status) bind(c)
    integer(c_int), value :: length
    character(kind=c_char), intent(in) :: path(length)
    integer(c_int), intent(out) :: unit, status
    character(len=length) :: name
    real(c_double) :: point(numbers_per_point)
    integer :: record_length, i

    do i = 1, length
       name(i:i) = path(i)
    end do
    point = 0
    inquire (iolength=record_length) point
    open (newunit=unit, file=name, form='unformatted', access='direct', &
          recl=record_length, status='unknown', action='readwrite', iostat=status)
  end subroutine fortran_open

  ! Writes a line of points to the records from `first`, counted from 0.
  subroutine fortran_write(unit, first, points, values, status) bind(c)
    integer(c_int), value :: unit, points
    integer(c_long_long), value :: first
    real(c_double), intent(in) :: values(numbers_per_point, points)
    integer(c_int), intent(out) :: status
    integer :: i

    status = 0
    do i = 1, points
       write (unit, rec=first + i, iostat=status) values(:, i)
       if (status /= 0) return
    end do
  end subroutine fortran_write

  ! Reads such a line.
  subroutine fortran_read(unit, first, points, values, status) bind(c)
    integer(c_int), value :: unit, points
    integer(c_long_long), value :: first
    real(c_double), intent(out) :: values(numbers_per_point, points)
    integer(c_int), intent(out) :: status
    integer :: i

    status = 0
    do i = 1, points
       read (unit, rec=first + i, iostat=status) values(:, i)
       if (status /= 0) return
    end do
  end subroutine fortran_read

  subroutine fortran_close(unit, status) bind(c)
    integer(c_int), value :: unit
    integer(c_int), intent(out) :: status

    close (unit, iostat=status)
  end subroutine fortran_close

end module btio_fortran
