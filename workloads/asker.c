/* Asks what is at paths, again and again, in one process.
 *
 *   asker                  reads lines of a letter and a path, and answers each with a line
 *   asker follow PATH BOARD  looks at PATH until BOARD says that it is over
 *
 * The letters: s stat, l lstat, x statx, r access for reading, w for writing, e for executing, E the same
 * for the effective user, d a listing by opendir, D by scandir, o the first byte; m whether a file whose
 * path has that in it is mapped here. An answer is what the call said, or a minus and the error's number.
 *
 * BOARD is a file of two numbers that are mapped shared: the size that PATH had when somebody's change of
 * it returned last, and whether it is over. PATH never gets smaller, so a smaller one is an old answer.
 * The last line says how many answers there were and how many of them were old. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct board {
    _Atomic long size, is_over;
};

static void say_error(void) {
    printf("- %d\n", errno);
}

static void say_stat(int done, const struct stat *it) {
    if (done != 0) {
        say_error();
        return;
    }
    printf("%o %lld %lu %lu\n", it->st_mode, (long long)it->st_size, (unsigned long)it->st_nlink,
           (unsigned long)it->st_ino);
}

static void say_statx(const char *path) {
    struct statx it;
    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &it) != 0) {
        say_error();
        return;
    }
    printf("%o %llu %u %llu\n", it.stx_mode, (unsigned long long)it.stx_size, it.stx_nlink,
           (unsigned long long)it.stx_ino);
}

static void say_done(int done) {
    done == 0 ? (void)printf("yes\n") : say_error();
}

static int by_name(const void *one, const void *other) {
    return strcmp(*(char *const *)one, *(char *const *)other);
}

static void say_names(char **names, size_t count) {
    qsort(names, count, sizeof *names, by_name);
    for (size_t at = 0; at < count; at++) {
        if (names[at][0] != '.')
            printf("%s,", names[at]);
        free(names[at]);
    }
    printf("\n");
}

static void say_listing(const char *path) {
    DIR *dir = opendir(path);
    if (dir == NULL) {
        say_error();
        return;
    }
    char *names[256];
    size_t count = 0;
    for (struct dirent *entry; count < 256 && (entry = readdir(dir)) != NULL;)
        names[count++] = strdup(entry->d_name);
    closedir(dir);
    say_names(names, count);
}

static void say_scan(const char *path) {
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, NULL);
    if (count < 0) {
        say_error();
        return;
    }
    char *names[256];
    for (int at = 0; at < count && at < 256; at++)
        names[at] = strdup(entries[at]->d_name);
    say_names(names, count < 256 ? (size_t)count : 256);
}

static void say_first_byte(const char *path) {
    char byte;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || pread(fd, &byte, 1, 0) < 0) {
        say_error();
        return;
    }
    close(fd);
    printf("%c\n", byte);
}

static void say_mapped(const char *part) {
    char line[4096];
    int is_mapped = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        is_mapped |= strstr(line, part) != NULL;
    if (maps != NULL)
        fclose(maps);
    printf("%s\n", is_mapped ? "yes" : "no");
}

static void answer(char letter, const char *path) {
    struct stat it;
    switch (letter) {
    case 's': say_stat(stat(path, &it), &it); break;
    case 'l': say_stat(lstat(path, &it), &it); break;
    case 'x': say_statx(path); break;
    case 'r': say_done(access(path, R_OK)); break;
    case 'w': say_done(access(path, W_OK)); break;
    case 'e': say_done(access(path, X_OK)); break;
    case 'E': say_done(faccessat(AT_FDCWD, path, X_OK, AT_EACCESS)); break;
    case 'd': say_listing(path); break;
    case 'D': say_scan(path); break;
    case 'o': say_first_byte(path); break;
    case 'm': say_mapped(path); break;
    default: printf("?\n");
    }
    fflush(stdout);
}

static int follow(const char *path, const char *at) {
    int fd = open(at, O_RDWR);
    struct board *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || board == MAP_FAILED) {
        perror(at);
        return 2;
    }
    long answers = 0, old = 0;
    while (!board->is_over) {
        struct stat it;
        long size = board->size;
        if (stat(path, &it) != 0) {
            perror(path);
            return 1;
        }
        answers++;
        old += it.st_size < size;
    }
    printf("%ld answers, %ld old\n", answers, old);
    return 0;
}

int main(int count, char **words) {
    if (count == 4 && strcmp(words[1], "follow") == 0)
        return follow(words[2], words[3]);
    static char line[4096];
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = 0;
        answer(line[0], line + 2);
    }
    return 0;
}
