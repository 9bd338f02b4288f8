/* sched.h with a function that wasi-libc lacks. */
#ifndef WEB_SCHED_H
#define WEB_SCHED_H
#include_next <sched.h>

static inline int sched_getcpu(void)
{
    return 0;
}
#endif
