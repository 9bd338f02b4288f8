/* The kernels of sparse.h for one instruction set. Loops over rows and vectors have constant bounds, so that the sums
 * stay in registers: 24 rows by one vector with 32 registers of 16 lanes, 6 rows by two vectors with 16 registers of 8
 * lanes. */
#include "cpu/sparse/sparse.h"
#include "inlay/check.h"
#include "simd/vec.h"

enum {
    PARTS = SPARSE_WIDTH / VEC_LANES,
    ROWS = VEC_REGISTERS >= 32 ? SPARSE_MOST_ROWS / PARTS : SPARSE_MOST_ROWS / 2 / PARTS,
    FEW = ROWS / 3 > 0 ? ROWS / 3 : 1,
    CHAINS = 4, /* independent sums of a single row, which hide the latency of additions */
    AHEAD = SPARSE_AHEAD,
    LINE = 16
};

VEC_INLINE void store(const sparse_tile *tile, const int64_t r, const vec *sums)
{
    float *c = tile->c + r * tile->c_row;

    VEC_UNROLL
    for (int v = 0; v < PARTS; v++)
        vec_store_some(c + v * VEC_LANES, vec_first((int64_t)tile->last - v * VEC_LANES), sums[v]);
}

VEC_INLINE void multiply(const int rows, const sparse_tile *tile)
{
    const float *blocks = tile->blocks;
    vec sums[ROWS][PARTS];

    INLAY_CHECK(tile->rows <= rows && tile->last >= 1 && tile->last <= SPARSE_WIDTH);
    VEC_UNROLL
    for (int r = 0; r < rows; r++) {
        VEC_UNROLL
        for (int v = 0; v < PARTS; v++)
            sums[r][v] = tile->add && r < tile->rows ? vec_load_some(vec_first((int64_t)tile->last - v * VEC_LANES),
                                                                     tile->c + r * tile->c_row + v * VEC_LANES)
                                                     : vec_zero();
    }
    for (int64_t i = 0; i < tile->count; i++, blocks += SPARSE_WIDTH) {
        const float *a = tile->a + (int64_t)tile->index[i] * ROWS;
        /* To prefetch: the hardware cannot predict this address. A prefetch accepts any address. */
        const float *next = tile->a + (int64_t)tile->index[i + AHEAD] * ROWS;
        vec b[PARTS];

        VEC_UNROLL
        for (int line = 0; line < rows; line += LINE)
            vec_fetch_near(next + line);
        VEC_UNROLL
        for (int v = 0; v < PARTS; v++)
            b[v] = vec_load(blocks + v * VEC_LANES);
        VEC_UNROLL
        for (int r = 0; r < rows; r++) {
            const vec x = vec_set(a[r]);

            VEC_UNROLL
            for (int v = 0; v < PARTS; v++)
                sums[r][v] = vec_fma(x, b[v], sums[r][v]);
        }
    }
    VEC_UNROLL
    for (int r = 0; r < rows; r++)
        if (r < tile->rows)
            store(tile, r, sums[r]);
}

KERNEL_PART(void, sparse_many, const sparse_tile *t)
{
    multiply(ROWS, t);
}

KERNEL_PART(void, sparse_some, const sparse_tile *t)
{
    multiply(FEW, t);
}

KERNEL_PART(void, sparse_one, const sparse_tile *t)
{
    vec sums[CHAINS][PARTS];
    int64_t i = 0;

    VEC_UNROLL
    for (int c = 0; c < CHAINS; c++) {
        VEC_UNROLL
        for (int v = 0; v < PARTS; v++)
            sums[c][v] = vec_zero();
    }
    for (; i + CHAINS <= t->count; i += CHAINS) {
        VEC_UNROLL
        for (int c = 0; c < CHAINS; c++) {
            VEC_UNROLL
            for (int v = 0; v < PARTS; v++)
                sums[c][v] = vec_fma(vec_set(t->a[t->index[i + c]]),
                                     vec_load(t->blocks + (i + c) * SPARSE_WIDTH + v * VEC_LANES), sums[c][v]);
        }
    }
    for (; i < t->count; i++) {
        VEC_UNROLL
        for (int v = 0; v < PARTS; v++)
            sums[0][v] =
                vec_fma(vec_set(t->a[t->index[i]]), vec_load(t->blocks + i * SPARSE_WIDTH + v * VEC_LANES), sums[0][v]);
    }
    VEC_UNROLL
    for (int v = 0; v < PARTS; v++)
        sums[0][v] = vec_add(vec_add(sums[0][v], sums[1][v]), vec_add(sums[2][v], sums[3][v]));
    store(t, 0, sums[0]);
}

static void all(const sparse_tile *tile)
{
    vec sums[PARTS];
    int64_t i = 0;

    VEC_UNROLL
    for (int v = 0; v < PARTS; v++)
        sums[v] = vec_zero();
    for (int64_t p = 0; p < tile->k; p++) {
        const bool there = i < tile->count && tile->index[i] == p;

        VEC_UNROLL
        for (int v = 0; v < PARTS; v++)
            sums[v] = vec_fma(vec_set(tile->a[p]),
                              there ? vec_load(tile->blocks + i * SPARSE_WIDTH + v * VEC_LANES) : vec_zero(), sums[v]);
        i += there;
    }
    store(tile, 0, sums);
}

/* Transposes squares of VEC_LANES elements in registers. Elements that are stored beyond the ROWS of one k are
 * overwritten by the next k. */
KERNEL_PART(bool, sparse_turn, const float *a, int64_t a_row, int64_t rows, int64_t k, float *out)
{
    enum { SQUARES = (ROWS + VEC_LANES - 1) / VEC_LANES };
    vec bad = vec_zero();

    INLAY_CHECK(rows <= ROWS);
    for (int64_t p = 0; p < k; p += VEC_LANES) {
        const vmask there = vec_first(k - p);
        vec square[SQUARES][VEC_LANES];

        for (int s = 0; s < SQUARES; s++) {
            for (int i = 0; i < VEC_LANES; i++) {
                const int64_t r = s * VEC_LANES + i;

                square[s][i] = r < rows ? vec_load_some(there, a + r * a_row + p) : vec_zero();
                bad = vec_fma(square[s][i], vec_zero(), bad); /* NaN after the first element that is not finite */
            }
            vec_transpose(square[s]);
        }
        for (int64_t i = 0; i < VEC_LANES && p + i < k; i++)
            for (int s = 0; s < SQUARES; s++)
                vec_store(out + (p + i) * ROWS + s * VEC_LANES, square[s][i]);
    }
    return vec_sum(bad) == 0;
}

const sparse_set KERNEL(sparse) = {
    ROWS,
    FEW,
    KERNEL_PART_OF(sparse_many),
    KERNEL_PART_OF(sparse_some),
    KERNEL_PART_OF(sparse_one),
    all,
    KERNEL_PART_OF(sparse_turn),
};
