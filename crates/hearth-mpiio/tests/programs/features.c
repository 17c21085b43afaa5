/* Every way in which MPI writes and reads a file, each checked from another rank.
 *
 *     features FILE [WHAT-THE-HINT-SAYS]
 *
 * With a second argument, the hint `hearth` of the file must have that value.
 */
#include "check.h"

enum { BLOCK = 50000, ROUNDS = 6, PIECE = 8 };

static MPI_File open_file(const char *name, int mode)
{
    MPI_File file;
    MPI(MPI_File_open(MPI_COMM_WORLD, name, mode, MPI_INFO_NULL, &file));
    return file;
}

static void meet(MPI_File file)
{
    MPI(MPI_File_sync(file));
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    MPI(MPI_File_sync(file));
}

static void count_is(const MPI_Status *status, int bytes)
{
    int count;
    MPI(MPI_Get_count(status, MPI_BYTE, &count));
    CHECK(count == bytes);
}

/* Each rank writes a block, and reads that of the next rank. */
static void individual(MPI_File file)
{
    static unsigned char bytes[BLOCK];
    MPI_Status status;
    int next = (rank + 1) % ranks;
    fill(bytes, rank, 0, BLOCK);
    MPI(MPI_File_write_at(file, (MPI_Offset)rank * BLOCK, bytes, BLOCK, MPI_BYTE, &status));
    count_is(&status, BLOCK);
    meet(file);
    MPI(MPI_File_seek(file, (MPI_Offset)next * BLOCK, MPI_SEEK_SET));
    memset(bytes, 0, sizeof bytes);
    MPI(MPI_File_read(file, bytes, BLOCK, MPI_BYTE, &status));
    count_is(&status, BLOCK);
    expect(bytes, next, 0, BLOCK);
    MPI_Offset size;
    MPI(MPI_File_get_size(file, &size));
    CHECK(size == (MPI_Offset)ranks * BLOCK);
    MPI(MPI_File_read_at(file, size - 10, bytes, 100, MPI_BYTE, &status));
    count_is(&status, 10);
    MPI(MPI_File_read_at(file, size, bytes, 0, MPI_BYTE, &status));
    MPI(MPI_Barrier(MPI_COMM_WORLD));
}

/* Pieces of the ranks in turn, through a view; collective, and read back shifted by one rank. */
static void views(MPI_File file)
{
    static unsigned char bytes[BLOCK];
    MPI_Datatype slice;
    MPI_Status status;
    MPI_Offset base = 1000003;
    int pieces = BLOCK / PIECE, next = (rank + 1) % ranks;
    MPI(MPI_Type_vector(pieces, PIECE, PIECE * ranks, MPI_BYTE, &slice));
    MPI(MPI_Type_commit(&slice));
    for (int collective = 0; collective < 2; collective++) {
        MPI_Offset at = base + (MPI_Offset)collective * ranks * BLOCK;
        MPI(MPI_File_set_view(file, at + rank * PIECE, MPI_BYTE, slice, "native", MPI_INFO_NULL));
        fill(bytes, rank + 5, collective, BLOCK);
        if (collective)
            MPI(MPI_File_write_all(file, bytes, BLOCK, MPI_BYTE, &status));
        else
            MPI(MPI_File_write(file, bytes, BLOCK, MPI_BYTE, &status));
        meet(file);
        MPI(MPI_File_set_view(file, at + next * PIECE, MPI_BYTE, slice, "native", MPI_INFO_NULL));
        memset(bytes, 0, sizeof bytes);
        if (collective)
            MPI(MPI_File_read(file, bytes, BLOCK, MPI_BYTE, &status));
        else
            MPI(MPI_File_read_all(file, bytes, BLOCK, MPI_BYTE, &status));
        expect(bytes, next + 5, collective, BLOCK);
        MPI(MPI_Barrier(MPI_COMM_WORLD));
    }
    MPI(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MPI(MPI_Type_free(&slice));
}

/* Records at the shared pointer: all there, each once. */
static void shared(MPI_File file)
{
    enum { RECORD = 512 };
    unsigned char record[RECORD];
    char *seen = calloc((size_t)ranks * ROUNDS, 1);
    MPI_Status status;
    MPI(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    for (int round = 0; round < ROUNDS; round++) {
        memset(record, rank * ROUNDS + round, RECORD);
        MPI(MPI_File_write_shared(file, record, RECORD, MPI_BYTE, &status));
    }
    meet(file);
    for (int at = 0; at < ranks * ROUNDS; at++) {
        MPI(MPI_File_read_at(file, (MPI_Offset)at * RECORD, record, RECORD, MPI_BYTE, &status));
        for (int i = 1; i < RECORD; i++)
            CHECK(record[i] == record[0]);
        CHECK(record[0] < ranks * ROUNDS && !seen[record[0]]++);
    }
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    MPI(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    memset(record, rank, RECORD);
    MPI(MPI_File_write_ordered(file, record, RECORD, MPI_BYTE, &status));
    meet(file);
    for (int at = 0; at < ranks; at++) {
        MPI(MPI_File_read_at(file, (MPI_Offset)at * RECORD, record, RECORD, MPI_BYTE, &status));
        CHECK(record[0] == at && record[RECORD - 1] == at);
    }
    free(seen);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
}

static void wait_for(MPI_Request requests[ROUNDS])
{
    MPI_Status statuses[ROUNDS];
    MPI(MPI_Waitall(ROUNDS, requests, statuses));
    for (int i = 0; i < ROUNDS; i++)
        count_is(&statuses[i], BLOCK);
}

/* Several requests of a rank at once, and the two halves of a split collective call. */
static void overlapped(MPI_File file)
{
    static unsigned char bytes[ROUNDS][BLOCK];
    MPI_Request requests[ROUNDS];
    MPI_Status status;
    MPI_Offset base = 4000000;
    int next = (rank + 1) % ranks;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Offset at = base + ((MPI_Offset)round * ranks + rank) * BLOCK;
        fill(bytes[round], rank + round, 7, BLOCK);
        MPI(MPI_File_iwrite_at(file, at, bytes[round], BLOCK, MPI_BYTE, &requests[round]));
    }
    wait_for(requests);
    meet(file);
    memset(bytes, 0, sizeof bytes);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Offset at = base + ((MPI_Offset)round * ranks + next) * BLOCK;
        MPI(MPI_File_iread_at(file, at, bytes[round], BLOCK, MPI_BYTE, &requests[round]));
    }
    wait_for(requests);
    for (int round = 0; round < ROUNDS; round++)
        expect(bytes[round], next + round, 7, BLOCK);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    fill(bytes[0], rank, 3, BLOCK);
    MPI(MPI_File_write_at_all_begin(file, base + rank * BLOCK, bytes[0], BLOCK, MPI_BYTE));
    MPI(MPI_File_write_at_all_end(file, bytes[0], &status));
    meet(file);
    MPI(MPI_File_read_at_all_begin(file, base + next * BLOCK, bytes[1], BLOCK, MPI_BYTE));
    MPI(MPI_File_read_at_all_end(file, bytes[1], &status));
    expect(bytes[1], next, 3, BLOCK);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
}

/* Sizes that are set, and files that hold more than one request of a session. */
static void sizes(MPI_File file)
{
    enum { LARGE = 5 << 20 };
    unsigned char *bytes = malloc(LARGE);
    MPI_Offset size;
    MPI_Status status;
    MPI(MPI_File_set_size(file, 12345));
    MPI(MPI_File_get_size(file, &size));
    CHECK(size == 12345);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        fill(bytes, 9, 1, LARGE);
        MPI(MPI_File_write_at(file, 77, bytes, LARGE, MPI_BYTE, &status));
        count_is(&status, LARGE);
    }
    meet(file);
    memset(bytes, 0, LARGE);
    MPI(MPI_File_read_at(file, 77, bytes, LARGE, MPI_BYTE, &status));
    count_is(&status, LARGE);
    expect(bytes, 9, 1, LARGE);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    MPI(MPI_File_set_size(file, 100));
    MPI(MPI_File_preallocate(file, 300000));
    MPI(MPI_File_get_size(file, &size));
    CHECK(size == 300000);
    MPI(MPI_File_read_at(file, 99, bytes, 3, MPI_BYTE, &status));
    CHECK(bytes[0] == mark(9, 1 + 99 - 77) && bytes[1] == 0 && bytes[2] == 0);
    free(bytes);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
}

static void hint_is(MPI_File file, const char *wanted)
{
    char value[64];
    int found;
    MPI_Info info;
    MPI(MPI_File_get_info(file, &info));
    MPI(MPI_Info_get(info, "hearth", 63, value, &found));
    CHECK(found && strcmp(value, wanted) == 0);
    MPI(MPI_Info_free(&info));
}

int main(int count, char **words)
{
    static unsigned char bytes[BLOCK];
    begin(&count, &words);
    MPI_File file = open_file(words[1], MPI_MODE_CREATE | MPI_MODE_RDWR);
    if (count > 2)
        hint_is(file, words[2]);
    MPI(MPI_File_set_size(file, 0));
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    individual(file);
    views(file);
    shared(file);
    overlapped(file);
    sizes(file);
    MPI(MPI_File_close(&file));
    /* What one open wrote, another one finds. */
    file = open_file(words[1], MPI_MODE_CREATE | MPI_MODE_WRONLY);
    fill(bytes, rank, 0, BLOCK);
    MPI(MPI_File_write_at_all(file, (MPI_Offset)rank * BLOCK, bytes, BLOCK, MPI_BYTE,
                              MPI_STATUS_IGNORE));
    MPI(MPI_File_close(&file));
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    file = open_file(words[1], MPI_MODE_RDONLY);
    for (int from = 0; from < ranks; from++) {
        MPI(MPI_File_read_at(file, (MPI_Offset)from * BLOCK, bytes, BLOCK, MPI_BYTE,
                             MPI_STATUS_IGNORE));
        expect(bytes, from, 0, BLOCK);
    }
    MPI(MPI_File_close(&file));
    MPI(MPI_Finalize());
    return 0;
}
