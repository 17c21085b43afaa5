/* Ranks write and read one region at once, in atomic mode: nobody ever reads parts of two writes.
 *
 *     atomic FILE ROUNDS
 *
 * The region is not contiguous, and overlaps for all ranks. Ranks of even number write it full of
 * one value, those of odd number read it until the last is written; then all do both in collective
 * calls.
 */
#include "check.h"

enum { PIECES = 6, PIECE = 700, STRIDE = 3000, BYTES = PIECES * PIECE, BASE = 1234, LAST = 251 };

static unsigned char bytes[BYTES];

static int is_mixed(void)
{
    for (int i = 1; i < BYTES; i++)
        if (bytes[i] != bytes[0])
            return 1;
    return 0;
}

static void read_region(MPI_File file, int how)
{
    MPI_Request request;
    MPI_Status status;
    int count;
    memset(bytes, 0xff, BYTES);
    switch (how % 3) {
    case 0:
        MPI(MPI_File_read_at(file, 0, bytes, BYTES, MPI_BYTE, &status));
        break;
    case 1:
        MPI(MPI_File_iread_at(file, 0, bytes, BYTES, MPI_BYTE, &request));
        MPI(MPI_Wait(&request, &status));
        break;
    default:
        MPI(MPI_File_seek(file, 0, MPI_SEEK_SET));
        MPI(MPI_File_read(file, bytes, BYTES, MPI_BYTE, &status));
    }
    MPI(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK(count == BYTES);
}

static void write_region(MPI_File file, int how, int value)
{
    MPI_Request request;
    MPI_Status status;
    memset(bytes, value, BYTES);
    switch (how % 3) {
    case 0:
        MPI(MPI_File_write_at(file, 0, bytes, BYTES, MPI_BYTE, &status));
        break;
    case 1:
        MPI(MPI_File_iwrite_at(file, 0, bytes, BYTES, MPI_BYTE, &request));
        MPI(MPI_Wait(&request, &status));
        break;
    default:
        MPI(MPI_File_seek(file, 0, MPI_SEEK_SET));
        MPI(MPI_File_write(file, bytes, BYTES, MPI_BYTE, &status));
    }
}

/* What this program looks for is found where it is. */
static void mixes_are_seen(MPI_File file)
{
    if (rank == 0) {
        write_region(file, 0, 1);
        memset(bytes, 2, BYTES);
        MPI(MPI_File_write_at(file, 0, bytes, BYTES / 2, MPI_BYTE, MPI_STATUS_IGNORE));
    }
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    read_region(file, 0);
    CHECK(is_mixed());
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0)
        write_region(file, 0, 3);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int count, char **words)
{
    MPI_File file;
    MPI_Datatype region;
    int rounds = atoi(words[count - 1]), flag = 0;
    begin(&count, &words);
    MPI(MPI_File_open(MPI_COMM_WORLD, words[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                      &file));
    MPI(MPI_Type_vector(PIECES, PIECE, STRIDE, MPI_BYTE, &region));
    MPI(MPI_Type_commit(&region));
    MPI(MPI_File_set_view(file, BASE, MPI_BYTE, region, "native", MPI_INFO_NULL));
    MPI(MPI_File_set_atomicity(file, 1));
    MPI(MPI_File_get_atomicity(file, &flag));
    CHECK(flag);
    mixes_are_seen(file);
    if (rank % 2 == 0) {
        for (int round = 0; round < rounds; round++)
            write_region(file, round, (rank * 97 + round) % LAST);
        write_region(file, 0, LAST);
    }
    for (int round = 0; rank % 2 == 1 && (round == 0 || bytes[0] != LAST); round++) {
        read_region(file, round);
        CHECK(!is_mixed());
    }
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    for (int round = 0; round < rounds / 20; round++) {
        memset(bytes, (rank * 97 + round) % 251, BYTES);
        MPI(MPI_File_write_at_all(file, 0, bytes, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        MPI(MPI_File_read_at_all(file, 0, bytes, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK(!is_mixed());
    }
    MPI(MPI_File_set_atomicity(file, 0));
    MPI(MPI_File_get_atomicity(file, &flag));
    CHECK(!flag);
    MPI(MPI_Type_free(&region));
    MPI(MPI_File_close(&file));
    MPI(MPI_Finalize());
    return 0;
}
