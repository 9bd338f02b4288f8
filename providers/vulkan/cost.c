/* What an op takes: its operations and its traffic, at the speed of the device. A machine profile corrects it. */
#include "region.h"

/* A size, where it is known, otherwise 1. */
static double size_at(const inlay_value_state *v, uint32_t d)
{
    return v->dims != NULL && v->rank != INLAY_RANK_UNKNOWN && d < v->rank && v->dims[d] > 0 ? (double)v->dims[d] : 1;
}

static double count_of(const inlay_value_state *v)
{
    double n = 1;

    for (uint32_t d = 0; v->rank != INLAY_RANK_UNKNOWN && d < v->rank; d++)
        n *= size_at(v, d);
    return n;
}

static const inlay_value_state *state_of(const inlay_cost_request *r, uint32_t value)
{
    return INLAY_AT(inlay_value_state, r->values, r->value_stride, value);
}

static double bytes_of(const inlay_cost_request *r, const uint32_t *values, uint32_t count)
{
    double bytes = 0;

    for (uint32_t i = 0; i < count; i++)
        if (values[i] != INLAY_NONE)
            bytes += count_of(state_of(r, values[i])) * vr_size_of(state_of(r, values[i])->dtype);
    return bytes;
}

/* Operations of a product or convolution; one an element for all else. */
static double flops_of(const inlay_cost_request *r, const inlay_node_info *node)
{
    const double y = count_of(state_of(r, node->outputs[0]));
    const char *type = node->op_type.data;
    const inlay_value_state *x = state_of(r, node->inputs[0]);
    const bool turned = strcmp(type, "ConvTranspose") == 0;

    if (strncmp(type, "Conv", 4) == 0) {
        const inlay_value_state *w = state_of(r, node->inputs[1]);

        return 2 * (turned ? count_of(x) : y) * count_of(w) / size_at(w, 0);
    }
    return strcmp(type, "MatMul") == 0 || strcmp(type, "Gemm") == 0 ? 2 * y * size_at(x, x->rank - 1) : y;
}

inlay_status vr_cost(void *state, const inlay_cost_request *r, inlay_cost *out)
{
    const vr_state *s = state;
    const inlay_node_info *node = inlay_graph_node(r->graph, r->offer->nodes[0]);
    const double read = bytes_of(r, node->inputs, node->input_count);
    const double written = bytes_of(r, node->outputs, node->output_count);

    out->flops = flops_of(r, node);
    out->bytes_read = (uint64_t)read;
    out->bytes_written = (uint64_t)written;
    /* A dispatch of its own half of the time; the other half it is a part of the one before. */
    out->ns = s->unasked_ns + s->launch_ns / 4 + out->flops / s->flops_per_ns + (read + written) / s->bytes_per_ns;
    out->enter_ns = s->launch_ns;
    out->confidence = INLAY_CONFIDENCE_GUESS;
    return INLAY_OK;
}
