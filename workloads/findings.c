/*
 * Small parallel programs that each do one thing wrong with files, and some that do nothing wrong.
 *
 *     findings CASE prepare DIR          make the input files
 *     findings CASE faulty|fixed DIR [SLOW_DIR]
 *
 * Four processes run the case; DIR is where their files are, SLOW_DIR a slower place for the one
 * process of `straggler` that strays. Prints {"seconds": S}: from when all processes are ready until
 * the last is done. Ranks are in PMI_RANK and PMI_SIZE, as an MPI launcher would say them.
 *
 * What is read is checked: each file's bytes follow from their place.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 4, KIB = 1024, MIB = 1024 * 1024, RECORD = 64 * KIB, BLOCK = 256 * KIB };

enum variant { FAULTY, FIXED };

/* What the processes share. */
struct meeting {
    pthread_barrier_t barrier;
};

/* One process of a run. */
struct run {
    int rank;
    enum variant variant;
    const char *dir;
    const char *slow;
    struct meeting *meeting;
};

static void die(const char *what, const char *path)
{
    fprintf(stderr, "findings: cannot %s `%s`: %s\n", what, path, strerror(errno));
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void meet(const struct run *run) { pthread_barrier_wait(&run->meeting->barrier); }

/* Path of a file of one rank; rank -1 names the file that all share. The string lives until the
 * next call but three. */
static const char *path_of(const char *dir, const char *name, int rank)
{
    static char paths[4][4096];
    static int next;
    char *path = paths[next++ % 4];
    if (rank < 0)
        snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    else
        snprintf(path, sizeof paths[0], "%s/%s.%d", dir, name, rank);
    return path;
}

static int open_or_die(const char *path, int flags)
{
    int fd = open(path, flags, 0644);
    if (fd < 0)
        die("open", path);
    return fd;
}

/* The byte at a place of every file. */
static unsigned char byte_at(uint64_t place) { return (unsigned char)(place * 31 + (place >> 12)); }

static void fill(unsigned char *bytes, uint64_t offset, size_t len)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = byte_at(offset + i);
}

static unsigned char *buffer(size_t len)
{
    unsigned char *bytes = malloc(len);
    if (!bytes)
        die("get memory for", "a buffer");
    fill(bytes, 0, len);
    return bytes;
}

static void write_at(int fd, const unsigned char *bytes, size_t len, uint64_t offset)
{
    if (pwrite(fd, bytes, len, (off_t)offset) != (ssize_t)len)
        die("write", "a record");
}

/* Reads whole and checks some bytes of each 4 KiB. */
static void read_at(int fd, unsigned char *bytes, size_t len, uint64_t offset)
{
    if (pread(fd, bytes, len, (off_t)offset) != (ssize_t)len)
        die("read", "a record");
    for (size_t i = 0; i < len; i += 4093)
        if (bytes[i] != byte_at(offset + i)) {
            errno = EILSEQ;
            die("believe", "a record");
        }
}

static void sync_or_die(int fd)
{
    if (fsync(fd))
        die("sync", "a file");
}

/* Makes a file with the bytes that belong there. */
static void make(const char *path, uint64_t len)
{
    int fd = open_or_die(path, O_CREAT | O_TRUNC | O_WRONLY);
    unsigned char *bytes = buffer(MIB);
    for (uint64_t at = 0; at < len; at += MIB) {
        size_t part = len - at < MIB ? len - at : MIB;
        fill(bytes, at, part);
        write_at(fd, bytes, part, at);
    }
    free(bytes);
    close(fd);
}

/* Writes `len` bytes of a file from `start`, `step` bytes at a time. */
static void write_run(int fd, uint64_t start, uint64_t len, size_t step)
{
    unsigned char *bytes = buffer(step);
    for (uint64_t at = start; at < start + len; at += step)
        write_at(fd, bytes, step, at);
    free(bytes);
}

/* Reads the first `len` bytes of a file, `step` bytes at a time. */
static void read_run(int fd, uint64_t len, size_t step)
{
    unsigned char *bytes = buffer(step);
    for (uint64_t at = 0; at < len; at += step)
        read_at(fd, bytes, step, at);
    free(bytes);
}

static void compute(double seconds)
{
    double end = now() + seconds;
    volatile double x = 1;
    while (now() < end)
        for (int i = 0; i < 10000; i++)
            x = x * 1.0000001 + 1e-9;
}

static int own_output(const struct run *run)
{
    return open_or_die(path_of(run->dir, "out", run->rank), O_CREAT | O_WRONLY);
}

/* --- twelve faults ------------------------------------------------------------------------ */

static void tiny_writes(const struct run *run)
{
    int fd = own_output(run);
    write_run(fd, 0, MIB / 2, run->variant == FAULTY ? 1 * KIB : MIB / 2);
    close(fd);
}

/* Half a block off, so that each block touches two stripes. */
static void unaligned(const struct run *run)
{
    int fd = own_output(run);
    write_run(fd, run->variant == FAULTY ? BLOCK / 2 + 512 : 0, 32 * MIB, BLOCK);
    close(fd);
}

static void lock_whole(int fd, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
    if (fcntl(fd, F_SETLKW, &lock))
        die("lock", "the shared file");
}

/* Everybody's blocks in one file under one lock; repaired, a file each and no lock. */
static void lock_storm(const struct run *run)
{
    int faulty = run->variant == FAULTY;
    int fd = faulty ? open_or_die(path_of(run->dir, "shared", -1), O_CREAT | O_WRONLY) : own_output(run);
    unsigned char *bytes = buffer(BLOCK);
    for (int i = 0; i < 64; i++) {
        if (faulty)
            lock_whole(fd, F_WRLCK);
        write_at(fd, bytes, BLOCK, (uint64_t)(faulty ? i * RANKS + run->rank : i) * BLOCK);
        if (faulty)
            lock_whole(fd, F_UNLCK);
    }
    free(bytes);
    close(fd);
}

static void straggler(const struct run *run)
{
    int strays = run->variant == FAULTY && run->rank == 2;
    const char *dir = strays ? run->slow : run->dir;
    int fd = open_or_die(path_of(dir, "out", run->rank), O_CREAT | O_WRONLY);
    write_run(fd, 0, 32 * MIB, MIB);
    close(fd);
}

/* The same file four times: more than the pool holds, unless the pool is made larger. */
static void rereads(const struct run *run)
{
    int fd = open_or_die(path_of(run->dir, "in", run->rank), O_RDWR);
    for (int turn = 0; turn < 6; turn++)
        read_run(fd, 8 * MIB, BLOCK);
    close(fd);
}

static void metadata_storm(const struct run *run)
{
    int turns = run->variant == FAULTY ? 12 : 1;
    for (int turn = 0; turn < turns; turn++)
        for (int i = 0; i < 250; i++) {
            char name[32];
            struct stat facts;
            snprintf(name, sizeof name, "small-%d", i);
            const char *path = path_of(run->dir, name, run->rank);
            if (stat(path, &facts))
                die("stat", path);
            close(open_or_die(path, O_RDONLY));
        }
}

static void random_reads(const struct run *run)
{
    enum { RECORDS = 16 * MIB / RECORD };
    int order[RECORDS];
    for (int i = 0; i < RECORDS; i++)
        order[i] = i;
    srand(7u + (unsigned)run->rank);
    for (int i = RECORDS - 1; run->variant == FAULTY && i > 0; i--) {
        int j = rand() % (i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    int fd = open_or_die(path_of(run->dir, "in", run->rank), O_RDWR);
    unsigned char *bytes = buffer(RECORD);
    for (int i = 0; i < RECORDS; i++)
        read_at(fd, bytes, RECORD, (uint64_t)order[i] * RECORD);
    free(bytes);
    close(fd);
}

/* One rank after another reads the same input; repaired, one reads it for all. */
static void serial_open(const struct run *run)
{
    for (int turn = 0; turn < RANKS; turn++) {
        if (turn == run->rank && (run->variant == FAULTY || run->rank == 0)) {
            int fd = open_or_die(path_of(run->dir, "shared", -1), O_RDONLY);
            read_run(fd, 32 * MIB, MIB);
            close(fd);
        }
        meet(run);
    }
}

static void fsync_per_record(const struct run *run)
{
    int fd = own_output(run);
    unsigned char *bytes = buffer(RECORD);
    for (uint64_t at = 0; at < 96 * RECORD; at += RECORD) {
        write_at(fd, bytes, RECORD, at);
        if (run->variant == FAULTY)
            sync_or_die(fd);
    }
    sync_or_die(fd);
    free(bytes);
    close(fd);
}

static void read_modify_write(const struct run *run)
{
    int fd = open_or_die(path_of(run->dir, "in", run->rank), O_RDWR);
    unsigned char *bytes = buffer(BLOCK);
    for (uint64_t at = 0; at < 16 * MIB; at += BLOCK) {
        if (run->variant == FAULTY)
            read_at(fd, bytes, BLOCK, at);
        fill(bytes, at, BLOCK);
        write_at(fd, bytes, BLOCK, at);
    }
    free(bytes);
    close(fd);
}

static void imbalance(const struct run *run)
{
    int share = run->variant == FIXED ? 16 : run->rank == 0 ? 58 : 2;
    int fd = own_output(run);
    write_run(fd, 0, (uint64_t)share * MIB, BLOCK);
    close(fd);
}

/* Few small records far apart; a large page brings much that nobody wants. */
static void page_size(const struct run *run)
{
    int fd = open_or_die(path_of(run->dir, "in", run->rank), O_RDWR);
    unsigned char *bytes = buffer(4 * KIB);
    srand(11u + (unsigned)run->rank);
    for (int i = 0; i < 96; i++)
        read_at(fd, bytes, 4 * KIB, (uint64_t)(rand() % (96 * MIB / (4 * KIB))) * 4 * KIB);
    free(bytes);
    close(fd);
}

/* --- six programs that do nothing wrong ----------------------------------------------------- */

static void large_writes(const struct run *run)
{
    int fd = own_output(run);
    write_run(fd, 0, 16 * MIB, MIB);
    close(fd);
}

static void large_reads(const struct run *run)
{
    int fd = open_or_die(path_of(run->dir, "in", run->rank), O_RDONLY);
    read_run(fd, 16 * MIB, MIB);
    close(fd);
}

static void mostly_compute(const struct run *run)
{
    int fd = own_output(run);
    for (int dump = 0; dump < 3; dump++) {
        compute(0.1);
        write_run(fd, (uint64_t)dump * MIB, MIB, MIB);
    }
    close(fd);
}

static void strided_shared(const struct run *run)
{
    int fd = open_or_die(path_of(run->dir, "shared", -1), O_CREAT | O_WRONLY);
    for (int i = 0; i < 16; i++)
        write_run(fd, (uint64_t)(i * RANKS + run->rank) * MIB, MIB, MIB);
    close(fd);
}

static void checkpoint(const struct run *run)
{
    int fd = own_output(run);
    write_run(fd, 0, 16 * MIB, MIB);
    sync_or_die(fd);
    close(fd);
}

static void read_compute_write(const struct run *run)
{
    int fd = open_or_die(path_of(run->dir, "in", run->rank), O_RDONLY);
    read_run(fd, 8 * MIB, MIB);
    close(fd);
    compute(0.2);
    large_writes(run);
}

/* --- what runs them ------------------------------------------------------------------------- */

struct a_case {
    const char *name;
    void (*body)(const struct run *);
    /* Input files: bytes of each rank's `in`, bytes of `shared`, small files of each rank. */
    uint64_t own, shared;
    int small;
};

static const struct a_case CASES[] = {
    {"tiny-writes", tiny_writes, 0, 0, 0},
    {"unaligned", unaligned, 0, 0, 0},
    {"lock-storm", lock_storm, 0, 0, 0},
    {"straggler", straggler, 0, 0, 0},
    {"re-reads", rereads, 8 * MIB, 0, 0},
    {"metadata-storm", metadata_storm, 0, 0, 250},
    {"random", random_reads, 16 * MIB, 0, 0},
    {"serial-open", serial_open, 0, 32 * MIB, 0},
    {"sync-per-record", fsync_per_record, 0, 0, 0},
    {"read-modify-write", read_modify_write, 16 * MIB, 0, 0},
    {"imbalance", imbalance, 0, 0, 0},
    {"page-size", page_size, 96 * MIB, 0, 0},
    {"large-writes", large_writes, 0, 0, 0},
    {"large-reads", large_reads, 16 * MIB, 0, 0},
    {"mostly-compute", mostly_compute, 0, 0, 0},
    {"strided-shared", strided_shared, 0, 0, 0},
    {"checkpoint", checkpoint, 0, 0, 0},
    {"read-compute-write", read_compute_write, 8 * MIB, 0, 0},
};

static const struct a_case *case_named(const char *name)
{
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        if (!strcmp(CASES[i].name, name))
            return &CASES[i];
    fprintf(stderr, "findings: no case `%s`\n", name);
    exit(2);
}

static void prepare(const struct a_case *the_case, const char *dir)
{
    for (int rank = 0; rank < RANKS; rank++) {
        if (the_case->own)
            make(path_of(dir, "in", rank), the_case->own);
        for (int i = 0; i < the_case->small; i++) {
            char name[32];
            snprintf(name, sizeof name, "small-%d", i);
            make(path_of(dir, name, rank), 512);
        }
    }
    if (the_case->shared)
        make(path_of(dir, "shared", -1), the_case->shared);
}

static struct meeting *map_meeting(int fd)
{
    void *at = mmap(NULL, sizeof(struct meeting), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        die("map", "the meeting");
    return at;
}

/* Starts this program anew as one rank, so that all of it knows its rank from the start. */
static pid_t start_rank(int rank, int fd, char **argv)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    char number[16], size[16], meeting[16];
    snprintf(number, sizeof number, "%d", rank);
    snprintf(size, sizeof size, "%d", RANKS);
    snprintf(meeting, sizeof meeting, "%d", fd);
    setenv("PMI_RANK", number, 1);
    setenv("PMI_SIZE", size, 1);
    setenv("FINDINGS_MEETING", meeting, 1);
    execv("/proc/self/exe", argv);
    die("start", argv[0]);
    return -1;
}

/* Waits for all ranks. One that fails takes the others along, which may be waiting to meet it. */
static int all_end_well(pid_t *ranks)
{
    int well = 1, status;
    for (pid_t ended; (ended = wait(&status)) > 0;) {
        for (int rank = 0; rank < RANKS; rank++)
            if (ranks[rank] == ended)
                ranks[rank] = 0;
            else if (status != 0 && ranks[rank])
                kill(ranks[rank], SIGTERM);
        well &= status == 0;
    }
    return well;
}

static int lead(char **argv)
{
    int fd = memfd_create("findings", 0);
    if (fd < 0 || ftruncate(fd, sizeof(struct meeting)))
        die("make", "the meeting");
    struct meeting *meeting = map_meeting(fd);
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&meeting->barrier, &shared, RANKS);
    double start = now();
    pid_t ranks[RANKS];
    for (int rank = 0; rank < RANKS; rank++)
        if ((ranks[rank] = start_rank(rank, fd, argv)) < 0)
            die("fork", argv[0]);
    if (!all_end_well(ranks))
        return 1;
    printf("{\"seconds\": %.6f}\n", now() - start);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc > 5) {
        fprintf(stderr, "usage: findings CASE prepare|faulty|fixed DIR [SLOW_DIR]\n");
        return 2;
    }
    const struct a_case *the_case = case_named(argv[1]);
    if (!strcmp(argv[2], "prepare")) {
        prepare(the_case, argv[3]);
        return 0;
    }
    const char *rank = getenv("PMI_RANK"), *meeting = getenv("FINDINGS_MEETING");
    if (!rank || !meeting)
        return lead(argv);
    struct run run = {
        .rank = atoi(rank),
        .variant = !strcmp(argv[2], "fixed") ? FIXED : FAULTY,
        .dir = argv[3],
        .slow = argc > 4 ? argv[4] : argv[3],
        .meeting = map_meeting(atoi(meeting)),
    };
    meet(&run);
    the_case->body(&run);
    return 0;
}
