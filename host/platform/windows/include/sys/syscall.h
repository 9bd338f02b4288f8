/* sys/syscall.h: the system has no calls of Linux. */
#ifndef WINDOWS_SYS_SYSCALL_H
#define WINDOWS_SYS_SYSCALL_H
#include <errno.h>

#define SYS_arch_prctl 158

static inline long syscall(long number, ...)
{
    (void)number;
    errno = ENOSYS;
    return -1;
}
#endif
