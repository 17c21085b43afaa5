! MPI-IO from Fortran, each call once; the file is the argument.
program mpiio
  use mpi_f08
  implicit none
  character(len=1024) :: path
  integer :: rank, ints(16), back(16)
  integer(kind=MPI_OFFSET_KIND) :: at
  type(MPI_File) :: file
  call get_command_argument(1, path)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  ints = rank
  call MPI_File_open(MPI_COMM_WORLD, trim(path), MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file)
  at = 64 * rank
  call MPI_File_write_at_all(file, at, ints, 16, MPI_INTEGER, MPI_STATUS_IGNORE)
  call MPI_File_sync(file)
  call MPI_File_read_at(file, at, back, 16, MPI_INTEGER, MPI_STATUS_IGNORE)
  if (any(back /= ints)) error stop 1
  call MPI_File_close(file)
  call MPI_Finalize()
end program
