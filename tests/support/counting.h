/* counting.h - counts allocations and mutex locks of a process while `counting` is set. It defines functions with
 * the names of the C library, which all libraries of the process find first. Include it in one source of a program.
 * It cannot be used with sanitizers, which have their own allocator. */
#ifndef COUNTING_H
#define COUNTING_H
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static atomic_uint allocations, locks;
static atomic_bool counting;

static void *real(void **at, const char *name)
{
    if (*at == NULL)
        *at = dlsym(RTLD_NEXT, name);
    return *at;
}

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

static void count_allocation(void)
{
    if (atomic_load_explicit(&counting, memory_order_relaxed))
        atomic_fetch_add(&allocations, 1);
}

#pragma GCC visibility push(default)
void *malloc(size_t bytes)
{
    count_allocation();
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    count_allocation();
    return __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
    count_allocation();
    return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    count_allocation();
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    count_allocation();
    *out = __libc_memalign(alignment, bytes);
    return *out == NULL ? 12 : 0; /* ENOMEM */
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static void *at;

    if (atomic_load_explicit(&counting, memory_order_relaxed))
        atomic_fetch_add(&locks, 1);
    return ((int (*)(pthread_mutex_t *))(uintptr_t)real(&at, "pthread_mutex_lock"))(mutex);
}

#pragma GCC visibility pop
#endif
