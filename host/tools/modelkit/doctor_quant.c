/* Findings about quantized weights and scales. */
#include "modelkit/doctor_parts.h"
#include <math.h>
#include <string.h>

enum {
    LEAST_WEIGHTS = 64, /* fewer say nothing of a distribution */
    NARROW = 32,        /* codes within +-32 of the zero point: two bits of eight are not used */
    NARROW_CHANNEL = 8  /* a channel within +-8 has four bits left */
};

/* Every element of a scale is a positive number that is not denormal. */
static void look_scale(struct doctor *d, struct graph *g, graph_node *n, uint32_t v)
{
    inlay_tensor_view t;

    if (!doctor_constant(g, v, &t) || t.dtype != INLAY_FLOAT)
        return;
    for (uint64_t i = 0; i < t.bytes / sizeof(float); i++) {
        float scale;

        memcpy(&scale, (const char *)t.data + i * sizeof scale, sizeof scale);
        if (isnormal(scale) && scale > 0)
            continue;
        (void)doctor_add(d, DOCTOR_QUANT_SCALE, g, n, v, "scale '%.200s' is %g at %llu", g->values[v].info.name.data,
                         (double)scale, (unsigned long long)i);
        return;
    }
}

/* The zero point of the weights if it is one number; 0 where there is none. false: it is an axis of them, or unknown.
 */
static bool zero_point(const struct graph *g, const graph_node *n, int *out)
{
    inlay_tensor_view z;

    *out = 0;
    if (doctor_input(n, 2) == INLAY_NONE)
        return true;
    if (!doctor_constant(g, n->info.inputs[2], &z) || z.bytes != 1)
        return false;
    *out = z.dtype == INLAY_INT8 ? *(const int8_t *)z.data : *(const uint8_t *)z.data;
    return true;
}

static int code_of(const inlay_tensor_view *q, uint64_t i)
{
    return q->dtype == INLAY_INT8 ? ((const int8_t *)q->data)[i] : ((const uint8_t *)q->data)[i];
}

/* The axis along which the reader's channels lie: the first of a convolution's filters, the last of a matrix. */
static uint32_t channel_axis(const graph_node *reader, const inlay_tensor_view *q)
{
    return reader != NULL &&
                   (doctor_is_op(reader, "Conv") || (doctor_is_op(reader, "Gemm") && doctor_int(reader, "transB", 0)))
               ? 0
               : q->rank - 1;
}

/* Channels that use next to nothing of the range while others use it all. */
static int64_t count_poor(const inlay_tensor_view *q, uint32_t axis, int zero)
{
    const int64_t channels = q->dims[axis];
    int64_t inner = 1, poor = 0;

    for (uint32_t i = axis + 1; i < q->rank; i++)
        inner *= q->dims[i];
    for (int64_t c = 0; c < channels; c++) {
        int widest = 0;

        for (int64_t i = 0; i < (int64_t)q->bytes / (channels * inner); i++)
            for (int64_t k = 0; k < inner; k++) {
                const int far = code_of(q, (uint64_t)((i * channels + c) * inner + k)) - zero;

                widest = far > widest ? far : -far > widest ? -far : widest;
            }
        poor += widest > 0 && widest <= NARROW_CHANNEL;
    }
    return poor;
}

static void look_weights(struct doctor *d, struct graph *g, graph_node *n, const struct readers *r)
{
    const uint32_t v = doctor_input(n, 0);
    inlay_tensor_view q, scale;
    uint64_t ends = 0;
    int zero, widest = 0;
    int64_t poor;
    uint32_t axis;

    if (!doctor_constant(g, v, &q) || (q.dtype != INLAY_INT8 && q.dtype != INLAY_UINT8) || q.bytes < LEAST_WEIGHTS ||
        !doctor_constant(g, doctor_input(n, 1), &scale) || scale.bytes != sizeof(float) || !zero_point(g, n, &zero))
        return;
    for (uint64_t i = 0; i < q.bytes; i++) {
        const int code = code_of(&q, i), far = code > zero ? code - zero : zero - code;

        ends += q.dtype == INLAY_INT8 ? code == -128 || code == 127 : code == 0 || code == 255;
        widest = far > widest ? far : widest;
    }
    if (ends * 20 > q.bytes) {
        (void)doctor_add(d, DOCTOR_QUANT_SATURATED, g, n, v,
                         "%.0f %% of the weights '%.200s' lie at the ends of their "
                         "type",
                         100.0 * (double)ends / (double)q.bytes, g->values[v].info.name.data);
    } else if (widest < NARROW) {
        (void)doctor_add(d, DOCTOR_QUANT_NARROW, g, n, v,
                         "the weights '%.200s' are within %d of the zero point: most "
                         "of the 256 codes are not used",
                         g->values[v].info.name.data, widest);
    } else if (q.rank >= 2) {
        axis = channel_axis(r->one[n->info.outputs[0]], &q);
        poor = count_poor(&q, axis, zero);
        if (poor * 4 > q.dims[axis])
            (void)doctor_add(d, DOCTOR_QUANT_CHANNELS, g, n, v,
                             "%lld of %lld channels of '%.200s' use less than 17 of "
                             "256 codes, for one scale serves them all",
                             (long long)poor, (long long)q.dims[axis], g->values[v].info.name.data);
    }
}

void doctor_look_quant(struct doctor *d, struct graph *g, const struct readers *r)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        graph_node *n = g->nodes[i];
        const bool q = doctor_is_op(n, "QuantizeLinear"), dq = doctor_is_op(n, "DequantizeLinear");

        if (q || dq)
            look_scale(d, g, n, doctor_input(n, 1));
        if (dq && n->info.outputs[0] != INLAY_NONE)
            look_weights(d, g, n, r);
        if (doctor_is_op(n, "QLinearConv") || doctor_is_op(n, "QLinearMatMul")) {
            look_scale(d, g, n, doctor_input(n, 1));
            look_scale(d, g, n, doctor_input(n, 4));
            look_scale(d, g, n, doctor_input(n, 6));
        }
    }
}
