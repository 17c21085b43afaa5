/* One odd thing at a time.
 *
 *     odd CASE FILE
 */
#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 30000 };

static unsigned char bytes[BLOCK];

static MPI_File open_on(MPI_Comm comm, const char *name, int mode)
{
    MPI_File file;
    MPI(MPI_File_open(comm, name, mode, MPI_INFO_NULL, &file));
    return file;
}

static void write_block(MPI_File file, int place, int writer)
{
    fill(bytes, writer, 0, BLOCK);
    MPI(MPI_File_write_at(file, (MPI_Offset)place * BLOCK, bytes, BLOCK, MPI_BYTE,
                          MPI_STATUS_IGNORE));
}

static void expect_block(MPI_File file, int place, int writer)
{
    memset(bytes, 0, BLOCK);
    MPI(MPI_File_read_at(file, (MPI_Offset)place * BLOCK, bytes, BLOCK, MPI_BYTE,
                         MPI_STATUS_IGNORE));
    expect(bytes, writer, 0, BLOCK);
}

/* One file through several communicators, and two files at once. */
static void communicators(const char *name)
{
    char other[4096];
    MPI_Comm half;
    snprintf(other, sizeof other, "%s.%d", name, rank % 2);
    MPI(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half));
    /* Only the even ranks open a file: agents of the others wake up for it. */
    if (rank % 2 == 0) {
        MPI_File file = open_on(half, other, MPI_MODE_CREATE | MPI_MODE_RDWR);
        write_block(file, rank, rank);
        MPI(MPI_Barrier(half));
        expect_block(file, 0, 0);
        MPI(MPI_File_close(&file));
    }
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    MPI_File world = open_on(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_File alone = open_on(MPI_COMM_SELF, name, MPI_MODE_RDWR);
    MPI_File halves = open_on(half, other, MPI_MODE_CREATE | MPI_MODE_RDWR);
    for (int round = 0; round < 20; round++) {
        int writer = round % ranks;
        if (rank == writer)
            write_block(round % 2 ? alone : world, writer, round);
        MPI(MPI_Barrier(MPI_COMM_WORLD));
        expect_block(round % 2 ? world : alone, writer, round);
        MPI(MPI_Barrier(MPI_COMM_WORLD));
    }
    write_block(halves, rank, rank);
    MPI(MPI_Barrier(half));
    expect_block(halves, rank % 2, rank % 2);
    MPI(MPI_File_close(&halves));
    MPI(MPI_File_close(&alone));
    MPI(MPI_File_close(&world));
    MPI(MPI_Comm_free(&half));
}

/* A write that the store cannot hold is refused at once, in the cache as beside it. */
static void beyond(const char *name)
{
    static const off_t places[] = {1LL << 62, 1LL << 60, 1LL << 44, (1LL << 44) - 4096,
                                   (1LL << 44) - BLOCK, (1LL << 44) - 4096 - BLOCK, 1LL << 33};
    char other[4096];
    snprintf(other, sizeof other, "%s.%d.plain", name, rank);
    MPI_File file = open_on(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR);
    int cached = open(name, O_RDWR), plain = open(other, O_RDWR | O_CREAT, 0600);
    CHECK(cached >= 0 && plain >= 0);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        errno = 0;
        ssize_t wanted = pwrite(plain, bytes, BLOCK, places[i]);
        int why = errno;
        CHECK(ftruncate(plain, 0) == 0);
        errno = 0;
        CHECK(pwrite(cached, bytes, BLOCK, places[i]) == wanted && errno == why);
    }
    CHECK(close(cached) == 0 && close(plain) == 0 && unlink(other) == 0);
    MPI(MPI_File_sync(file));
    MPI(MPI_File_close(&file));
}

/* Calls of the program itself on a file that MPI has open see the same bytes. */
static void beside(const char *name)
{
    struct stat stat_now;
    MPI_File file = open_on(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR);
    if (rank == 0)
        write_block(file, 1, 7);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    int fd = open(name, O_RDWR | O_APPEND);
    CHECK(fd >= 0 && fstat(fd, &stat_now) == 0 && stat_now.st_size == 2 * BLOCK);
    CHECK(stat(name, &stat_now) == 0 && stat_now.st_size == 2 * BLOCK);
    CHECK(pread(fd, bytes, BLOCK, BLOCK) == BLOCK);
    expect(bytes, 7, 0, BLOCK);
    CHECK(lseek(fd, -BLOCK, SEEK_END) == BLOCK && read(fd, bytes, BLOCK) == BLOCK);
    CHECK(read(fd, bytes, 1) == 0);
    errno = 0;
    for (int i = 0; i < 10000; i++)
        CHECK(pread(fd, bytes, 1, i) == 1 && errno == 0);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    int copy = dup(fd);
    CHECK(close(fd) == 0 && write(copy, "x", 1) == 1);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    MPI_Offset size;
    MPI(MPI_File_get_size(file, &size));
    CHECK(size == 2 * BLOCK + ranks);
    /* A child has the store's file, and harms nobody. */
    pid_t child = fork();
    if (child == 0)
        _exit(pread(copy, bytes, 1, 0) < 0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
    CHECK(fcntl(copy, F_SETLK, &lock) == 0);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    lock.l_start = (rank + 1) % ranks;
    CHECK(ranks == 1 || fcntl(copy, F_SETLK, &lock) == -1);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    CHECK(close(copy) == 0);
    MPI(MPI_File_close(&file));
}

/* Modes of opening that change what close and the file's pointer do. */
static void modes(const char *name)
{
    int create = MPI_MODE_CREATE | MPI_MODE_RDWR, count;
    MPI_Status status;
    MPI_Offset at;
    MPI_File file = open_on(MPI_COMM_WORLD, name, create | MPI_MODE_EXCL);
    MPI(MPI_File_write_at(file, 5, bytes, 0, MPI_BYTE, &status));
    MPI(MPI_File_read_at(file, 0, bytes, 10, MPI_BYTE, &status));
    MPI(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK(count == 0);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    write_block(file, rank, rank);
    MPI(MPI_File_close(&file));
    CHECK(MPI_File_open(MPI_COMM_WORLD, name, create | MPI_MODE_EXCL, MPI_INFO_NULL, &file) !=
          MPI_SUCCESS);
    file = open_on(MPI_COMM_WORLD, name, MPI_MODE_WRONLY | MPI_MODE_APPEND);
    MPI(MPI_File_get_position(file, &at));
    CHECK(at == (MPI_Offset)ranks * BLOCK);
    MPI(MPI_File_close(&file));
    file = open_on(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    expect_block(file, (rank + 1) % ranks, (rank + 1) % ranks);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    write_block(file, rank, rank + 1);
    MPI(MPI_File_close(&file));
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    CHECK(access(name, F_OK) == -1);
    /* A new file under the name has nothing of the old one. */
    file = open_on(MPI_COMM_WORLD, name, create);
    MPI(MPI_File_get_size(file, &at));
    CHECK(at == 0);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    write_block(file, rank, rank + 2);
    MPI(MPI_File_close(&file));
}

/* The store has no room: sync and close say so. */
static void full(const char *name)
{
    int class;
    MPI_File file = open_on(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR);
    fill(bytes, rank, 0, BLOCK);
    MPI_File_write_at(file, (MPI_Offset)rank * BLOCK, bytes, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE);
    int synced = MPI_File_sync(file);
    CHECK(synced != MPI_SUCCESS);
    MPI(MPI_Error_class(synced, &class));
    CHECK(class == MPI_ERR_NO_SPACE);
    int closed = MPI_File_close(&file);
    CHECK(closed != MPI_SUCCESS);
    MPI(MPI_Error_class(closed, &class));
    CHECK(class == MPI_ERR_NO_SPACE);
}

/* How often the threads of the agent have gone to sleep, and how long they have run. */
static void agent_used(long *sleeps, long *nanoseconds)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    *sleeps = *nanoseconds = 0;
    while ((task = readdir(tasks))) {
        char path[512], line[256];
        FILE *file;
        if (atoi(task->d_name) == getpid())
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        if (!(file = fopen(path, "r")) || !fgets(line, sizeof line, file))
            continue;
        fclose(file);
        if (strncmp(line, "hearth", 6) && strncmp(line, "store-", 6))
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", task->d_name);
        long ran, waited, slices;
        if ((file = fopen(path, "r")) && fscanf(file, "%ld %ld %ld", &ran, &waited, &slices) == 3)
            *nanoseconds += ran, *sleeps += slices;
        if (file)
            fclose(file);
    }
    closedir(tasks);
}

/* An agent that nobody asks anything sleeps while its rank computes. */
static void idle(const char *name)
{
    long sleeps[2], used[2];
    struct timespec now, end;
    MPI_File file = open_on(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR);
    write_block(file, rank, rank);
    MPI(MPI_File_sync(file));
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    agent_used(&sleeps[0], &used[0]);
    CHECK(used[0] > 0);
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += 2;
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while (now.tv_sec < end.tv_sec || now.tv_nsec < end.tv_nsec);
    agent_used(&sleeps[1], &used[1]);
    fprintf(stderr, "rank %d: %ld turns, %ld us\n", rank, sleeps[1] - sleeps[0],
            (used[1] - used[0]) / 1000);
    CHECK(sleeps[1] - sleeps[0] < 20);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    MPI(MPI_File_close(&file));
}

/* A rank dies in the middle, with bytes that only it has, and pages that others have. */
static void die(const char *name, int signal)
{
    MPI_File file = open_on(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR);
    write_block(file, rank, rank);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    expect_block(file, (rank + 1) % ranks, (rank + 1) % ranks);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == ranks - 1 && signal)
        raise(signal);
    if (rank == ranks - 1)
        _exit(7);
    for (int round = 0; round < 1000000; round++)
        if (MPI_File_read_at(file, (MPI_Offset)(ranks - 1) * BLOCK, bytes, BLOCK, MPI_BYTE,
                             MPI_STATUS_IGNORE) != MPI_SUCCESS)
            break;
    MPI_File_close(&file);
    MPI_Abort(MPI_COMM_WORLD, 4);
}

static void death(const char *name) { die(name, 0); }

static void killed(const char *name) { die(name, SIGKILL); }

/* One rank gives up while all have bytes that the store lacks. */
static void aborted(const char *name)
{
    MPI_File file = open_on(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR);
    write_block(file, rank, rank);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0)
        MPI_Abort(MPI_COMM_WORLD, 4);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
}

/* Who has a file open goes on with it when its name goes: through a rank, or behind all backs. */
static void removed(const char *name)
{
    for (int behind = 0; behind < 2; behind++) {
        char command[4200];
        MPI_File file = open_on(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR);
        write_block(file, rank, rank);
        MPI(MPI_Barrier(MPI_COMM_WORLD));
        snprintf(command, sizeof command, "env -u LD_PRELOAD rm %s", name);
        if (rank == 0)
            CHECK(behind ? system(command) == 0 : unlink(name) == 0);
        MPI(MPI_Barrier(MPI_COMM_WORLD));
        expect_block(file, (rank + 1) % ranks, (rank + 1) % ranks);
        MPI(MPI_Barrier(MPI_COMM_WORLD));
        write_block(file, rank, rank + 5);
        MPI(MPI_Barrier(MPI_COMM_WORLD));
        expect_block(file, (rank + 1) % ranks, (rank + 1) % ranks + 5);
        MPI(MPI_File_close(&file));
        CHECK(access(name, F_OK) == -1);
        MPI(MPI_Barrier(MPI_COMM_WORLD));
    }
}

/* A file that is only gone through from its begin to its end, by all ranks in turn. */
static void sequential(const char *name)
{
    MPI_File file = open_on(MPI_COMM_WORLD, name,
                            MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL);
    fill(bytes, rank, 0, BLOCK);
    MPI(MPI_File_write_ordered(file, bytes, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI(MPI_File_close(&file));
    file = open_on(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL);
    memset(bytes, 0, BLOCK);
    MPI(MPI_File_read_ordered(file, bytes, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
    expect(bytes, rank, 0, BLOCK);
    MPI(MPI_File_close(&file));
}

/* A program without MPI, and without the library, reads what was synced while the file is open. */
static void reader(const char *name)
{
    char command[4200];
    MPI_File file = open_on(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR);
    write_block(file, rank, rank);
    MPI(MPI_File_sync(file));
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        snprintf(command, sizeof command, "env -u LD_PRELOAD cat %s", name);
        FILE *other = popen(command, "r");
        CHECK(other);
        for (int writer = 0; writer < ranks; writer++) {
            CHECK(fread(bytes, 1, BLOCK, other) == BLOCK);
            expect(bytes, writer, 0, BLOCK);
        }
        CHECK(fgetc(other) == EOF && pclose(other) == 0);
    }
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    MPI(MPI_File_close(&file));
}

/* Keeps a file open until there is no more input, and says when it has it. */
static void holder(const char *name)
{
    MPI_File file = open_on(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR);
    write_block(file, rank, rank);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        puts("held");
        fflush(stdout);
        while (getchar() != EOF)
            ;
    }
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    MPI(MPI_File_close(&file));
}

/* Another job has the file. */
static void refused(const char *name)
{
    int class;
    MPI_File file;
    int opened = MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    CHECK(opened != MPI_SUCCESS);
    MPI(MPI_Error_class(opened, &class));
    CHECK(class == MPI_ERR_FILE_IN_USE);
}

static void expect_hint(MPI_File file, const char *name, const char *wanted)
{
    char value[64];
    int found;
    MPI_Info info;
    MPI(MPI_File_get_info(file, &info));
    MPI(MPI_Info_get(info, (char *)name, 63, value, &found));
    CHECK(found && strcmp(value, wanted) == 0);
    MPI(MPI_Info_free(&info));
}

static void expect_cached(MPI_File file, const char *policy, const char *page, const char *pool)
{
    expect_hint(file, "hearth", "on");
    expect_hint(file, "hearth_policy", policy);
    expect_hint(file, "hearth_page_size", page);
    expect_hint(file, "hearth_pool", pool);
}

/* Hints of the first file say how the job caches; those of later files do not change it. */
static void hints(const char *name)
{
    MPI_File file;
    MPI_Info info;
    MPI(MPI_Info_create(&info));
    MPI(MPI_Info_set(info, "hearth_policy", "home"));
    MPI(MPI_Info_set(info, "hearth_page_size", "32KiB"));
    MPI(MPI_Info_set(info, "hearth_pool", "many"));
    MPI(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    expect_cached(file, "home", "32768", "16777216");
    write_block(file, rank, rank);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    expect_block(file, (rank + 1) % ranks, (rank + 1) % ranks);
    MPI(MPI_File_close(&file));
    MPI(MPI_Info_set(info, "hearth_policy", "hint"));
    MPI(MPI_Info_delete(info, "hearth_page_size"));
    MPI(MPI_Info_delete(info, "hearth_pool"));
    MPI(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, info, &file));
    expect_cached(file, "home", "32768", "16777216");
    MPI(MPI_File_close(&file));
    MPI(MPI_Info_set(info, "hearth", "off"));
    MPI(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, info, &file));
    expect_hint(file, "hearth", "off");
    MPI(MPI_File_close(&file));
    MPI(MPI_Info_free(&info));
}

/* The file, and MPI itself, are left as they are at the end. */
static void unfinished(const char *name)
{
    MPI_File file = open_on(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR);
    write_block(file, rank, rank);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int count, char **words)
{
    static const struct {
        const char *name;
        void (*run)(const char *);
    } cases[] = {{"communicators", communicators},
                 {"beside", beside},
                 {"beyond", beyond},
                 {"modes", modes},
                 {"full", full},
                 {"hints", hints},
                 {"idle", idle},
                 {"death", death},
                 {"killed", killed},
                 {"aborted", aborted},
                 {"removed", removed},
                 {"sequential", sequential},
                 {"reader", reader},
                 {"holder", holder},
                 {"refused", refused},
                 {"unfinished", unfinished},
                 {"open-at-the-end", unfinished}};
    begin(&count, &words);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(words[1], cases[i].name) == 0)
            cases[i].run(words[2]);
    if (strcmp(words[1], "unfinished") == 0)
        exit(0);
    MPI(MPI_Finalize());
    return 0;
}
