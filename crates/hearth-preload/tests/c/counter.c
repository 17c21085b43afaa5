// Counts calls of read and has memory of its own, as libraries that are preloaded do.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int count;

ssize_t read(int fd, void *buf, size_t size) {
    static ssize_t (*next)(int, void *, size_t);
    if (!next) next = (ssize_t (*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
    count++;
    return next(fd, buf, size);
}

// A heap that never gives anything back; before each piece stands its size.
static char heap[64 << 20] __attribute__((aligned(4096)));
static size_t used;

static void *take(size_t size, size_t align) {
    if (align < 64) align = 64;
    size_t room = (size + 2 * align + 63) / 64 * 64;
    size_t at = __atomic_fetch_add(&used, room, __ATOMIC_RELAXED);
    if (at + room > sizeof heap) return 0;
    char *piece = heap + (at + 64 + align - 1) / align * align;
    *(size_t *)(piece - 64) = size;
    return piece;
}

void *malloc(size_t size) { return take(size, 64); }
void *memalign(size_t align, size_t size) { return take(size, align); }
void *aligned_alloc(size_t align, size_t size) { return take(size, align); }
int posix_memalign(void **piece, size_t align, size_t size) {
    *piece = take(size, align);
    return *piece ? 0 : 12;
}
void free(void *old) { (void)old; }
void *calloc(size_t many, size_t size) { return malloc(many * size); }
void *realloc(void *old, size_t size) {
    void *new = malloc(size);
    if (old && new) {
        size_t had = *(size_t *)((char *)old - 64);
        memcpy(new, old, had < size ? had : size);
    }
    return new;
}

__attribute__((destructor)) static void tell(void) {
    const char *path = getenv("COUNT");
    FILE *file = path ? fopen(path, "w") : 0;
    if (!file) return;
    fprintf(file, "%d\n", count);
    fclose(file);
}
