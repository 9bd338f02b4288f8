/* check/guarded.h - memory between inaccessible pages (guard pages). */
#ifndef CHECK_GUARDED_H
#define CHECK_GUARDED_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct guarded_pool; /* mappings that are used again */

struct guarded {
    char *map; /* NULL: none */
    size_t map_bytes;
    char *data;
    size_t bytes;
    size_t slack;              /* bytes of a pattern between the data and the guard page */
    bool hidden;               /* inaccessible */
    struct guarded_pool *pool; /* that the mapping returns to; NULL: it is unmapped */
};

/* Allocates `bytes` bytes and sets them to fill. Their address is the multiple of alignment (a power of two) nearest to
 * the guard page that follows. description appears in the crash report if the page is accessed. False: no memory. */
bool guarded_alloc(size_t bytes, size_t alignment, uint8_t fill, const char *description, struct guarded *out);
/* The same at an odd multiple of alignment. */
bool guarded_alloc_exact(size_t bytes, size_t alignment, uint8_t fill, const char *description, struct guarded *out);
/* Were the bytes before or after the data overwritten? */
bool guarded_is_damaged(const struct guarded *guarded);
void guarded_protect(struct guarded *guarded, bool read_only);
/* Forbids every access. description appears in the crash report. */
void guarded_hide(struct guarded *guarded, const char *description);
void guarded_free(struct guarded *guarded);
#endif
