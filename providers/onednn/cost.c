/* What an op takes, by work and by memory traffic, as oneDNN was measured to do them on a core with AVX-512. A machine
 * profile and measurements correct it. */
#include "build.h"

#define CORE_FLOPS_PER_NS 220.0  /* blocked convolutions and packed products */
#define THIN_FLOPS_PER_NS 60.0   /* depthwise, and products of few rows */
#define POOL_FLOPS_PER_NS 8.0
#define CORE_BYTES_PER_NS 12.0
#define CALL_NS 1500.0 /* one primitive */
#define EDGE_SHARE 0.5 /* of the traffic: a value that enters or leaves may have to be reordered */

typedef struct sizes {
    double in, out, weights; /* bytes */
    const inlay_value_state *x, *w, *y;
} sizes;

static double count_of(const inlay_value_state *s)
{
    double count = 1;

    if (s == NULL || s->rank == INLAY_RANK_UNKNOWN)
        return 0;
    for (uint32_t d = 0; d < s->rank; d++)
        count *= s->dims[d] < 0 ? 1 : (double)s->dims[d];
    return count;
}

/* The size of axis d, 1 where it is not known. */
static double size_of(const inlay_value_state *s, uint32_t d)
{
    return s == NULL || s->rank == INLAY_RANK_UNKNOWN || d >= s->rank || s->dims[d] < 1 ? 1 : (double)s->dims[d];
}

static const inlay_value_state *state_of(const inlay_cost_request *r, const uint32_t *list, uint32_t count, uint32_t i)
{
    return i < count && list[i] != INLAY_NONE && list[i] < r->value_count
               ? INLAY_AT(inlay_value_state, r->values, r->value_stride, list[i])
               : NULL;
}

/* Multiplications and additions, and how fast they go. */
static double flops_of(const rg_op *op, const sizes *s, double *out_rate)
{
    const rg_family *f = op->row->family;
    double outputs = count_of(s->y), window = 1;

    *out_rate = CORE_FLOPS_PER_NS;
    if (f == &rg_conv || f == &rg_conv_transpose) {
        double per = f == &rg_conv ? size_of(s->w, 1) : size_of(s->w, 0) / (double)op->group;

        for (uint32_t i = 0; i < op->spatial; i++)
            window *= (double)op->kernel[i];
        if (per < 8)
            *out_rate = THIN_FLOPS_PER_NS;
        return 2 * outputs * per * window;
    }
    if (f == &rg_product && s->x != NULL && s->x->rank != INLAY_RANK_UNKNOWN && s->x->rank >= 2) {
        uint32_t last = s->y != NULL && s->y->rank != INLAY_RANK_UNKNOWN && s->y->rank > 0 ? s->y->rank - 1 : 0;
        double columns = size_of(s->y, last);

        if (outputs / columns < 8)
            *out_rate = THIN_FLOPS_PER_NS;
        return 2 * outputs * size_of(s->x, s->x->rank - (op->trans_a ? 2 : 1));
    }
    if (f == &rg_pool && !op->global) {
        for (uint32_t i = 0; i < op->spatial; i++)
            window *= (double)op->kernel[i];
        *out_rate = POOL_FLOPS_PER_NS;
        return outputs * window;
    }
    *out_rate = 8;
    return f == &rg_view || f == &rg_transpose || f == &rg_concat ? 0 : outputs;
}

static inlay_status cost_of(const rg_state *state, const inlay_cost_request *r, uint32_t n, inlay_cost *cost)
{
    const inlay_node_info *info = inlay_graph_node(r->graph, n);
    const kit_node node = { .host = state->host, .graph = r->graph, .info = info };
    kit_refusal why = { 0, "", "" };
    double flops, rate, work, traffic, threads = r->max_threads > 0 ? r->max_threads : 1;
    sizes s = { 0 };
    rg_op op;

    if (rg_parse(&node, &op, &why) == NULL)
        return INLAY_INVALID_ARGUMENT;
    s.x = state_of(r, info->inputs, info->input_count, 0);
    s.w = state_of(r, info->inputs, info->input_count, 1);
    s.y = state_of(r, info->outputs, info->output_count, 0);
    for (uint32_t i = 0; i < info->input_count; i++) {
        const inlay_value_info *v = inlay_graph_value(r->graph, info->inputs[i]);
        double bytes = 4 * count_of(state_of(r, info->inputs, info->input_count, i));

        if (v != NULL && (v->flags & INLAY_VALUE_CONSTANT) != 0)
            s.weights += bytes;
        else
            s.in += bytes;
    }
    s.out = 4 * count_of(s.y);
    flops = flops_of(&op, &s, &rate);
    work = flops / rate / threads;
    traffic = (s.in + s.out) * EDGE_SHARE + s.weights;
    if (op.row->family == &rg_view || op.row->family == &rg_transpose)
        traffic = op.row->family == &rg_view ? 0 : (s.in + s.out) * EDGE_SHARE;
    cost->ns += (work > traffic / CORE_BYTES_PER_NS ? work : traffic / CORE_BYTES_PER_NS) + CALL_NS;
    cost->flops += flops;
    cost->bytes_read += (uint64_t)(s.in + s.weights);
    cost->bytes_written += (uint64_t)s.out;
    return INLAY_OK;
}

inlay_status rg_cost(void *state, const inlay_cost_request *request, inlay_cost *cost)
{
    cost->ns = cost->flops = 0;
    cost->bytes_read = cost->bytes_written = 0;
    cost->confidence = INLAY_CONFIDENCE_MODEL;
    for (uint32_t i = 0; i < request->offer->node_count; i++) {
        inlay_status status = cost_of(state, request, request->offer->nodes[i], cost);

        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}
