/* check/fenced.h - memory between two forbidden pages. */
#ifndef CHECK_FENCED_H
#define CHECK_FENCED_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fenced {
    char *map; /* NULL: none */
    size_t map_bytes;
    char *data;
    size_t bytes;
    size_t slack; /* bytes of the pattern behind data */
};

/* bytes at a multiple of alignment, as near to the forbidden page as that allows; filled with fill. what is said when
 * the page is touched. False: no memory. */
bool fenced_alloc(size_t bytes, size_t alignment, uint8_t fill, const char *what, struct fenced *out);
/* Were the bytes before or behind written to? */
bool fenced_is_hurt(const struct fenced *fenced);
void fenced_protect(struct fenced *fenced, bool read_only);
void fenced_free(struct fenced *fenced);
#endif
