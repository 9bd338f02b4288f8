/* pthread.h for programs with one thread: locks are always free. Older versions of wasi-libc have no such header. */
#ifndef BUNDLE_WASM_PTHREAD_H
#define BUNDLE_WASM_PTHREAD_H

typedef int pthread_mutex_t, pthread_rwlock_t, pthread_once_t;
#define PTHREAD_MUTEX_INITIALIZER 0
#define PTHREAD_RWLOCK_INITIALIZER 0
#define PTHREAD_ONCE_INIT 0

static inline int bundle_no_lock(const int *lock)
{
    (void)lock;
    return 0;
}
static inline int bundle_init_lock(int *lock, const void *attributes)
{
    (void)lock, (void)attributes;
    return 0;
}
#define pthread_mutex_init bundle_init_lock
#define pthread_mutex_destroy bundle_no_lock
#define pthread_mutex_lock bundle_no_lock
#define pthread_mutex_trylock bundle_no_lock
#define pthread_mutex_unlock bundle_no_lock
#define pthread_rwlock_init bundle_init_lock
#define pthread_rwlock_destroy bundle_no_lock
#define pthread_rwlock_rdlock bundle_no_lock
#define pthread_rwlock_wrlock bundle_no_lock
#define pthread_rwlock_trywrlock bundle_no_lock
#define pthread_rwlock_unlock bundle_no_lock

static inline int pthread_once(pthread_once_t *once, void (*init)(void))
{
    if (*once == 0) {
        *once = 1;
        init();
    }
    return 0;
}
/* There is no fork(). */
static inline int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    (void)prepare, (void)parent, (void)child;
    return 0;
}
#endif
