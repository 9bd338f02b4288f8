/* pthread.h with the affinity of threads; in system.c. */
#ifndef WINDOWS_PTHREAD_H
#define WINDOWS_PTHREAD_H
#include_next <pthread.h>
#include <sched.h>

/* The set of the process. */
int pthread_getaffinity_np(pthread_t thread, size_t bytes, cpu_set_t *out);
int pthread_setaffinity_np(pthread_t thread, size_t bytes, const cpu_set_t *set);
/* There is no fork(). */
#undef pthread_atfork
static inline int pthread_atfork(void (*before)(void), void (*parent)(void), void (*child)(void))
{
    (void)before, (void)parent, (void)child;
    return 0;
}
#endif
