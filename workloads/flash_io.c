/*
 * The files of FLASH I/O through parallel HDF5: a checkpoint and two plot files of a hydrodynamics
 * code that keeps its mesh in blocks (Liao et al., section 4.3).
 *
 * Every rank has about as many blocks as the others, and every block is a cube of cells with guard
 * cells around it. A file has the tree of blocks (a few numbers each) and one data set for each
 * variable; a rank writes its blocks of a variable, without guard cells, in one collective call,
 * after those of the rank before it. The checkpoint has 24 variables in double precision, a plot
 * file 4 in single precision, at the centres or at the corners of the cells.
 *
 * A value is a function of its variable and place, so two runs write the same files: what is right
 * is what a run without a cache wrote.
 */
#define _POSIX_C_SOURCE 200809L

#include "ranks.h"

#include <hdf5.h>

enum { VARIABLES = 24, PLOT_VARIABLES = 4, GUARD = 4, FACES = 6, CHILDREN = 8 };

static const char USAGE[] =
    "usage: flash_io run DIR-TEMPLATE [--side CELLS] [--blocks N]\n"
    "  %r in the template is the rank; --blocks is about how many a rank has\n";

struct job {
    const char *template;
    int rank, ranks, side, blocks;
};

/* Blocks of this rank among those of all. */
struct share {
    hsize_t first, mine, all;
};

enum kind { CHECKPOINT, PLOT_CENTRES, PLOT_CORNERS, KINDS };

static const char *const FILES[KINDS] = {"flash_chk", "flash_plt_cnt", "flash_plt_crn"};

struct output {
    const struct job *job;
    struct share share;
    struct meter meter;
    char path[PATH_MAX];
    hid_t file, collective;
};

/* ---- blocks --------------------------------------------------------------------------------- */

/* Ranks differ by a block or two, so that the load is not quite even. */
static hsize_t blocks_of(const struct job *job, int rank)
{
    return (hsize_t)job->blocks + (hsize_t)(rank % 3);
}

static struct share share_of(const struct job *job)
{
    struct share share = {0};

    for (int rank = 0; rank < job->ranks; rank++) {
        if (rank < job->rank)
            share.first += blocks_of(job, rank);
        share.all += blocks_of(job, rank);
    }
    share.mine = blocks_of(job, job->rank);
    return share;
}

static double value_at(int variable, hsize_t block, hsize_t cell)
{
    return 1.0 + variable + 1e-3 * (double)(block % 997) + 1e-9 * (double)cell;
}

/* The guard cells around a block are filled too, and must not be written. */
static double *solve(const struct output *out, int variable, int side)
{
    hsize_t whole = (hsize_t)(side + 2 * GUARD), cells = whole * whole * whole;
    double *blocks = allocate((size_t)(out->share.mine * cells), sizeof *blocks);

    for (hsize_t b = 0; b < out->share.mine; b++)
        for (hsize_t c = 0; c < cells; c++)
            blocks[b * cells + c] = value_at(variable, out->share.first + b, c);
    return blocks;
}

/* Copies the inner cells of all blocks one after another, in place: they are fewer than all. */
static size_t pack(const struct output *out, double *blocks, int side, size_t n)
{
    size_t whole = (size_t)(side + 2 * GUARD), used = 0;

    for (size_t b = 0; b < out->share.mine; b++)
        for (size_t z = 0; z < n; z++)
            for (size_t y = 0; y < n; y++) {
                size_t at = ((b * whole + z + GUARD) * whole + y + GUARD) * whole + GUARD;

                memmove(blocks + used, blocks + at, n * sizeof *blocks);
                used += n;
            }
    return used;
}

/* ---- HDF5 ------------------------------------------------------------------------------------ */

static hid_t sure(hid_t id, const char *action, const struct output *out)
{
    if (id < 0)
        give_up(action, out->path, "HDF5 says why above");
    return id;
}

static void open_output(struct output *out, const char *name)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);

    path_of(out->path, out->job->template, out->job->rank, name);
    sure(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL), "prepare", out);
    double start = now();
    out->file = sure(H5Fcreate(out->path, H5F_ACC_TRUNC, H5P_DEFAULT, access), "create", out);
    out->meter.seconds += now() - start;
    H5Pclose(access);
    out->collective = H5Pcreate(H5P_DATASET_XFER);
    sure(H5Pset_dxpl_mpio(out->collective, H5FD_MPIO_COLLECTIVE), "prepare", out);
}

static void close_output(struct output *out)
{
    double start;

    H5Pclose(out->collective);
    /* MPI waits for all ranks in its close, and spins. */
    start = now();
    quiet_barrier();
    sure(H5Fclose(out->file), "close", out);
    out->meter.seconds += now() - start;
}

/* Writes this rank's rows of a data set whose first direction counts blocks. */
static void write_rows(struct output *out, const char *name, hid_t type, int rank,
                       const hsize_t *shape, const void *rows)
{
    hsize_t all[4], mine[4], first[4] = {out->share.first};
    long long bytes = (long long)H5Tget_size(type);

    for (int i = 0; i < rank; i++) {
        all[i] = i == 0 ? out->share.all : shape[i];
        mine[i] = i == 0 ? out->share.mine : shape[i];
        bytes *= (long long)mine[i];
    }
    double start = now();
    hid_t space = sure(H5Screate_simple(rank, all, NULL), "describe", out);
    hid_t memory = sure(H5Screate_simple(rank, mine, NULL), "describe", out);
    /* Without times, two runs write the same bytes. */
    hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(creation, 0);
    hid_t set = sure(H5Dcreate2(out->file, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT),
                     "create a data set in", out);
    sure(H5Sselect_hyperslab(space, H5S_SELECT_SET, first, NULL, mine, NULL), "select", out);
    sure(H5Dwrite(set, type, memory, space, out->collective, rows), "write", out);
    H5Dclose(set);
    H5Pclose(creation);
    H5Sclose(memory);
    H5Sclose(space);
    note(&out->meter, start, bytes);
}

/* ---- what a file has ---------------------------------------------------------------------------- */

/* The tree: level, kind, neighbours and place of each block. */
static void write_tree(struct output *out)
{
    enum { LINKS = FACES + 1 + CHILDREN };
    size_t mine = (size_t)out->share.mine;
    int *levels = allocate(mine, sizeof *levels), *links = allocate(mine * LINKS, sizeof *links);
    double *places = allocate(mine * 6, sizeof *places);
    const hsize_t one[1] = {0}, linked[2] = {0, LINKS}, placed[2] = {0, 3}, boxed[3] = {0, 3, 2};

    for (size_t b = 0; b < mine; b++) {
        int block = (int)(out->share.first + b);

        levels[b] = 1 + block % 5;
        for (int i = 0; i < LINKS; i++)
            links[b * LINKS + (size_t)i] = block + i - FACES;
        for (int i = 0; i < 6; i++)
            places[b * 6 + (size_t)i] = block + 0.125 * i;
    }
    write_rows(out, "refine level", H5T_NATIVE_INT, 1, one, levels);
    write_rows(out, "node type", H5T_NATIVE_INT, 1, one, levels);
    write_rows(out, "gid", H5T_NATIVE_INT, 2, linked, links);
    write_rows(out, "coordinates", H5T_NATIVE_DOUBLE, 2, placed, places);
    write_rows(out, "block size", H5T_NATIVE_DOUBLE, 2, placed, places);
    write_rows(out, "bounding box", H5T_NATIVE_DOUBLE, 3, boxed, places);
    free(places);
    free(links);
    free(levels);
}

static void write_variable(struct output *out, enum kind kind, int variable)
{
    int side = out->job->side;
    size_t n = (size_t)(kind == PLOT_CORNERS ? side + 1 : side);
    hsize_t shape[4] = {0, n, n, n};
    char name[16];

    double *values = solve(out, variable, side);
    size_t count = pack(out, values, side, n);
    snprintf(name, sizeof name, "v%02d", variable);
    if (kind == CHECKPOINT) {
        write_rows(out, name, H5T_NATIVE_DOUBLE, 4, shape, values);
    } else {
        float *singles = allocate(count, sizeof *singles);

        for (size_t i = 0; i < count; i++)
            singles[i] = (float)values[i];
        write_rows(out, name, H5T_NATIVE_FLOAT, 4, shape, singles);
        free(singles);
    }
    free(values);
}

static void write_file(struct output *out, enum kind kind)
{
    int variables = kind == CHECKPOINT ? VARIABLES : PLOT_VARIABLES;

    open_output(out, FILES[kind]);
    write_tree(out);
    for (int variable = 0; variable < variables; variable++)
        write_variable(out, kind, variable);
    close_output(out);
}

static void run(const struct job *job)
{
    struct output out = {.job = job, .share = share_of(job)};

    quiet_barrier();
    for (enum kind kind = 0; kind < KINDS; kind++)
        write_file(&out, kind);
    long long bytes = total(out.meter.bytes), calls = total(out.meter.calls);
    double seconds = most(out.meter.seconds);
    if (job->rank == 0)
        printf("{\"ranks\":%d,\"write_s\":%.6f,\"bytes_written\":%lld,\"writes\":%lld}\n",
               job->ranks, seconds, bytes, calls);
}

/* ---- the command line --------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    struct job job = {.side = 8, .blocks = 80};

    if (argc < 3 || strcmp(argv[1], "run") != 0)
        misuse(USAGE, argc < 2 ? NULL : argv[1]);
    join(&argc, &argv, &job.rank, &job.ranks);
    job.template = argv[2];
    for (int i = 3; i < argc; i += 2) {
        if (strcmp(argv[i], "--side") == 0)
            job.side = (int)number(argv[i], argv[i + 1], 1, 64);
        else if (strcmp(argv[i], "--blocks") == 0)
            job.blocks = (int)number(argv[i], argv[i + 1], 1, 10000);
        else
            misuse(USAGE, argv[i]);
    }
    run(&job);
    MPI_Finalize();
    return EXIT_RIGHT;
}
