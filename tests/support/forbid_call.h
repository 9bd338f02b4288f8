/* forbid_call.h - forbids system calls to this process. */
#ifndef SUPPORT_FORBID_CALL_H
#define SUPPORT_FORBID_CALL_H
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Installs the filter; ends the process with status 2 if that is impossible. */
static inline void forbid(struct sock_filter *list, unsigned short count)
{
    const struct sock_fprog program = { count, list };

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(2);
}

/* The call, SYS_*, fails with EPERM. */
static inline void forbid_call(unsigned number)
{
    struct sock_filter list[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
                                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
                                  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                                  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };

    forbid(list, sizeof list / sizeof list[0]);
}

/* A socket other than a local one (AF_UNIX) ends the process with SIGSYS, and so its children. */
static inline void forbid_networks(void)
{
    struct sock_filter list[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
                                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
                                  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
                                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 1, 0),
                                  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                                  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };

    forbid(list, sizeof list / sizeof list[0]);
}
#endif
