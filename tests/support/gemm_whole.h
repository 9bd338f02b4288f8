/* gemm_whole.h - prepacks a whole operand of a matrix multiplication, as for constants. */
#ifndef GEMM_WHOLE_H
#define GEMM_WHOLE_H
#include "operators/gemm.h"

/* width is kernel->mr for A and kernel->nr for B; out has gemm_packed_bytes(). */
static inline void gemm_pack_whole(const gemm_kernel *kernel, uint32_t width, const gemm_operand *source, int64_t lines,
                                   int64_t k, void *out)
{
    const int64_t depth = gemm_depth(kernel, k);
    char *to = out;

    for (int64_t k0 = 0; k0 < k; k0 += depth) {
        const int64_t k1 = gemm_min(k0 + depth, k);

        source->pack(source, 0, 0, lines, k0, k1, width, to);
        to += gemm_round_up(lines, width) * gemm_round_up(k1 - k0, kernel->k_step) * kernel->in_bytes;
    }
}
#endif
