! Views, collective and individual calls through `use mpi`.
program features_mpi
    use mpi
    implicit none
    integer :: file, slice, request, info, status(MPI_STATUS_SIZE)
    include 'features.inc'
end program
