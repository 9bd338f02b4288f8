/* Keys that the mask of ONNX's Attention hides, by -infinity or by the lowest float, take no part, whatever their
 * elements are: a past buffer may hold rows that nothing has written yet. The kernels add masks and multiply hidden
 * values by 0, which is right for finite elements. If the result is NaN, these functions compute it again without the
 * hidden elements. Finite elements give the same bits either way. */
#include "cpu/attention/attend.h"
#include "simd/optional.h"
#include <float.h>
#include <string.h>

OPTIONAL_BY_DATA("tile_1_", "cpu_attention"); /* only for results that are NaN */

bool attend_may_hide(const struct attend *attend)
{
    return attend->blank == SGEMM_BLANK_ZERO && (attend->mask.there || (attend->causal && !attend->mask_is_causal));
}

static int64_t value_row_bytes(const struct attend *attend)
{
    return attend->values_coded.loops != NULL ? cache_row_bytes(&attend->values_coded.rows.format)
                                              : SGEMM_LANES * (int64_t)sizeof(float);
}

int64_t attend_hidden_floats(const struct attend *attend)
{
    return attend_may_hide(attend) ? (attend->keys * value_row_bytes(attend) + 3) / (int64_t)sizeof(float) : 0;
}

static bool is_hidden(const struct call *call, int64_t batch, int64_t head, int64_t query, int64_t key)
{
    const struct attend *attend = call->attend;

    return (attend->causal && !attend->mask_is_causal && key > query) ||
           (attend->mask.there &&
            call->mask[cpu_mask_at(&attend->mask, batch, head, query) + key * attend->mask.step] <= -FLT_MAX);
}

bool attend_has_nan(const float *rows, int64_t row, int64_t count, int64_t size)
{
    bool found = false;

    for (int64_t r = 0; r < count; r++)
        for (int64_t i = 0; i < size; i++)
            found |= rows[r * row + i] != rows[r * row + i];
    return found;
}

void attend_clear_hidden(const struct call *call, int64_t batch, int64_t head, int64_t query, int64_t visible,
                         float *scores)
{
    for (int64_t t = 0; t < visible; t++)
        if (is_hidden(call, batch, head, query, t))
            scores[t] = 0;
}

void attend_visible_values(const struct call *call, int64_t batch, int64_t head, int64_t query, const sgemm_job *values,
                           float *room)
{
    sgemm_job job = *values;

    job.m = 1;
    job.b = room;
    job.b_step = SGEMM_LANES;
    for (int64_t c = 0; c < values->n; c += SGEMM_LANES) {
        job.n = values->n - c < SGEMM_LANES ? values->n - c : SGEMM_LANES;
        job.c = values->c + c;
        for (int64_t t = 0; t < job.k; t++) {
            float *to = room + t * SGEMM_LANES;

            if (is_hidden(call, batch, head, query, t))
                memset(to, 0, (size_t)job.n * sizeof *to);
            else
                memcpy(to, values->b + t * values->b_step + c, (size_t)job.n * sizeof *to);
        }
        sgemm_run(&job, 0, sgemm_units(&job));
    }
}

cache_rows attend_visible_codes(const struct call *call, int64_t batch, int64_t head, int64_t query, int64_t visible,
                                const cache_rows *codes, float *room)
{
    const int64_t bytes = cache_row_bytes(&codes->format);
    uint8_t *to = (uint8_t *)room;
    cache_rows copy = *codes;

    copy.data = to;
    copy.stride = bytes;
    for (int64_t t = 0; t < visible; t++, to += bytes) {
        memcpy(to, codes->data + t * codes->stride, (size_t)bytes);
        if (is_hidden(call, batch, head, query, t)) /* a scale of 0 */
            memset(to + cache_code_bytes(&codes->format), 0, (size_t)(bytes - cache_code_bytes(&codes->format)));
    }
    return copy;
}
