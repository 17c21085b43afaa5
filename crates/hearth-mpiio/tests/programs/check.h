/* What the test programs share: a failed check ends the job with a word. */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

#define CHECK(is)                                                                              \
    do {                                                                                       \
        if (!(is)) {                                                                           \
            fprintf(stderr, "rank %d: %s:%d: not so: %s\n", rank, __FILE__, __LINE__, #is);    \
            MPI_Abort(MPI_COMM_WORLD, 3);                                                      \
        }                                                                                      \
    } while (0)

#define MPI(call) CHECK((call) == MPI_SUCCESS)

/* With THREADS in the environment any thread may call MPI. */
static inline void begin(int *count, char ***words)
{
    if (getenv("THREADS")) {
        int given;
        MPI_Init_thread(count, words, MPI_THREAD_MULTIPLE, &given);
        CHECK(given == MPI_THREAD_MULTIPLE);
    } else {
        MPI_Init(count, words);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
}

/* A byte that says who wrote it and where. */
static inline unsigned char mark(int writer, long at)
{
    return (unsigned char)(writer * 37 + at * 11 + (at >> 9) + 1);
}

static inline void fill(unsigned char *bytes, int writer, long from, long len)
{
    for (long i = 0; i < len; i++)
        bytes[i] = mark(writer, from + i);
}

static inline void expect(const unsigned char *bytes, int writer, long from, long len)
{
    for (long i = 0; i < len; i++)
        CHECK(bytes[i] == mark(writer, from + i));
}

#endif
