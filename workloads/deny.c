/* Runs a command that may not make some system calls.
 *
 *   deny HOW NAME... -- COMMAND...    HOW: fail (EPERM), or kill
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    const char *name;
    unsigned number;
} known[] = {
    {"memfd_create", SYS_memfd_create}, {"socket", SYS_socket},   {"connect", SYS_connect},
    {"recvmsg", SYS_recvmsg},           {"openat2", SYS_openat2}, {"statx", SYS_statx},
    {"get_robust_list", SYS_get_robust_list},
};

static unsigned number_of(const char *name) {
    for (unsigned at = 0; at < sizeof known / sizeof *known; at++)
        if (!strcmp(known[at].name, name)) return known[at].number;
    fprintf(stderr, "deny: what is %s?\n", name);
    _exit(2);
}

int main(int argc, char **argv) {
    struct sock_filter code[64];
    unsigned short len = 0;
    int at = 2;
    if (argc < 5) return 2;
    unsigned answer = !strcmp(argv[1], "kill") ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM;
    code[len++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (; at < argc && strcmp(argv[at], "--"); at++) {
        code[len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number_of(argv[at]), 0, 1);
        code[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer);
    }
    code[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {len, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("deny");
        return 2;
    }
    execvp(argv[at + 1], argv + at + 1);
    perror(argv[at + 1]);
    return 127;
}
