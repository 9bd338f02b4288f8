/* few_rows.c - multiplications of few rows of floats and doubles, over the vectors of an instruction level. */
#include "operators/panels/set.h"
#include "simd/vec.h"

#if defined(KERNEL_IS_avx512)
#define VBYTES 64
#define MR 6 /* 24 sums, 4 vectors of W and one of X in 32 registers */
#define HOLDS_LINE
#elif defined(KERNEL_IS_rvv)
#define VBYTES 32
#define MR 6 /* as with AVX-512 */
#elif defined(KERNEL_IS_avx2) || defined(KERNEL_IS_uniform_c)
#define VBYTES 32
#define MR 3 /* 12 sums, a vector of W and one of X in 16 registers */
#if defined(KERNEL_IS_avx2)
#define HOLDS_LINE
#endif
#else
#define VBYTES 16
#define MR 3 /* as with AVX2 */
#endif

enum {
    VECTORS = 4, /* number of vectors that are summed together: a slice of a panel */
    BLOCK_VECTORS = PANEL_BLOCK_BYTES / VBYTES,
    SLICE_BLOCKS = VECTORS / BLOCK_VECTORS
};

/* GCC would load a vector of W again for each of two or three rows, which takes longer than the multiplications. */
#if defined(HOLDS_LINE)
#define HELD(type, v) ((type)vec_hold((vec)(v)))
#else
#define HELD(type, v) (v)
#endif

#define T float
#define NAME(name) f32_##name
#define PRODUCT KERNEL(panels_f32)
#include "operators/panels/kernel.inc"
#undef T
#undef NAME
#undef PRODUCT
#define T double
#define NAME(name) f64_##name
#define PRODUCT KERNEL(panels_f64)
#include "operators/panels/kernel.inc"
