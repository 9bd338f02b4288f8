/* base/nearest.h - "did you mean": the known name nearest to one that is not. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H
#include <stdint.h>

/* The i-th of the known names. */
typedef const char *(*nearest_name_fn)(const void *ctx, uint32_t i);

/* The known name with the fewest edits from wanted (insert, delete, replace, swap of neighbours; '-' equals '_', case
 * is ignored), if that is at most a third of its length, rounded up; NULL if none is. */
const char *nearest_name(const char *wanted, nearest_name_fn name_at, const void *ctx, uint32_t count);
#endif
