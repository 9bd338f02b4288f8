#include "cpu/recurrent/projection.h"
#include "inlay/check.h"
#include "simd/optional.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Programs of `inlay bundle` omit this. */
OPTIONAL_WITH(projection_pack, "cpu_product cpu_conv");

enum {
    CHUNK = 96,          /* rows that the float kernel multiplies at once (recurrent.c) */
    NEAR_BYTES = 1 << 20 /* results beyond this size are written to memory, and read again */
};
#define FAR_BYTES_PER_NS 10.0

double projection_saves_ns(const struct panels *weights, int64_t rows, bool strict, double tile_pace)
{
    const double bytes = (double)rows * (double)weights->stored * sizeof(float);
    const panels_rates rates = PANELS_REFERENCE; /* of the core that terms_ns() refers to */
    const double floats = panels_ns(weights, rows < CHUNK ? rows : CHUNK, weights->bytes, &rates) *
                          (rows < CHUNK ? 1 : (double)rows / CHUNK);

    return floats - terms_ns(rows, weights->stored, weights->depth, TERMS, strict, tile_pace) -
           (bytes > NEAR_BYTES ? 2 * bytes / FAR_BYTES_PER_NS : 0);
}

static int64_t pack_floats(const struct panels *weights)
{
    return (terms_pack_floats(weights->depth, weights->stored, TERMS) + 15) / 16 * 16;
}

/* Panels as rows of all stored columns, one for each k. */
static void unpack(const struct panels *weights, const float *from, float *out)
{
    const int64_t lanes = PANEL_BLOCK_BYTES / sizeof *out;

    for (int64_t b0 = 0, blocks; b0 < weights->blocks; b0 += blocks) {
        blocks = weights->blocks - b0 < weights->width ? weights->blocks - b0 : weights->width;
        for (int64_t k = 0; k < weights->depth; k++)
            memcpy(out + k * weights->stored + b0 * lanes, from + (b0 * weights->depth + k * blocks) * lanes,
                   (size_t)(blocks * lanes) * sizeof *out);
    }
}

float *projection_pack(const struct panels *weights, const recurrent_weights *from, int64_t directions)
{
    const int64_t floats = pack_floats(weights);
    float *lines = malloc((size_t)(weights->depth * weights->stored) * sizeof *lines),
          *out = aligned_alloc(64, (size_t)(directions * floats) * sizeof *out);
    const terms_matrix matrix = { .data = lines,
                                  .k = weights->depth,
                                  .n = weights->stored,
                                  .n_step = 1,
                                  .inner = weights->depth,
                                  .inner_step = weights->stored,
                                  .columns = 1 };

    for (int64_t d = 0; d < directions && lines != NULL && out != NULL; d++) {
        unpack(weights, from[d].weights, lines);
        terms_pack(&matrix, TERMS, 0, terms_panels(matrix.n), out + d * floats);
    }
    if (lines == NULL) {
        free(out);
        out = NULL;
    }
    free(lines);
    return out;
}

void projection_job(const sgemm_kernel *kernel, const recurrent_state *state, const recurrent_plan *plan,
                    const float *packed, int64_t d, bool strict, uint32_t threads, sgemm_job *job)
{
    const struct panels *weights = &plan->weights.panels;

    INLAY_CHECK(!state->wide && d < plan->directions && plan->steps > 0 && plan->batch > 0);
    *job = (sgemm_job){ .kernel = kernel,
                        .m = plan->steps * plan->batch,
                        .n = weights->stored,
                        .k = weights->depth,
                        .chain = sgemm_chain(weights->depth, strict),
                        .a_row = weights->depth,
                        .b = packed + d * pack_floats(weights),
                        .b_terms = TERMS,
                        .bias = state->constant[d].bias,
                        .c_row = weights->stored };
    terms_share(job, threads);
}
