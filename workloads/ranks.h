/*
 * What the MPI programs beside this file share: trouble, memory, time, the name of a rank's
 * directory, and a barrier that leaves the processor to others.
 *
 * Exit codes: 0 right, 1 wrong data, 2 could not.
 */
#ifndef HEARTH_WORKLOADS_RANKS_H
#define HEARTH_WORKLOADS_RANKS_H

#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EXIT_RIGHT = 0, EXIT_WRONG = 1, EXIT_COULD_NOT = 2 };

/* ---- trouble ------------------------------------------------------------------------------- */

/* Ends all ranks, or this process where it is alone. */
static _Noreturn inline void leave(int status)
{
    int is_up = 0;

    MPI_Initialized(&is_up);
    if (is_up)
        MPI_Abort(MPI_COMM_WORLD, status);
    exit(status);
}

static _Noreturn inline void give_up(const char *action, const char *object, const char *why)
{
    fprintf(stderr, "error: cannot %s `%s`: %s\n", action, object, why);
    leave(EXIT_COULD_NOT);
}

/* MPI's own words for what went wrong, if anything did. */
static inline void must(int status, const char *action, const char *object)
{
    char words[MPI_MAX_ERROR_STRING];
    int length;

    if (status == MPI_SUCCESS)
        return;
    MPI_Error_string(status, words, &length);
    give_up(action, object, words);
}

static inline void *allocate(size_t count, size_t size)
{
    /* calloc rejects a product that overflows; nothing still needs a pointer to free. */
    void *memory = calloc(count ? count : 1, size);

    if (!memory)
        give_up("allocate", "a buffer", strerror(errno));
    return memory;
}

/* ---- time ----------------------------------------------------------------------------------- */

/* Calls, bytes and seconds of this rank in one direction. */
struct meter {
    double seconds;
    long long calls, bytes;
};

static inline double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Notes a call that began at `start`. */
static inline void note(struct meter *meter, double start, long long bytes)
{
    meter->seconds += now() - start;
    meter->calls++;
    meter->bytes += bytes;
}

static inline double most(double mine)
{
    double all;

    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

static inline long long total(long long mine)
{
    long long all;

    MPI_Allreduce(&mine, &all, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* MPI libraries spin in a barrier; where ranks outnumber cores, those that wait would hold up
 * those that are waited for, and the agents that serve them. */
static inline void quiet_barrier(void)
{
    const struct timespec pause = {.tv_nsec = 100 * 1000};
    MPI_Request request;
    int done = 0;

    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (MPI_Test(&request, &done, MPI_STATUS_IGNORE); !done;
         MPI_Test(&request, &done, MPI_STATUS_IGNORE))
        nanosleep(&pause, NULL);
}

/* ---- names and numbers ------------------------------------------------------------------------ */

/* Writes `template`/`name` into `path`, with every %r of the template replaced by the rank. */
static inline void path_of(char path[PATH_MAX], const char *template, int rank, const char *name)
{
    size_t used = 0;

    for (const char *at = template; *at && used < PATH_MAX;) {
        bool is_rank = at[0] == '%' && at[1] == 'r';
        int length = is_rank ? snprintf(path + used, PATH_MAX - used, "%d", rank)
                             : snprintf(path + used, PATH_MAX - used, "%c", *at);

        used += (size_t)length;
        at += is_rank ? 2 : 1;
    }
    if (used < PATH_MAX)
        used += (size_t)snprintf(path + used, PATH_MAX - used, "/%s", name);
    if (used >= PATH_MAX)
        give_up("use the directory", template, strerror(ENAMETOOLONG));
}

static inline long number(const char *option, const char *text, long least, long greatest)
{
    char *end = NULL;
    long value = text ? strtol(text, &end, 10) : 0;

    if (!text || *text == '\0' || *end != '\0' || value < least || value > greatest) {
        fprintf(stderr, "error: %s wants a number from %ld to %ld, not `%s`\n", option, least,
                greatest, text ? text : "");
        leave(EXIT_COULD_NOT);
    }
    return value;
}

static _Noreturn inline void misuse(const char *usage, const char *what)
{
    fprintf(stderr, "error: unexpected `%s`\n%s", what ? what : "end of the arguments", usage);
    leave(EXIT_COULD_NOT);
}

/* Joins the other ranks; only `run` has any. */
static inline void join(int *argc, char ***argv, int *rank, int *ranks)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, ranks);
}

#endif
