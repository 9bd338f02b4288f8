/* bf16.c - the microkernels of GEMM_BF16 for arm64 CPUs with BFMMLA: products of two rows by two columns, each of four
 * bfloat16. A panel has the dimensions [k / 4][line][4], so a register of A is a pair of rows and one of B a pair of
 * columns. BFMMLA rounds sums of two products to odd, and subnormal numbers to 0: the error of a sum is at most twice
 * that of float sums, far below the rounding of the result to bfloat16. */
#include "operators/gemm/set.h"
#include "simd/vec.h"

enum { MR = 8, LANES = VEC_LANES, STEP = 4, PAIR = 2 * STEP, BLOCK_BYTES = 1024 };

VEC_INLINE void multiply(const int rows, const int vectors, int64_t kc, const void *a, const void *b, int64_t b_stride,
                         float *c, int64_t c_stride, int64_t cols, bool add)
{
    const int pairs = (rows + 1) / 2;
    const bfloat16_t *row = a, *column = b;
    float32x4_t square[MR / 2][2 * 3];

    VEC_UNROLL
    for (int p = 0; p < pairs; p++) {
        VEC_UNROLL
        for (int v = 0; v < 2 * vectors; v++)
            square[p][v] = vdupq_n_f32(0);
    }
    for (int64_t k = 0; k < kc; k += STEP, row += STEP * MR, column += b_stride) {
        bfloat16x8_t x[MR / 2];

        VEC_UNROLL
        for (int p = 0; p < pairs; p++)
            x[p] = vld1q_bf16(row + PAIR * p);
        VEC_UNROLL
        for (int v = 0; v < 2 * vectors; v++) {
            const bfloat16x8_t y = vld1q_bf16(column + PAIR * v);

            VEC_UNROLL
            for (int p = 0; p < pairs; p++)
                square[p][v] = vbfmmlaq_f32(square[p][v], x[p], y);
        }
    }
    VEC_UNROLL
    for (int r = 0; r < rows; r++, c += c_stride) {
        VEC_UNROLL
        for (int v = 0; v < vectors; v++) {
            const float32x4_t first = square[r / 2][2 * v], second = square[r / 2][2 * v + 1];
            const vmask some = vec_first(cols - v * LANES);
            vec sum = r % 2 == 0 ? vcombine_f32(vget_low_f32(first), vget_low_f32(second))
                                 : vcombine_f32(vget_high_f32(first), vget_high_f32(second));

            if (v < vectors - 1 || cols == (int64_t)vectors * LANES) {
                sum = add ? vec_add(vec_load(c + v * LANES), sum) : sum;
                vec_store(c + v * LANES, sum);
            } else {
                sum = add ? vec_add(vec_load_some(some, c + v * LANES), sum) : sum;
                vec_store_some(c + v * LANES, some, sum);
            }
        }
    }
}

#define ROW(X, rows) X(rows, 1) X(rows, 2) X(rows, 3)
#define CELLS(X) ROW(X, 1) ROW(X, 2) ROW(X, 3) ROW(X, 4) ROW(X, 5) ROW(X, 6) ROW(X, 7) ROW(X, 8)
#define CELL(rows, vectors)                                                                                            \
    static void bf16_tile_##rows##_##vectors(int64_t kc, const void *a, const void *b, int64_t b_stride, void *c,      \
                                             int64_t c_stride, int64_t cols, bool add)                                 \
    {                                                                                                                  \
        multiply(rows, vectors, kc, a, b, b_stride, c, c_stride, cols, add);                                           \
    }
CELLS(CELL)
#undef CELL
#define CELL(rows, vectors) bf16_tile_##rows##_##vectors,
static const gemm_tile_fn tiles[] = { CELLS(CELL) };
#undef CELL

const gemm_kernel KERNEL(gemm_bf16) = {
    .isa = KERNEL_TEXT,
    .mr = MR,
    .nr = 3 * LANES,
    .lanes = LANES,
    .in_bytes = 2,
    .acc_bytes = 4,
    .k_step = STEP,
    .tile = tiles,
    .depth = BLOCK_BYTES / 2,
    .packs = GEMM_PACKS_A | GEMM_PACKS_B,
    .plan = gemm_blocks_plan,
    .pack_bytes = gemm_blocks_pack_bytes,
    .multiply = gemm_blocks_multiply,
    .price = gemm_blocks_price,
};
