/* pairs_weights.h - packs of products in pairs (pairs.h) as constants of a region. */
#ifndef CPU_PAIRS_WEIGHTS_H
#define CPU_PAIRS_WEIGHTS_H
#include "region/build.h"
#include "matrix/pairs.h"

/* B [k, n] as it is packed: one axis of floats. */
void pairs_layout(int64_t k, int64_t n, rg_md *md);
/* Is md that layout for weights that lie as `plain` says, [n, k] or [n, in, window..] (k: window by window, each with
 * all of `in`)? Then they are packed here. */
bool pairs_pack_weights(const rg_state *state, const rg_md *plain, const void *source, const rg_md *md, void *target);
#endif
