/* Which layouts the values of a graph will have in a region: convolutions prefer channels-last images, and ops between
 * them keep that layout. */
#include "cpu/compile/cost.h"

enum { LOOK_BACK = 16, LOOK_AHEAD = 8 }; /* most ops between a value and the convolution that determines its layout */

const inlay_value_state *cost_state_of(const inlay_cost_request *request, const uint32_t *list, uint32_t count,
                                       uint32_t i)
{
    return i < count ? price_state(request, list[i]) : NULL;
}

/* Parses the producer of the value; false: none, or this provider does not support it. */
static bool parse_producer(const cpu_state *state, const inlay_graph *graph, uint32_t value, cpu_op *out)
{
    const inlay_value_info *v = inlay_graph_value(graph, value);
    kit_refusal why = { 0, "", "" };

    if (v == NULL || v->producer == INLAY_NONE || v->producer >= graph->node_count)
        return false;
    return cpu_parse(&(kit_node){ .host = state->host, .graph = graph, .info = inlay_graph_node(graph, v->producer) },
                     out, &why) != NULL;
}

bool cost_is_elementwise(const cpu_family *family)
{
    return family->kind == CPU_FAMILY_UNARY || family->kind == CPU_FAMILY_BINARY;
}

/* True if another node than `reader` needs the value as a tensor. Only the nodes shortly after its producer are
 * searched. */
static bool is_stored(const inlay_graph *graph, uint32_t value, const inlay_node_info *reader)
{
    const inlay_value_info *info = inlay_graph_value(graph, value);
    const uint32_t first = info->producer + 1,
                   last = first + LOOK_AHEAD < graph->node_count ? first + LOOK_AHEAD : graph->node_count;

    if ((info->flags & INLAY_VALUE_GRAPH_OUTPUT) != 0)
        return true;
    for (uint32_t n = first; n < last; n++) {
        const inlay_node_info *node = inlay_graph_node(graph, n);

        for (uint32_t i = 0; node != reader && i < node->input_count; i++)
            if (node->inputs[i] == value)
                return true;
    }
    return false;
}

/* True if the op will be fused into the producer of its input i (fuse.c). */
bool cost_is_fused(const cpu_state *state, const inlay_cost_request *request, const inlay_node_info *info, uint32_t i,
                   const cpu_op *op)
{
    const inlay_value_state *input = cost_state_of(request, info->inputs, info->input_count, i),
                            *output = cost_state_of(request, info->outputs, info->output_count, 0);
    const cpu_family *family;
    cpu_op maker;

    if (!cost_is_elementwise(op->row->family) || !parse_producer(state, request->graph, info->inputs[i], &maker))
        return false;
    family = maker.row->family;
    if (cost_is_elementwise(family))
        return input != NULL && output != NULL && input->dtype == INLAY_FLOAT && output->dtype == INLAY_FLOAT &&
               price_count(input) == price_count(output) && !is_stored(request->graph, info->inputs[i], info);
    return family->kind == CPU_FAMILY_CONV || family->kind == CPU_FAMILY_CONV_TRANSPOSE ||
           family->kind == CPU_FAMILY_PRODUCT || family->kind == CPU_FAMILY_NORMALIZE ||
           family->kind == CPU_FAMILY_NBITS_PRODUCT;
}

/* Convolutions choose the layouts of their operands. Other ops keep the layout of their input or need rows. */
bool cost_chooses_layout(const cpu_family *family)
{
    return family->kind == CPU_FAMILY_CONV || family->kind == CPU_FAMILY_CONV_TRANSPOSE ||
           family->kind == CPU_FAMILY_INT8_CONV;
}

static bool keeps_layout(const cpu_family *family)
{
    return family->kind == CPU_FAMILY_POOL || family->kind == CPU_FAMILY_UNARY || family->kind == CPU_FAMILY_BINARY ||
           family->kind == CPU_FAMILY_CONCAT || family->kind == CPU_FAMILY_NORMALIZE ||
           family->kind == CPU_FAMILY_RESIZE || family->kind == CPU_FAMILY_PAD || family->kind == CPU_FAMILY_QUANTIZE ||
           family->kind == CPU_FAMILY_DEQUANTIZE || family->kind == CPU_FAMILY_BYTE_CLIP;
}

/* True if a region makes the value in a layout that ops outside of it cannot read. */
bool cost_has_layout(const cpu_state *state, const inlay_graph *graph, uint32_t value)
{
    cpu_op maker;

    for (int steps = 0; steps < LOOK_BACK && parse_producer(state, graph, value, &maker); steps++) {
        if (cost_chooses_layout(maker.row->family))
            return true;
        if (!keeps_layout(maker.row->family))
            return false;
        value = inlay_graph_node(graph, inlay_graph_value(graph, value)->producer)->inputs[0];
    }
    return false;
}

/* True if a convolution reads the value, directly or after ops that keep its layout. Only the ops shortly after its
 * producer are searched. */
bool cost_wants_layout(const cpu_state *state, const inlay_graph *graph, uint32_t value)
{
    const uint32_t maker = inlay_graph_value(graph, value)->producer;
    uint32_t n = maker == INLAY_NONE ? 0 : maker + 1;
    const uint32_t last = n + LOOK_AHEAD < graph->node_count ? n + LOOK_AHEAD : graph->node_count;

    for (; n < last; n++) {
        const inlay_node_info *info = inlay_graph_node(graph, n);
        kit_refusal why = { 0, "", "" };
        cpu_op reader;

        if (info->input_count == 0 || info->output_count == 0 || info->inputs[0] != value ||
            cpu_parse(&(kit_node){ .host = state->host, .graph = graph, .info = info }, &reader, &why) == NULL)
            continue;
        if (cost_chooses_layout(reader.row->family))
            return true;
        if (keeps_layout(reader.row->family))
            value = info->outputs[0];
    }
    return false;
}

/* True if the op reads images in the layout of a convolution. */
bool cost_reads_layout(const cpu_state *state, const inlay_graph *graph, const cpu_op *op, const inlay_node_info *info)
{
    return cost_chooses_layout(op->row->family) || (keeps_layout(op->row->family) && info->output_count > 0 &&
                                                    cost_wants_layout(state, graph, info->outputs[0]));
}
