#include "quantize/refine.h"
#include "inlay/check.h"
#include "quantize/loops.h"
#include <math.h>
#include <string.h>

enum { PASSES = 3 };

void refine_moments(const weight_inputs *in, int64_t depth, float *out)
{
    double mean = 0;

    for (int64_t i = 0; i < depth; i++)
        mean += (double)in->importance[i] / (double)depth;
    for (int64_t i = 0; i < depth; i++) {
        for (int64_t k = 0; k < i; k++)
            out[i * depth + k] = out[k * depth + i] = in->factor[i * depth + k];
        out[i * depth + i] = in->importance[in->order != NULL ? in->order[i] : i] + (float)(WEIGHTS_DAMP * mean);
    }
}

/* A group of rows with their weight errors, [count, depth] in the order of rounding, and the products of these with the
 * moments. */
typedef struct side_by_side {
    const weight_rows *rows;
    const weight_inputs *in;
    int64_t first, count;
    uint8_t *codes;
    float *scales;
    const uint8_t *zeros;
    float *off, *slopes, *changes;
} side_by_side;

static int64_t place(const weight_inputs *in, int64_t p)
{
    return in->order != NULL ? in->order[p] : p;
}

static void find_off(const side_by_side *side)
{
    const weight_rows *rows = side->rows;

    for (int64_t i = 0; i < side->count; i++)
        for (int64_t p = 0; p < rows->depth; p++) {
            const int64_t r = side->first + i, k = place(side->in, p), b = r * weight_blocks(rows) + k / rows->block;

            side->off[i * rows->depth + p] =
                (float)(side->codes[r * rows->depth + k] - side->zeros[b]) * side->scales[b] -
                rows->weights[r * rows->row_step + k * rows->step];
        }
}

static void find_slopes(const side_by_side *side, const float *moments)
{
    const int64_t n = side->rows->depth;

    find_off(side);
    memset(side->slopes, 0, (size_t)(side->count * n) * sizeof *side->slopes);
    blockmul_add(&(struct blockmul){ .c = side->slopes,
                                     .a = side->off,
                                     .b = moments,
                                     .rows = side->count,
                                     .columns = n,
                                     .depth = n,
                                     .c_row = n,
                                     .a_row = n,
                                     .a_step = 1,
                                     .b_row = n,
                                     .factor = 1 });
}

static void settle_row(const side_by_side *side, const float *moments, int64_t i, int64_t from, int64_t to)
{
    const weight_rows *rows = side->rows;
    const int64_t r = side->first + i, b = r * weight_blocks(rows) + place(side->in, from) / rows->block;
    struct settling one = { .n = (int)(to - from),
                            .moments = moments + from * rows->depth + from,
                            .row = rows->depth,
                            .low = (float)-side->zeros[b],
                            .high = (float)(WEIGHTS_MOST_CODE - side->zeros[b]),
                            .step = side->scales[b],
                            .change = side->changes + i * rows->block,
                            .halves = rows->halves };

    for (int k = 0; k < one.n; k++) {
        one.codes[k] = (float)(side->codes[r * rows->depth + place(side->in, from + k)] - side->zeros[b]);
        one.slope[k] = side->slopes[i * rows->depth + from + k];
        one.change[k] = 0;
    }
    KERNEL_BEST(quantize_loops)->settle(&one);
    side->scales[b] = one.step;
    for (int k = 0; k < one.n; k++)
        side->codes[r * rows->depth + place(side->in, from + k)] = (uint8_t)((int)one.codes[k] + side->zeros[b]);
}

double refine_nibbles(const weight_rows *rows, const weight_inputs *in, const float *moments, int64_t first,
                      int64_t count, uint8_t *codes, float *scales, const uint8_t *zeros, float *scratch)
{
    const int64_t n = rows->depth;
    const side_by_side side = { rows,
                                in,
                                first,
                                count,
                                codes,
                                scales,
                                zeros,
                                scratch,
                                scratch + WEIGHTS_TOGETHER * n,
                                scratch + 2 * WEIGHTS_TOGETHER * n };
    double loss = 0;

    INLAY_CHECK(in->factor != NULL && count <= WEIGHTS_TOGETHER && first + count <= rows->rows);
    find_slopes(&side, moments);
    for (int pass = 0; pass < PASSES; pass++)
        for (int64_t from = 0; from < n; from += rows->block) {
            const int64_t to = from + rows->block < n ? from + rows->block : n;

            for (int64_t i = 0; i < count; i++)
                settle_row(&side, moments, i, from, to);
            blockmul_add(&(struct blockmul){ .c = side.slopes,
                                             .a = side.changes,
                                             .b = moments + from * n,
                                             .rows = count,
                                             .columns = n,
                                             .depth = to - from,
                                             .c_row = n,
                                             .a_row = rows->block,
                                             .a_step = 1,
                                             .b_row = n,
                                             .factor = 1 });
        }
    find_off(&side);
    for (int64_t i = 0; i < count * n; i++)
        loss += (double)side.off[i] * (double)side.slopes[i];
    return loss;
}
