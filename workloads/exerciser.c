/* Does random things to one file through several descriptors and paths, and knows what must be there.
 *
 *   exerciser SEED STEPS PATH...
 *
 * All paths lead to one file, by other mounts or other nodes. What is read, by whatever call and from
 * whichever descriptor, must be what was written last, and sizes what they were set to last. A fault is
 * told with the step, the path and the last steps before it, and ends the program with 1; 2 if it could
 * not run. Calls of a child that was forked count as the program's own. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 1 << 21, PATHS = 4, OPEN = 6, PARTS = 5, TOLD = 12, LONGEST = 1 << 17 };

/* A descriptor, and where its offset must be; descriptors of one group share an offset. */
struct open_file {
    int fd, group, flags, path;
};

static unsigned char model[MOST + LONGEST], got[LONGEST];
static off_t size, offsets[OPEN];
static struct open_file files[OPEN];
static const char *paths[PATHS];
static int path_count, step;
static uint64_t seed;
static char told[TOLD][160];

static uint64_t below(uint64_t bound) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % bound;
}

static void note(const char *format, ...) {
    va_list words;
    va_start(words, format);
    int len = snprintf(told[step % TOLD], sizeof told[0], "%d: ", step);
    vsnprintf(told[step % TOLD] + len, sizeof told[0] - (size_t)len, format, words);
    va_end(words);
}

static void fault(const char *format, ...) {
    va_list words;
    va_start(words, format);
    dprintf(2, "exerciser: errno %s: ", strerror(errno));
    vdprintf(2, format, words);
    va_end(words);
    for (int at = step - TOLD + 1; at <= step; at++)
        if (at >= 0)
            dprintf(2, "\n  %s", told[at % TOLD]);
    dprintf(2, "\n");
    _exit(1);
}

static const char *path_of(const struct open_file *file) {
    return paths[file->path];
}

/* Some length, seldom a long one. */
static size_t some_length(void) {
    return 1 + below(below(4) == 0 ? LONGEST : 5000);
}

static off_t some_place(void) {
    static const off_t pages[] = {4096, 16384, 262144};
    off_t at = (off_t)below(MOST - LONGEST);
    if (below(3) == 0) {
        off_t page = pages[below(3)];
        at = at / page * page - (off_t)below(2) * (off_t)below(100);
    }
    return at < 0 ? 0 : at;
}

static void fill(unsigned char *into, size_t len) {
    unsigned char first = (unsigned char)below(256);
    for (size_t at = 0; at < len; at++)
        into[at] = (unsigned char)(first + step + (int)(at / 7));
}

static size_t there(off_t at, size_t len) {
    if (at >= size)
        return 0;
    return (off_t)len < size - at ? len : (size_t)(size - at);
}

static void check(const struct open_file *file, const char *how, const unsigned char *came, ssize_t count,
                  off_t at, size_t len) {
    size_t expected = there(at, len);
    if (count != (ssize_t)expected)
        fault("%s of %zu at %lld by %s: %zd, not %zu (size %lld)", how, len, (long long)at, path_of(file), count,
              expected, (long long)size);
    for (size_t byte = 0; byte < expected; byte++)
        if (came[byte] != model[at + (off_t)byte])
            fault("%s of %zu at %lld by %s: byte %zu is %02x, not %02x", how, len, (long long)at, path_of(file), byte,
                  came[byte], model[at + (off_t)byte]);
}

static void wrote(off_t at, const unsigned char *bytes, size_t len) {
    memcpy(model + at, bytes, len);
    if (at + (off_t)len > size)
        size = at + (off_t)len;
}

static void open_one(struct open_file *file) {
    static const int flags[] = {O_RDONLY, O_RDWR, O_RDONLY, O_RDWR | O_APPEND};
    file->path = (int)below((uint64_t)path_count);
    file->flags = flags[below(4)];
    file->group = (int)(file - files);
    file->fd = open(path_of(file), file->flags | O_CLOEXEC);
    offsets[file->group] = 0;
    if (file->fd < 0)
        fault("open of %s", path_of(file));
    note("open %s as %d, %s", path_of(file), file->fd, file->flags & O_RDWR ? "rw" : "r");
}

/* Two numbers for one open file: an offset that one moves is the other's, too. */
static void duplicate(struct open_file *to, const struct open_file *from) {
    int fd = dup2(from->fd, to->fd);
    if (fd < 0)
        fault("dup2");
    *to = (struct open_file){fd, from->group, from->flags, from->path};
    note("dup %d to %d", from->fd, to->fd);
}

static int is_shared(const struct open_file *file) {
    for (int at = 0; at < OPEN; at++)
        if (files + at != file && files[at].group == file - files)
            return 1;
    return 0;
}

static void reopen(struct open_file *file) {
    if (is_shared(file))
        return;
    const struct open_file *other = files + below(OPEN);
    if (other != file && below(2)) {
        duplicate(file, other);
        return;
    }
    if (close(file->fd) != 0)
        fault("close");
    open_one(file);
}

static void read_somehow(struct open_file *file) {
    size_t len = some_length(), cut = below(len + 1);
    off_t at = some_place(), own = offsets[file->group];
    struct iovec parts[2] = {{got, cut}, {got + cut, len - cut}};
    memset(got, 0xee, len);
    switch (below(4)) {
    case 0:
        note("pread %d %zu at %lld", file->fd, len, (long long)at);
        check(file, "pread", got, pread(file->fd, got, len, at), at, len);
        return;
    case 1:
        note("preadv %d %zu+%zu at %lld", file->fd, cut, len - cut, (long long)at);
        check(file, "preadv", got, preadv(file->fd, parts, 2, at), at, len);
        return;
    case 2:
        note("read %d %zu at %lld", file->fd, len, (long long)own);
        check(file, "read", got, read(file->fd, got, len), own, len);
        break;
    default:
        note("readv %d %zu+%zu at %lld", file->fd, cut, len - cut, (long long)own);
        check(file, "readv", got, readv(file->fd, parts, 2), own, len);
    }
    offsets[file->group] = own + (off_t)there(own, len);
}

static void write_somehow(struct open_file *file) {
    if (!(file->flags & O_RDWR))
        return;
    size_t len = some_length();
    off_t at = some_place(), own = file->flags & O_APPEND ? size : offsets[file->group];
    int is_placed = below(2) && !(file->flags & O_APPEND);
    off_t to = is_placed ? at : own;
    if (to + (off_t)len > MOST)
        return;
    fill(got, len);
    note("%s %d %zu at %lld", is_placed ? "pwrite" : "write", file->fd, len, (long long)to);
    ssize_t done = is_placed ? pwrite(file->fd, got, len, at) : write(file->fd, got, len);
    if (done != (ssize_t)len)
        fault("a write of %zu at %lld by %s: %zd", len, (long long)to, path_of(file), done);
    wrote(to, got, len);
    if (is_placed)
        return;
    offsets[file->group] = to + (off_t)len;
    // Where an append leaves the offset is not promised if another node has appended before.
    if (file->flags & O_APPEND && lseek(file->fd, offsets[file->group], SEEK_SET) < 0)
        fault("lseek of %s", path_of(file));
}

static void seek(struct open_file *file) {
    off_t at = some_place(), own = offsets[file->group];
    off_t came;
    switch (below(3)) {
    case 0: came = lseek(file->fd, at, SEEK_SET); break;
    case 1: came = lseek(file->fd, at - own, SEEK_CUR); break;
    default: came = lseek(file->fd, at - size, SEEK_END);
    }
    note("lseek %d to %lld", file->fd, (long long)at);
    if (came != at)
        fault("lseek to %lld by %s: %lld", (long long)at, path_of(file), (long long)came);
    offsets[file->group] = at;
}

static void cut(struct open_file *file) {
    if (!(file->flags & O_RDWR))
        return;
    off_t to = below(2) ? some_place() : (off_t)below((uint64_t)size + 1);
    note("ftruncate %d to %lld from %lld", file->fd, (long long)to, (long long)size);
    if (ftruncate(file->fd, to) != 0)
        fault("ftruncate to %lld by %s", (long long)to, path_of(file));
    if (to < size)
        memset(model + to, 0, (size_t)(size - to));
    size = to;
}

static void look(struct open_file *file) {
    struct stat by_path, by_fd;
    note("stat %d", file->fd);
    if (stat(path_of(file), &by_path) != 0 || fstat(file->fd, &by_fd) != 0)
        fault("stat of %s", path_of(file));
    if (by_path.st_size != size || by_fd.st_size != size)
        fault("%s: stat says %lld, fstat %lld, not %lld", path_of(file), (long long)by_path.st_size,
              (long long)by_fd.st_size, (long long)size);
    if (access(path_of(file), R_OK | W_OK) != 0)
        fault("access to %s", path_of(file));
}

static void map(struct open_file *file) {
    off_t at = some_place() / 4096 * 4096;
    size_t len = there(at, some_length());
    if (len == 0)
        return;
    int writes = file->flags & O_RDWR && below(2);
    int access = writes ? PROT_READ | PROT_WRITE : PROT_READ;
    note("mmap %d %zu at %lld, %s", file->fd, len, (long long)at, writes ? "written" : "read");
    // As programs do that do not know the size; without, a mapping may end where the file ended before.
    struct stat now;
    if (fstat(file->fd, &now) != 0 || now.st_size != size)
        fault("fstat of %s: %lld", path_of(file), (long long)now.st_size);
    unsigned char *bytes = mmap(NULL, len, access, MAP_SHARED, file->fd, at);
    if (bytes == MAP_FAILED)
        fault("mmap of %s", path_of(file));
    check(file, "mmap", bytes, (ssize_t)len, at, len);
    if (writes) {
        fill(bytes, len);
        wrote(at, bytes, len);
        if (msync(bytes, len, MS_SYNC) != 0)
            fault("msync of %s", path_of(file));
    }
    munmap(bytes, len);
}

static void in_a_child(struct open_file *file) {
    off_t own = offsets[file->group];
    size_t len = some_length();
    note("fork, which reads %d %zu at %lld", file->fd, len, (long long)own);
    pid_t child = fork();
    if (child == 0) {
        check(file, "read in a child", got, read(file->fd, got, len), own, len);
        check(file, "pread in a child", got, pread(file->fd, got, len, 0), 0, len);
        _exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        fault("a child: %x", child < 0 ? -1 : status);
    offsets[file->group] = own + (off_t)there(own, len);
}

int main(int count, char **words) {
    if (count < 4 || count > 3 + PATHS) {
        fprintf(stderr, "usage: exerciser SEED STEPS PATH...\n");
        return 2;
    }
    seed = strtoull(words[1], NULL, 10) * 2654435769u + 1;
    int steps = atoi(words[2]);
    for (path_count = 0; path_count < count - 3; path_count++)
        paths[path_count] = words[3 + path_count];
    for (int at = 0; at < OPEN; at++)
        open_one(files + at);
    struct stat begin;
    if (fstat(files[0].fd, &begin) != 0 || begin.st_size != 0) {
        fprintf(stderr, "exerciser: the file must be there, and empty\n");
        return 2;
    }
    for (step = 0; step < steps; step++) {
        struct open_file *file = files + below(OPEN);
        switch (below(20)) {
        case 0: cut(file); break;
        case 1: reopen(file); break;
        case 2: seek(file); break;
        case 3: map(file); break;
        case 4: case 5: look(file); break;
        case 6: if (below(4) == 0) in_a_child(file); break;
        case 7: if (below(4) == 0 && fsync(file->fd) != 0) fault("fsync"); break;
        case 8: case 9: case 10: case 11: case 12: write_somehow(file); break;
        default: read_somehow(file);
        }
    }
    printf("%d steps, %lld bytes at the end\n", steps, (long long)size);
    return 0;
}
