/* block.h - the inner loop of a GEMM: a register-blocked tile of sums is updated with rows of A and vectors of B. The
 * counts of rows and vectors, and `full`, are constants at each call, so that the compiler unrolls everything. */
#ifndef CPU_BLOCK_H
#define CPU_BLOCK_H
#include "inlay/check.h"
#include "simd/vec.h"
#include <stdbool.h>

/* The read position of a block; it advances as the block reads. One base address serves three rows, because one x86
 * instruction can address three: base, base + index and base + 2 * index. */
enum { BLOCK_ROWS = 14, BLOCK_LINES = 64 / VEC_LANES, BLOCK_BASES = (BLOCK_ROWS + 2) / 3 };
typedef struct block_source {
    const float *a[BLOCK_BASES]; /* base addresses of rows 0, 3, 6, ...: the next element */
    int64_t a_row;
    const float *b; /* the next row of weights */
    int64_t b_step;
    vmask part; /* valid lanes of the last vector, unless the block is full */
} block_source;

VEC_INLINE vec block_line(const block_source *source, const int v, const int vectors, const bool full, const float *b)
{
    return full || v + 1 < vectors ? vec_load(b + v * VEC_LANES) : vec_load_some(source->part, b + v * VEC_LANES);
}

/* block_sum() for one row whose sums take all registers. Each vector of weights is loaded where it is used, and the
 * loop is not unrolled: in an unrolled loop Clang alternates between several rows of the weights, which takes twice as
 * long if they are not in a cache. */
VEC_INLINE void block_row(const int vectors, const bool full, block_source *source, int64_t count, const int lines,
                          const int64_t near, vec *sum)
{
    for (int64_t i = 0; i < count; i++) {
        const vec x = vec_set(*source->a[0]++);

        VEC_UNROLL
        for (int l = 0; l < lines; l++)
            vec_fetch_near(source->b + l * 16 + near);
        VEC_UNROLL
        for (int v = 0; v < vectors; v++)
            sum[v] = vec_fma(x, block_line(source, v, vectors, full, source->b), sum[v]);
        source->b += source->b_step;
    }
}

/* Adds `count` further elements of k to sum[r * pitch + v]. For each element, `lines` cache lines of weights are
 * prefetched `near` floats ahead; 0 lines if the weights are in a near cache. */
VEC_INLINE void block_sum(const int rows, const int vectors, const bool full, block_source *source, int64_t count,
                          const int lines, const int64_t near, vec *sum, const int pitch)
{
    const int64_t a_row = source->a_row, b_step = source->b_step;

    INLAY_CHECK(rows > 0 && rows <= BLOCK_ROWS && vectors > 0 && vectors <= BLOCK_LINES);
    if (rows == 1 && vectors >= VEC_REGISTERS) {
        block_row(vectors, full, source, count, lines, near, sum);
        return;
    }
    VEC_UNROLL_SOME
    for (int64_t i = 0; i < count; i++) {
        vec line[BLOCK_LINES];

        VEC_UNROLL
        for (int l = 0; l < lines; l++)
            vec_fetch_near(source->b + l * 16 + near);
        VEC_UNROLL
        for (int v = 0; v < vectors; v++) {
            line[v] = block_line(source, v, vectors, full, source->b);
            if (rows > 1 && rows <= 3) /* GCC would load it again for each row, which takes longer than the sums */
                line[v] = vec_hold(line[v]);
        }
        VEC_UNROLL
        for (int r = 0; r < rows; r++) {
            const vec x = vec_set(source->a[r / 3][r % 3 * a_row]);

            VEC_UNROLL
            for (int v = 0; v < vectors; v++)
                sum[r * pitch + v] = vec_fma(x, line[v], sum[r * pitch + v]);
        }
        source->b += b_step;
        VEC_UNROLL
        for (int j = 0; 3 * j < rows; j++)
            source->a[j]++;
    }
}
#endif
