/* Operators that an earlier opset does not have, as several that it has. */
#include "modelkit/opset_parts.h"
#include <math.h>
#include <string.h>

/* A node of two inputs, or of one where b is INLAY_NONE. */
static uint32_t make(struct conversion *c, const char *suffix, const char *op, uint32_t a, uint32_t b)
{
    const uint32_t inputs[] = { a, b };

    return edit_node(c->e, conversion_name(c), suffix, op, "", inputs, 2, NULL);
}

/* The node itself becomes the last of its replacement, so that its output keeps its name. */
static bool become(struct conversion *c, const char *op, uint32_t a, uint32_t b)
{
    uint32_t *inputs = arena_array(&c->e->g->model->arena, 2, sizeof *inputs);

    if (inputs == NULL || c->e->failed) {
        c->e->failed = true;
        return false;
    }
    inputs[0] = a;
    inputs[1] = b;
    c->n->info.op_type = (inlay_str){ op, strlen(op) };
    c->n->info.inputs = inputs;
    c->n->info.input_count = b == INLAY_NONE ? 1 : 2;
    c->n->info.attr_count = c->n->own_attr_count = 0;
    return true;
}

static bool is_float(struct conversion *c)
{
    if (c->e->g->values[conversion_input(c, 0)].info.dtype == INLAY_FLOAT)
        return true;
    c->why = "only its form on floats can be written";
    return false;
}

static double float_of(const graph_node *n, const char *name, double otherwise)
{
    const inlay_attr_info *a = graph_attr(n, name);

    return a != NULL && a->kind == INLAY_ATTR_FLOAT ? a->f : otherwise;
}

static uint32_t number(struct conversion *c, const char *suffix, double value)
{
    return edit_float(c->e, conversion_name(c), suffix, (float)value);
}

/* ------------------------------------------------------------------ activations */

static bool expand_hard_swish(struct conversion *c)
{
    const uint32_t x = conversion_input(c, 0);
    graph_node *gate;
    uint32_t y = edit_node(c->e, conversion_name(c), "_gate", "HardSigmoid", "", &x, 1, &gate);

    if (gate != NULL)
        c->e->failed |= graph_set_attr_float(c->e->g, gate, "alpha", 1.0 / 6) != INLAY_OK ||
                        graph_set_attr_float(c->e->g, gate, "beta", 0.5) != INLAY_OK;
    return become(c, "Mul", x, y);
}

static bool expand_swish(struct conversion *c)
{
    const double alpha = float_of(c->n, "alpha", 1);
    const uint32_t x = conversion_input(c, 0);
    uint32_t y = x;

    if (alpha != 1) {
        if (!is_float(c))
            return false;
        y = make(c, "_scaled", "Mul", x, number(c, "_alpha", alpha));
    }
    return become(c, "Mul", x, make(c, "_gate", "Sigmoid", y, INLAY_NONE));
}

static bool expand_mish(struct conversion *c)
{
    const uint32_t x = conversion_input(c, 0), soft = make(c, "_soft", "Softplus", x, INLAY_NONE);

    return become(c, "Mul", x, make(c, "_gate", "Tanh", soft, INLAY_NONE));
}

static bool expand_celu(struct conversion *c)
{
    const double alpha = float_of(c->n, "alpha", 1);
    uint32_t x = conversion_input(c, 0), a;

    if (alpha == 1)
        return become(c, "Elu", x, INLAY_NONE);
    if (!is_float(c))
        return false;
    a = number(c, "_alpha", alpha);
    x = make(c, "_elu", "Elu", make(c, "_divided", "Div", x, a), INLAY_NONE);
    return become(c, "Mul", x, a);
}

static bool expand_gelu(struct conversion *c)
{
    const inlay_attr_info *how = graph_attr(c->n, "approximate");
    const bool tanh_form = how != NULL && how->kind == INLAY_ATTR_STRING && strcmp(how->s.data, "tanh") == 0;
    const uint32_t x = conversion_input(c, 0);
    uint32_t y;

    if (!is_float(c))
        return false;
    if (tanh_form) {
        y = make(c, "_cube", "Mul", make(c, "_square", "Mul", x, x), x);
        y = make(c, "_curve", "Add", x, make(c, "_part", "Mul", y, number(c, "_cubic", 0.044715)));
        y = make(c, "_tanh", "Tanh", make(c, "_scaled", "Mul", y, number(c, "_root", 0.7978845608028654)), INLAY_NONE);
    } else if (c->opset < 9) {
        c->why = "Erf came with opset 9";
        return false;
    } else {
        y = make(c, "_erf", "Erf", make(c, "_scaled", "Mul", x, number(c, "_root", 0.7071067811865476)), INLAY_NONE);
    }
    y = make(c, "_gate", "Add", y, number(c, "_one", 1));
    return become(c, "Mul", make(c, "_half", "Mul", x, number(c, "_by", 0.5)), y);
}

/* ------------------------------------------------------------------ comparisons, types, shapes */

static bool expand_or_equal(struct conversion *c, const char *strict)
{
    const uint32_t a = conversion_input(c, 0), b = conversion_input(c, 1);
    const inlay_dtype dtype = c->e->g->values[a].info.dtype;

    if (c->opset < 11 && dtype != INLAY_INT32 && dtype != INLAY_INT64) {
        c->why = "Equal compares floats since opset 11";
        return false;
    }
    return become(c, "Or", make(c, "_strict", strict, a, b), make(c, "_equal", "Equal", a, b));
}

static bool expand_greater(struct conversion *c)
{
    return expand_or_equal(c, "Greater");
}

static bool expand_less(struct conversion *c)
{
    return expand_or_equal(c, "Less");
}

static bool expand_cast_like(struct conversion *c)
{
    const inlay_dtype to = c->e->g->values[conversion_input(c, 1)].info.dtype;

    if (to == INLAY_UNDEFINED) {
        c->why = "the type that it casts to is not known";
        return false;
    }
    if (!become(c, "Cast", conversion_input(c, 0), INLAY_NONE))
        return false;
    edit_int(c->e, c->n, "to", to);
    return true;
}

/* Part of a shape: all of it, and a Slice. */
static bool expand_shape(struct conversion *c)
{
    const int64_t from = conversion_int(c->n, "start", 0), to = conversion_int(c->n, "end", INT64_MAX), axis = 0;
    const uint32_t x = conversion_input(c, 0), all = make(c, "_all", "Shape", x, INLAY_NONE);

    if (!become(c, "Slice", all, INLAY_NONE))
        return false;
    if (c->opset >= 10) {
        edit_set_input(c->e, c->n, 1, conversion_ints(c, "_from", &from, 1));
        edit_set_input(c->e, c->n, 2, conversion_ints(c, "_to", &to, 1));
        return true;
    }
    c->e->failed |= graph_set_attr_ints(c->e->g, c->n, "starts", &from, 1) != INLAY_OK ||
                    graph_set_attr_ints(c->e->g, c->n, "ends", &to, 1) != INLAY_OK ||
                    graph_set_attr_ints(c->e->g, c->n, "axes", &axis, 1) != INLAY_OK;
    return true;
}

/* ------------------------------------------------------------------ normalizations */

/* The mean over the axes from `axis` on, which stay as ones. */
static uint32_t mean_from(struct conversion *c, const char *suffix, uint32_t x, int64_t axis, uint32_t rank)
{
    int64_t axes[INLAY_MAX_RANK];
    uint32_t inputs[2] = { x, INLAY_NONE }, out;
    graph_node *n;

    for (uint32_t d = 0; d < rank; d++)
        axes[d] = axis + d;
    if (c->opset >= 18)
        inputs[1] = conversion_ints(c, suffix, axes, rank - (uint32_t)axis);
    out = edit_node(c->e, conversion_name(c), suffix, "ReduceMean", "", inputs, 2, &n);
    if (c->opset < 18 && n != NULL)
        c->e->failed |= graph_set_attr_ints(c->e->g, n, "axes", axes, rank - (uint32_t)axis) != INLAY_OK;
    edit_int(c->e, n, "keepdims", 1);
    return out;
}

/* LayerNormalization, and RMSNormalization without the mean. */
static bool expand_layer_norm(struct conversion *c, bool centered)
{
    const uint32_t rank = conversion_rank(c), scale = conversion_input(c, 1), bias = conversion_input(c, 2);
    const double epsilon = float_of(c->n, "epsilon", 1e-5);
    int64_t axis = conversion_int(c->n, "axis", -1);
    uint32_t x = conversion_input(c, 0), y;

    if (rank == INLAY_RANK_UNKNOWN || rank == 0) {
        c->why = "the rank of its input is not known";
        return false;
    }
    for (uint32_t i = 1; i < c->n->info.output_count; i++)
        if (c->n->info.outputs[i] != INLAY_NONE) {
            c->why = "its mean or deviation is read";
            return false;
        }
    if (!is_float(c))
        return false;
    axis += axis < 0 ? rank : 0;
    if (axis < 0 || axis >= (int64_t)rank)
        return false;
    c->n->info.output_count = 1;
    if (centered)
        x = make(c, "_centered", "Sub", x, mean_from(c, "_mean", x, axis, rank));
    y = mean_from(c, "_variance", make(c, "_square", "Mul", x, x), axis, rank);
    y = make(c, "_deviation", "Sqrt", make(c, "_sum", "Add", y, number(c, "_epsilon", epsilon)), INLAY_NONE);
    y = make(c, "_normal", "Div", x, y);
    if (bias == INLAY_NONE || !centered)
        return become(c, "Mul", y, scale);
    return become(c, "Add", make(c, "_scaled", "Mul", y, scale), bias);
}

static bool expand_layer(struct conversion *c)
{
    return expand_layer_norm(c, true);
}

static bool expand_rms(struct conversion *c)
{
    return expand_layer_norm(c, false);
}

/* A constant of the same number n times. */
static uint32_t row_of(struct conversion *c, const char *suffix, int64_t n, float value)
{
    float *data = edit_memory(c->e, (uint64_t)n * sizeof *data);

    for (int64_t i = 0; data != NULL && i < n; i++)
        data[i] = value;
    return edit_constant(c->e, conversion_name(c), suffix, INLAY_FLOAT, 1, &n, data, (uint64_t)n * sizeof *data);
}

/* [C] as [C, 1, 1 ...], for x [N, C, ...]. */
static uint32_t upright(struct conversion *c, const char *suffix, uint32_t v, uint32_t rank)
{
    int64_t dims[INLAY_MAX_RANK] = { -1 };

    for (uint32_t d = 1; d + 1 < rank; d++)
        dims[d] = 1;
    return make(c, suffix, "Reshape", v, conversion_ints(c, suffix, dims, rank - 1));
}

/* Groups are channels of InstanceNormalization; scale and bias, of channels since opset 21, come after it. Before, they
 * are of groups. */
static bool expand_group_norm(struct conversion *c)
{
    const uint32_t rank = conversion_rank(c), x = conversion_input(c, 0);
    const int64_t groups = conversion_int(c->n, "num_groups", 0), grouped[] = { 0, groups, -1 };
    const double epsilon = float_of(c->n, "epsilon", 1e-5);
    const bool of_groups = c->n->info.since_version < 21;
    uint32_t inputs[3], y;
    graph_node *n;

    if (rank == INLAY_RANK_UNKNOWN || rank < 3 || groups <= 0) {
        c->why = "the rank of its input is not known, or less than 3";
        return false;
    }
    if (!is_float(c))
        return false;
    inputs[0] = make(c, "_groups", "Reshape", x, conversion_ints(c, "_grouped", grouped, 3));
    inputs[1] = of_groups ? conversion_input(c, 1) : row_of(c, "_ones", groups, 1);
    inputs[2] = of_groups ? conversion_input(c, 2) : row_of(c, "_zeros", groups, 0);
    y = edit_node(c->e, conversion_name(c), "_normal", "InstanceNormalization", "", inputs, 3, &n);
    if (n != NULL)
        c->e->failed |= graph_set_attr_float(c->e->g, n, "epsilon", epsilon) != INLAY_OK;
    if (of_groups)
        return become(c, "Reshape", y, make(c, "_shape", "Shape", x, INLAY_NONE));
    y = make(c, "_back", "Reshape", y, make(c, "_shape", "Shape", x, INLAY_NONE));
    y = make(c, "_scaled", "Mul", y, upright(c, "_scale", conversion_input(c, 1), rank));
    return become(c, "Add", y, upright(c, "_bias", conversion_input(c, 2), rank));
}

bool conversion_expand(struct conversion *c)
{
    static const struct {
        const char *op;
        bool (*expand)(struct conversion *c);
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
        if (strcmp(conversion_op(c), forms[i].op) == 0)
            return forms[i].expand(c);
    return false;
}
