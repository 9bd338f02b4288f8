/* base/nearest.h - "did you mean": the known name nearest to an unknown one. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H
#include <stdbool.h>
#include <stdint.h>

/* The i-th of the known names. */
typedef const char *(*nearest_name_fn)(const void *ctx, uint32_t i);

/* Returns the known name with the smallest edit distance from wanted (insert, delete, replace, swap of neighbours; '-'
 * equals '_', case is ignored), if the distance is at most a third of that name's length, rounded up; otherwise
 * NULL. */
const char *nearest_name(const char *wanted, nearest_name_fn name_at, const void *ctx, uint32_t count);

/* Writes the end of an error message to out: "; did you mean 'NAME'?" with the nearest name, or else `otherwise`, such
 * as "; inlay --help lists the verbs". */
enum { NEAREST_HINT_BYTES = 128 };
void nearest_hint(char out[NEAREST_HINT_BYTES], const char *otherwise, const char *wanted, nearest_name_fn name_at,
                  const void *ctx, uint32_t count);

/* Whether an entry of the environment, "INLAY_<NAME>=VALUE", is one edit from a known name; then a warning is written
 * to out. Other names with the prefix belong to other programs. */
enum { NEAREST_SLIP_BYTES = 256 };
bool nearest_slip(char out[NEAREST_SLIP_BYTES], const char *entry, nearest_name_fn name_at, const void *ctx,
                  uint32_t count);
#endif
