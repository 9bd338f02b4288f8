/* pairs_weights.h - packed weights for Winograd's inner product (pairs.h). */
#ifndef CPU_PAIRS_WEIGHTS_H
#define CPU_PAIRS_WEIGHTS_H
#include "region/build.h"
#include "matrix/pairs.h"

/* The layout of packed B [k, n]: one axis of floats. */
void pairs_layout(int64_t k, int64_t n, memory_desc *md);
/* A packer (packs.h). plain: [n, k] or [n, in, window..]; k runs over the window's taps, and over `in` within a tap. */
bool pairs_pack_weights(const cpu_state *state, const memory_desc *plain, const void *source, const memory_desc *md,
                        void *target);
#endif
