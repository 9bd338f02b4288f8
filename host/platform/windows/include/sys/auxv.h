/* sys/auxv.h: a process has no such values. */
#ifndef WINDOWS_SYS_AUXV_H
#define WINDOWS_SYS_AUXV_H

#include <stdint.h>

#define AT_SECURE 23
#define AT_EXECFN 31

static inline uintptr_t getauxval(unsigned long type)
{
    (void)type;
    return 0;
}
#endif
