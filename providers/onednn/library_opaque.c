/* The registry of opaque layouts, which only oneDNN can read. It has few entries: layouts of packed weights in special
 * formats. */
#include "onednn/library_versions.h"
#include "inlay/check.h"
#include "simd/at_fork.h"
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((constructor)) void guard_lock(void)
{
    lock_at_fork(&lock);
}

/* `lock` guards all of these. */
static void **layouts;
static uint32_t count, capacity, engines;

static bool grow(void)
{
    const uint32_t wanted = capacity > 0 ? 2 * capacity : 16;
    void **larger = count < capacity ? layouts : realloc(layouts, wanted * sizeof *layouts);

    INLAY_CHECK(count <= capacity);
    if (larger == NULL)
        return false;
    if (larger != layouts)
        layouts = larger;
    capacity = count < capacity ? capacity : wanted;
    return true;
}

uint32_t library_opaque_keep(const void *desc, int (*equal)(const void *a, const void *b),
                             void *(*copy)(const void *desc))
{
    uint32_t number = 0;

    (void)pthread_mutex_lock(&lock);
    for (uint32_t i = 0; number == 0 && i < count; i++)
        if (equal(layouts[i], desc) != 0)
            number = i + 1;
    if (number == 0 && grow()) {
        layouts[count] = copy(desc);
        if (layouts[count] != NULL)
            number = ++count;
    }
    (void)pthread_mutex_unlock(&lock);
    return number;
}

const void *library_opaque_find(uint32_t number)
{
    const void *desc;

    (void)pthread_mutex_lock(&lock);
    desc = number > 0 && number <= count ? layouts[number - 1] : NULL;
    (void)pthread_mutex_unlock(&lock);
    return desc;
}

void library_opaque_open(void)
{
    (void)pthread_mutex_lock(&lock);
    engines++;
    (void)pthread_mutex_unlock(&lock);
}

void library_opaque_close(void (*destroy)(void *desc))
{
    (void)pthread_mutex_lock(&lock);
    INLAY_CHECK(engines > 0);
    if (--engines == 0) {
        while (count > 0)
            destroy(layouts[--count]);
        free(layouts);
        layouts = NULL;
        capacity = 0;
    }
    (void)pthread_mutex_unlock(&lock);
}
