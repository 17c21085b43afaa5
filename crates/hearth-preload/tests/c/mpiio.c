/* MPI-IO by two processes, each call once; the file is the argument. */
#include <mpi.h>
#include <stdio.h>

#define CHECK(call) do { if ((call) != MPI_SUCCESS) { fprintf(stderr, "%s\n", #call); MPI_Abort(MPI_COMM_WORLD, 2); } } while (0)

int main(int argc, char **argv)
{
	int rank, ints[16], back[16];
	MPI_File file;
	MPI_Status status;
	MPI_Request request;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int at = 0; at < 16; at++)
		ints[at] = 100 * rank + at;
	int code = MPI_File_open(MPI_COMM_SELF, "/nowhere/at/all", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
	if (code == MPI_SUCCESS)
		return 1;
	CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
	CHECK(MPI_File_set_view(file, 64, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
	/* In bytes: at 64 + 4 * 16 * rank. */
	CHECK(MPI_File_write_at_all(file, 16 * rank, ints, 16, MPI_INT, &status));
	CHECK(MPI_File_seek(file, 32 + 4 * rank, MPI_SEEK_SET));
	CHECK(MPI_File_write(file, ints, 4, MPI_INT, MPI_STATUS_IGNORE));
	CHECK(MPI_File_sync(file));
	MPI_Barrier(MPI_COMM_WORLD);
	CHECK(MPI_File_read_at(file, 16 * rank, back, 16, MPI_INT, &status));
	for (int at = 0; at < 16; at++)
		if (back[at] != ints[at])
			return 1;
	/* 40 ints are there, so this one gets 8 of 16. */
	CHECK(MPI_File_read_at(file, 32, back, 16, MPI_INT, &status));
	CHECK(MPI_File_iread_at(file, 0, back, 2, MPI_INT, &request));
	CHECK(MPI_Wait(&request, &status));
	/* Not at the end, where Open MPI 4.1 would wait for ever for the rank that finds nothing. */
	CHECK(MPI_File_seek(file, 16 * rank, MPI_SEEK_SET));
	CHECK(MPI_File_read_all_begin(file, back, 1, MPI_INT));
	CHECK(MPI_File_read_all_end(file, back, &status));
	CHECK(MPI_File_close(&file));
	MPI_Finalize();
	return 0;
}
