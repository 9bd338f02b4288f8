/* base/memory.h - growing lists from malloc, the message of failed allocations, and messages about descriptors. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H
#include "inlay/status.h"
#include <stdbool.h>

/* Makes room for `more` items after the `count` items of a list, which is NULL or was grown by this function before.
 * The capacity is a function of count (the next power of two, at least 4), so it is not stored; appending n items one
 * by one copies fewer than 2 n. False if out of memory or if the size overflows; the list is unchanged then. */
bool list_reserve(void *list_address, size_t count, size_t more, size_t item_bytes);
#define LIST_GROW(list, count) list_reserve(&(list), count, 1, sizeof *(list))

/* The capacity of a list of `count` items, as above; SIZE_MAX if it overflows. */
size_t list_room(size_t count);

/* INLAY_OUT_OF_MEMORY with "no memory PURPOSE" in diag (may be NULL):
 *     return no_memory(diag, "to read '%s'", path); */
INLAY_PRINTF(2, 3) inlay_status no_memory(inlay_diag *diag, const char *purpose, ...);

/* Does the message quote the system that descriptors are exhausted (EMFILE, ENFILE)? A text, because dlopen() reports
 * no number. ENOMEM is not one: dlopen() reports it for segments of damaged files that cannot be mapped, too. */
bool is_shortage(const char *message);
#endif
