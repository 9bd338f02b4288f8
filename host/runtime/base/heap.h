/* heap.h - how much memory the process has from malloc. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H
#include <stddef.h>
#include <stdint.h>

/* Bytes that malloc has given out to the whole process and not got back, large blocks included; 0: this C library, or a
 * sanitizer in its place, does not tell. Takes its locks: for what happens seldom. */
uint64_t heap_bytes(void);

/* Adds what the heap grew by since it had `before` bytes, less `less` that is counted elsewhere; returns what was
 * added. What other threads take meanwhile counts as well. NULL: nobody counts, 0. */
static inline uint64_t heap_count(uint64_t *counter, uint64_t before, uint64_t less)
{
    const uint64_t now = counter != NULL ? heap_bytes() : 0, grown = now > before ? now - before : 0;
    const uint64_t added = grown > less ? grown - less : 0;

    if (counter != NULL)
        (void)__atomic_add_fetch(counter, added, __ATOMIC_RELAXED);
    return added;
}
#endif
