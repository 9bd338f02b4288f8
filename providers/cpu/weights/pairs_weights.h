/* pairs_weights.h - packs of products in pairs (pairs.h) as constants of a region. */
#ifndef CPU_PAIRS_WEIGHTS_H
#define CPU_PAIRS_WEIGHTS_H
#include "region/build.h"
#include "matrix/pairs.h"

/* B [k, n] as it is packed: one axis of floats. */
void pairs_layout(int64_t k, int64_t n, memory_desc *md);
/* Is md that layout for weights that lie as `plain` says, [n, k] or [n, in, window..] (k: window by window, each with
 * all of `in`)? Then they are packed here. */
bool pairs_pack_weights(const cpu_state *state, const memory_desc *plain, const void *source, const memory_desc *md,
                        void *target);
#endif
