/* base/nearest.h - "did you mean": the known name nearest to an unknown one. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H
#include <stdint.h>

/* The i-th of the known names. */
typedef const char *(*nearest_name_fn)(const void *ctx, uint32_t i);

/* The edit distance of two names (insert, delete, replace, swap of neighbours; '-' equals '_', case is ignored);
 * UINT32_MAX: a name is too long. */
uint32_t nearest_edits(const char *a, const char *b);

/* Returns the known name with the smallest edit distance from wanted, if the distance is at most a third of that name's
 * length, rounded up; otherwise NULL. */
const char *nearest_name(const char *wanted, nearest_name_fn name_at, const void *ctx, uint32_t count);

/* Writes the end of an error message to out: "; did you mean 'NAME'?" with the nearest name, or else `otherwise`, such
 * as "; inlay --help lists the verbs". */
enum { NEAREST_HINT_BYTES = 128 };
void nearest_hint(char out[NEAREST_HINT_BYTES], const char *otherwise, const char *wanted, nearest_name_fn name_at,
                  const void *ctx, uint32_t count);
#endif
