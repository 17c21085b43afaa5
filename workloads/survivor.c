/* Reads and writes in several threads, has the node's agent killed at a random moment, and goes on.
 *
 *   survivor run DIR LOG SEED    in DIR, which has the file `known` that `make` wrote
 *   survivor make DIR            writes it
 *   survivor check DIR LOG       afterwards, in the store: what was acknowledged is there
 *
 * Whatever is read must be right: bytes of `known` are known, and a record of `out` is the last that was
 * written there, unless the program is told that it may be lost. After the kill every reader reads on
 * through the descriptor that it has. LOG gets what fsync has acknowledged. The last line says how it
 * went; the exit status is 0, 1 for a fault that was found, 2 if it could not run. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PARTS = 5, RECORD = 4096, KNOWN = 512, PLACES = 64, BATCH = 8, CALLS_AFTER = 200, CALLS_BEFORE_MAX = 1500 };

static const char *dir;
static pthread_barrier_t all_open;
static pid_t agent;
static atomic_long calls;
static atomic_int is_dead, faults, refused, unread;

static void fault(const char *format, ...) {
    char line[256];
    va_list words;
    va_start(words, format);
    int len = vsnprintf(line, sizeof line, format, words);
    va_end(words);
    atomic_fetch_add(&faults, 1);
    dprintf(2, "survivor: %.*s (%s)\n", len, line, strerror(errno));
}

static void give_up(const char *what) {
    perror(what);
    exit(2);
}

static uint64_t next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static const char *in_dir(const char *name) {
    static _Thread_local char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

/* A line of text, so that lines, characters and blocks can be checked alike. */
static void fill_known(char *record, long block) {
    for (int line = 0; line < RECORD / 64; line++) {
        char text[96];
        snprintf(text, sizeof text, "%08ld %04d %049ld", block, line, block * 7919 + line);
        memcpy(record + line * 64, text, 63);
        record[line * 64 + 63] = '\n';
    }
}

static void check_known(const char *record, long block, const char *how) {
    char right[RECORD];
    fill_known(right, block);
    if (memcmp(record, right, RECORD) != 0)
        fault("%s: block %ld is wrong", how, block);
}

/* A call was made: after so many of them the agent is killed, whatever the others are doing. */
static long kill_at;
static void count_call(void) {
    if (atomic_fetch_add(&calls, 1) + 1 == kill_at) {
        kill(agent, SIGKILL);
        atomic_store(&is_dead, 1);
    }
}

/* True until so many calls after the kill. */
static int goes_on(int *after) {
    return !atomic_load(&is_dead) || (*after)++ < CALLS_AFTER;
}

static void *reads_at_random(void *seed) {
    uint64_t state = (uintptr_t)seed | 1;
    char record[RECORD];
    int fd = open(in_dir("known"), O_RDONLY);
    if (fd < 0) give_up("open known");
    pthread_barrier_wait(&all_open);
    for (int after = 0; goes_on(&after); count_call()) {
        long block = (long)(next(&state) % KNOWN);
        if (pread(fd, record, RECORD, block * RECORD) != RECORD)
            fault("pread of block %ld fails", block);
        else
            check_known(record, block, "pread");
    }
    if (close(fd) != 0) fault("close after reads fails");
    // What is only to be read can be opened, too.
    fd = open(in_dir("known"), O_RDONLY);
    if (fd < 0 || pread(fd, record, RECORD, 3 * RECORD) != RECORD)
        fault("a later open for reading fails");
    else
        check_known(record, 3, "later pread");
    char *mapped = mmap(0, KNOWN * RECORD, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED)
        fault("a later mmap fails");
    else
        check_known(mapped + 300 * RECORD, 300, "mapping");
    return 0;
}

static void *reads_in_order(void *seed) {
    (void)seed;
    char record[RECORD];
    int fd = open(in_dir("known"), O_RDONLY);
    if (fd < 0) give_up("open known");
    pthread_barrier_wait(&all_open);
    long block = 0;
    for (int after = 0; goes_on(&after); count_call()) {
        if (read(fd, record, RECORD) != RECORD)
            fault("read of block %ld fails", block);
        else
            check_known(record, block, "read");
        if (++block == KNOWN) {
            block = 0;
            if (lseek(fd, 0, SEEK_SET) != 0) fault("lseek fails");
        }
    }
    if (close(fd) != 0) fault("close after reads fails");
    return 0;
}

/* Pages of a mapping that was made before: some in memory, some not. */
static void *touches(void *seed) {
    uint64_t state = (uintptr_t)seed | 1;
    int fd = open(in_dir("known"), O_RDONLY);
    char *shared = mmap(0, KNOWN * RECORD, PROT_READ, MAP_SHARED, fd, 0);
    char *own = mmap(0, KNOWN * RECORD, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (fd < 0 || shared == MAP_FAILED || own == MAP_FAILED) give_up("mmap known");
    close(fd);
    pthread_barrier_wait(&all_open);
    char changed[KNOWN] = {0};
    for (int after = 0; goes_on(&after); count_call()) {
        long block = (long)(next(&state) % KNOWN);
        check_known(shared + block * RECORD, block, "shared mapping");
        if (!changed[block]) check_known(own + block * RECORD, block, "private mapping");
        // What was changed in it stays changed.
        if (changed[block] && own[block * RECORD] != '!') fault("private page %ld is as it was", block);
        changed[block] = own[block * RECORD] = '!';
    }
    return 0;
}

static void *reads_lines(void *seed) {
    (void)seed;
    char line[128], right[RECORD];
    FILE *file = fopen(in_dir("known"), "r");
    if (!file) give_up("fopen known");
    pthread_barrier_wait(&all_open);
    setvbuf(file, 0, _IOFBF, 1000);
    long at = 0;
    for (int after = 0; goes_on(&after); count_call()) {
        if (at % 64 == 0)
            fill_known(right, at / 64);
        if (!fgets(line, sizeof line, file))
            fault("fgets of line %ld fails", at);
        else if (strlen(line) != 64 || memcmp(line, right + at % 64 * 64, 64) != 0)
            fault("fgets: line %ld is wrong: %.63s", at, line);
        if (++at == KNOWN * 64L) {
            at = 0;
            rewind(file);
        }
    }
    if (fclose(file) != 0) fault("fclose after reads fails");
    return 0;
}

/* What the writer has written, and what fsync has acknowledged: numbers of writes. */
static uint64_t written[PLACES], acknowledged[PLACES];
/* Where a write was refused: whether it was done cannot be known. */
static int blurred[PLACES];
static int told;

static void fill(uint64_t *record, uint64_t number, int place) {
    for (int word = 0; word < RECORD / 8; word++)
        record[word] = number << 16 | (uint64_t)place;
}

static void write_one(int fd, uint64_t *state, uint64_t number) {
    uint64_t record[RECORD / 8];
    int place = (int)(next(state) % PLACES);
    fill(record, number, place);
    ssize_t done = pwrite(fd, record, RECORD, (off_t)place * RECORD);
    if (done == RECORD) {
        written[place] = number;
    } else if (done >= 0 || errno != EIO) {
        fault("pwrite returns %ld", (long)done);
    } else {
        atomic_fetch_add(&refused, 1);
        blurred[place] = 1;
    }
}

static void read_one(int fd, uint64_t *state) {
    uint64_t record[RECORD / 8];
    int place = (int)(next(state) % PLACES);
    if (written[place] == 0 || blurred[place]) return;
    ssize_t done = pread(fd, record, RECORD, (off_t)place * RECORD);
    if (done == RECORD) {
        uint64_t right = told ? acknowledged[place] : written[place];
        for (int word = 0; word < RECORD / 8; word++) {
            uint64_t number = record[word] >> 16;
            // Once told of a loss, what was acknowledged is the least that is there.
            if (told ? number < right : number != right) {
                fault("record %d is of write %lu, not %lu", place, (unsigned long)number, (unsigned long)right);
                return;
            }
        }
    } else if (done >= 0 && told && acknowledged[place] == 0) {
        // The file never became as long in the store.
        return;
    } else if (done < 0 && errno == EIO && written[place] != acknowledged[place]) {
        atomic_fetch_add(&unread, 1);
    } else {
        fault("pread of record %d returns %ld", place, (long)done);
    }
}

static int is_unsaved(void) {
    return memcmp(written, acknowledged, sizeof written) != 0;
}

static void sync_all(int fd) {
    if (fsync(fd) == 0) {
        // After a loss was told it speaks of what is there alone.
        if (!told) memcpy(acknowledged, written, sizeof written);
    } else if (errno == EIO) {
        told = 1;
    } else {
        fault("fsync fails");
    }
}

static void *writes(void *seed) {
    uint64_t state = (uintptr_t)seed | 1, number = 0;
    int fd = open(in_dir("out"), O_RDWR | O_CREAT, 0600);
    if (fd < 0) give_up("open out");
    pthread_barrier_wait(&all_open);
    int after = 0;
    while (goes_on(&after)) {
        write_one(fd, &state, ++number);
        count_call();
        read_one(fd, &state);
        count_call();
        // Some runs are told by fsync, some by close.
        if (number % BATCH == 0 && (after == 0 || (uintptr_t)seed % 2)) sync_all(fd);
    }
    int lost = is_unsaved() && !told;
    int closed = close(fd);
    if (lost && closed == 0) fault("bytes are unsaved, and nobody was told");
    if (closed != 0 && errno != EIO && errno != ENOTCONN) fault("close fails otherwise");
    if (closed != 0) told = 1;
    return 0;
}

/* The agent of this job, as its directory names it. */
static pid_t find_agent(void) {
    const char *pool = getenv("HEARTH_LENDER");
    char path[4096], text[65536];
    if (!pool || !strchr(pool, ':')) return 0;
    snprintf(path, sizeof path, "%s", strchr(pool, ':') + 1);
    char *name = strrchr(path, '/');
    if (!name) return 0;
    strcpy(name, "/set.json");
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    const char *agents = strstr(text, "\"agents\": [");
    const char *pid = agents ? strstr(agents, "\"pid\"") : 0;
    return pid ? (pid_t)atol(strchr(pid, ':') + 1) : 0;
}

static int run(const char *log, unsigned long seed) {
    void *(*parts[])(void *) = {reads_at_random, reads_in_order, reads_lines, touches, writes};
    pthread_t threads[PARTS];
    uint64_t state = seed * 0x9e3779b97f4a7c15u | 1;
    agent = find_agent();
    if (agent <= 0) {
        fprintf(stderr, "survivor: no agent is known\n");
        return 2;
    }
    kill_at = 20 + (long)(next(&state) % CALLS_BEFORE_MAX);
    pthread_barrier_init(&all_open, 0, PARTS);
    for (int part = 0; part < PARTS; part++)
        if (pthread_create(&threads[part], 0, parts[part], (void *)(uintptr_t)(seed * 16 + part + seed / 2 % 2)))
            give_up("pthread_create");
    for (int part = 0; part < PARTS; part++)
        pthread_join(threads[part], 0);
    FILE *file = fopen(log, "w");
    if (!file) give_up(log);
    for (int place = 0; place < PLACES; place++)
        fprintf(file, "%lu\n", (unsigned long)acknowledged[place]);
    if (fclose(file) != 0) give_up(log);
    printf("killed after %ld calls, %d writes refused, %d reads of unsaved records refused, told %d, faults %d\n",
           kill_at, refused, unread, told, faults);
    return faults != 0;
}

static int check(const char *log) {
    uint64_t record[RECORD / 8];
    FILE *file = fopen(log, "r");
    int fd = open(in_dir("out"), O_RDONLY);
    if (!file) give_up(log);
    for (int place = 0; place < PLACES; place++) {
        unsigned long least;
        if (fscanf(file, "%lu", &least) != 1) give_up(log);
        if (least == 0) continue;
        if (pread(fd, record, RECORD, (off_t)place * RECORD) != RECORD)
            fault("acknowledged record %d is not in the store", place);
        else
            for (int word = 0; word < RECORD / 8; word++)
                if (record[word] >> 16 < least || (record[word] & 0xffff) != (uint64_t)place) {
                    fault("record %d is older than what was acknowledged", place);
                    break;
                }
    }
    return faults != 0;
}

static int make(void) {
    char record[RECORD];
    FILE *file = fopen(in_dir("known"), "w");
    if (!file) give_up("fopen known");
    for (long block = 0; block < KNOWN; block++) {
        fill_known(record, block);
        if (fwrite(record, RECORD, 1, file) != 1) give_up("fwrite");
    }
    return fclose(file) != 0;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    dir = argv[2];
    if (!strcmp(argv[1], "make")) return make();
    if (!strcmp(argv[1], "check") && argc > 3) return check(argv[3]);
    if (!strcmp(argv[1], "run") && argc > 4) return run(argv[3], strtoul(argv[4], 0, 10));
    return 2;
}
