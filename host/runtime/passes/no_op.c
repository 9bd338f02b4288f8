/* Removes nodes that do nothing: Identity, Dropout at inference, Cast to the same type, Sum and similar operators of
 * one input, Reshape and Expand to the same shape, Transpose in the same order, Pad by 0, Slice of everything, Split
 * into one part, Tile by 1, Resize by 1. */
#include "passes/rewrite.h"

/* Dropout does nothing at inference. With a ratio of 0 it never does anything. */
static bool is_noop_dropout(const struct rewrite *rewrite, const graph_node *node)
{
    return rewrite_is_unused(rewrite, node, 1) && (!graph_node_is_random(rewrite->graph, node) ||
                                                   rewrite_is_scalar(rewrite, rewrite_input(rewrite, node, 1), 0));
}

static bool is_noop_transpose(const graph_node *node)
{
    uint32_t count;
    const int64_t *perm = rewrite_attr_ints(node, "perm", &count);

    for (uint32_t i = 0; i < count; i++)
        if (perm[i] != (int64_t)i)
            return false;
    return perm != NULL;
}

/* From opset 11 on the pads are an input, before an attribute. */
static bool is_noop_pad(struct rewrite *rewrite, const graph_node *node)
{
    uint32_t count = 0;
    const int64_t *pads = rewrite_attr_ints(node, "pads", &count);

    if (pads == NULL)
        pads = rewrite_attr_ints(node, "paddings", &count);
    if (pads == NULL && !rewrite_integers(rewrite, rewrite_input(rewrite, node, 1), &pads, &count))
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (pads[i] != 0)
            return false;
    return true;
}

/* The caller has checked that the shape is the same; then a Slice with forward steps selects everything. */
static bool is_noop_slice(struct rewrite *rewrite, const graph_node *node)
{
    const int64_t *steps;
    uint32_t count, value = rewrite_input(rewrite, node, 4);

    if (value == INLAY_NONE)
        return true;
    if (!rewrite_integers(rewrite, value, &steps, &count))
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (steps[i] < 0)
            return false;
    return true;
}

/* Resize-11 takes scales as input 2, Resize-10 and Upsample-9 as input 1, Upsample-7 as an attribute. */
static bool is_noop_resize(struct rewrite *rewrite, const graph_node *node)
{
    uint32_t value = rewrite_input(rewrite, node, node->info.since_version >= 11 ? 2 : 1), count = 0;
    const inlay_attr_info *scales = graph_attr(node, "scales");
    const float *values = scales != NULL ? scales->floats : rewrite_floats(rewrite, value);

    if (rewrite_attr_is(node, "coordinate_transformation_mode", "tf_crop_and_resize") ||
        rewrite_input(rewrite, node, 3) != INLAY_NONE)
        return false;
    count = scales != NULL        ? scales->count
            : value == INLAY_NONE ? 0
                                  : (uint32_t)(rewrite->graph->values[value].info.data_bytes / 4);
    for (uint32_t i = 0; i < count; i++)
        if (values == NULL || values[i] != 1)
            return false;
    return count > 0;
}

static bool changes_nothing(struct rewrite *rewrite, const graph_node *node)
{
    uint32_t input = rewrite_input(rewrite, node, 0), output = node->info.outputs[0];
    const inlay_value_info *in = rewrite_value_info(rewrite, input), *out = rewrite_value_info(rewrite, output);

    /* With its own name, pass_is_op is false only for operators that are not of ai.onnx. */
    if (in->kind != out->kind || !pass_is_op(node, node->info.op_type.data))
        return false;
    if (pass_is_op(node, "Identity"))
        return true;
    if (pass_is_op(node, "Dropout"))
        return is_noop_dropout(rewrite, node);
    if (pass_is_op(node, "Cast"))
        return in->dtype != INLAY_UNDEFINED && in->dtype == out->dtype;
    if (pass_is_op(node, "Transpose"))
        return is_noop_transpose(node);
    if (pass_is_op(node, "Pad"))
        return is_noop_pad(rewrite, node);
    if (pass_is_op(node, "Clip"))
        return node->info.since_version >= 11 && rewrite_input(rewrite, node, 1) == INLAY_NONE &&
               rewrite_input(rewrite, node, 2) == INLAY_NONE;
    if (pass_is_among(node, "Resize Upsample"))
        return is_noop_resize(rewrite, node);
    if (pass_is_among(node, "Sum Max Min Mean Concat"))
        return node->info.input_count == 1;
    if (!rewrite_same_type(rewrite, input, output))
        return false;
    if (pass_is_op(node, "Slice"))
        return is_noop_slice(rewrite, node);
    if (pass_is_op(node, "Split"))
        return node->info.output_count == 1;
    return pass_is_among(node, "Reshape Flatten Squeeze Unsqueeze Expand Tile");
}

inlay_status match_no_op(struct rewrite *rewrite, graph_node *node)
{
    bool done;

    if (node->body_count > 0 || node->info.output_count == 0 || node->info.outputs[0] == INLAY_NONE ||
        rewrite_input(rewrite, node, 0) == INLAY_NONE || !changes_nothing(rewrite, node))
        return INLAY_OK;
    return rewrite_forward(rewrite, node->info.outputs[0], node->info.inputs[0], &done);
}
