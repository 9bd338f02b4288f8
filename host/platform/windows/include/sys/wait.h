/* sys/wait.h: there are no child processes. */
#ifndef WINDOWS_SYS_WAIT_H
#define WINDOWS_SYS_WAIT_H
#include <errno.h>
#include <sys/types.h>

#define WNOHANG 1
#define WIFEXITED(status) (((status)&0x7f) == 0)
#define WEXITSTATUS(status) ((status) >> 8 & 0xff)
#define WTERMSIG(status) ((status)&0x7f)

static inline pid_t waitpid(pid_t child, int *out_status, int flags)
{
    (void)child, (void)out_status, (void)flags;
    errno = ECHILD;
    return -1;
}
#endif
