/* Computes byte_ending (byte_set.h) from scales, bias, zero points and bounds. */
#include "cpu/quantized/bytes.h"
#include "cpu/quantized/quant.h"
#include "cpu/weights/read.h"

enum { W_SCALE = 4, BIAS = 8 };

inlay_status bytes_ends_of(cpu_build *build, const bytes_case *layer, bytes_ends *out)
{
    const cpu_op *op = build->op;
    const bool biased = op->in_count > BIAS && op->in[BIAS] != INLAY_NONE;
    const void *scales, *biases;
    inlay_status status = INLAY_OK;

    *out = (bytes_ends){ .kind = layer->kind, .x_zero = (uint32_t)(layer->x_zero + layer->x_offset) };
    if (layer->kind == BYTE_FLOATS) {
        out->scale = layer->scale;
        out->shift = layer->shift;
    }
    if (layer->kind != BYTE_BYTES)
        return INLAY_OK;
    INLAY_TRY(cpu_read_original(build, op->in[W_SCALE], &scales));
    INLAY_TRY(cpu_read_original(build, biased ? op->in[BIAS] : INLAY_NONE, &biases));
    out->scales = scales;
    out->biases = biases;
    out->scale_step = cpu_count(build, op->in[W_SCALE]) > 1 ? (int64_t)sizeof(float) : 0;
    out->factor = (double)op->quantized.scale / (double)op->alpha;
done:
    return status;
}

void bytes_end_channel(const bytes_ends *ends, int64_t channel, int32_t sum, int32_t *out_first, float *out_scale,
                       float *out_shift)
{
    int32_t bias = 0;
    float w = 1;

    if (ends->scales != NULL)
        memcpy(&w, ends->scales + channel * ends->scale_step, sizeof w);
    if (ends->biases != NULL)
        memcpy(&bias, ends->biases + channel * (int64_t)sizeof bias, sizeof bias);
    *out_scale = ends->kind == BYTE_BYTES ? (float)(ends->factor * (double)w)
                 : ends->scale != NULL    ? ends->scale[channel]
                                          : 1;
    *out_shift = ends->shift != NULL ? ends->shift[channel] : 0;
    *out_first = (int32_t)((uint32_t)bias - ends->x_zero * (uint32_t)sum);
}

/* The step of bytes_emit_first(). Its arguments are the result, the zero point if it is computed, and the bias. */
struct first {
    cpu_native native;
    const int32_t *sums;
    int64_t groups, channels, room, sum_step; /* channels, room: of a group */
    uint32_t zero;                            /* 0 if it is computed */
    uint32_t offset;
    bool computes_zero, is_signed, biased;
};

static inlay_status run_first(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                              uint32_t threads)
{
    const struct first *first = (const struct first *)(const void *)native;
    const int32_t *bias = first->biased ? args[first->computes_zero ? 2 : 1] : NULL;
    uint32_t zero = first->zero + first->offset;
    int32_t *to = args[0];

    (void)state;
    (void)run;
    (void)threads;
    if (first->computes_zero)
        zero += first->is_signed ? (uint32_t)(*(const int8_t *)args[1]) : (uint32_t) * (const uint8_t *)args[1];
    for (int64_t group = 0; group < first->groups; group++) {
        const int32_t *sums = first->sums + group * first->sum_step;

        for (int64_t o = 0; o < first->room; o++, to++)
            *to = (int32_t)((bias != NULL && o < first->channels ? (uint32_t)bias[group * first->channels + o] : 0) -
                            zero * (uint32_t)sums[o]);
    }
    return INLAY_OK;
}

inlay_status bytes_emit_first(cpu_build *build, bytes_case *layer, const int32_t *sums, int64_t sum_step, int64_t room)
{
    const int64_t groups = layer->window.group, all = groups * room;
    const struct first step = { .native.run = run_first,
                                .sums = sums,
                                .groups = groups,
                                .channels = layer->window.out / groups,
                                .room = room,
                                .sum_step = sum_step,
                                .zero = (uint32_t)layer->x_zero,
                                .offset = (uint32_t)layer->x_offset,
                                .computes_zero = layer->computes_zero,
                                .is_signed = layer->input.layout.type == ELEMENT_INT8,
                                .biased = layer->group->bias != INLAY_NONE };
    const cpu_place *places[3] = { &layer->first };
    uint32_t count = 1;
    cpu_place bias;
    inlay_status status;
    tensor_layout layout;

    layout_plain(&layout, 1, &all);
    layout.type = ELEMENT_INT32;
    INLAY_TRY(cpu_new_place(build, &layout, &layer->first));
    if (step.computes_zero)
        places[count++] = &layer->zero;
    if (step.biased) {
        INLAY_TRY(cpu_read_plain(build, layer->group->bias, &bias));
        places[count++] = &bias;
    }
    status = cpu_emit_step(build, &step.native, sizeof step, places, count);
done:
    return status;
}

static uint8_t clamp_byte(uint8_t x, uint8_t low, uint8_t high)
{
    const uint8_t least = x < low ? low : x;

    return least > high ? high : least;
}

void bytes_end(const cpu_build *build, const bytes_case *layer, byte_ending *out)
{
    const cpu_group *group = layer->group;
    const int32_t shift = cpu_type(build, group->out) == ELEMENT_INT8 ? 128 : 0;

    if (layer->kind != BYTE_BYTES) {
        *out = (byte_ending){ .kind = layer->kind };
        return;
    }
    *out = (byte_ending){
        .zero = (int16_t)(build->op->size + shift), .low = 0, .high = 255, .flip = shift > 0 ? 0x80 : 0
    };
    for (uint32_t i = 0; i < group->post_count; i++) { /* each Clip of bytes narrows the bounds */
        const uint8_t low = (uint8_t)(group->posts[i].unary.alpha + (float)shift);
        const uint8_t high = (uint8_t)(group->posts[i].unary.beta + (float)shift);

        out->low = clamp_byte(out->low, low, high);
        out->high = clamp_byte(out->high, low, high);
    }
}

bool bytes_scales_fit(const cpu_op *op, const char *scales, int64_t count)
{
    for (int64_t i = 0; scales != NULL && i < count; i++) {
        float w;

        memcpy(&w, scales + i * (int64_t)sizeof w, sizeof w);
        if (!((float)((double)op->quantized.scale / (double)op->alpha * (double)w) < 1))
            return false;
    }
    return scales != NULL;
}
