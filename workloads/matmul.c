/*
 * C = A x B on files, in parallel: the matrix program that cooperative caches are measured with.
 *
 * Every process reads its rows of A and all of B, one pread per row, and keeps no row of B longer
 * than it works on it: whatever is read twice is for a cache below to notice. It writes its rows of
 * C one pwrite per row, and never calls fsync. Only the time inside open, pread, pwrite and close
 * is counted.
 *
 * Elements are small integers kept in floats. |a| and |b| stay within 32, so every partial sum
 * stays within 1024 * N <= 2^24 and is exact: the product is right to the last bit or it is wrong.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { N_DEFAULT = 1024, N_MAX = 16384 };
enum { EXIT_RIGHT = 0, EXIT_WRONG = 1, EXIT_COULD_NOT = 2 };

enum mode { MODE_INIT, MODE_RUN, MODE_RUN_AND_VERIFY, MODE_VERIFY_ONLY };

struct job {
    int n;
    int rank;
    int ranks;
    enum mode mode;
    char dir[PATH_MAX];
};

/* Seconds and bytes spent in one direction by this process. */
struct meter {
    double seconds;
    long long bytes;
};

/* An open matrix; its I/O is counted by `meter`. */
struct matrix {
    char path[PATH_MAX];
    int fd;
    int n;
    struct meter *meter;
};

/* ---- trouble ------------------------------------------------------------------------------- */

static _Noreturn void give_up(const char *action, const char *path, const char *why)
{
    fprintf(stderr, "error: cannot %s `%s`: %s\n", action, path, why);
    MPI_Abort(MPI_COMM_WORLD, EXIT_COULD_NOT);
    exit(EXIT_COULD_NOT);
}

static void *allocate(size_t count, size_t size)
{
    /* calloc rejects a product that overflows; zero elements still need a pointer to free. */
    void *memory = calloc(count ? count : 1, size);

    if (!memory)
        give_up("allocate", "matrix rows", strerror(errno));
    return memory;
}

/* ---- the matrices' values ------------------------------------------------------------------- */

/* A number from -16 to 15 that looks random, so that a row or page in the wrong place shows. */
static int scatter(uint32_t stream, uint32_t index)
{
    uint32_t x = index * 0x9E3779B1u + stream * 0x85EBCA77u + 1u;

    x ^= x >> 15;
    x *= 0x2C1B3C6Du;
    x ^= x >> 12;
    x *= 0x297A2D39u;
    x ^= x >> 15;
    return (int)(x & 31u) - 16;
}

/* a(i,k) = p(i) + q(k) and b(k,j) = r(k) + s(j): sums whose product has a closed form. */
static int p(int i) { return scatter(1, (uint32_t)i); }
static int q(int k) { return scatter(2, (uint32_t)k); }
static int r(int k) { return scatter(3, (uint32_t)k); }
static int s(int j) { return scatter(4, (uint32_t)j); }

static float a_value(int i, int k) { return (float)(p(i) + q(k)); }
static float b_value(int k, int j) { return (float)(r(k) + s(j)); }

/* The sums over k in c(i,j) = p(i) sum r + n p(i) s(j) + sum q r + s(j) sum q. */
struct closed_form {
    long n, sum_q, sum_r, sum_qr;
};

static struct closed_form closed_form(int n)
{
    struct closed_form f = {.n = n};

    for (int k = 0; k < n; k++) {
        f.sum_q += q(k);
        f.sum_r += r(k);
        f.sum_qr += (long)q(k) * r(k);
    }
    return f;
}

static float c_value(const struct closed_form *f, int i, int j)
{
    return (float)(p(i) * f->sum_r + f->n * p(i) * s(j) + f->sum_qr + s(j) * f->sum_q);
}

/* ---- timed files ---------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct matrix matrix_open(const struct job *job, const char *name, int flags,
                                 struct meter *meter)
{
    struct matrix m = {.n = job->n, .meter = meter};
    int length = snprintf(m.path, sizeof m.path, "%s/%s", job->dir, name);

    if (length < 0 || (size_t)length >= sizeof m.path)
        give_up("open", name, strerror(ENAMETOOLONG));
    double start = now();
    m.fd = open(m.path, flags | O_CLOEXEC, 0644);
    meter->seconds += now() - start;
    if (m.fd < 0)
        give_up("open", m.path, strerror(errno));
    return m;
}

static void matrix_close(struct matrix *m)
{
    double start = now();
    int status = close(m->fd);

    m->meter->seconds += now() - start;
    if (status != 0)
        give_up("close", m->path, strerror(errno));
}

static size_t row_bytes(const struct matrix *m) { return (size_t)m->n * sizeof(float); }

/* One pread; more only when the kernel hands out less than a row. */
static void read_row(struct matrix *m, int row, float *values)
{
    size_t want = row_bytes(m), done = 0;
    off_t at = (off_t)row * (off_t)want;

    while (done < want) {
        double start = now();
        ssize_t got = pread(m->fd, (char *)values + done, want - done, at + (off_t)done);

        m->meter->seconds += now() - start;
        if (got < 0 && errno != EINTR)
            give_up("read", m->path, strerror(errno));
        if (got == 0)
            give_up("read", m->path, "the file ends too early");
        if (got > 0)
            done += (size_t)got;
    }
    m->meter->bytes += (long long)want;
}

static void write_row(struct matrix *m, int row, const float *values)
{
    size_t want = row_bytes(m), done = 0;
    off_t at = (off_t)row * (off_t)want;

    while (done < want) {
        double start = now();
        ssize_t put = pwrite(m->fd, (const char *)values + done, want - done, at + (off_t)done);

        m->meter->seconds += now() - start;
        if (put < 0 && errno != EINTR)
            give_up("write", m->path, strerror(errno));
        if (put > 0)
            done += (size_t)put;
    }
    m->meter->bytes += (long long)want;
}

/* ---- init ----------------------------------------------------------------------------------- */

static void write_input(const struct job *job, const char *name, float (*value)(int, int))
{
    struct meter meter = {0};
    struct matrix m = matrix_open(job, name, O_WRONLY | O_CREAT | O_TRUNC, &meter);
    float *row = allocate((size_t)job->n, sizeof *row);

    for (int i = 0; i < job->n; i++) {
        for (int j = 0; j < job->n; j++)
            row[j] = value(i, j);
        write_row(&m, i, row);
    }
    matrix_close(&m);
    free(row);
}

/* A product left by an earlier run would let a run that writes nothing pass for right. */
static void remove_product(const struct job *job)
{
    char path[PATH_MAX + 2];

    snprintf(path, sizeof path, "%s/C", job->dir);
    if (unlink(path) != 0 && errno != ENOENT)
        give_up("remove", path, strerror(errno));
}

static void init(const struct job *job)
{
    if (job->rank == 0) {
        write_input(job, "A", a_value);
        write_input(job, "B", b_value);
        remove_product(job);
        printf("{\"n\":%d,\"ranks\":%d,\"init\":true}\n", job->n, job->ranks);
    }
}

/* ---- run ------------------------------------------------------------------------------------ */

/* The rows this process answers for: `count` of them from `first`. */
struct share {
    int first, count;
};

static struct share share_of(const struct job *job)
{
    int first = (int)((long long)job->n * job->rank / job->ranks);
    int end = (int)((long long)job->n * (job->rank + 1) / job->ranks);

    return (struct share){first, end - first};
}

static float *read_a(const struct job *job, struct share share, struct meter *read)
{
    size_t n = (size_t)job->n;
    float *rows = allocate((size_t)share.count * n, sizeof *rows);
    struct matrix a = matrix_open(job, "A", O_RDONLY, read);

    for (int i = 0; i < share.count; i++)
        read_row(&a, share.first + i, rows + (size_t)i * n);
    matrix_close(&a);
    return rows;
}

/* Row k of B meets column k of A, so one pass over B is enough for all rows of C. */
static float *multiply(const struct job *job, struct share share, const float *a,
                       struct meter *read)
{
    size_t n = (size_t)job->n;
    float *c = allocate((size_t)share.count * n, sizeof *c);
    float *b_row = allocate(n, sizeof *b_row);
    struct matrix b = matrix_open(job, "B", O_RDONLY, read);

    for (size_t k = 0; k < n; k++) {
        read_row(&b, (int)k, b_row);
        for (size_t i = 0; i < (size_t)share.count; i++)
            for (size_t j = 0; j < n; j++)
                c[i * n + j] += a[i * n + k] * b_row[j];
    }
    matrix_close(&b);
    free(b_row);
    return c;
}

static void write_c(const struct job *job, struct share share, const float *rows,
                    struct meter *written)
{
    struct matrix c = matrix_open(job, "C", O_WRONLY | O_CREAT, written);

    for (int i = 0; i < share.count; i++)
        write_row(&c, share.first + i, rows + (size_t)i * (size_t)job->n);
    matrix_close(&c);
}

static void run(const struct job *job, struct meter *read, struct meter *written)
{
    struct share share = share_of(job);

    MPI_Barrier(MPI_COMM_WORLD);
    float *a = read_a(job, share, read);
    float *c = multiply(job, share, a, read);
    write_c(job, share, c, written);
    free(c);
    free(a);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- verify --------------------------------------------------------------------------------- */

static bool size_is_right(const struct matrix *c)
{
    struct stat st;
    long long want = (long long)row_bytes(c) * c->n;

    if (fstat(c->fd, &st) != 0)
        give_up("stat", c->path, strerror(errno));
    if (st.st_size == want)
        return true;
    fprintf(stderr, "wrong: `%s` has %lld bytes instead of %lld\n", c->path,
            (long long)st.st_size, want);
    return false;
}

static bool row_is_right(const struct matrix *c, const struct closed_form *f, int i,
                         const float *row)
{
    for (int j = 0; j < c->n; j++) {
        float want = c_value(f, i, j);

        if (row[j] == want)
            continue;
        fprintf(stderr, "wrong: `%s` row %d column %d is %.9g instead of %.9g\n", c->path, i, j,
                (double)row[j], (double)want);
        return false;
    }
    return true;
}

/* Compares the file with the closed form, which knows nothing of A's and B's bytes. */
static bool product_is_right(const struct job *job)
{
    struct meter meter = {0};
    struct matrix c = matrix_open(job, "C", O_RDONLY, &meter);
    struct closed_form f = closed_form(job->n);
    float *row = allocate((size_t)job->n, sizeof *row);
    bool right = size_is_right(&c);

    for (int i = 0; right && i < job->n; i++) {
        read_row(&c, i, row);
        right = row_is_right(&c, &f, i, row);
    }
    matrix_close(&c);
    free(row);
    return right;
}

/* ---- report --------------------------------------------------------------------------------- */

static void report(const struct job *job, const struct meter *read, const struct meter *written,
                   bool verified)
{
    double mine[2] = {read->seconds, written->seconds}, most[2], sum[2];
    long long bytes[2] = {read->bytes, written->bytes}, total[2];

    MPI_Reduce(mine, most, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(mine, sum, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(bytes, total, 2, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (job->rank != 0)
        return;
    printf("{\"n\":%d,\"ranks\":%d,\"read_s\":%.6f,\"read_s_sum\":%.6f,\"write_s\":%.6f,"
           "\"write_s_sum\":%.6f,\"bytes_read\":%lld,\"bytes_written\":%lld,\"verified\":%s}\n",
           job->n, job->ranks, most[0], sum[0], most[1], sum[1], total[0], total[1],
           verified ? "true" : "false");
}

/* All processes leave with rank 0's verdict, so the launcher's status does not depend on which. */
static int perform(const struct job *job)
{
    struct meter read = {0}, written = {0};
    bool wanted = job->mode == MODE_RUN_AND_VERIFY || job->mode == MODE_VERIFY_ONLY;
    int right = 1;

    if (job->mode == MODE_INIT) {
        init(job);
        return EXIT_RIGHT;
    }
    if (job->mode != MODE_VERIFY_ONLY)
        run(job, &read, &written);
    if (wanted && job->rank == 0)
        right = product_is_right(job);
    MPI_Bcast(&right, 1, MPI_INT, 0, MPI_COMM_WORLD);
    report(job, &read, &written, wanted && right);
    return right ? EXIT_RIGHT : EXIT_WRONG;
}

/* ---- the command line ------------------------------------------------------------------------ */

static _Noreturn void misuse(int rank, const char *what, const char *argument)
{
    if (rank == 0)
        fprintf(stderr,
                "error: %s `%s`\n"
                "usage: matmul DIR-TEMPLATE [--n 1024] [--init | --verify | --verify-only]\n"
                "  %%r in DIR-TEMPLATE is the rank; MATMUL_DIR, if set, replaces the template\n",
                what, argument);
    MPI_Finalize();
    exit(EXIT_COULD_NOT);
}

static int parse_n(int rank, const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);

    if (*text == '\0' || *end != '\0' || n < 1 || n > N_MAX)
        misuse(rank, "not a size from 1 to 16384:", text);
    return (int)n;
}

/* Writes the template into `job->dir` with every %r replaced by the rank. */
static void expand_dir(struct job *job, const char *template)
{
    size_t used = 0;

    while (*template) {
        bool is_rank = template[0] == '%' && template[1] == 'r';
        size_t room = sizeof job->dir - used;
        int length = is_rank ? snprintf(job->dir + used, room, "%d", job->rank)
                             : snprintf(job->dir + used, room, "%c", *template);

        if (length < 0 || (size_t)length >= room)
            misuse(job->rank, "directory name too long:", template);
        used += (size_t)length;
        template += is_rank ? 2 : 1;
    }
}

static void parse(struct job *job, int argc, char **argv)
{
    const char *template = NULL, *override = getenv("MATMUL_DIR");

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--n") == 0 && i + 1 < argc)
            job->n = parse_n(job->rank, argv[++i]);
        else if (strcmp(argv[i], "--init") == 0)
            job->mode = MODE_INIT;
        else if (strcmp(argv[i], "--verify") == 0)
            job->mode = MODE_RUN_AND_VERIFY;
        else if (strcmp(argv[i], "--verify-only") == 0)
            job->mode = MODE_VERIFY_ONLY;
        else if (argv[i][0] != '-' && !template)
            template = argv[i];
        else
            misuse(job->rank, "unexpected argument", argv[i]);
    }
    if (override && *override)
        template = override;
    if (!template)
        misuse(job->rank, "missing argument", "DIR-TEMPLATE");
    expand_dir(job, template);
}

int main(int argc, char **argv)
{
    struct job job = {.n = N_DEFAULT, .mode = MODE_RUN};

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
    parse(&job, argc, argv);
    int status = perform(&job);
    MPI_Finalize();
    return status;
}
