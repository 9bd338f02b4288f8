/* base/memory.h - lists from malloc that grow, and the one sentence of an allocation that failed. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H
#include "inlay/status.h"
#include <stdbool.h>

/* Room for `more` items behind the `count` of a list, which is NULL or has grown here before. Its room follows from
 * count (the power of two at or above it, at least 4), so nothing stores it, and n items cost less than 2 n copies.
 * false: no memory, or more than can be addressed; the list is as it was. */
bool list_reserve(void *list_address, size_t count, size_t more, size_t item_bytes);
#define LIST_GROW(list, count) list_reserve(&(list), count, 1, sizeof *(list))

/* The room of a list of `count` items, as above; SIZE_MAX when it cannot be addressed. */
size_t list_room(size_t count);

/* INLAY_OUT_OF_MEMORY with "no memory PURPOSE" in diag (may be NULL):
 *     return no_memory(diag, "to read '%s'", path); */
INLAY_PRINTF(2, 3) inlay_status no_memory(inlay_diag *diag, const char *purpose, ...);
#endif
