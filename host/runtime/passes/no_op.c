/* Nodes that change nothing go: Identity, Dropout at inference, Cast to the type it has, Sum and the like of one,
 * Reshape and Expand to the shape it has, Transpose that keeps the order, Pad by nothing, Slice of everything, Split
 * into one, Tile by ones, Resize by ones. */
#include "passes/rewrite.h"

/* Dropout drops nothing at inference: always before version 12 (before 7 with is_test), later unless training_mode; and
 * then, too, with a ratio of 0. */
static bool idle_dropout(const struct rewrite *w, const graph_node *n)
{
    uint32_t mode = rw_input(w, n, 2);

    if (!rw_is_unused(w, n, 1))
        return false;
    if (n->info.since_version < 7)
        return rw_attr_int(n, "is_test", 0) != 0;
    if (mode == INLAY_NONE)
        return true;
    return rw_is_scalar(w, rw_input(w, n, 1), 0) ||
           (rw_is_constant(w, mode) && w->g->values[mode].info.data_bytes == 1 &&
            *(const uint8_t *)w->g->values[mode].info.data == 0);
}

static bool idle_transpose(const graph_node *n)
{
    uint32_t count;
    const int64_t *perm = rw_attr_ints(n, "perm", &count);

    for (uint32_t i = 0; i < count; i++)
        if (perm[i] != (int64_t)i)
            return false;
    return perm != NULL;
}

/* Pads of opset 11 on are an input, before that an attribute. */
static bool idle_pad(struct rewrite *w, const graph_node *n)
{
    uint32_t count = 0;
    const int64_t *pads = rw_attr_ints(n, "pads", &count);

    if (pads == NULL)
        pads = rw_attr_ints(n, "paddings", &count);
    if (pads == NULL && !rw_ints(w, rw_input(w, n, 1), &pads, &count))
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (pads[i] != 0)
            return false;
    return true;
}

/* The same shape with steps forward is everything. */
static bool idle_slice(struct rewrite *w, const graph_node *n)
{
    const int64_t *steps;
    uint32_t count, v = rw_input(w, n, 4);

    if (v == INLAY_NONE)
        return true;
    if (!rw_ints(w, v, &steps, &count))
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (steps[i] < 0)
            return false;
    return true;
}

/* Resize-11 takes scales as input 2, Resize-10 and Upsample-9 as input 1, Upsample-7 as an attribute. */
static bool idle_resize(struct rewrite *w, const graph_node *n)
{
    uint32_t v = rw_input(w, n, n->info.since_version >= 11 ? 2 : 1), count = 0;
    const inlay_attr_info *scales = graph_attr(n, "scales");
    const float *s = scales != NULL ? scales->floats : rw_floats(w, v);

    if (rw_attr_is(n, "coordinate_transformation_mode", "tf_crop_and_resize") || rw_input(w, n, 3) != INLAY_NONE)
        return false;
    count = scales != NULL ? scales->count : v == INLAY_NONE ? 0 : (uint32_t)(w->g->values[v].info.data_bytes / 4);
    for (uint32_t i = 0; i < count; i++)
        if (s == NULL || s[i] != 1)
            return false;
    return count > 0;
}

static bool changes_nothing(struct rewrite *w, const graph_node *n)
{
    uint32_t x = rw_input(w, n, 0), y = n->info.outputs[0];
    const inlay_value_info *in = rw_info(w, x), *out = rw_info(w, y);

    if (in->kind != out->kind || !pass_is_op(n, n->info.op_type.data))
        return false;
    if (pass_is_op(n, "Identity"))
        return true;
    if (pass_is_op(n, "Dropout"))
        return idle_dropout(w, n);
    if (pass_is_op(n, "Cast"))
        return in->dtype != INLAY_UNDEFINED && in->dtype == out->dtype;
    if (pass_is_op(n, "Transpose"))
        return idle_transpose(n);
    if (pass_is_op(n, "Pad"))
        return idle_pad(w, n);
    if (pass_is_op(n, "Clip"))
        return n->info.since_version >= 11 && rw_input(w, n, 1) == INLAY_NONE && rw_input(w, n, 2) == INLAY_NONE;
    if (pass_is_among(n, "Resize Upsample"))
        return idle_resize(w, n);
    if (pass_is_among(n, "Sum Max Min Mean Concat"))
        return n->info.input_count == 1;
    if (!rw_same_type(w, x, y))
        return false;
    if (pass_is_op(n, "Slice"))
        return idle_slice(w, n);
    if (pass_is_op(n, "Split"))
        return n->info.output_count == 1;
    return pass_is_among(n, "Reshape Flatten Squeeze Unsqueeze Expand Tile");
}

static inlay_status match(struct rewrite *w, graph_node *n)
{
    bool done;

    if (n->body_count > 0 || n->info.output_count == 0 || n->info.outputs[0] == INLAY_NONE ||
        rw_input(w, n, 0) == INLAY_NONE || !changes_nothing(w, n))
        return INLAY_OK;
    return rw_forward(w, n->info.outputs[0], n->info.inputs[0], &done);
}

inlay_status pass_no_op(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
