#include "quantize/refine.h"
#include "inlay/check.h"
#include "quantize/loops.h"
#include <math.h>
#include <string.h>

enum { PASSES = 3 }; /* of coordinate descent over all blocks */

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
typedef struct row_group {
    const weight_rows *rows;
    const weight_inputs *in;
    int64_t first, count;
    uint8_t *codes;
    float *scales;
    const uint8_t *zeros;
    float *errors, *gradients, *changes;
} row_group;

static int64_t natural_index(const weight_inputs *in, int64_t p)
{
    return in->order != NULL ? in->order[p] : p;
}

static void compute_errors(const row_group *group)
{
    const weight_rows *rows = group->rows;

    for (int64_t i = 0; i < group->count; i++)
        for (int64_t p = 0; p < rows->depth; p++) {
            const int64_t r = group->first + i, k = natural_index(group->in, p),
                          b = r * weight_blocks(rows) + k / rows->block;

            group->errors[i * rows->depth + p] =
                (float)(group->codes[r * rows->depth + k] - group->zeros[b]) * group->scales[b] -
                rows->weights[r * rows->row_step + k * rows->step];
        }
}

static void compute_gradients(const row_group *group, const float *moments)
{
    const int64_t n = group->rows->depth;

    compute_errors(group);
    memset(group->gradients, 0, (size_t)(group->count * n) * sizeof *group->gradients);
    blockmul_add(&(struct blockmul){ .c = group->gradients,
                                     .a = group->errors,
                                     .b = moments,
                                     .rows = group->count,
                                     .columns = n,
                                     .depth = n,
                                     .c_row = n,
                                     .a_row = n,
                                     .a_step = 1,
                                     .b_row = n,
                                     .factor = 1 });
}

static void refine_row(const row_group *group, const float *moments, int64_t i, int64_t from, int64_t to)
{
    const weight_rows *rows = group->rows;
    const int64_t r = group->first + i, b = r * weight_blocks(rows) + natural_index(group->in, from) / rows->block;
    struct refinement one = { .n = (int)(to - from),
                              .moments = moments + from * rows->depth + from,
                              .row = rows->depth,
                              .low = (float)-group->zeros[b],
                              .high = (float)(WEIGHTS_MOST_CODE - group->zeros[b]),
                              .step = group->scales[b],
                              .change = group->changes + i * rows->block,
                              .halves = rows->halves };

    for (int k = 0; k < one.n; k++) {
        one.codes[k] = (float)(group->codes[r * rows->depth + natural_index(group->in, from + k)] - group->zeros[b]);
        one.gradient[k] = group->gradients[i * rows->depth + from + k];
        one.change[k] = 0;
    }
    KERNEL_BEST(quantize_loops)->refine(&one);
    group->scales[b] = one.step;
    for (int k = 0; k < one.n; k++)
        group->codes[r * rows->depth + natural_index(group->in, from + k)] =
            (uint8_t)((int)one.codes[k] + group->zeros[b]);
}

double refine_nibbles(const weight_rows *rows, const weight_inputs *in, const float *moments, int64_t first,
                      int64_t count, uint8_t *codes, float *scales, const uint8_t *zeros, float *scratch)
{
    const int64_t n = rows->depth;
    const row_group group = { rows,
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
    compute_gradients(&group, moments);
    for (int pass = 0; pass < PASSES; pass++)
        for (int64_t from = 0; from < n; from += rows->block) {
            const int64_t to = from + rows->block < n ? from + rows->block : n;

            for (int64_t i = 0; i < count; i++)
                refine_row(&group, moments, i, from, to);
            blockmul_add(&(struct blockmul){ .c = group.gradients,
                                             .a = group.changes,
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
    compute_errors(&group);
    for (int64_t i = 0; i < count * n; i++)
        loss += (double)group.errors[i] * (double)group.gradients[i];
    return loss;
}
