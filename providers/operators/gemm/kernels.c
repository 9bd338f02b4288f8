/* kernels.c - the microkernels of all types, for each instruction level. GEMM_CELLS(X) lists rows 1..MR with 1 to 3
 * vectors. */
#include "operators/gemm/set.h"
#include "simd/vec.h"

#define ISA KERNEL_TEXT
#if defined(KERNEL_IS_avx512)
#define VBYTES 64
#define MR 8 /* 24 sums, 3 lines of B and one element of A in 32 registers */
#define MADD(pair, line) ((s16_vec)_mm512_madd_epi16((__m512i)(pair), (__m512i)(line)))
#elif defined(KERNEL_IS_avx2)
#define VBYTES 32
#define MR 4 /* 12 sums, 3 lines of B and one element of A in 16 registers */
#define MADD(pair, line) ((s16_vec)_mm256_madd_epi16((__m256i)(pair), (__m256i)(line)))
#elif defined(KERNEL_IS_rvv)
#define VBYTES 32
#define MR 8 /* 24 sums, 3 lines of B and one element of A in 32 registers */
#elif defined(KERNEL_IS_uniform_c) /* as AVX2 */
#define VBYTES 32
#define MR 4
#elif defined(KERNEL_IS_c) /* on every CPU, since the choice of an algorithm depends on it */
#define VBYTES 16
#define MR 4 /* 12 sums, as with AVX2 */
#if defined(__x86_64__)
#include <emmintrin.h>
#define MADD(pair, line) ((s16_vec)_mm_madd_epi16((__m128i)(pair), (__m128i)(line)))
#endif
#else
#define VBYTES 16
#define MR 8
#endif
#if !defined(MADD)
/* The 16-bit halves of each 32-bit lane. Their order is irrelevant, since both sides are packed alike. */
typedef int32_t lanes __attribute__((vector_size(VBYTES)));
#define LOW(x) ((lanes)((x) << 16) >> 16)
#define HIGH(x) ((lanes)(x) >> 16)
#define MADD(pair, line) ((s16_vec)(LOW(pair) * LOW(line) + HIGH(pair) * HIGH(line)))
#endif

enum { DEPTH_BYTES = 1024 }; /* bytes of one line in a block: a panel of B then fits into the first-level cache */

/* GEMM_PART() marks a tile function as optional in programs of `inlay bundle`. Only the table refers to it. */
#define GEMM_PART_NAME(name) KERNEL_PART_OF(name)
#define GEMM_PART_OF(name) GEMM_PART_NAME(name)
#define GEMM_PART(name, ...) KERNEL_PART(void, NAME(name), __VA_ARGS__)

#define GEMM_ROW(X, r) X(r, 1) X(r, 2) X(r, 3)
#if MR == 8
#define GEMM_CELLS(X)                                                                                                  \
    GEMM_ROW(X, 1)                                                                                                     \
    GEMM_ROW(X, 2) GEMM_ROW(X, 3) GEMM_ROW(X, 4) GEMM_ROW(X, 5) GEMM_ROW(X, 6) GEMM_ROW(X, 7) GEMM_ROW(X, 8)
#else
#define GEMM_CELLS(X) GEMM_ROW(X, 1) GEMM_ROW(X, 2) GEMM_ROW(X, 3) GEMM_ROW(X, 4)
#endif

#define T float
#define NAME(name) f32_##name
#include "operators/gemm/kernel.inc"
#undef T
#undef NAME
#define T double
#define NAME(name) f64_##name
#include "operators/gemm/kernel.inc"
#undef T
#undef NAME
#define T uint32_t
#define NAME(name) u32_##name
#include "operators/gemm/kernel.inc"
#undef T
#undef NAME
#define T uint64_t
#define NAME(name) u64_##name
#include "operators/gemm/kernel.inc"
#undef T
#undef NAME
#define NAME(name) s16_##name
#include "operators/gemm/kernel_s16.inc"
#undef NAME

const gemm_kernel *const KERNEL(gemm_set)[GEMM_TYPE_COUNT] = {
    [GEMM_F32] = &f32_kernel, [GEMM_F64] = &f64_kernel, [GEMM_U32] = &u32_kernel,
    [GEMM_U64] = &u64_kernel, [GEMM_S16] = &s16_kernel,
};
