/* pthread.h for WebAssembly: no thread can be created, and nothing can be waited for. Locks are always free in programs
 * with one thread. In those compiled for several (-matomics), whose threads JavaScript creates (host/web/threads.c), a
 * lock is a word that is tested until it is free: they are held for a few instructions, and the main thread of a page
 * may not sleep. Older versions of wasi-libc have the types, but no such header. */
#ifndef WASM_PTHREAD_H
#define WASM_PTHREAD_H
#define __NEED_pthread_t
#define __NEED_pthread_once_t
#define __NEED_pthread_attr_t
#define __NEED_pthread_mutex_t
#define __NEED_pthread_mutexattr_t
#define __NEED_pthread_rwlock_t
#define __NEED_pthread_cond_t
#define __NEED_pthread_condattr_t
#define __NEED_clockid_t
#include <bits/alltypes.h>
#include <errno.h>

#define PTHREAD_MUTEX_INITIALIZER                                                                                      \
    {                                                                                                                  \
        {                                                                                                              \
            {                                                                                                          \
                0                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
#define PTHREAD_RWLOCK_INITIALIZER                                                                                     \
    {                                                                                                                  \
        {                                                                                                              \
            {                                                                                                          \
                0                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
#define PTHREAD_COND_INITIALIZER                                                                                       \
    {                                                                                                                  \
        {                                                                                                              \
            {                                                                                                          \
                0                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
#define PTHREAD_ONCE_INIT 0

static inline int bundle_no_lock(const void *lock)
{
    (void)lock;
    return 0;
}
static inline int bundle_init_lock(const void *lock, const void *attributes)
{
    (void)lock, (void)attributes;
    return 0;
}
/* No other thread could end the wait. */
static inline int bundle_no_wait(const void *condition, const void *mutex)
{
    (void)condition, (void)mutex;
    __builtin_trap();
}
static inline int bundle_no_timed_wait(const void *condition, const void *mutex, const void *until)
{
    (void)condition, (void)mutex, (void)until;
    return ETIMEDOUT;
}
#ifdef __wasm_atomics__
static inline int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    (void)attributes;
    __atomic_store_n(&mutex->__u.__i[0], 0, __ATOMIC_RELEASE);
    return 0;
}
static inline int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    return __atomic_exchange_n(&mutex->__u.__i[0], 1, __ATOMIC_ACQUIRE) == 0 ? 0 : EBUSY;
}
static inline int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    while (pthread_mutex_trylock(mutex) != 0)
        while (__atomic_load_n(&mutex->__u.__i[0], __ATOMIC_RELAXED) != 0)
            continue;
    return 0;
}
static inline int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    __atomic_store_n(&mutex->__u.__i[0], 0, __ATOMIC_RELEASE);
    return 0;
}
static inline int pthread_once(pthread_once_t *once, void (*init)(void))
{
    enum { FIRST, RUNNING, DONE };
    int expected = FIRST;

    if (__atomic_load_n(once, __ATOMIC_ACQUIRE) == DONE)
        return 0;
    if (__atomic_compare_exchange_n(once, &expected, RUNNING, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
        init();
        __atomic_store_n(once, DONE, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(once, __ATOMIC_ACQUIRE) != DONE)
        continue;
    return 0;
}
#else
#define pthread_mutex_init bundle_init_lock
#define pthread_mutex_trylock bundle_no_lock
#define pthread_mutex_lock bundle_no_lock
#define pthread_mutex_unlock bundle_no_lock
static inline int pthread_once(pthread_once_t *once, void (*init)(void))
{
    if (*once == 0) {
        *once = 1;
        init();
    }
    return 0;
}
#endif
#define pthread_mutex_destroy bundle_no_lock
#define pthread_rwlock_init bundle_init_lock
#define pthread_rwlock_destroy bundle_no_lock
#define pthread_rwlock_rdlock bundle_no_lock
#define pthread_rwlock_wrlock bundle_no_lock
#define pthread_rwlock_trywrlock bundle_no_lock
#define pthread_rwlock_unlock bundle_no_lock
#define pthread_cond_init bundle_init_lock
#define pthread_cond_destroy bundle_no_lock
#define pthread_cond_signal bundle_no_lock
#define pthread_cond_broadcast bundle_no_lock
#define pthread_cond_wait bundle_no_wait
#define pthread_cond_timedwait bundle_no_timed_wait
#define pthread_condattr_init bundle_no_lock
#define pthread_condattr_destroy bundle_no_lock

static inline int pthread_condattr_setclock(pthread_condattr_t *attributes, clockid_t clock)
{
    (void)attributes, (void)clock;
    return 0;
}
static inline int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                                 void *argument)
{
    (void)thread, (void)attributes, (void)start, (void)argument;
    return EAGAIN;
}
static inline int pthread_join(pthread_t thread, void **result)
{
    (void)thread, (void)result;
    return ESRCH;
}
static inline int pthread_detach(pthread_t thread)
{
    (void)thread;
    return ESRCH;
}
static inline pthread_t pthread_self(void)
{
    return 0;
}
static inline int pthread_equal(pthread_t a, pthread_t b)
{
    return a == b;
}
/* There is no fork(). */
static inline int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    (void)prepare, (void)parent, (void)child;
    return 0;
}
#endif
