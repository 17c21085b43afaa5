/*
 * A window of two pages slides over a shared file: the first benchmark of Liao et al. (IJHPCA
 * 2007, section 4.1).
 *
 * The file has segments of as many pages as there are ranks. In a segment each rank takes as many
 * steps; a step reads two pages and writes them, and the next step is one page on. So every page
 * is read and written by every rank, each of which meets what all others wrote. Nothing orders the
 * ranks; with --locks a byte-range lock is around every call, which is what a file system without
 * coherence asks for.
 *
 * Every sector of 4 KiB names its page and place, and the rank and step that wrote it. What is
 * checked while ranks race:
 *   torn:  a page whose bytes are not those of one write;
 *   stale: a page with bytes that this rank itself has overwritten since it last read them.
 * With --dealt each page is first touched by one rank, in turn, before the race: then neighbours are
 * never held by one rank. And ranks whose windows touch take their steps one after another, those of
 * even rank first: what calls cost in messages is then known beforehand.
 * At the end each page must hold the last write that one of the ranks did to it.
 */
#define _POSIX_C_SOURCE 200809L

#include "ranks.h"

#include <fcntl.h>
#include <unistd.h>

enum { SECTOR = 4096, HEADER_WORDS = 4, NOBODY = -1 };

static const char USAGE[] =
    "usage: sliding_window init|run|check DIR-TEMPLATE [--page BYTES] [--segments N]\n"
    "                      [--locks DIR-TEMPLATE] [--of RANKS] [--dealt 0|1]\n"
    "  %r in a template is the rank; --of says for `init` and `check` how many ranks run\n";

/* Who wrote a sector, and in which of its steps. */
struct stamp {
    int64_t rank, step;
};

struct job {
    const char *template, *locks;
    int rank, ranks;
    size_t page_bytes;
    long segments;
    bool is_dealt;
};

struct tally {
    long long stale, torn;
};

struct window {
    const struct job *job;
    char path[PATH_MAX];
    MPI_File file;
    int lock_fd;
    char *bytes;
    /* What this rank overwrote last, page by page. */
    struct stamp *overwritten;
    struct meter read, write;
    struct tally tally;
};

/* One more than the segments have: the last window of each reaches into the next. */
static long pages_of(const struct job *job) { return job->segments * job->ranks + 1; }

/* ---- content -------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    x *= 0x7FB5D329728EA185u;
    x ^= x >> 27;
    x *= 0x81DADEF4BC2DD44Du;
    return x ^ x >> 33;
}

static uint64_t seed_of(long page, long sector, struct stamp stamp)
{
    return mix(mix(mix((uint64_t)page * 64 + (uint64_t)sector) + (uint64_t)stamp.rank) +
               (uint64_t)stamp.step);
}

static void fill_page(const struct job *job, char *bytes, long page, struct stamp stamp)
{
    for (long sector = 0; sector < (long)job->page_bytes / SECTOR; sector++) {
        uint64_t *words = (uint64_t *)(bytes + sector * SECTOR);
        uint64_t seed = seed_of(page, sector, stamp);

        words[0] = (uint64_t)page;
        words[1] = (uint64_t)sector;
        words[2] = (uint64_t)stamp.rank;
        words[3] = (uint64_t)stamp.step;
        for (size_t i = HEADER_WORDS; i < SECTOR / sizeof *words; i++)
            words[i] = seed + i;
    }
}

/* Reads the stamp of a sector; whether all of it is as that writer left it. */
static bool sector_is_whole(const char *bytes, long page, long sector, struct stamp *stamp)
{
    const uint64_t *words = (const uint64_t *)bytes;
    uint64_t differences = 0;

    *stamp = (struct stamp){(int64_t)words[2], (int64_t)words[3]};
    uint64_t seed = seed_of(page, sector, *stamp);
    for (size_t i = HEADER_WORDS; i < SECTOR / sizeof *words; i++)
        differences |= words[i] ^ (seed + i);
    return !differences && words[0] == (uint64_t)page && words[1] == (uint64_t)sector;
}

static bool same(struct stamp a, struct stamp b) { return a.rank == b.rank && a.step == b.step; }

/* Checks a page as it was read in the race; the stamp of its first sector. */
static struct stamp check_page(struct window *w, const char *bytes, long page)
{
    struct stamp first = {NOBODY, 0}, stamp;
    bool torn = false;

    for (long sector = 0; sector < (long)w->job->page_bytes / SECTOR; sector++) {
        torn |= !sector_is_whole(bytes + sector * SECTOR, page, sector, &stamp);
        if (sector == 0)
            first = stamp;
        torn |= !same(first, stamp);
    }
    w->tally.torn += torn;
    /* A rank that has overwritten nothing there remembers step -1, which nobody writes. */
    w->tally.stale += same(first, w->overwritten[page]);
    return first;
}

/* ---- the pattern ------------------------------------------------------------------------------ */

/* Of the steps in which a rank wrote a page, the last; -1 if there is none. */
static long last_step(const struct job *job, int rank, long page)
{
    long p = job->ranks, segment = page / p, best = -1;

    /* As a page of its own segment, and as the one that the segment before it reaches into. */
    for (long s = segment; s >= 0 && s >= segment - 1; s--) {
        if (s >= job->segments)
            continue;
        for (long reach = 0; reach < 2; reach++) {
            long start = page - s * p - reach;

            if (start < 0 || start >= p)
                continue;
            long step = s * p + (start - rank + p) % p;
            best = step > best ? step : best;
        }
    }
    return best;
}

/* ---- calls ------------------------------------------------------------------------------------ */

static void lock_window(struct window *w, short type, MPI_Offset at)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)at,
                         .l_len = (off_t)(2 * w->job->page_bytes)};

    while (w->lock_fd >= 0 && fcntl(w->lock_fd, F_SETLKW, &lock) != 0)
        if (errno != EINTR)
            give_up("lock", w->path, strerror(errno));
}

static void move_window(struct window *w, long page, bool is_write)
{
    int bytes = (int)(2 * w->job->page_bytes), moved = 0;
    MPI_Offset at = (MPI_Offset)page * (MPI_Offset)w->job->page_bytes;
    MPI_Status status;
    double start = now();

    lock_window(w, is_write ? F_WRLCK : F_RDLCK, at);
    must(is_write ? MPI_File_write_at(w->file, at, w->bytes, bytes, MPI_BYTE, &status)
                  : MPI_File_read_at(w->file, at, w->bytes, bytes, MPI_BYTE, &status),
         is_write ? "write" : "read", w->path);
    lock_window(w, F_UNLCK, at);
    MPI_Get_count(&status, MPI_BYTE, &moved);
    if (moved != bytes)
        give_up(is_write ? "write" : "read", w->path, "it came short");
    note(is_write ? &w->write : &w->read, start, bytes);
}

static void step(struct window *w, long page, struct stamp stamp)
{
    move_window(w, page, false);
    for (long i = 0; i < 2; i++) {
        char *bytes = w->bytes + (size_t)i * w->job->page_bytes;

        w->overwritten[page + i] = check_page(w, bytes, page + i);
        fill_page(w->job, bytes, page + i, stamp);
    }
    move_window(w, page, true);
}

/* Ranks that wait spin in MPI's open, as in its barrier: it finds a file that each has opened before. */
static int open_quietly(const struct window *w)
{
    int fd = open(w->path, O_RDWR);

    if (fd < 0)
        give_up("open", w->path, strerror(errno));
    quiet_barrier();
    return fd;
}

static void open_window(struct window *w)
{
    must(MPI_File_open(MPI_COMM_WORLD, w->path, MPI_MODE_RDWR, MPI_INFO_NULL, &w->file), "open",
         w->path);
    w->lock_fd = -1;
    if (w->job->locks) {
        char path[PATH_MAX];

        path_of(path, w->job->locks, w->job->rank, "window");
        w->lock_fd = open(path, O_RDWR | O_CLOEXEC);
        if (w->lock_fd < 0)
            give_up("open", path, strerror(errno));
    }
}

/* Touches every page that has this rank's turn. */
static void deal(struct window *w)
{
    const struct job *job = w->job;

    for (long page = job->rank; page < pages_of(job); page += job->ranks)
        must(MPI_File_read_at(w->file, (MPI_Offset)page * (MPI_Offset)job->page_bytes, w->bytes, 1,
                              MPI_BYTE, MPI_STATUS_IGNORE), "read", w->path);
    quiet_barrier();
}

/* All steps of a rank in turn: an odd last one comes third, for its window touches that of the first. */
static void slide(struct window *w)
{
    const struct job *job = w->job;
    int turns = job->is_dealt ? 3 : 1;
    int mine = job->ranks % 2 && job->rank == job->ranks - 1 ? 2 : job->rank % 2;

    for (long s = 0; s < job->segments; s++)
        for (long j = 0; j < job->ranks; j++)
            for (int turn = 0; turn < turns; turn++) {
                if (turns == 1 || turn == mine)
                    step(w, s * job->ranks + (job->rank + j) % job->ranks,
                         (struct stamp){job->rank, s * job->ranks + j});
                if (turns > 1)
                    quiet_barrier();
            }
}

/* ---- the three ways to be called ---------------------------------------------------------------- */

/* The file as it is before the race: every page is by nobody. */
static int init(const struct job *job)
{
    char path[PATH_MAX], *bytes = allocate(1, job->page_bytes);

    path_of(path, job->template, job->rank, "window");
    FILE *file = fopen(path, "wb");
    for (long page = 0; file && page < pages_of(job); page++) {
        fill_page(job, bytes, page, (struct stamp){NOBODY, 0});
        if (fwrite(bytes, job->page_bytes, 1, file) != 1)
            give_up("write", path, strerror(errno));
    }
    if (!file || fclose(file) != 0)
        give_up("write", path, strerror(errno));
    free(bytes);
    return EXIT_RIGHT;
}

static void report(const struct window *w, double seconds)
{
    long long calls[2] = {total(w->read.calls), total(w->write.calls)};
    long long bytes[2] = {total(w->read.bytes), total(w->write.bytes)};
    long long stale = total(w->tally.stale), torn = total(w->tally.torn);
    double spent[2] = {most(w->read.seconds), most(w->write.seconds)}, whole = most(seconds);

    if (w->job->rank == 0)
        printf("{\"ranks\":%d,\"seconds\":%.6f,\"read_s\":%.6f,\"write_s\":%.6f,"
               "\"bytes_read\":%lld,\"bytes_written\":%lld,\"reads\":%lld,\"writes\":%lld,"
               "\"stale\":%lld,\"torn\":%lld}\n",
               w->job->ranks, whole, spent[0], spent[1], bytes[0], bytes[1], calls[0], calls[1],
               stale, torn);
}

static int run(const struct job *job)
{
    struct window w = {.job = job};

    path_of(w.path, job->template, job->rank, "window");
    w.bytes = allocate(2, job->page_bytes);
    w.overwritten = allocate((size_t)pages_of(job), sizeof *w.overwritten);
    for (long page = 0; page < pages_of(job); page++)
        w.overwritten[page].step = -1;
    quiet_barrier();
    double start = now();
    int fd = open_quietly(&w);
    open_window(&w);
    if (job->is_dealt)
        deal(&w);
    slide(&w);
    /* MPI waits for all ranks in its close, and spins. */
    quiet_barrier();
    must(MPI_File_close(&w.file), "close", w.path);
    close(fd);
    double seconds = now() - start;
    if (w.lock_fd >= 0)
        close(w.lock_fd);
    report(&w, seconds);
    free(w.overwritten);
    free(w.bytes);
    return EXIT_RIGHT;
}

/* Whether each sector of a page is of the last write that some rank did to the page. */
static bool page_is_final(const struct job *job, const char *bytes, long page)
{
    for (long sector = 0; sector < (long)job->page_bytes / SECTOR; sector++) {
        struct stamp stamp;

        if (!sector_is_whole(bytes + sector * SECTOR, page, sector, &stamp) || stamp.rank < 0 ||
            stamp.rank >= job->ranks || stamp.step != last_step(job, (int)stamp.rank, page)) {
            fprintf(stderr, "wrong: page %ld sector %ld is by rank %lld in its step %lld\n", page,
                    sector, (long long)stamp.rank, (long long)stamp.step);
            return false;
        }
    }
    return true;
}

static int check(const struct job *job)
{
    char path[PATH_MAX], *bytes = allocate(1, job->page_bytes);
    bool right = true;

    path_of(path, job->template, job->rank, "window");
    FILE *file = fopen(path, "rb");
    if (!file)
        give_up("open", path, strerror(errno));
    for (long page = 0; right && page < pages_of(job); page++)
        right = fread(bytes, job->page_bytes, 1, file) == 1 && page_is_final(job, bytes, page);
    if (right && fgetc(file) != EOF) {
        fprintf(stderr, "wrong: `%s` is too long\n", path);
        right = false;
    }
    fclose(file);
    free(bytes);
    return right ? EXIT_RIGHT : EXIT_WRONG;
}

/* ---- the command line ---------------------------------------------------------------------------- */

static void parse(struct job *job, int argc, char **argv)
{
    for (int i = 3; i < argc; i += 2) {
        if (strcmp(argv[i], "--page") == 0)
            job->page_bytes = (size_t)number(argv[i], argv[i + 1], SECTOR, 1 << 24);
        else if (strcmp(argv[i], "--segments") == 0)
            job->segments = number(argv[i], argv[i + 1], 1, 1 << 20);
        else if (strcmp(argv[i], "--of") == 0)
            job->ranks = (int)number(argv[i], argv[i + 1], 1, 1 << 16);
        else if (strcmp(argv[i], "--dealt") == 0)
            job->is_dealt = number(argv[i], argv[i + 1], 0, 1) == 1;
        else if (strcmp(argv[i], "--locks") == 0 && argv[i + 1])
            job->locks = argv[i + 1];
        else
            misuse(USAGE, argv[i]);
    }
    if (job->page_bytes % SECTOR != 0)
        misuse(USAGE, "--page");
}

int main(int argc, char **argv)
{
    struct job job = {.ranks = 1, .page_bytes = 256 * 1024, .segments = 2};

    if (argc < 3)
        misuse(USAGE, NULL);
    job.template = argv[2];
    if (strcmp(argv[1], "run") == 0) {
        join(&argc, &argv, &job.rank, &job.ranks);
        parse(&job, argc, argv);
        int status = run(&job);

        MPI_Finalize();
        return status;
    }
    parse(&job, argc, argv);
    if (strcmp(argv[1], "init") == 0)
        return init(&job);
    if (strcmp(argv[1], "check") == 0)
        return check(&job);
    misuse(USAGE, argv[1]);
}
