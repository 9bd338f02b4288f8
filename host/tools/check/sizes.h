/* check/sizes.h - cases of one operator at any size: one vector for elementwise operators, rows for those in sizes.def,
 * larger examples for a plugin's own operators. */
#ifndef CHECK_SIZES_H
#define CHECK_SIZES_H
#include "check/generate.h"

/* Kinds of operators. */
enum { SIZES_NONE, SIZES_ELEMENTWISE, SIZES_ROWS, SIZES_EXAMPLES };
uint32_t sizes_kind(const case_source *source);
/* Calls fn with the cases of size n; one in which the last axis has n elements. */
void sizes_generate(const case_source *source, int64_t n, uint64_t seed, case_fn fn, void *user);
#endif
