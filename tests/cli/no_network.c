/* Runs a command without a network: the kernel kills every process of it that makes a socket, by signal SIGSYS. Local
 * sockets and pairs of sockets, which connect processes of this machine, are allowed.
 *   no_network COMMAND [ARGUMENT...]
 * First checks that a process with the filter does die of a socket. Where the kernel has no filters (qemu-user), says
 * so and runs the command without. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* io_uring makes sockets, too. A socket of this machine (AF_UNIX) is what the C library asks for a user's name. */
static struct sock_filter filter[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 3, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

/* A process with the filter dies of a socket. */
static int filter_works(void)
{
    const pid_t child = fork();
    int status = 0;

    if (child == 0) {
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* no core file */
        (void)socket(AF_INET, SOCK_DGRAM, 0);
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
}

int main(int argc, char **argv)
{
    const struct sock_fprog program = { sizeof filter / sizeof filter[0], filter };

    if (argc < 2) {
        fputs("usage: no_network COMMAND [ARGUMENT...]\n", stderr);
        return 2;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        fprintf(stderr, "no_network: sockets are not watched: %s\n", strerror(errno));
    } else if (!filter_works()) {
        fputs("no_network: a socket was made in spite of the filter\n", stderr);
        return 1;
    }
    execvp(argv[1], argv + 1);
    fprintf(stderr, "no_network: %s: %s\n", argv[1], strerror(errno));
    return 127;
}
