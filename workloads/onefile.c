/* Several processes write and read one file at once, each perhaps by another way.
 *
 *   onefile FILE BOARD PROCESS PROCESSES
 *
 * Each process writes its own records, with growing numbers, and puts a number on the board, memory that
 * all share, once the write has returned. Each reads all records. A record is of one write, never of an
 * earlier one than the board says, and never goes back. The exit status is 1 for a fault that was found. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RECORD = 4096, PLACES = 96, WRITES = 400, WORDS = RECORD / 8 };

struct board {
    atomic_int arrived, done;
    _Atomic uint64_t written[PLACES];
};

static struct board *board;
static const char *path;
static int process, processes;
static atomic_int faults;

static void *writes(void *unused) {
    (void)unused;
    uint64_t record[WORDS];
    int fd = open(path, O_WRONLY);
    if (fd < 0) exit(2);
    for (uint64_t number = 1; number <= WRITES; number++) {
        int place = (int)(number * 7 % (PLACES / (unsigned)processes)) * processes + process;
        for (int word = 0; word < WORDS; word++)
            record[word] = number << 16 | (uint64_t)place;
        if (pwrite(fd, record, RECORD, (off_t)place * RECORD) != RECORD) {
            perror("onefile: pwrite");
            atomic_fetch_add(&faults, 1);
        }
        atomic_store(&board->written[place], number);
    }
    if (close(fd) != 0) atomic_fetch_add(&faults, 1);
    atomic_fetch_add(&board->done, 1);
    return 0;
}

static void check(const uint64_t *record, int place, uint64_t least, uint64_t *seen) {
    uint64_t number = record[0] >> 16;
    for (int word = 1; word < WORDS; word++)
        if (record[word] != record[0]) {
            fprintf(stderr, "onefile: record %d is of two writes\n", place);
            atomic_fetch_add(&faults, 1);
            return;
        }
    if (number < least || number < *seen) {
        fprintf(stderr, "onefile: record %d is of write %lu, and %lu was written, %lu seen\n", place,
                (unsigned long)number, (unsigned long)least, (unsigned long)*seen);
        atomic_fetch_add(&faults, 1);
    }
    *seen = number;
}

static void *reads(void *unused) {
    (void)unused;
    uint64_t record[WORDS], seen[PLACES] = {0};
    int fd = open(path, O_RDONLY);
    if (fd < 0) exit(2);
    int is_last = 0;
    while (!is_last) {
        // Once all writers are done there is one round more.
        is_last = atomic_load(&board->done) == processes;
        for (int place = 0; place < PLACES; place++) {
            uint64_t least = atomic_load(&board->written[place]);
            if (pread(fd, record, RECORD, (off_t)place * RECORD) != RECORD) {
                perror("onefile: pread");
                atomic_fetch_add(&faults, 1);
            } else {
                check(record, place, least, &seen[place]);
            }
        }
    }
    close(fd);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    path = argv[1];
    process = atoi(argv[3]);
    processes = atoi(argv[4]);
    int fd = open(argv[2], O_RDWR);
    board = mmap(0, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || board == MAP_FAILED) return 2;
    // Nobody begins before all are there.
    atomic_fetch_add(&board->arrived, 1);
    while (atomic_load(&board->arrived) < processes)
        sched_yield();
    pthread_t threads[2];
    if (pthread_create(&threads[0], 0, writes, 0) || pthread_create(&threads[1], 0, reads, 0)) return 2;
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    return faults != 0;
}
