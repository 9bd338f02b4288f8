/* The kernels of sparse24.h for one instruction set. All loop bounds but the number of steps are constants, so that the
 * sums stay in registers. With few rows, each has several sums, which hides the latency of additions. */
#include "cpu/sparse/sparse24.h"
#include "simd/vec_words.h"

enum {
    PARTS = SPARSE_WIDTH / VEC_LANES,
    ROWS = VEC_FUSES ? 4 : 1,                 /* of the largest kernel; plain C has too few registers for more */
    SUMS = VEC_LANES == 16 ? 2 * ROWS : ROWS, /* of 16 columns, which stay in registers */
    CHAINS = 4                                /* most sums per row */
};

#if defined(KERNEL_IS_avx512)
typedef vec four;
VEC_INLINE four four_of(const float *p)
{
    return _mm512_broadcast_f32x4(_mm_loadu_ps(p));
}
/* Selects, for each word, one of four elements of `x` by the lowest two bits. */
VEC_INLINE vec pick(four x, vint places)
{
    return _mm512_permutevar_ps(x, (__m512i)places);
}
#elif defined(KERNEL_IS_avx2)
typedef vec four;
VEC_INLINE four four_of(const float *p)
{
    return _mm256_broadcast_ps((const void *)p);
}
VEC_INLINE vec pick(four x, vint places)
{
    return _mm256_permutevar_ps(x, (__m256i)places);
}
#elif defined(KERNEL_IS_neon)
typedef vec four;
VEC_INLINE four four_of(const float *p)
{
    return vec_load(p);
}
VEC_INLINE vec pick(four x, vint places)
{
    const vint bytes = (places & 3) * 0x04040404 + 0x03020100;

    return vreinterpretq_f32_u8(vqtbl1q_u8(vreinterpretq_u8_f32(x), (uint8x16_t)bytes));
}
#else
typedef const float *four;
VEC_INLINE four four_of(const float *p)
{
    return p;
}
VEC_INLINE vec pick(four x, vint places)
{
    const vint at = places & 3;

    vec v;

    VEC_UNROLL
    for (int l = 0; l < VEC_LANES; l++)
        v[l] = x[at[l]];
    return v;
}
#endif

VEC_INLINE void multiply(const int rows, const int chains, const sparse24_tile *tile)
{
    const float *a = tile->a, *b = tile->panel;
    vec sums[ROWS][CHAINS][PARTS];

    VEC_UNROLL
    for (int r = 0; r < rows; r++) {
        VEC_UNROLL
        for (int i = 0; i < chains * PARTS; i++)
            sums[r][i / PARTS][i % PARTS] = vec_zero();
    }
    for (int64_t s = 0; s < tile->steps; s++) {
        vint places[PARTS];

        VEC_UNROLL
        for (int v = 0; v < PARTS; v++)
            places[v] = vint_load(b + v * VEC_LANES);
        b += SPARSE_WIDTH;
        for (int pair = 0; pair < SPARSE24_GROUPS / 2; pair++) { /* two fours, whose sums are independent */
            VEC_UNROLL
            for (int i = 0; i < 4; i++) {
                VEC_UNROLL
                for (int v = 0; v < PARTS; v++) {
                    const vec values = vec_hold(vec_load(b + i * SPARSE_WIDTH + v * VEC_LANES));

                    VEC_UNROLL
                    for (int r = 0; r < rows; r++)
                        sums[r][i % chains][v] = vec_fma(pick(four_of(a + (i / 2 * rows + r) * SPARSE24_K), places[v]),
                                                         values, sums[r][i % chains][v]);
                    places[v] = places[v] >> 2;
                }
            }
            a += 2 * rows * SPARSE24_K;
            b += 4 * SPARSE_WIDTH;
        }
    }
    VEC_UNROLL
    for (int r = 0; r < rows; r++) {
        VEC_UNROLL
        for (int v = 0; v < PARTS; v++) {
            vec *of = sums[r][0] + v;

            VEC_UNROLL
            for (int i = 1; i < chains; i++)
                *of = vec_add(*of, sums[r][i][v]);
            if (r < tile->rows)
                vec_store_some(tile->c + r * tile->c_row + v * VEC_LANES,
                               vec_first((int64_t)tile->last - v * VEC_LANES), *of);
        }
    }
}

#define SIZE(rows)                                                                                                     \
    KERNEL_PART(void, fours_##rows, const sparse24_tile *t)                                                            \
    {                                                                                                                  \
        multiply(rows, SUMS / rows < CHAINS ? SUMS / rows : CHAINS, t);                                                \
    }
SIZE(1)
#if VEC_FUSES
SIZE(4)
#endif

const sparse24_set KERNEL(fours) = {
    ROWS,
    {
        KERNEL_PART_OF(fours_1),
#if VEC_FUSES
        KERNEL_PART_OF(fours_4),
#endif
    },
};
