/* check/shown.h - the arguments of a call of the plugin, copied to memory that becomes inaccessible when the call has
 * returned: they are borrowed for the call. Arrays get a longer stride, as from a later host. */
#ifndef CHECK_SHOWN_H
#define CHECK_SHOWN_H
#include "check/guarded.h"

enum { SHOWN_LATER = 32 }; /* bytes that a later host appends to an element */

struct shown {
    struct guarded memory;
    size_t used;
};

/* Bytes that shown_put() takes. */
size_t shown_bytes(size_t element_bytes, uint32_t count, size_t later);
/* Reserves the sum of shown_bytes(). False: no memory. */
bool shown_open(size_t bytes, struct shown *out);
/* Copies an array, appending `later` bytes of a pattern to each element. data may be NULL: zeroes. */
void *shown_put(struct shown *shown, const void *data, size_t element_bytes, uint32_t count, size_t later);
/* Were the bytes after the elements of an array overwritten? Arguments as of shown_put(). */
bool shown_is_damaged(const void *array, size_t element_bytes, uint32_t count, size_t later);
/* Forbids further accesses. description appears in the report of a crash. */
void shown_hide(struct shown *shown, const char *description);
void shown_close(struct shown *shown); /* a no-op on a zeroed struct */
#endif
