/* serve/base/monitor.h - a lock and a condition variable whose deadlines use CLOCK_MONOTONIC. */
#ifndef SERVE_MONITOR_H
#define SERVE_MONITOR_H
#include <pthread.h>
#include <time.h>

static inline void monitor_init_condition(pthread_cond_t *changed)
{
    pthread_condattr_t by_monotonic;

    (void)pthread_condattr_init(&by_monotonic);
    (void)pthread_condattr_setclock(&by_monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(changed, &by_monotonic);
    (void)pthread_condattr_destroy(&by_monotonic);
}

static inline void monitor_init(pthread_mutex_t *lock, pthread_cond_t *changed)
{
    (void)pthread_mutex_init(lock, NULL);
    monitor_init_condition(changed);
}
#endif
