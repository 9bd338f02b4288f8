/* base/heap.h - bytes that the process has allocated with malloc. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H
#include <stddef.h>
#include <stdint.h>

/* Bytes allocated with malloc and not yet freed in the whole process, large blocks included. 0 if this C library, or a
 * sanitizer that replaces it, does not report them. Takes the allocator's locks, so call it rarely. */
uint64_t heap_bytes(void);

/* Returns free pages of the malloc heap to the system, as far as this C library can. Takes the allocator's locks. */
void heap_trim(void);

/* Adds the growth of the heap since it had `before` bytes, minus `less` bytes that are counted elsewhere, to *counter
 * (atomic), and returns the sum added. Allocations of other threads in that time are included. If counter is NULL, does
 * nothing and returns 0. */
static inline uint64_t heap_count(uint64_t *counter, uint64_t before, uint64_t less)
{
    const uint64_t now = counter != NULL ? heap_bytes() : 0, grown = now > before ? now - before : 0;
    const uint64_t added = grown > less ? grown - less : 0;

    if (counter != NULL)
        (void)__atomic_add_fetch(counter, added, __ATOMIC_RELAXED);
    return added;
}
#endif
