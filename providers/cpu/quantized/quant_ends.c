/* How sums of bytes end (bytes.h): what a scale, a bias, zero points and bounds come to for each channel. */
#include "quantized/bytes.h"
#include "quantized/quant.h"

enum { W_SCALE = 4, BIAS = 8 };

inlay_status bytes_ends_of(rg_build *b, const bytes_case *c, bytes_ends *out)
{
    const rg_op *op = b->op;
    const bool biased = op->in_count > BIAS && op->in[BIAS] != INLAY_NONE;

    *out = (bytes_ends){ .kind = c->kind, .x_zero = (uint32_t)c->x_zero };
    if (c->kind == BYTE_FLOATS) {
        out->scale = c->scale;
        out->shift = c->shift;
    }
    if (c->kind != BYTE_BYTES)
        return INLAY_OK;
    out->scales = q_constant(b, op->in[W_SCALE]);
    out->biases = biased ? q_constant(b, op->in[BIAS]) : NULL;
    out->scale_step = rg_count(b, op->in[W_SCALE]) > 1 ? (int64_t)sizeof(float) : 0;
    out->factor = (double)op->quantized.scale / (double)op->alpha;
    if (out->scales == NULL || (biased && out->biases == NULL))
        return inlay_fail(b->diag, INLAY_INTERNAL, "node '%s': its scales or its bias have gone", op->name);
    return INLAY_OK;
}

void bytes_end_channel(const bytes_ends *e, int64_t channel, int32_t sum, int32_t *out_first, float *out_scale,
                       float *out_shift)
{
    int32_t bias = 0;
    float w = 1;

    if (e->scales != NULL)
        memcpy(&w, e->scales + channel * e->scale_step, sizeof w);
    if (e->biases != NULL)
        memcpy(&bias, e->biases + channel * (int64_t)sizeof bias, sizeof bias);
    *out_scale = e->kind == BYTE_BYTES ? (float)(e->factor * (double)w) : e->scale != NULL ? e->scale[channel] : 1;
    *out_shift = e->shift != NULL ? e->shift[channel] : 0;
    *out_first = (int32_t)((uint32_t)bias - e->x_zero * (uint32_t)sum);
}

static uint8_t within(uint8_t x, uint8_t low, uint8_t high)
{
    const uint8_t least = x < low ? low : x;

    return least > high ? high : least;
}

void bytes_end(const rg_build *b, const bytes_case *c, byte_ending *out)
{
    const rg_group *group = c->group;
    const int32_t shift = rg_type(b, group->out) == DN_S8 ? 128 : 0;

    if (c->kind != BYTE_BYTES) {
        *out = (byte_ending){ .kind = c->kind };
        return;
    }
    *out = (byte_ending){ .zero = (int16_t)(b->op->size + shift), .low = 0, .high = 255, .flip = shift > 0 ? 0x80 : 0 };
    for (uint32_t i = 0; i < group->post_count; i++) { /* Clip of bytes, of what was clipped */
        const uint8_t low = (uint8_t)(group->posts[i].eltwise.alpha + (float)shift);
        const uint8_t high = (uint8_t)(group->posts[i].eltwise.beta + (float)shift);

        out->low = within(out->low, low, high);
        out->high = within(out->high, low, high);
    }
}

bool bytes_scales_fit(const rg_op *op, const char *scales, int64_t count)
{
    for (int64_t i = 0; scales != NULL && i < count; i++) {
        float w;

        memcpy(&w, scales + i * (int64_t)sizeof w, sizeof w);
        if (!((float)((double)op->quantized.scale / (double)op->alpha * (double)w) < 1))
            return false;
    }
    return scales != NULL;
}
