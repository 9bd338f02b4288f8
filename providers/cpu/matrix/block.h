/* block.h - the inner loops of products: a block of sums stays in registers while elements of its rows meet the lines
 * of weights. Rows, vectors and `full` are constants where these are called, so that nothing of them is left at run
 * time. */
#ifndef CPU_BLOCK_H
#define CPU_BLOCK_H
#include "simd/vec.h"
#include <stdbool.h>

/* Where a block reads; it goes on as it reads. Rows are addressed in threes, which one instruction can state. */
enum { BLOCK_ROWS = 14, BLOCK_LINES = 64 / VEC_LANES, BLOCK_BASES = (BLOCK_ROWS + 2) / 3 };
typedef struct block_source {
    const float *a[BLOCK_BASES]; /* of rows 0, 3, 6, ...: the next element */
    int64_t a_row;
    const float *b; /* the next line of weights */
    int64_t b_step;
    vmask part; /* lanes of the last vector that are there, unless the block is full */
} block_source;

VEC_INLINE vec block_line(const block_source *source, const int v, const int vectors, const bool full, const float *b)
{
    return full || v + 1 < vectors ? vec_load(b + v * VEC_LANES) : vec_load_some(source->part, b + v * VEC_LANES);
}

/* sum[r * pitch + v] takes `count` elements more. Lines of the cache, so many for each element, are asked for `near`
 * floats before they are needed; none where weights are near. */
VEC_INLINE void block_sum(const int rows, const int vectors, const bool full, block_source *source, int64_t count,
                          const int lines, const int64_t near, vec *sum, const int pitch)
{
    const int64_t a_row = source->a_row, b_step = source->b_step;

    VEC_UNROLL_SOME
    for (int64_t i = 0; i < count; i++) {
        vec line[BLOCK_LINES];

        VEC_UNROLL
        for (int l = 0; l < lines; l++)
            vec_fetch_near(source->b + l * 16 + near);
        VEC_UNROLL
        for (int v = 0; v < vectors; v++)
            line[v] = block_line(source, v, vectors, full, source->b);
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
