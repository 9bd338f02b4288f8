/* Folds BatchNormalization with constant statistics (ONNX BatchNormalization-15, with epsilon) into the Conv or
 * ConvTranspose before it. */
#include "passes/conv_scale.h"
#include <math.h>

/* Returns true if the node normalises by given statistics and only its first output is used. */
static bool is_inference(const struct rewrite *rewrite, const graph_node *node)
{
    for (uint32_t i = 1; i < node->info.output_count; i++)
        if (!rewrite_is_unused(rewrite, node, i))
            return false;
    if (node->info.since_version < 7 && graph_attr_int(node, "is_test", 0) == 0)
        return false;
    return graph_attr_int(node, "training_mode", 0) == 0 && graph_attr_int(node, "spatial", 1) == 1;
}

inlay_status match_conv_batch_norm(struct rewrite *rewrite, graph_node *node)
{
    const float *params[4]; /* scale, bias, mean, variance */
    double *scale, *shift, epsilon;
    graph_node *conv;
    int64_t channels;

    if (!pass_is_op(node, "BatchNormalization") || !is_inference(rewrite, node))
        return INLAY_OK;
    conv = conv_to_scale(rewrite, rewrite_input(rewrite, node, 0), &channels);
    if (conv == NULL)
        return INLAY_OK;
    for (uint32_t i = 0; i < 4; i++) {
        params[i] = rewrite_floats(rewrite, rewrite_input(rewrite, node, i + 1));
        if (params[i] == NULL || rewrite_value_info(rewrite, rewrite_input(rewrite, node, i + 1))->data_bytes !=
                                     (uint64_t)channels * sizeof(float))
            return INLAY_OK;
    }
    scale = arena_array(&rewrite->scratch, (size_t)channels + 1, sizeof *scale);
    shift = arena_array(&rewrite->scratch, (size_t)channels + 1, sizeof *shift);
    if (scale == NULL || shift == NULL)
        return rewrite_no_memory(rewrite);
    epsilon = graph_attr_float(node, "epsilon", 1e-5);
    for (int64_t c = 0; c < channels; c++) {
        scale[c] = (double)params[0][c] / sqrt((double)params[3][c] + epsilon);
        shift[c] = (double)params[1][c] - (double)params[2][c] * scale[c];
        if (!isfinite(scale[c]) || !isfinite(shift[c]))
            return INLAY_OK;
    }
    return conv_scale(rewrite, conv, node, channels, scale, shift);
}
