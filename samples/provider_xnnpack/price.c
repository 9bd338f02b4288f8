/* Prices: times of the reference core (INLAY_PROVIDER_REFERENCE_CORE), from rates that were measured one operator at a
 * time. Measure yours: `inlay plugin-check` compares them with measured times. */
#include "provider.h"

#define PRODUCT_FLOPS_PER_NS 175.0 /* convolutions and matrix products with many channels */
#define TAP_PER_NS 24.0            /* depthwise convolutions: taps of all outputs */
#define POOL_TAP_PER_NS 12.0       /* poolings: likewise */
#define WEIGHT_BYTES_PER_NS 60.0   /* weights that are read once in a run */
#define BYTES_PER_NS 45.0          /* elementwise operators: bytes read and written */
#define SIGMOID_PER_NS 5.0         /* elements */
#define SOFTMAX_PER_NS 1.8         /* elements */
#define LAYOUT_BYTES_PER_NS 26.0   /* changes of layout: bytes read */
#define THIN_BYTES_PER_NS 8.0      /* ... of images with fewer than 4 channels or pixels */
#define COPY_BYTES_PER_NS 45.0     /* ... that keep the order */
#define CALL_NS 150.0              /* an operator of XNNPACK */
#define REGION_NS 500.0            /* a region */
#define PARALLEL_NS 8000.0         /* starting the threads of an operator */
#define THREAD_SHARE 0.8           /* speed of each further thread */

struct pricing {
    const inlay_graph *graph;
    const inlay_value_state *values;
    uint32_t value_stride;
    uint32_t max_threads;
};

static struct pricing pricing_of(const struct provider *provider, const inlay_graph *graph,
                                 const inlay_value_state *values, uint32_t value_stride, uint32_t max_threads)
{
    return (struct pricing){ graph, values, value_stride, provider_threads(provider, max_threads) };
}

static const inlay_value_state *state_of(const struct pricing *pricing, uint32_t value)
{
    return INLAY_AT(inlay_value_state, pricing->values, pricing->value_stride, value);
}

static double size_at(const inlay_value_state *state, uint32_t i)
{
    return state->rank <= MOST_RANK && i < state->rank && state->dims[i] > 0 ? (double)state->dims[i] : 1;
}

static double elements_of(const inlay_value_state *state)
{
    double elements = 1;

    for (uint32_t i = 0; i < MOST_RANK; i++)
        elements *= size_at(state, i);
    return elements;
}

static bool is_constant(const struct pricing *pricing, uint32_t value)
{
    return (inlay_graph_value(pricing->graph, value)->flags & INLAY_VALUE_CONSTANT) != 0;
}

/* Time of the change of layout at the border of a region. */
static double border_ns(const struct pricing *pricing, uint32_t value)
{
    const inlay_value_state *state = state_of(pricing, value);
    const double channels = size_at(state, 1), pixels = size_at(state, 2) * size_at(state, 3);
    double rate = COPY_BYTES_PER_NS;

    if (state->rank == IMAGE_RANK && channels > 1 && pixels > 1)
        rate = channels < 4 || pixels < 4 ? THIN_BYTES_PER_NS : LAYOUT_BYTES_PER_NS;
    return elements_of(state) * sizeof(float) / rate;
}

static double threaded(const struct pricing *pricing, double ns)
{
    if (pricing->max_threads <= 1 || ns < PARALLEL_NS)
        return ns;
    return PARALLEL_NS + ns / (1 + THREAD_SHARE * (pricing->max_threads - 1));
}

/* Products: flops of one output are 2 * depth. XNNPACK computes 16 channels of a few pixels at a time. */
static double product_ns(double outputs, double columns, double depth, double weights)
{
    const double padded = (double)(((int64_t)columns + 15) / 16 * 16) / columns;
    const double compute = 2 * outputs * padded * depth / PRODUCT_FLOPS_PER_NS;
    const double load = weights * sizeof(float) / WEIGHT_BYTES_PER_NS;

    return compute > load ? compute + load / 4 : load + compute / 4;
}

/* Time of a node inside a region, and its operations. */
static double node_ns(const struct pricing *pricing, const inlay_node_info *node, double *out_flops)
{
    const enum operator_kind kind = operator_of(node);
    const inlay_value_state *in = state_of(pricing, node->inputs[0]), *out = state_of(pricing, node->outputs[0]);
    const inlay_value_state *second =
        node->input_count > 1 && node->inputs[1] != INLAY_NONE ? state_of(pricing, node->inputs[1]) : NULL;
    const double outputs = elements_of(out), inputs = elements_of(in);
    double taps, ns;

    *out_flops = outputs;
    switch (kind) {
    case KIND_CONV:
        taps = size_at(second, 1) * size_at(second, 2) * size_at(second, 3);
        *out_flops = 2 * outputs * taps;
        if (size_at(second, 1) == 1 && kit_attr_int(node, "group", 1) > 1)
            ns = outputs * taps / TAP_PER_NS;
        else
            ns = product_ns(outputs, size_at(second, 0) / (double)kit_attr_int(node, "group", 1), taps,
                            elements_of(second));
        break;
    case KIND_GEMM:
    case KIND_MATMUL:
        taps = size_at(in, in->rank <= MOST_RANK && in->rank > 0 ? in->rank - 1 : 0);
        *out_flops = 2 * outputs * taps;
        ns = product_ns(outputs, elements_of(second) / taps, taps, elements_of(second));
        break;
    case KIND_MAX_POOL:
    case KIND_AVERAGE_POOL: {
        const int64_t zeros[] = { 0, 0 };
        const struct window window = window_of(node, NULL, zeros, zeros);

        *out_flops = outputs * (double)(window.size[0] * window.size[1]);
        ns = *out_flops / POOL_TAP_PER_NS;
        break;
    }
    case KIND_SIGMOID:
        ns = outputs / SIGMOID_PER_NS;
        break;
    case KIND_SOFTMAX:
        ns = outputs / SOFTMAX_PER_NS;
        break;
    default:
        ns = (inputs + outputs) * sizeof(float) / BYTES_PER_NS;
        break;
    }
    return CALL_NS + threaded(pricing, ns);
}

static void add_border(const struct pricing *pricing, uint32_t value, double *ns, uint64_t *bytes)
{
    if (value == INLAY_NONE || is_constant(pricing, value))
        return;
    *ns += threaded(pricing, border_ns(pricing, value));
    *bytes += (uint64_t)elements_of(state_of(pricing, value)) * sizeof(float);
}

inlay_status price_offer(void *state, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag)
{
    const struct pricing pricing =
        pricing_of(state, request->graph, request->values, request->value_stride, request->max_threads);
    const inlay_node_info *node = inlay_graph_node(request->graph, request->offer->nodes[0]);

    (void)diag;
    out->ns = node_ns(&pricing, node, &out->flops);
    for (uint32_t i = 0; i < node->input_count; i++)
        add_border(&pricing, node->inputs[i], &out->enter_ns, &out->bytes_read);
    add_border(&pricing, node->outputs[0], &out->leave_ns, &out->bytes_written);
    out->enter_ns += REGION_NS;
    out->confidence = INLAY_CONFIDENCE_MODEL;
    return INLAY_OK;
}

/* XNNPACK fuses a Relu or Clip into the node before it, if nothing else reads the value between them. */
static bool is_fused(const inlay_region_cost_request *request, const inlay_node_info *node)
{
    const enum operator_kind kind = operator_of(node);
    const uint32_t value = node->inputs[0], producer = inlay_graph_value(request->graph, value)->producer;
    enum operator_kind before;
    uint32_t readers = 0;
    bool inside = false;

    if ((kind != KIND_RELU && kind != KIND_CLIP) || producer == INLAY_NONE)
        return false;
    before = operator_of(inlay_graph_node(request->graph, producer));
    for (uint32_t i = 0; i < request->output_count; i++)
        readers += request->outputs[i] == value;
    for (uint32_t n = 0; n < request->node_count; n++) {
        const inlay_node_info *other = inlay_graph_node(request->graph, request->nodes[n]);

        inside |= request->nodes[n] == producer;
        for (uint32_t i = 0; i < other->input_count; i++)
            readers += other->inputs[i] == value;
    }
    return inside && readers == 1 &&
           (before <= KIND_GLOBAL_AVERAGE || before == KIND_ADD || before == KIND_SUB || before == KIND_MUL);
}

inlay_status price_region(void *state, const inlay_region_cost_request *request, inlay_cost *out, inlay_diag *diag)
{
    const struct pricing pricing =
        pricing_of(state, request->graph, request->values, request->value_stride, request->max_threads);

    (void)diag;
    out->ns = REGION_NS;
    for (uint32_t n = 0; n < request->node_count; n++) {
        const inlay_node_info *node = inlay_graph_node(request->graph, request->nodes[n]);
        double flops, ns = node_ns(&pricing, node, &flops);

        out->flops += flops;
        if (!is_fused(request, node))
            out->ns += ns;
    }
    for (uint32_t i = 0; i < request->input_count; i++)
        add_border(&pricing, request->inputs[i], &out->ns, &out->bytes_read);
    for (uint32_t i = 0; i < request->output_count; i++)
        add_border(&pricing, request->outputs[i], &out->ns, &out->bytes_written);
    out->confidence = INLAY_CONFIDENCE_MODEL;
    return INLAY_OK;
}
