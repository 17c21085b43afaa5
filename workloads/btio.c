/*
 * The I/O of BTIO, from the NAS Parallel Benchmarks, without the solver.
 *
 * A grid of n^3 points, five doubles each, is dealt to P = q^2 ranks: it is cut q times in every
 * direction, and a rank has one cell in each of the q slabs, along a diagonal. Every so often the
 * whole grid is appended to a file, dump after dump; then all dumps are read and compared. Four
 * ways to do it:
 *   full     one collective call a dump, through a view of subarrays
 *   simple   one independent call for each line of each cell
 *   fortran  Fortran's direct access files, one record for each point
 *   epio     a file for each rank, one call a dump
 *
 * Every number is its own place in the file, so one that is elsewhere, or missing, shows. A rank
 * reads the cells of its neighbour: what it still has of its own writes does not help it.
 */
#define _POSIX_C_SOURCE 200809L

#include "ranks.h"

enum { M = 5 };

static const char USAGE[] =
    "usage: btio run|check full|simple|fortran|epio DIR-TEMPLATE [--n POINTS] [--dumps N]\n"
    "            [--of RANKS]\n"
    "  %r in the template is the rank; --of says for `check` how many ranks have run\n";

/* btio_fortran.f90 */
void fortran_open(const char *path, int length, int *unit, int *status);
void fortran_write(int unit, long long first, int points, const double *values, int *status);
void fortran_read(int unit, long long first, int points, double *values, int *status);
void fortran_close(int unit, int *status);

enum mode { FULL, SIMPLE, FORTRAN, EPIO, MODES };
static const char *const MODE_NAMES[MODES] = {"full", "simple", "fortran", "epio"};

/* Part of the grid; z is the slowest direction, x the fastest. */
struct cell {
    int low[3], size[3];
};
enum { Z, Y, X };

struct job {
    const char *template;
    enum mode mode;
    int rank, ranks, q, n, dumps;
};

/* The cells of one rank, and the numbers in them, cell after cell, for one dump. */
struct share {
    struct cell *cells;
    double *values;
    long long count;
};

struct file {
    char path[PATH_MAX];
    MPI_File handle;
    int unit;
};

/* ---- who has what ------------------------------------------------------------------------------ */

static void cut(int n, int q, int part, int *low, int *size)
{
    *low = (int)((long)n * part / q);
    *size = (int)((long)n * (part + 1) / q) - *low;
}

/* In slab c a rank has the cell that is c to the right and c up of where it was in slab 0. */
static struct share share_of(const struct job *job, int rank)
{
    int q = job->q;
    struct share share = {.cells = allocate((size_t)q, sizeof *share.cells)};

    for (int c = 0; c < q; c++) {
        struct cell *cell = &share.cells[c];

        cut(job->n, q, c, &cell->low[Z], &cell->size[Z]);
        cut(job->n, q, (rank / q + q - c) % q, &cell->low[Y], &cell->size[Y]);
        cut(job->n, q, (rank % q + c) % q, &cell->low[X], &cell->size[X]);
        share.count += (long long)cell->size[Z] * cell->size[Y] * cell->size[X] * M;
    }
    share.values = allocate((size_t)share.count, sizeof *share.values);
    return share;
}

static void drop(struct share *share)
{
    free(share->values);
    free(share->cells);
}

/* Numbers of the file that come before a dump. */
static long long dump_at(const struct job *job, int dump)
{
    return (long long)dump * job->n * job->n * job->n * M;
}

/* ---- lines: runs of points that are together in the file and in memory ---------------------------- */

struct line {
    long long at;
    int points;
    double *values;
};

/* Calls `visit` with every line of a dump, until one says no. */
static bool each_line(const struct job *job, const struct share *share, int dump,
                      bool (*visit)(void *context, struct line line), void *context)
{
    double *values = share->values;
    long long n = job->n;

    for (int c = 0; c < job->q; c++) {
        const struct cell *cell = &share->cells[c];

        for (int z = 0; z < cell->size[Z]; z++)
            for (int y = 0; y < cell->size[Y]; y++) {
                long long point = ((cell->low[Z] + z) * n + cell->low[Y] + y) * n + cell->low[X];
                struct line line = {dump_at(job, dump) + point * M, cell->size[X], values};

                if (!visit(context, line))
                    return false;
                values += (size_t)cell->size[X] * M;
            }
    }
    return true;
}

/* Zero is what a hole holds, so no number is zero. */
static double value_at(long long at) { return (double)(at + 1); }

static bool fill_line(void *context, struct line line)
{
    (void)context;
    for (int i = 0; i < line.points * M; i++)
        line.values[i] = value_at(line.at + i);
    return true;
}

static bool check_line(void *context, struct line line)
{
    (void)context;
    for (int i = 0; i < line.points * M; i++)
        if (line.values[i] != value_at(line.at + i)) {
            fprintf(stderr, "wrong: number %lld is %.17g\n", line.at + i, line.values[i]);
            return false;
        }
    return true;
}

/* ---- opening and closing --------------------------------------------------------------------------- */

/* The type of a rank's cells within the grid; successive dumps tile the file. */
static MPI_Datatype grid_type(const struct job *job, const struct share *share)
{
    int grid[4] = {job->n, job->n, job->n, M};
    MPI_Datatype all, *types = allocate((size_t)job->q, sizeof *types);
    MPI_Aint *places = allocate((size_t)job->q, sizeof *places);
    int *ones = allocate((size_t)job->q, sizeof *ones);

    for (int c = 0; c < job->q; c++) {
        const struct cell *cell = &share->cells[c];
        int low[4] = {cell->low[Z], cell->low[Y], cell->low[X], 0};
        int size[4] = {cell->size[Z], cell->size[Y], cell->size[X], M};

        MPI_Type_create_subarray(4, grid, size, low, MPI_ORDER_C, MPI_DOUBLE, &types[c]);
        ones[c] = 1;
    }
    MPI_Type_create_struct(job->q, ones, places, types, &all);
    MPI_Type_commit(&all);
    for (int c = 0; c < job->q; c++)
        MPI_Type_free(&types[c]);
    free(ones);
    free(places);
    free(types);
    return all;
}

static void open_mpi_file(const struct job *job, struct file *file, const struct share *share)
{
    MPI_Comm who = job->mode == EPIO ? MPI_COMM_SELF : MPI_COMM_WORLD;
    MPI_Datatype view = MPI_DOUBLE;

    must(MPI_File_open(who, file->path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL,
                       &file->handle), "open", file->path);
    if (job->mode == FULL)
        view = grid_type(job, share);
    must(MPI_File_set_view(file->handle, 0, MPI_DOUBLE, view, "native", MPI_INFO_NULL),
         "set the view of", file->path);
    if (job->mode == FULL)
        MPI_Type_free(&view);
}

/* `owner` is the rank whose cells are moved: the name of its file, where each has one. */
static void open_file(const struct job *job, struct file *file, const struct share *share, int owner)
{
    char name[32] = "btio.out";
    int status = 0;

    if (job->mode == EPIO)
        snprintf(name, sizeof name, "btio.out.%d", owner);
    path_of(file->path, job->template, job->rank, name);
    if (job->mode != FORTRAN) {
        open_mpi_file(job, file, share);
        return;
    }
    fortran_open(file->path, (int)strlen(file->path), &file->unit, &status);
    if (status != 0)
        give_up("open", file->path, strerror(status));
}

static void close_file(const struct job *job, struct file *file)
{
    int status = 0;

    if (job->mode == FORTRAN)
        fortran_close(file->unit, &status);
    else
        must(MPI_File_close(&file->handle), "close", file->path);
    if (status != 0)
        give_up("close", file->path, strerror(status));
}

/* ---- moving a dump --------------------------------------------------------------------------------- */

/* What a line is moved with. */
struct mover {
    const struct job *job;
    struct file *file;
    struct meter *meter;
    bool is_write;
};

static void count_moved(const struct mover *by, MPI_Status *status, long long wanted)
{
    int moved;

    MPI_Get_count(status, MPI_DOUBLE, &moved);
    if (moved != wanted)
        give_up(by->is_write ? "write" : "read", by->file->path, "it came short");
}

static bool move_line(void *context, struct line line)
{
    struct mover *by = context;
    MPI_Status status;
    int words = line.points * M, failed = 0;
    double start = now();

    if (by->job->mode == FORTRAN) {
        if (by->is_write)
            fortran_write(by->file->unit, line.at / M, line.points, line.values, &failed);
        else
            fortran_read(by->file->unit, line.at / M, line.points, line.values, &failed);
        if (failed != 0)
            give_up(by->is_write ? "write" : "read", by->file->path, strerror(failed));
    } else {
        must(by->is_write ? MPI_File_write_at(by->file->handle, line.at, line.values, words,
                                              MPI_DOUBLE, &status)
                          : MPI_File_read_at(by->file->handle, line.at, line.values, words,
                                             MPI_DOUBLE, &status),
             by->is_write ? "write" : "read", by->file->path);
        count_moved(by, &status, words);
    }
    note(by->meter, start, (long long)words * (long long)sizeof(double));
    return true;
}

/* All of a dump in one call: the file pointer is where the last one ended. */
static void move_whole(struct mover *by, const struct share *share)
{
    MPI_File handle = by->file->handle;
    int words = (int)share->count;
    MPI_Status status;
    double start = now();
    int failed;

    if (by->job->mode == FULL)
        failed = by->is_write
                     ? MPI_File_write_all(handle, share->values, words, MPI_DOUBLE, &status)
                     : MPI_File_read_all(handle, share->values, words, MPI_DOUBLE, &status);
    else
        failed = by->is_write ? MPI_File_write(handle, share->values, words, MPI_DOUBLE, &status)
                              : MPI_File_read(handle, share->values, words, MPI_DOUBLE, &status);
    must(failed, by->is_write ? "write" : "read", by->file->path);
    count_moved(by, &status, words);
    note(by->meter, start, share->count * (long long)sizeof(double));
}

static void move_dump(struct mover *by, const struct share *share, int dump)
{
    if (by->job->mode == FULL || by->job->mode == EPIO)
        move_whole(by, share);
    else
        each_line(by->job, share, dump, move_line, by);
}

/* ---- the two phases ---------------------------------------------------------------------------------- */

/* Seconds that this rank spends in calls, open and close included, are in `meter`. */
static bool phase(const struct job *job, int owner, bool is_write, struct meter *meter)
{
    struct share share = share_of(job, owner);
    struct file file = {.unit = -1};
    struct mover mover = {job, &file, meter, is_write};
    bool right = true;
    double start = now();

    open_file(job, &file, &share, owner);
    meter->seconds += now() - start;
    for (int dump = 0; dump < job->dumps; dump++) {
        if (is_write)
            each_line(job, &share, dump, fill_line, NULL);
        move_dump(&mover, &share, dump);
        if (!is_write)
            right = each_line(job, &share, dump, check_line, NULL) && right;
    }
    /* MPI waits for all ranks in its close, and spins. */
    start = now();
    quiet_barrier();
    close_file(job, &file);
    meter->seconds += now() - start;
    drop(&share);
    return right;
}

static int run(const struct job *job)
{
    struct meter read = {0}, write = {0};

    quiet_barrier();
    phase(job, job->rank, true, &write);
    quiet_barrier();
    bool right = phase(job, (job->rank + 1) % job->ranks, false, &read);
    long long wrong = total(right ? 0 : 1);
    long long calls[2] = {total(read.calls), total(write.calls)};
    long long bytes[2] = {total(read.bytes), total(write.bytes)};
    double seconds[2] = {most(read.seconds), most(write.seconds)};

    if (job->rank == 0)
        printf("{\"ranks\":%d,\"read_s\":%.6f,\"write_s\":%.6f,\"bytes_read\":%lld,"
               "\"bytes_written\":%lld,\"reads\":%lld,\"writes\":%lld,\"wrong\":%lld}\n",
               job->ranks, seconds[0], seconds[1], bytes[0], bytes[1], calls[0], calls[1], wrong);
    return wrong == 0 ? EXIT_RIGHT : EXIT_WRONG;
}

/* ---- a look at the files, past every cache ------------------------------------------------------------- */

static bool shared_file_is_right(const struct job *job, FILE *file)
{
    long long slab = (long long)job->n * job->n * M;
    double *values = allocate((size_t)slab, sizeof *values);
    bool right = true;

    for (long long at = 0; right && at < dump_at(job, job->dumps); at += slab) {
        right = fread(values, sizeof *values, (size_t)slab, file) == (size_t)slab;
        right = right && check_line(NULL, (struct line){at, job->n * job->n, values});
    }
    free(values);
    return right;
}

static bool own_file_is_right(const struct job *job, FILE *file, int owner)
{
    struct share share = share_of(job, owner);
    size_t count = (size_t)share.count;
    bool right = true;

    for (int dump = 0; right && dump < job->dumps; dump++)
        right = fread(share.values, sizeof *share.values, count, file) == count &&
                each_line(job, &share, dump, check_line, NULL);
    drop(&share);
    return right;
}

static int check(const struct job *job)
{
    int files = job->mode == EPIO ? job->ranks : 1;
    bool right = true;

    for (int owner = 0; right && owner < files; owner++) {
        char path[PATH_MAX], name[32] = "btio.out";

        if (job->mode == EPIO)
            snprintf(name, sizeof name, "btio.out.%d", owner);
        path_of(path, job->template, job->rank, name);
        FILE *file = fopen(path, "rb");
        if (!file)
            give_up("open", path, strerror(errno));
        right = job->mode == EPIO ? own_file_is_right(job, file, owner)
                                  : shared_file_is_right(job, file);
        right = right && fgetc(file) == EOF;
        if (!right)
            fprintf(stderr, "wrong: `%s` is not what was written\n", path);
        fclose(file);
    }
    return right ? EXIT_RIGHT : EXIT_WRONG;
}

/* ---- the command line ------------------------------------------------------------------------------------ */

static enum mode mode_of(const char *name)
{
    for (enum mode mode = 0; mode < MODES; mode++)
        if (strcmp(name, MODE_NAMES[mode]) == 0)
            return mode;
    misuse(USAGE, name);
}

static void parse(struct job *job, int argc, char **argv)
{
    for (int i = 4; i < argc; i += 2) {
        if (strcmp(argv[i], "--n") == 0)
            job->n = (int)number(argv[i], argv[i + 1], 1, 512);
        else if (strcmp(argv[i], "--dumps") == 0)
            job->dumps = (int)number(argv[i], argv[i + 1], 1, 10000);
        else if (strcmp(argv[i], "--of") == 0)
            job->ranks = (int)number(argv[i], argv[i + 1], 1, 1 << 16);
        else
            misuse(USAGE, argv[i]);
    }
    while (job->q * job->q < job->ranks)
        job->q++;
    if (job->q * job->q != job->ranks || job->n < job->q) {
        fprintf(stderr, "error: %d ranks are no square number, or more than the grid has lines\n",
                job->ranks);
        leave(EXIT_COULD_NOT);
    }
}

int main(int argc, char **argv)
{
    struct job job = {.ranks = 1, .n = 12, .dumps = 12};

    if (argc < 4)
        misuse(USAGE, NULL);
    job.mode = mode_of(argv[2]);
    job.template = argv[3];
    if (strcmp(argv[1], "run") == 0) {
        join(&argc, &argv, &job.rank, &job.ranks);
        parse(&job, argc, argv);
        int status = run(&job);

        MPI_Finalize();
        return status;
    }
    parse(&job, argc, argv);
    if (strcmp(argv[1], "check") == 0)
        return check(&job);
    misuse(USAGE, argv[1]);
}
