/*
 * Requests that are larger than the pool of a rank, over a file of which some small pieces are in memory:
 * each rank writes a part, all read the next rank's, then ranks write across the parts of others while
 * they change single numbers in between.
 */
#include "check.h"

#include <stdint.h>
#include <stdlib.h>

enum { NUMBERS = 3 << 20, SMALL = 1000, ROUNDS = 2 };

static uint64_t value_of(uint64_t at, int round) { return at * 2654435761u + (uint64_t)round; }

static void write_at(MPI_File file, uint64_t at, const uint64_t *numbers, int count)
{
    MPI_Status status;
    int moved;

    MPI(MPI_File_write_at(file, (MPI_Offset)(at * sizeof *numbers), numbers, count, MPI_UINT64_T,
                          &status));
    MPI_Get_count(&status, MPI_UINT64_T, &moved);
    CHECK(moved == count);
}

static void read_at(MPI_File file, uint64_t at, uint64_t *numbers, int count)
{
    MPI_Status status;
    int moved;

    MPI(MPI_File_read_at(file, (MPI_Offset)(at * sizeof *numbers), numbers, count, MPI_UINT64_T,
                         &status));
    MPI_Get_count(&status, MPI_UINT64_T, &moved);
    CHECK(moved == count);
}

static void check_part(const uint64_t *numbers, uint64_t from, int round)
{
    for (uint64_t i = 0; i < NUMBERS; i++)
        CHECK(numbers[i] == value_of(from + i, round));
}

/* Small writes that stay in memory, beside what the large ones then cover. */
static void leave_crumbs(MPI_File file, uint64_t part, int round)
{
    for (uint64_t i = 1; i < 8; i++) {
        uint64_t numbers[SMALL], at = part + i * (NUMBERS / 8) - SMALL / 2;

        for (uint64_t k = 0; k < SMALL; k++)
            numbers[k] = value_of(at + k, round);
        write_at(file, at, numbers, SMALL);
    }
}

int main(int argc, char **argv)
{
    MPI_File file;

    begin(&argc, &argv);
    uint64_t *numbers = malloc(NUMBERS * sizeof *numbers);
    CHECK(numbers);
    MPI(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                      &file));
    for (int round = 0; round < ROUNDS; round++) {
        /* The last round's writer is another rank, which finds the crumbs of the one before. */
        uint64_t mine = (uint64_t)((rank + round) % ranks) * NUMBERS;
        uint64_t next = (uint64_t)((rank + round + 1) % ranks) * NUMBERS;

        for (uint64_t i = 0; i < NUMBERS; i++)
            numbers[i] = value_of(mine + i, round);
        write_at(file, mine, numbers, NUMBERS);
        MPI_Barrier(MPI_COMM_WORLD);
        read_at(file, next, numbers, NUMBERS);
        check_part(numbers, next, round);
        MPI_Barrier(MPI_COMM_WORLD);
        leave_crumbs(file, next, round + 1);
        MPI_Barrier(MPI_COMM_WORLD);
        read_at(file, mine, numbers, NUMBERS);
        for (uint64_t i = 1; i < 8; i++)
            for (uint64_t k = i * (NUMBERS / 8) - SMALL / 2, end = k + SMALL; k < end; k++)
                CHECK(numbers[k] == value_of(mine + k, round + 1));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI(MPI_File_close(&file));
    free(numbers);
    MPI_Finalize();
    return 0;
}
