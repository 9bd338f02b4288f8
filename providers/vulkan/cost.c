/* The cost of an op: its operations and memory traffic at the assumed speed of the device. The host's machine profile
 * corrects it. */
#include "inlay/check.h"
#include "vulkan/region.h"

/* A dimension; 1 if it is unknown. */
static double size_at(const inlay_value_state *state, uint32_t d)
{
    return state->dims != NULL && state->rank != INLAY_RANK_UNKNOWN && d < state->rank && state->dims[d] > 0
               ? (double)state->dims[d]
               : 1;
}

static double count_of(const inlay_value_state *state)
{
    double count = 1;

    for (uint32_t d = 0; state->rank != INLAY_RANK_UNKNOWN && d < state->rank; d++)
        count *= size_at(state, d);
    return count;
}

static const inlay_value_state *state_of(const inlay_cost_request *request, uint32_t value)
{
    return INLAY_AT(inlay_value_state, request->values, request->value_stride, value);
}

static double bytes_of(const inlay_cost_request *request, const uint32_t *values, uint32_t count)
{
    double bytes = 0;

    for (uint32_t i = 0; i < count; i++)
        if (values[i] != INLAY_NONE)
            bytes += count_of(state_of(request, values[i])) * vulkan_size_of(state_of(request, values[i])->dtype);
    return bytes;
}

/* The number of floating-point operations of a matrix multiplication or convolution; of other ops, one per element of
 * the result. */
static double flops_of(const inlay_cost_request *request, const inlay_node_info *node)
{
    const double output_count = count_of(state_of(request, node->outputs[0]));
    const char *type = node->op_type.data;
    const inlay_value_state *input = state_of(request, node->inputs[0]);
    const bool transposed = strcmp(type, "ConvTranspose") == 0;

    if (strncmp(type, "Conv", 4) == 0) {
        const inlay_value_state *weights = state_of(request, node->inputs[1]);

        return 2 * (transposed ? count_of(input) : output_count) * count_of(weights) / size_at(weights, 0);
    }
    if (strcmp(type, "MatMul") == 0 || strcmp(type, "Gemm") == 0)
        return 2 * output_count * size_at(input, input->rank - (kit_attr_int(node, "transA", 0) != 0 ? 2 : 1));
    return output_count;
}

inlay_status vulkan_cost(void *state, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag)
{
    const vulkan_state *provider = state;
    const inlay_node_info *node = inlay_graph_node(request->graph, request->offer->nodes[0]);
    const double read = bytes_of(request, node->inputs, node->input_count);
    const double written = bytes_of(request, node->outputs, node->output_count);

    (void)diag;
    INLAY_CHECK(provider->flops_per_ns > 0 && provider->bytes_per_ns > 0);
    out->flops = flops_of(request, node);
    out->bytes_read = (uint64_t)read;
    out->bytes_written = (uint64_t)written;
    /* An op counts as a quarter of a launch, because many ops are fused into the dispatch of another one. */
    out->ns = provider->unrequested_ns + provider->launch_ns / 4 + out->flops / provider->flops_per_ns +
              (read + written) / provider->bytes_per_ns;
    out->enter_ns = provider->launch_ns;
    out->confidence = INLAY_CONFIDENCE_GUESS;
    return INLAY_OK;
}
