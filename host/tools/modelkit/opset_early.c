/* Operators whose form changed before opset 7, the earliest opset that is written. */
#include "modelkit/opset_parts.h"
#include <string.h>

/* Adds `count` axes of size 1 after the last one of input i. */
static void add_last_axes(struct conversion *conversion, uint32_t i, uint32_t rank, uint32_t count)
{
    int64_t axes[INLAY_MAX_RANK];
    uint32_t inputs[2] = { conversion_input(conversion, i), INLAY_NONE }, wide;
    const bool as_input = conversion->opset >= 13;
    graph_node *unsqueeze;

    for (uint32_t k = 0; k < count; k++)
        axes[k] = rank + k;
    if (as_input)
        inputs[1] = conversion_ints(conversion, "_axes", axes, count);
    wide = edit_node(conversion->editor, conversion_name(conversion), "_wide", "Unsqueeze", "", inputs,
                     as_input ? 2 : 1, &unsqueeze);
    if (unsqueeze == NULL)
        return;
    if (!as_input)
        conversion->editor->failed |=
            graph_set_attr_ints(conversion->editor->graph, unsqueeze, "axes", axes, count) != INLAY_OK;
    edit_input(conversion->node, i, wide);
}

/* Since opset 7 inputs are broadcast as in numpy. Before, attribute `broadcast` allowed only the second input to be
 * broadcast: it has the axes of the first input from `axis` on or, without `axis`, the last ones. */
static bool raise_broadcast(struct conversion *conversion)
{
    const bool aligns =
        graph_attr_int(conversion->node, "broadcast", 0) != 0 && graph_own_attr(conversion->node, "axis") != NULL;
    const uint32_t rank = conversion_rank(conversion), second = conversion_input(conversion, 1),
                   own = second == INLAY_NONE ? 0 : conversion->editor->graph->values[second].info.rank;
    int64_t axis = graph_attr_int(conversion->node, "axis", 0);

    conversion_drop_attr(conversion, "broadcast");
    conversion_drop_attr(conversion, "axis");
    if (!aligns)
        return true;
    if (rank == INLAY_RANK_UNKNOWN || own == INLAY_RANK_UNKNOWN) {
        conversion->why = "the ranks of its inputs are not known, and its attribute axis aligns them";
        return false;
    }
    axis += axis < 0 ? (int64_t)rank : 0;
    if (axis < 0 || axis + (int64_t)own > (int64_t)rank) {
        conversion->why = "its second input has axes after the last axis of the first one";
        return false;
    }
    if (axis + (int64_t)own < (int64_t)rank && own > 0)
        add_last_axes(conversion, 1, own, rank - own - (uint32_t)axis);
    return true;
}

/* The slopes [C] of PRelu belong to the channels; since opset 7 they are broadcast as in numpy. */
static bool raise_prelu(struct conversion *conversion)
{
    const uint32_t rank = conversion_rank(conversion), slopes = conversion_input(conversion, 1),
                   own = slopes == INLAY_NONE ? 0 : conversion->editor->graph->values[slopes].info.rank;

    if (rank == INLAY_RANK_UNKNOWN || own == INLAY_RANK_UNKNOWN) {
        conversion->why = "the ranks of its inputs are not known, and its slopes belong to axis 1";
        return false;
    }
    if (own == 1 && rank > 2)
        add_last_axes(conversion, 1, own, rank - 2);
    return true;
}

static bool raise_cast(struct conversion *conversion)
{
    const graph_node *node = conversion->node;

    if (node->info.since_version < 6) /* before, `to` is the name of the type */
        edit_int(conversion->editor, conversion->node, "to",
                 conversion->editor->graph->values[node->info.outputs[0]].info.dtype);
    return true;
}

static bool raise_concat(struct conversion *conversion)
{
    if (graph_own_attr(conversion->node, "axis") == NULL)
        edit_int(conversion->editor, conversion->node, "axis", 1);
    return true;
}

/* The exponent p was a float. */
static bool raise_lp_pool(struct conversion *conversion)
{
    const inlay_attr_info *p = graph_own_attr(conversion->node, "p");
    const double exponent = p == NULL ? 2 : p->kind == INLAY_ATTR_FLOAT ? p->f : (double)p->i;

    if (!(exponent >= 1 && exponent <= INT32_MAX) || exponent != (double)(int32_t)exponent) {
        conversion->why = "its p is not a positive integer";
        return false;
    }
    edit_int(conversion->editor, conversion->node, "p", (int64_t)exponent);
    return true;
}

static bool raise_pad(struct conversion *conversion)
{
    const inlay_attr_info *pads = graph_own_attr(conversion->node, "paddings");

    if (pads == NULL || pads->kind != INLAY_ATTR_INTS)
        return true;
    conversion->editor->failed |=
        graph_set_attr_ints(conversion->editor->graph, conversion->node, "pads", pads->ints, pads->count) != INLAY_OK;
    conversion_drop_attr(conversion, "paddings");
    return true;
}

/* Images have one scale for each axis instead of height_scale and width_scale. */
static bool raise_upsample(struct conversion *conversion)
{
    const inlay_attr_info *height = graph_own_attr(conversion->node, "height_scale"),
                          *width = graph_own_attr(conversion->node, "width_scale");
    graph_node *node = conversion->node;
    float *scales = edit_memory(conversion->editor, 4 * sizeof *scales);
    inlay_attr_info *list;

    if (height == NULL || width == NULL || scales == NULL)
        return true;
    memcpy(scales, (const float[]){ 1, 1, (float)height->f, (float)width->f }, 4 * sizeof *scales);
    conversion_drop_attr(conversion, "height_scale");
    conversion_drop_attr(conversion, "width_scale");
    list = arena_array(&conversion->editor->graph->model->arena, (size_t)node->own_attr_count + 1, sizeof *list);
    conversion->editor->failed |= list == NULL;
    if (list == NULL)
        return true;
    if (node->own_attr_count > 0)
        memcpy(list, node->info.attrs, node->own_attr_count * sizeof *list);
    list[node->own_attr_count] =
        (inlay_attr_info){ .name = { "scales", 6 }, .kind = INLAY_ATTR_FLOATS, .count = 4, .floats = scales };
    node->info.attrs = list;
    node->info.attr_count = ++node->own_attr_count;
    return true;
}

bool conversion_raise_early(struct conversion *conversion)
{
    static const struct {
        const char *op;
        bool (*raise)(struct conversion *conversion);
    } forms[] = {
        { "Add", raise_broadcast },  { "And", raise_broadcast },        { "Cast", raise_cast },
        { "Concat", raise_concat },  { "Div", raise_broadcast },        { "Equal", raise_broadcast },
        { "Gemm", raise_broadcast }, { "GlobalLpPool", raise_lp_pool }, { "Greater", raise_broadcast },
        { "Less", raise_broadcast }, { "LpPool", raise_lp_pool },       { "Mul", raise_broadcast },
        { "Or", raise_broadcast },   { "PRelu", raise_prelu },          { "Pad", raise_pad },
        { "Pow", raise_broadcast },  { "Sub", raise_broadcast },        { "Upsample", raise_upsample },
        { "Xor", raise_broadcast },
    };

    if (graph_own_attr(conversion->node, "consumed_inputs") != NULL)
        conversion_drop_attr(conversion, "consumed_inputs"); /* which never had an effect */
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (strcmp(conversion_op(conversion), forms[i].op) == 0)
            return forms[i].raise(conversion);
    return true;
}
