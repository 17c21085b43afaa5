! Views, collective and individual calls through `use mpi_f08`.
program features_f08
    use mpi_f08
    implicit none
    type(MPI_File) :: file
    type(MPI_Datatype) :: slice
    type(MPI_Request) :: request
    type(MPI_Info) :: info
    type(MPI_Status) :: status
    include 'features.inc'
end program
