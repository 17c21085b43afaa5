/* What ordinary programs seldom do. Each part prints what it saw; the first argument picks it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *what, long result) {
    printf("%s %ld %d\n", what, result, result < 0 ? errno : 0);
}

/* Pointers that only the operating system may look at. */
static void faults(void) {
    char *bad = (char *)8;
    char *end = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(end + 4096, 4096);
    memset(end, 'x', 4096);
    struct stat st;
    say("open", open(bad, O_RDONLY));
    say("open at the end", open(end + 4000, O_RDONLY));
    say("stat", stat(bad, &st));
    say("rename", rename(bad, "x"));
    say("unlink", unlink(0));
    int fd = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    say("write", write(fd, bad, 10));
    say("read", read(fd, bad, 10));
    say("readv", readv(fd, (struct iovec *)bad, 2));
    say("pread", pread(fd, bad, 10, -1));
    say("pipe", pipe((int *)bad));
    say("invalid flags", openat(fd, bad, 0x7fffffff));
    say("copy", copy_file_range(fd, (off_t *)bad, fd, (off_t *)bad, 10, 0));
    errno = 77;
    say("write", write(fd, "0123456789", 10));
    printf("errno is left alone: %d\n", errno);
    errno = 78;
    FILE *f = fopen("data", "r");
    char line[64];
    fgets(line, sizeof line, f);
    fclose(f);
    printf("and again: %d %s\n", errno, line);
    close(fd);
}

/* A number that is closed and used again, by a socket and by duplicates. */
static void reuse(void) {
    int a = open("one", O_RDWR | O_CREAT, 0600);
    write(a, "1", 1);
    close(a);
    int pair[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    write(pair[0], "socket", 6);
    syscall(SYS_close, pair[0]);
    close(pair[1]);
    int b = open("two", O_RDWR | O_CREAT, 0600);
    write(b, "22", 2);
    int c = dup(b);
    write(c, "333", 3);
    dup2(open("one", O_WRONLY | O_APPEND), b);
    write(b, "4444", 4);
    close_range(3, ~0U, 0);
    int d = open("three", O_RDWR | O_CREAT, 0600);
    write(d, "55555", 5);
    lseek(d, 2, SEEK_SET);
    char byte;
    read(d, &byte, 1);
    closefrom(3);
}

static void *work(void *name) {
    int fd = open(name, O_RDWR | O_CREAT, 0600);
    for (int i = 0; i < 1000; i++)
        pwrite(fd, "12345678", 8, i * 8);
    close(fd);
    return 0;
}

static void threads(void) {
    char names[4][8];
    pthread_t thread[4];
    for (int i = 0; i < 4; i++) {
        sprintf(names[i], "t%d", i);
        pthread_create(&thread[i], 0, work, names[i]);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], 0);
}

static int signal_fd;
static void on_alarm(int number) {
    (void)number;
    write(signal_fd, "s", 1);
}

static void signals(void) {
    signal_fd = open("signals", O_WRONLY | O_CREAT, 0600);
    int fd = open("main", O_WRONLY | O_CREAT, 0600);
    signal(SIGALRM, on_alarm);
    struct itimerval often = {{0, 200}, {0, 200}};
    setitimer(ITIMER_REAL, &often, 0);
    for (int i = 0; i < 20000; i++)
        pwrite(fd, "m", 1, i);
    memset(&often, 0, sizeof often);
    setitimer(ITIMER_REAL, &often, 0);
}

/* fork, vfork and exec with nothing in the environment. */
static void children(const char *self) {
    int fd = open("shared", O_RDWR | O_CREAT, 0600);
    write(fd, "aaaa", 4);
    if (fork() == 0) {
        write(fd, "bbbb", 4);
        int own = open("child", O_WRONLY | O_CREAT, 0600);
        write(own, "cc", 2);
        _exit(0);
    }
    wait(0);
    write(fd, "dddd", 4);
    char *none[] = {0}, *arguments[] = {(char *)self, "write", "execed", 0};
    if (vfork() == 0) {
        close(fd);
        dup2(1, fd);
        execve(self, arguments, none);
        _exit(1);
    }
    wait(0);
    write(fd, "eeee", 4);
    if (fork() == 0) {
        clearenv();
        arguments[2] = "execed2";
        execv(self, arguments);
    }
    wait(0);
}

static void *blocked(void *fds) {
    char byte;
    read(((int *)fds)[0], &byte, 1);
    return 0;
}

/* A thread is ended inside of a call. */
static void cancel(void) {
    int fds[2];
    pipe(fds);
    pthread_t thread;
    pthread_create(&thread, 0, blocked, fds);
    pthread_cancel(thread);
    void *result;
    pthread_join(thread, &result);
    printf("cancelled %d\n", result == PTHREAD_CANCELED);
}

/* stdio that no hook sees: its bytes are found all the same. */
static void streams(void) {
    FILE *f = fopen("printed", "w");
    for (int i = 0; i < 2000; i++)
        fprintf(f, "%06d\n", i);
    fputs("end\n", f);
    fclose(f);
    f = fopen("printed", "r+");
    int c, count = 0;
    while ((c = getc(f)) != EOF)
        count++;
    fseek(f, 0, SEEK_END);
    fprintf(f, "more\n");
    fflush(f);
    fclose(f);
    char *line = 0;
    size_t size = 0;
    f = fopen("printed", "r");
    while (getline(&line, &size, f) > 0)
        count++;
    fclose(f);
    printf("%d\n", count);
    f = fopen("left", "w");
    fprintf(f, "never closed\n");
}

int main(int argc, char **argv) {
    const char *part = argc > 1 ? argv[1] : "";
    if (!strcmp(part, "faults")) faults();
    if (!strcmp(part, "reuse")) reuse();
    if (!strcmp(part, "threads")) threads();
    if (!strcmp(part, "signals")) signals();
    if (!strcmp(part, "children")) children("/proc/self/exe");
    if (!strcmp(part, "cancel")) cancel();
    if (!strcmp(part, "streams")) streams();
    if (!strcmp(part, "write")) {
        int fd = open(argv[2], O_WRONLY | O_CREAT, 0600);
        write(fd, "w", 1);
    }
    return 0;
}
