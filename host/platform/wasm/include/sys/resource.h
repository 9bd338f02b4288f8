/* sys/resource.h where the use of resources is not known; wasi-libc's struct rusage has no ru_nivcsw. */
#ifndef WASM_RESOURCE_H
#define WASM_RESOURCE_H
#include <errno.h>

#define RUSAGE_SELF 0
struct rusage {
    long ru_nivcsw;
};

static inline int getrusage(int who, struct rusage *out)
{
    (void)who, (void)out;
    errno = ENOSYS;
    return -1;
}
#endif
