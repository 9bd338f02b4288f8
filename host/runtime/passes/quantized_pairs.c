/* Removes QuantizeLinear(DequantizeLinear(x)) with the same scale and zero point, for types of up to 16 bits: (x - z) *
 * s divided by s rounds to x - z again. */
#include "passes/rewrite.h"
#include <string.h>

static bool is_narrow(inlay_dtype dtype)
{
    return dtype == INLAY_UINT8 || dtype == INLAY_INT8 || dtype == INLAY_UINT16 || dtype == INLAY_INT16;
}

static bool same_value(const struct rewrite *rewrite, uint32_t a, uint32_t b)
{
    const inlay_value_info *first = rewrite_value_info(rewrite, a), *second = rewrite_value_info(rewrite, b);

    if (a == b)
        return true;
    return first != NULL && second != NULL && rewrite_is_constant(rewrite, a) && rewrite_is_constant(rewrite, b) &&
           rewrite_same_type(rewrite, a, b) && first->data_bytes == second->data_bytes &&
           memcmp(first->data, second->data, (size_t)first->data_bytes) == 0;
}

inlay_status match_quantized_pairs(struct rewrite *rewrite, graph_node *node)
{
    graph_node *dequantize = pass_is_op(node, "QuantizeLinear")
                                 ? rewrite_producer_op(rewrite, rewrite_input(rewrite, node, 0), "DequantizeLinear")
                                 : NULL;
    uint32_t input = dequantize == NULL ? INLAY_NONE : rewrite_input(rewrite, dequantize, 0);
    bool done;

    if (input == INLAY_NONE || !is_narrow(rewrite_value_info(rewrite, input)->dtype) ||
        rewrite_value_info(rewrite, input)->dtype != rewrite_value_info(rewrite, node->info.outputs[0])->dtype ||
        !same_value(rewrite, rewrite_input(rewrite, node, 1), rewrite_input(rewrite, dequantize, 1)) ||
        !same_value(rewrite, rewrite_input(rewrite, node, 2), rewrite_input(rewrite, dequantize, 2)) ||
        graph_attr_int(node, "axis", 1) != graph_attr_int(dequantize, "axis", 1) ||
        graph_attr_int(node, "block_size", 0) != graph_attr_int(dequantize, "block_size", 0))
        return INLAY_OK;
    return rewrite_forward(rewrite, node->info.outputs[0], input, &done);
}
