/* forbid_call.h - forbids a system call to this process: it fails with EPERM. */
#ifndef SUPPORT_FORBID_CALL_H
#define SUPPORT_FORBID_CALL_H
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <unistd.h>

/* number: SYS_*. Ends the process with status 2 if that is impossible. */
static inline void forbid_call(unsigned number)
{
    struct sock_filter list[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
                                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
                                  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                                  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
    const struct sock_fprog program = { sizeof list / sizeof list[0], list };

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(2);
}
#endif
