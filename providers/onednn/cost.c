/* What an op takes, by work and by memory traffic, as oneDNN was measured to do them on a core with AVX-512. A machine
 * profile and measurements correct it.
 *
 * An op is priced as a part of the region that it will most likely be in: functions behind a convolution or product are
 * fused, values that come from another op that is offered need no reorder. What comes from elsewhere may: half of
 * one. */
#include "build.h"

#define CORE_FLOPS_PER_NS 250.0 /* convolutions and packed products */
#define THIN_FLOPS_PER_NS 90.0  /* depthwise */
#define ATTENTION_FLOPS_PER_NS 90.0
#define POOL_FLOPS_PER_NS 8.0
#define FUNCTION_PER_NS 16.0    /* elements */
#define CACHED_BYTES_PER_NS 64.0
#define CACHED_BYTES 8e6
#define MEMORY_BYTES_PER_NS 24.0
#define SMALL_WEIGHTS 1e6 /* bytes that are still near from the run before */
#define WEIGHT_BYTES_PER_NS 33.0
#define CALL_NS 50.0   /* one primitive more in a region */
#define LAUNCH_NS 1000.0 /* a region more: paid by ops that nothing here leads to */
#define FUSED_NS 30.0  /* an op that becomes part of one */
#define EDGE_SHARE 0.5 /* of the bytes: a value that enters may have to be reordered */

static double stream_ns(double bytes)
{
    return bytes / (bytes < CACHED_BYTES ? CACHED_BYTES_PER_NS : MEMORY_BYTES_PER_NS);
}

static double weights_ns(double bytes)
{
    return bytes / (bytes < SMALL_WEIGHTS ? 2 * CACHED_BYTES_PER_NS : WEIGHT_BYTES_PER_NS);
}

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

static double gain_of(const rg_op *op, const sizes *s)
{
    double gain = rg_winograd_gain(op, (int64_t)size_of(s->x, 1), (int64_t)size_of(s->y, 1), (int64_t)size_of(s->y, 2),
                                   (int64_t)size_of(s->y, 3));

    return gain > 1 ? gain : 1;
}

/* Multiplications and additions, and how fast they go. */
static double flops_of(const rg_op *op, const sizes *s, double *out_rate)
{
    const rg_family *f = op->row->family;
    double outputs = count_of(s->y), window = 1;

    *out_rate = CORE_FLOPS_PER_NS;
    if (f == &rg_conv || f == &rg_conv_transpose) {
        double per = size_of(s->w, 1); /* of a place of the output, or of the input where that is spread */

        if (f == &rg_conv_transpose)
            outputs = count_of(s->x);

        for (uint32_t i = 0; i < op->spatial; i++)
            window *= (double)op->kernel[i];
        if (per < 8 && op->group > 1)
            *out_rate = THIN_FLOPS_PER_NS;
        else if (op->spatial == 2 && s->y != NULL && s->y->rank == 4)
            *out_rate *= gain_of(op, s);
        return 2 * outputs * per * window;
    }
    if (f == &rg_product && s->x != NULL && s->x->rank != INLAY_RANK_UNKNOWN && s->x->rank >= 2) {
        return 2 * outputs * size_of(s->x, s->x->rank - (op->trans_a ? 2 : 1));
    }
    if (f == &rg_attention) {
        *out_rate = ATTENTION_FLOPS_PER_NS;
        return 4 * count_of(s->x) * size_of(s->w, 2);
    }
    if (f == &rg_pool && !op->global) {
        for (uint32_t i = 0; i < op->spatial; i++)
            window *= (double)op->kernel[i];
        *out_rate = POOL_FLOPS_PER_NS;
        return outputs * window;
    }
    *out_rate = FUNCTION_PER_NS;
    return f == &rg_view || f == &rg_transpose || f == &rg_concat ? 0 : outputs;
}

/* The op that makes the value, if it would be offered. */
static bool made_here(const rg_state *state, const inlay_graph *graph, uint32_t value, rg_op *out)
{
    const inlay_value_info *v = inlay_graph_value(graph, value);
    kit_refusal why = { 0, "", "" };

    if (v == NULL || v->producer == INLAY_NONE || v->producer >= graph->node_count)
        return false;
    return rg_parse(&(kit_node){ .host = state->host, .graph = graph, .info = inlay_graph_node(graph, v->producer) },
                    out, &why) != NULL;
}

/* Will the op be fused behind the maker of one of its inputs? */
static bool is_fused(const rg_op *op, const rg_op *maker)
{
    const rg_family *f = maker->row->family;

    return (op->row->family == &rg_eltwise_family || op->row->family == &rg_binary) &&
           (f == &rg_conv || f == &rg_conv_transpose || f == &rg_product || f == &rg_normalize);
}

static inlay_status cost_of(const rg_state *state, const inlay_cost_request *r, uint32_t n, inlay_cost *cost)
{
    const inlay_node_info *info = inlay_graph_node(r->graph, n);
    const kit_node node = { .host = state->host, .graph = r->graph, .info = info };
    kit_refusal why = { 0, "", "" };
    double flops, rate, work, edges = 0, streams, threads = r->max_threads > 0 ? r->max_threads : 1;
    bool fused = false, joins = false;
    sizes s = { 0 };
    rg_op op, maker;

    if (rg_parse(&node, &op, &why) == NULL)
        return INLAY_INVALID_ARGUMENT;
    s.x = state_of(r, info->inputs, info->input_count, 0);
    s.w = state_of(r, info->inputs, info->input_count, 1);
    s.y = state_of(r, info->outputs, info->output_count, 0);
    for (uint32_t i = 0; i < info->input_count; i++) {
        const inlay_value_info *v = inlay_graph_value(r->graph, info->inputs[i]);
        double bytes = 4 * count_of(state_of(r, info->inputs, info->input_count, i));

        if (v == NULL)
            continue;
        if ((v->flags & INLAY_VALUE_CONSTANT) != 0) {
            s.weights += bytes;
            continue;
        }
        s.in += bytes;
        if (made_here(state, r->graph, info->inputs[i], &maker)) {
            fused = fused || is_fused(&op, &maker);
            joins = true;
        } else {
            edges += bytes * EDGE_SHARE;
        }
    }
    s.out = 4 * count_of(s.y);
    if (op.row->takes != NULL) {
        cost->ns += joins ? 0 : LAUNCH_NS;
        rg_quant_cost(&op, r, info, cost);
        return INLAY_OK;
    }
    flops = flops_of(&op, &s, &rate);
    cost->flops += flops;
    cost->bytes_read += (uint64_t)(s.in + s.weights);
    cost->bytes_written += (uint64_t)s.out;
    cost->ns += joins ? 0 : LAUNCH_NS;
    if (state->bf16 && op.row->family == &rg_product && s.weights > 0)
        rate *= 2;
    if (fused || op.row->family == &rg_view || op.row->family == &rg_transpose) {
        cost->ns += FUSED_NS + stream_ns(edges);
        return INLAY_OK;
    }
    work = flops / rate / threads;
    streams = stream_ns(s.in + s.out) / threads + weights_ns(s.weights);
    cost->ns += (work > streams ? work : streams) + stream_ns(edges) + CALL_NS;
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
