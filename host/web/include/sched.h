/* sched.h with a function that wasi-libc lacks; in threads.c. */
#ifndef WEB_SCHED_H
#define WEB_SCHED_H
#include_next <sched.h>

int sched_getcpu(void);
#endif
