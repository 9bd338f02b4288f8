/* Expands operators that an earlier opset lacks into several that it has. */
#include "modelkit/opset_parts.h"
#include "inlay/check.h"
#include <math.h>
#include <string.h>

/* Adds a node with two inputs, or one if b is INLAY_NONE. */
static uint32_t add_op(struct conversion *conversion, const char *suffix, const char *op, uint32_t a, uint32_t b)
{
    const uint32_t inputs[] = { a, b };

    return edit_node(conversion->editor, conversion_name(conversion), suffix, op, "", inputs, 2, NULL);
}

/* Turns the node itself into the last operator of its replacement, so that its output keeps its name. */
static bool replace_by(struct conversion *conversion, const char *op, uint32_t a, uint32_t b)
{
    uint32_t *inputs = arena_array(&conversion->editor->graph->model->arena, 2, sizeof *inputs);

    INLAY_CHECK(conversion->node->info.output_count > 0);
    if (inputs == NULL || conversion->editor->failed) {
        conversion->editor->failed = true;
        return false;
    }
    inputs[0] = a;
    inputs[1] = b;
    conversion->node->info.op_type = (inlay_str){ op, strlen(op) };
    conversion->node->info.inputs = inputs;
    conversion->node->info.input_count = b == INLAY_NONE ? 1 : 2;
    conversion->node->info.attr_count = conversion->node->own_attr_count = 0;
    return true;
}

static bool is_float(struct conversion *conversion)
{
    if (conversion->editor->graph->values[conversion_input(conversion, 0)].info.dtype == INLAY_FLOAT)
        return true;
    conversion->why = "only float inputs can be converted";
    return false;
}

/* Is input 0 of a type for which conversion_number() makes any number? */
static bool is_any_float(struct conversion *conversion)
{
    const inlay_dtype dtype = conversion->editor->graph->values[conversion_input(conversion, 0)].info.dtype;

    if (dtype == INLAY_FLOAT || dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16 || dtype == INLAY_DOUBLE)
        return true;
    conversion->why = "the type of its input is not known, or is not a float";
    return false;
}

static uint32_t float_constant(struct conversion *conversion, const char *suffix, double value)
{
    return edit_float(conversion->editor, conversion_name(conversion), suffix, (float)value);
}

static bool expand_hard_swish(struct conversion *conversion)
{
    const uint32_t input = conversion_input(conversion, 0);
    graph_node *gate;
    uint32_t output =
        edit_node(conversion->editor, conversion_name(conversion), "_gate", "HardSigmoid", "", &input, 1, &gate);

    if (gate != NULL)
        conversion->editor->failed |=
            graph_set_attr_float(conversion->editor->graph, gate, "alpha", 1.0 / 6) != INLAY_OK ||
            graph_set_attr_float(conversion->editor->graph, gate, "beta", 0.5) != INLAY_OK;
    return replace_by(conversion, "Mul", input, output);
}

static bool expand_swish(struct conversion *conversion)
{
    const double alpha = graph_attr_float(conversion->node, "alpha", 1);
    const uint32_t input = conversion_input(conversion, 0);
    uint32_t output = input;

    if (alpha != 1) {
        if (!is_any_float(conversion))
            return false;
        output = add_op(conversion, "_scaled", "Mul", input, conversion_number(conversion, "_alpha", alpha));
    }
    return replace_by(conversion, "Mul", input, add_op(conversion, "_gate", "Sigmoid", output, INLAY_NONE));
}

static bool expand_mish(struct conversion *conversion)
{
    const uint32_t input = conversion_input(conversion, 0),
                   soft = add_op(conversion, "_soft", "Softplus", input, INLAY_NONE);

    return replace_by(conversion, "Mul", input, add_op(conversion, "_gate", "Tanh", soft, INLAY_NONE));
}

static bool expand_celu(struct conversion *conversion)
{
    const double alpha = graph_attr_float(conversion->node, "alpha", 1);
    uint32_t input = conversion_input(conversion, 0), a;

    if (alpha == 1)
        return replace_by(conversion, "Elu", input, INLAY_NONE);
    if (!is_any_float(conversion))
        return false;
    a = conversion_number(conversion, "_alpha", alpha);
    input = add_op(conversion, "_elu", "Elu", add_op(conversion, "_divided", "Div", input, a), INLAY_NONE);
    return replace_by(conversion, "Mul", input, a);
}

static bool expand_gelu(struct conversion *conversion)
{
    const inlay_attr_info *how = graph_attr(conversion->node, "approximate");
    const bool tanh_form = how != NULL && how->kind == INLAY_ATTR_STRING && strcmp(how->s.data, "tanh") == 0;
    const uint32_t input = conversion_input(conversion, 0);
    uint32_t output;

    if (!is_any_float(conversion))
        return false;
    if (tanh_form) {
        output = add_op(conversion, "_cube", "Mul", add_op(conversion, "_square", "Mul", input, input), input);
        output = add_op(conversion, "_curve", "Add", input,
                        add_op(conversion, "_part", "Mul", output, conversion_number(conversion, "_cubic", 0.044715)));
        output = add_op(
            conversion, "_tanh", "Tanh",
            add_op(conversion, "_scaled", "Mul", output, conversion_number(conversion, "_root", 0.7978845608028654)),
            INLAY_NONE);
    } else if (conversion->opset < 9) {
        conversion->why = "Erf came with opset 9";
        return false;
    } else {
        output = add_op(
            conversion, "_erf", "Erf",
            add_op(conversion, "_scaled", "Mul", input, conversion_number(conversion, "_root", 0.7071067811865476)),
            INLAY_NONE);
    }
    output = add_op(conversion, "_gate", "Add", output, conversion_number(conversion, "_one", 1));
    return replace_by(conversion, "Mul",
                      add_op(conversion, "_half", "Mul", input, conversion_number(conversion, "_by", 0.5)), output);
}

static bool expand_or_equal(struct conversion *conversion, const char *strict)
{
    const uint32_t a = conversion_input(conversion, 0), b = conversion_input(conversion, 1);
    const inlay_dtype dtype = conversion->editor->graph->values[a].info.dtype;

    if (conversion->opset < 11 && dtype != INLAY_INT32 && dtype != INLAY_INT64) {
        conversion->why = "Equal compares floats since opset 11";
        return false;
    }
    return replace_by(conversion, "Or", add_op(conversion, "_strict", strict, a, b),
                      add_op(conversion, "_equal", "Equal", a, b));
}

static bool expand_greater(struct conversion *conversion)
{
    return expand_or_equal(conversion, "Greater");
}

static bool expand_less(struct conversion *conversion)
{
    return expand_or_equal(conversion, "Less");
}

static bool expand_cast_like(struct conversion *conversion)
{
    const inlay_dtype to = conversion->editor->graph->values[conversion_input(conversion, 1)].info.dtype;

    if (to == INLAY_UNDEFINED) {
        conversion->why = "the target type of the cast is not known";
        return false;
    }
    if (!replace_by(conversion, "Cast", conversion_input(conversion, 0), INLAY_NONE))
        return false;
    edit_int(conversion->editor, conversion->node, "to", to);
    return true;
}

/* Shape with start and end: Shape of everything, then Slice. */
static bool expand_shape(struct conversion *conversion)
{
    const int64_t from = graph_attr_int(conversion->node, "start", 0),
                  to = graph_attr_int(conversion->node, "end", INT64_MAX), axis = 0;
    const uint32_t input = conversion_input(conversion, 0),
                   all = add_op(conversion, "_all", "Shape", input, INLAY_NONE);

    if (!replace_by(conversion, "Slice", all, INLAY_NONE))
        return false;
    if (conversion->opset >= 10) {
        edit_set_input(conversion->editor, conversion->node, 1, conversion_ints(conversion, "_from", &from, 1));
        edit_set_input(conversion->editor, conversion->node, 2, conversion_ints(conversion, "_to", &to, 1));
        return true;
    }
    conversion->editor->failed |=
        graph_set_attr_ints(conversion->editor->graph, conversion->node, "starts", &from, 1) != INLAY_OK ||
        graph_set_attr_ints(conversion->editor->graph, conversion->node, "ends", &to, 1) != INLAY_OK ||
        graph_set_attr_ints(conversion->editor->graph, conversion->node, "axes", &axis, 1) != INLAY_OK;
    return true;
}

/* Adds the mean over the axes from `axis` on, which are kept with size 1. */
static uint32_t mean_from(struct conversion *conversion, const char *suffix, uint32_t input, int64_t axis,
                          uint32_t rank)
{
    int64_t axes[INLAY_MAX_RANK];
    uint32_t inputs[2] = { input, INLAY_NONE }, out;
    graph_node *node;

    INLAY_CHECK(rank <= INLAY_MAX_RANK && axis >= 0 && axis <= (int64_t)rank);
    for (uint32_t index = 0; index < rank; index++)
        axes[index] = axis + index;
    if (conversion->opset >= 18)
        inputs[1] = conversion_ints(conversion, suffix, axes, rank - (uint32_t)axis);
    out = edit_node(conversion->editor, conversion_name(conversion), suffix, "ReduceMean", "", inputs, 2, &node);
    if (conversion->opset < 18 && node != NULL)
        conversion->editor->failed |=
            graph_set_attr_ints(conversion->editor->graph, node, "axes", axes, rank - (uint32_t)axis) != INLAY_OK;
    edit_int(conversion->editor, node, "keepdims", 1);
    return out;
}

static uint32_t cast(struct conversion *conversion, const char *suffix, uint32_t input, inlay_dtype to)
{
    graph_node *node;
    const uint32_t output =
        edit_node(conversion->editor, conversion_name(conversion), suffix, "Cast", "", &input, 1, &node);

    edit_int(conversion->editor, node, "to", to);
    return output;
}

/* LayerNormalization; without the mean, RMSNormalization. Of 16-bit floats they are computed in float (stash_type), up
 * to the scale. */
static bool expand_layer_norm(struct conversion *conversion, bool centered)
{
    const uint32_t rank = conversion_rank(conversion), scale = conversion_input(conversion, 1),
                   bias = conversion_input(conversion, 2);
    const double epsilon = graph_attr_float(conversion->node, "epsilon", 1e-5);
    int64_t axis = graph_attr_int(conversion->node, "axis", -1);
    uint32_t input = conversion_input(conversion, 0), output;
    const inlay_dtype dtype = conversion->editor->graph->values[input].info.dtype;
    const bool narrow = dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16;

    if (rank == INLAY_RANK_UNKNOWN || rank == 0) {
        conversion->why = "the rank of its input is not known";
        return false;
    }
    for (uint32_t i = 1; i < conversion->node->info.output_count; i++)
        if (conversion->node->info.outputs[i] != INLAY_NONE) {
            conversion->why = "its mean or deviation output is used";
            return false;
        }
    if (!is_any_float(conversion))
        return false;
    axis += axis < 0 ? rank : 0;
    if (axis < 0 || axis >= (int64_t)rank)
        return false;
    conversion->node->info.output_count = 1;
    if (narrow)
        input = cast(conversion, "_wide", input, INLAY_FLOAT);
    if (centered)
        input = add_op(conversion, "_centered", "Sub", input, mean_from(conversion, "_mean", input, axis, rank));
    output = mean_from(conversion, "_variance", add_op(conversion, "_square", "Mul", input, input), axis, rank);
    output = add_op(conversion, "_deviation", "Sqrt",
                    add_op(conversion, "_sum", "Add", output,
                           dtype == INLAY_DOUBLE ? conversion_number(conversion, "_epsilon", epsilon)
                                                 : float_constant(conversion, "_epsilon", epsilon)),
                    INLAY_NONE);
    output = add_op(conversion, "_normal", "Div", input, output);
    if (narrow)
        output = cast(conversion, "_narrow", output, dtype);
    if (bias == INLAY_NONE || !centered)
        return replace_by(conversion, "Mul", output, scale);
    return replace_by(conversion, "Add", add_op(conversion, "_scaled", "Mul", output, scale), bias);
}

static bool expand_layer(struct conversion *conversion)
{
    return expand_layer_norm(conversion, true);
}

static bool expand_rms(struct conversion *conversion)
{
    return expand_layer_norm(conversion, false);
}

/* A constant vector of n equal numbers. */
static uint32_t constant_row(struct conversion *conversion, const char *suffix, int64_t n, float value)
{
    float *data = edit_memory(conversion->editor, (uint64_t)n * sizeof *data);

    for (int64_t i = 0; data != NULL && i < n; i++)
        data[i] = value;
    return edit_constant(conversion->editor, conversion_name(conversion), suffix, INLAY_FLOAT, 1, &n, data,
                         (uint64_t)n * sizeof *data);
}

/* Reshapes [C] to [C, 1, 1 ...], for an input [N, C, ...]. */
static uint32_t channel_shape(struct conversion *conversion, const char *suffix, uint32_t value, uint32_t rank)
{
    int64_t dims[INLAY_MAX_RANK] = { -1 };

    for (uint32_t axis = 1; axis + 1 < rank; axis++)
        dims[axis] = 1;
    return add_op(conversion, suffix, "Reshape", value, conversion_ints(conversion, suffix, dims, rank - 1));
}

/* Groups become the channels of InstanceNormalization. Since opset 21 scale and bias belong to channels and are applied
 * afterwards; before, they belong to groups. */
static bool expand_group_norm(struct conversion *conversion)
{
    const uint32_t rank = conversion_rank(conversion), input = conversion_input(conversion, 0);
    const int64_t groups = graph_attr_int(conversion->node, "num_groups", 0), grouped[] = { 0, groups, -1 };
    const double epsilon = graph_attr_float(conversion->node, "epsilon", 1e-5);
    const bool of_groups = conversion->node->info.since_version < 21;
    uint32_t inputs[3], output;
    graph_node *node;

    if (rank == INLAY_RANK_UNKNOWN || rank < 3 || groups <= 0) {
        conversion->why = "the rank of its input is not known, or less than 3";
        return false;
    }
    if (!is_float(conversion))
        return false;
    inputs[0] = add_op(conversion, "_groups", "Reshape", input, conversion_ints(conversion, "_grouped", grouped, 3));
    inputs[1] = of_groups ? conversion_input(conversion, 1) : constant_row(conversion, "_ones", groups, 1);
    inputs[2] = of_groups ? conversion_input(conversion, 2) : constant_row(conversion, "_zeros", groups, 0);
    output = edit_node(conversion->editor, conversion_name(conversion), "_normal", "InstanceNormalization", "", inputs,
                       3, &node);
    if (node != NULL)
        conversion->editor->failed |=
            graph_set_attr_float(conversion->editor->graph, node, "epsilon", epsilon) != INLAY_OK;
    if (of_groups)
        return replace_by(conversion, "Reshape", output, add_op(conversion, "_shape", "Shape", input, INLAY_NONE));
    output = add_op(conversion, "_back", "Reshape", output, add_op(conversion, "_shape", "Shape", input, INLAY_NONE));
    output = add_op(conversion, "_scaled", "Mul", output,
                    channel_shape(conversion, "_scale", conversion_input(conversion, 1), rank));
    return replace_by(conversion, "Add", output,
                      channel_shape(conversion, "_bias", conversion_input(conversion, 2), rank));
}

bool conversion_expand(struct conversion *conversion)
{
    static const struct {
        const char *op;
        bool (*expand)(struct conversion *conversion);
    } forms[] = { { "HardSwish", expand_hard_swish },
                  { "Swish", expand_swish },
                  { "Mish", expand_mish },
                  { "Celu", expand_celu },
                  { "Gelu", expand_gelu },
                  { "GreaterOrEqual", expand_greater },
                  { "LessOrEqual", expand_less },
                  { "CastLike", expand_cast_like },
                  { "Shape", expand_shape },
                  { "LayerNormalization", expand_layer },
                  { "RMSNormalization", expand_rms },
                  { "GroupNormalization", expand_group_norm } };

    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (strcmp(conversion_op(conversion), forms[i].op) == 0)
            return forms[i].expand(conversion);
    return false;
}
