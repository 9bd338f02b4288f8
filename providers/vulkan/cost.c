/* The cost of an op: its operations and memory traffic at the assumed speed of the device. The host's machine profile
 * corrects it. */
#include "common/price.h"
#include "inlay/check.h"
#include "vulkan/region.h"

static double bytes_of(const inlay_cost_request *request, const uint32_t *values, uint32_t count)
{
    double bytes = 0;

    for (uint32_t i = 0; i < count; i++)
        if (values[i] != INLAY_NONE)
            bytes +=
                price_count(price_state(request, values[i])) * vulkan_size_of(price_state(request, values[i])->dtype);
    return bytes;
}

/* The number of floating-point operations of a matrix multiplication or convolution; of other ops, one per element of
 * the result. */
static double flops_of(const inlay_cost_request *request, const inlay_node_info *node)
{
    const double output_count = price_count(price_state(request, node->outputs[0]));
    const char *type = node->op_type.data;
    const inlay_value_state *input = price_state(request, node->inputs[0]);
    const bool transposed = strcmp(type, "ConvTranspose") == 0;
    const uint32_t second = strncmp(type, "QLinear", 7) == 0 ? 3 : 1;

    if (strncmp(type, "Conv", 4) == 0 || strcmp(type, "QLinearConv") == 0) {
        const inlay_value_state *weights = price_state(request, node->inputs[second]);

        return 2 * (transposed ? price_count(input) : output_count) * price_count(weights) / price_axis(weights, 0);
    }
    if (strcmp(type, "MatMul") == 0 || strcmp(type, "Gemm") == 0 || strcmp(type, "MatMulInteger") == 0 ||
        strcmp(type, "QLinearMatMul") == 0)
        return 2 * output_count * price_axis(input, input->rank - (kit_attr_int(node, "transA", 0) != 0 ? 2 : 1));
    if (strcmp(type, "MatMulNBits") == 0)
        return 2 * output_count * (double)kit_attr_int(node, "K", 0);
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
