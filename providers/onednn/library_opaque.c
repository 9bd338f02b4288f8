/* Layouts that the library alone understands. There are few: of some weights. */
#include "library_versions.h"
#include "simd/at_fork.h"
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((constructor)) void guard_lock(void)
{
    lock_at_fork(&lock);
}

static void **kept;
static uint32_t count, capacity, engines;

static bool make_room(void)
{
    const uint32_t wanted = capacity > 0 ? 2 * capacity : 16;
    void **larger = count < capacity ? kept : realloc(kept, wanted * sizeof *kept);

    if (larger == NULL)
        return false;
    if (larger != kept)
        kept = larger;
    capacity = count < capacity ? capacity : wanted;
    return true;
}

uint32_t library_opaque_keep(const void *desc, int (*equal)(const void *a, const void *b),
                             void *(*copy)(const void *desc))
{
    uint32_t number = 0;

    (void)pthread_mutex_lock(&lock);
    for (uint32_t i = 0; number == 0 && i < count; i++)
        if (equal(kept[i], desc) != 0)
            number = i + 1;
    if (number == 0 && make_room()) {
        kept[count] = copy(desc);
        if (kept[count] != NULL)
            number = ++count;
    }
    (void)pthread_mutex_unlock(&lock);
    return number;
}

const void *library_opaque_find(uint32_t number)
{
    const void *desc;

    (void)pthread_mutex_lock(&lock);
    desc = number > 0 && number <= count ? kept[number - 1] : NULL;
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
    if (--engines == 0) {
        while (count > 0)
            destroy(kept[--count]);
        free(kept);
        kept = NULL;
        capacity = 0;
    }
    (void)pthread_mutex_unlock(&lock);
}
