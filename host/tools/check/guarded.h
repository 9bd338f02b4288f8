/* check/guarded.h - memory between two forbidden pages. */
#ifndef CHECK_GUARDED_H
#define CHECK_GUARDED_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct guarded {
    char *map; /* NULL: none */
    size_t map_bytes;
    char *data;
    size_t bytes;
    size_t slack; /* bytes of the pattern behind data */
};

/* bytes at a multiple of alignment, as near to the forbidden page as that allows; filled with fill. what is said when
 * the page is touched. False: no memory. */
bool guarded_alloc(size_t bytes, size_t alignment, uint8_t fill, const char *what, struct guarded *out);
/* Were the bytes before or behind written to? */
bool guarded_is_damaged(const struct guarded *guarded);
void guarded_protect(struct guarded *guarded, bool read_only);
void guarded_free(struct guarded *guarded);
#endif
