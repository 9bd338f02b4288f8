/* Fuses normalisation over the last axes, written with basic operators:
 *
 *     d = x - ReduceMean(x);  d / Sqrt(ReduceMean(d^2) + epsilon) * scale + bias    ->  LayerNormalization-17
 *     x / Sqrt(ReduceMean(x^2) + epsilon) * scale                                   ->  RMSNormalization-23
 *
 * d^2 may be d * d or Pow(d, 2). The division may be a multiplication by Reciprocal, or by 1 / Sqrt. Without a scale it
 * is 1: layers have none, or the pass `algebra` has removed a factor of ones. */
#include "base/element.h"
#include "passes/rewrite.h"

enum { MAX_ONES = 1 << 16 }; /* elements of a scale that is made */

/* Matches value = ReduceMean(x) over the last axes with keepdims. Returns x and the first axis. */
static uint32_t mean_of(struct rewrite *rewrite, uint32_t value, int64_t *out_axis)
{
    const graph_node *node = rewrite_producer_op(rewrite, value, "ReduceMean");
    uint32_t input = node == NULL ? INLAY_NONE : rewrite_input(rewrite, node, 0), count = 0, rank;
    const int64_t *axes;
    int64_t lowest = INT64_MAX;

    if (node == NULL || rewrite_value_info(rewrite, input)->rank == INLAY_RANK_UNKNOWN ||
        graph_attr_int(node, "keepdims", 1) == 0)
        return INLAY_NONE;
    rank = rewrite_value_info(rewrite, input)->rank;
    axes = rewrite_attr_ints(node, "axes", &count);
    if ((axes == NULL && !rewrite_integers(rewrite, rewrite_input(rewrite, node, 1), &axes, &count)) || count == 0)
        return INLAY_NONE;
    for (uint32_t i = 0; i < count; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + (int64_t)rank : axes[i];
        lowest = axis < lowest ? axis : lowest;
    }
    if (lowest + (int64_t)count != (int64_t)rank) /* the axes are distinct, so this means the last ones */
        return INLAY_NONE;
    *out_axis = lowest;
    return input;
}

/* Matches value = x^2. Returns x. */
static uint32_t square_of(const struct rewrite *rewrite, uint32_t value)
{
    const graph_node *node = rewrite_producer_op(rewrite, value, "Mul");

    if (node != NULL)
        return rewrite_input(rewrite, node, 0) == rewrite_input(rewrite, node, 1) ? rewrite_input(rewrite, node, 0)
                                                                                  : INLAY_NONE;
    node = rewrite_producer_op(rewrite, value, "Pow");
    return node != NULL && rewrite_is_scalar(rewrite, rewrite_input(rewrite, node, 1), 2)
               ? rewrite_input(rewrite, node, 0)
               : INLAY_NONE;
}

/* Matches value = Sqrt(ReduceMean(x^2) + epsilon). Returns x. */
static uint32_t deviation_of(struct rewrite *rewrite, uint32_t value, int64_t *out_axis, double *out_epsilon)
{
    const graph_node *root = rewrite_producer_op(rewrite, value, "Sqrt");
    const graph_node *sum = root == NULL ? NULL : rewrite_producer_op(rewrite, rewrite_input(rewrite, root, 0), "Add");

    for (uint32_t i = 0; sum != NULL && i < 2; i++) {
        uint32_t squares;

        if (!rewrite_scalar(rewrite, rewrite_input(rewrite, sum, i), out_epsilon))
            continue;
        squares = mean_of(rewrite, rewrite_input(rewrite, sum, 1 - i), out_axis);
        return squares == INLAY_NONE ? INLAY_NONE : square_of(rewrite, squares);
    }
    return INLAY_NONE;
}

/* Matches node = a / Sqrt(..), a * Reciprocal(Sqrt(..)) or a * (1 / Sqrt(..)), with the deviation of a itself. Returns
 * a. */
static uint32_t normalised(struct rewrite *rewrite, const graph_node *node, int64_t *out_axis, double *out_epsilon)
{
    if (node == NULL || node->info.since_version < 7)
        return INLAY_NONE;
    if (pass_is_op(node, "Div")) {
        uint32_t a = rewrite_input(rewrite, node, 0);
        return deviation_of(rewrite, rewrite_input(rewrite, node, 1), out_axis, out_epsilon) == a ? a : INLAY_NONE;
    }
    for (uint32_t i = 0; pass_is_op(node, "Mul") && i < 2; i++) {
        uint32_t a = rewrite_input(rewrite, node, i);
        const graph_node *inverse = rewrite_producer_op(rewrite, rewrite_input(rewrite, node, 1 - i), "Reciprocal");
        const graph_node *one = rewrite_producer_op(rewrite, rewrite_input(rewrite, node, 1 - i), "Div");

        if (inverse != NULL && deviation_of(rewrite, rewrite_input(rewrite, inverse, 0), out_axis, out_epsilon) == a)
            return a;
        if (one != NULL && rewrite_is_scalar(rewrite, rewrite_input(rewrite, one, 0), 1) &&
            deviation_of(rewrite, rewrite_input(rewrite, one, 1), out_axis, out_epsilon) == a)
            return a;
    }
    return INLAY_NONE;
}

/* The value from which d subtracts its own mean; INLAY_NONE: d is something else. */
static uint32_t centred(struct rewrite *rewrite, uint32_t d, int64_t axis)
{
    const graph_node *sub = rewrite_producer_op(rewrite, d, "Sub");
    int64_t mean_axis;

    if (sub == NULL || sub->info.since_version < 7 ||
        mean_of(rewrite, rewrite_input(rewrite, sub, 1), &mean_axis) != rewrite_input(rewrite, sub, 0) ||
        mean_axis != axis)
        return INLAY_NONE;
    return rewrite_input(rewrite, sub, 0);
}

/* Returns true if value has exactly the shape of input from axis on, as scale and bias must have. */
static bool is_of_last_axes(const struct rewrite *rewrite, uint32_t value, uint32_t input, int64_t axis)
{
    const inlay_value_info *scale = rewrite_value_info(rewrite, value), *info = rewrite_value_info(rewrite, input);

    if (scale == NULL || scale->rank == INLAY_RANK_UNKNOWN || (int64_t)scale->rank != (int64_t)info->rank - axis ||
        scale->dtype != info->dtype)
        return false;
    for (uint32_t d = 0; d < scale->rank; d++)
        if (rewrite_dim(scale, d) < 0 || rewrite_dim(scale, d) != rewrite_dim(info, axis + d))
            return false;
    return true;
}

/* A matched normalisation: the normalised value, and its scale. */
struct norm_pattern {
    uint32_t input, scale;
    int64_t axis;
    double epsilon;
    bool is_centred;
};

static bool is_float(const struct rewrite *rewrite, uint32_t value)
{
    return element_is_float(rewrite_value_info(rewrite, value)->dtype);
}

/* Matches node = normalised value; the scale is not set. */
static bool find_unscaled(struct rewrite *rewrite, const graph_node *node, struct norm_pattern *pattern)
{
    uint32_t a = normalised(rewrite, node, &pattern->axis, &pattern->epsilon), input;

    if (a == INLAY_NONE)
        return false;
    input = centred(rewrite, a, pattern->axis);
    pattern->is_centred = input != INLAY_NONE;
    pattern->input = pattern->is_centred ? input : a;
    return is_float(rewrite, pattern->input);
}

/* Matches node = scale * normalised value, also in the form x * (scale * 1/deviation). */
static bool find_scaled(struct rewrite *rewrite, const graph_node *node, struct norm_pattern *pattern)
{
    for (uint32_t i = 0; pass_is_op(node, "Mul") && node->info.since_version >= 7 && i < 2; i++) {
        uint32_t value = rewrite_input(rewrite, node, i);

        if (!find_unscaled(rewrite, rewrite_producer(rewrite, value), pattern) || !rewrite_has_one_use(rewrite, value))
            continue;
        pattern->scale = rewrite_input(rewrite, node, 1 - i);
        if (is_of_last_axes(rewrite, pattern->scale, pattern->input, pattern->axis))
            return true;
    }
    return false;
}

/* Reads a normalisation whose values have no other consumer, without bias, and in the usual precision. */
static bool find_norm(const struct rewrite *rewrite, uint32_t value, struct norm_pattern *pattern)
{
    const graph_node *norm = rewrite_producer_op(rewrite, value, "LayerNormalization");
    const bool is_centred = norm != NULL;

    if (!is_centred)
        norm = rewrite_producer_op(rewrite, value, "RMSNormalization");
    if (norm == NULL || !rewrite_has_one_use(rewrite, value) || norm->info.output_count != 1 ||
        rewrite_input(rewrite, norm, 2) != INLAY_NONE || graph_attr_int(norm, "stash_type", 1) != 1)
        return false;
    *pattern = (struct norm_pattern){ .input = rewrite_input(rewrite, norm, 0),
                                      .scale = rewrite_input(rewrite, norm, 1),
                                      .axis = graph_attr_int(norm, "axis", -1),
                                      .epsilon = graph_attr_float(norm, "epsilon", 1e-5),
                                      .is_centred = is_centred };
    if (rewrite_value_info(rewrite, pattern->input)->rank == INLAY_RANK_UNKNOWN)
        return false;
    if (pattern->axis < 0)
        pattern->axis += (int64_t)rewrite_value_info(rewrite, pattern->input)->rank;
    return true;
}

static bool is_ones(const struct rewrite *rewrite, uint32_t value)
{
    const graph_value *constant = &rewrite->graph->values[value];
    int64_t count = 1;
    double number;

    if (!rewrite_is_constant(rewrite, value))
        return false;
    for (uint32_t d = 0; d < constant->info.rank; d++)
        count *= constant->info.dims[d].value;
    for (int64_t i = 0; i < count; i++)
        if (!element_number(constant->info.dtype, constant->info.data, i, &number, NULL) || number != 1)
            return false;
    return true;
}

/* Matches node = scale * norm, where the norm has a scale of ones. */
static bool find_scaled_norm(struct rewrite *rewrite, const graph_node *node, struct norm_pattern *pattern)
{
    for (uint32_t i = 0; pass_is_op(node, "Mul") && node->info.since_version >= 7 && i < 2; i++) {
        if (!find_norm(rewrite, rewrite_input(rewrite, node, i), pattern) || !is_ones(rewrite, pattern->scale))
            continue;
        pattern->scale = rewrite_input(rewrite, node, 1 - i);
        if (is_of_last_axes(rewrite, pattern->scale, pattern->input, pattern->axis))
            return true;
    }
    return false;
}

/* A scale of ones for the last axes of the input. INLAY_NONE: a size is unknown, or out of memory. */
static uint32_t make_ones(struct rewrite *rewrite, const struct norm_pattern *pattern)
{
    const inlay_value_info *info = rewrite_value_info(rewrite, pattern->input);
    const uint32_t rank = info->rank - (uint32_t)pattern->axis;
    int64_t dims[INLAY_MAX_RANK], count = 1;
    uint64_t bytes;
    void *data;

    for (uint32_t d = 0; d < rank; d++) {
        dims[d] = rewrite_dim(info, pattern->axis + d);
        if (dims[d] <= 0 || dims[d] > MAX_ONES / count)
            return INLAY_NONE;
        count *= dims[d];
    }
    bytes = (uint64_t)count * (uint64_t)inlay_dtype_bits(info->dtype) / 8;
    data = arena_alloc(&rewrite->scratch, bytes);
    for (int64_t i = 0; data != NULL && i < count; i++)
        if (!element_put(info->dtype, data, i, 1))
            return INLAY_NONE;
    return data == NULL ? INLAY_NONE : rewrite_constant(rewrite, info->dtype, rank, dims, data, bytes);
}

static inlay_status replace_by_norm(struct rewrite *rewrite, graph_node *node, const struct norm_pattern *pattern,
                                    uint32_t bias)
{
    const char *op = pattern->is_centred ? "LayerNormalization" : "RMSNormalization";
    int64_t opset = pattern->is_centred ? 17 : 23;
    graph_node *new_node;

    /* Axes refer to squares and sums, whose rank exceeds that of the input if constants have more axes. */
    if (!pass_allows(rewrite->ctx, opset) || !rewrite_keeps_rank(rewrite, node->info.outputs[0], pattern->input))
        return INLAY_OK;
    new_node =
        rewrite_make_node(rewrite, op, node->opset > opset ? node->opset : opset, node,
                          (const uint32_t[]){ pattern->input, pattern->scale, bias }, bias == INLAY_NONE ? 2 : 3, 1);
    if (new_node == NULL || graph_set_attr_int(rewrite->graph, new_node, "axis", pattern->axis) != INLAY_OK ||
        graph_set_attr_float(rewrite->graph, new_node, "epsilon", pattern->epsilon) != INLAY_OK)
        return rewrite_no_memory(rewrite);
    return rewrite_replace_node(rewrite, node, new_node);
}

static inlay_status match_add(struct rewrite *rewrite, graph_node *node)
{
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t bias = rewrite_input(rewrite, node, 1 - i);
        struct norm_pattern pattern;

        if (find_norm(rewrite, rewrite_input(rewrite, node, i), &pattern) && pattern.is_centred &&
            is_of_last_axes(rewrite, bias, pattern.input, pattern.axis))
            return replace_by_norm(rewrite, node, &pattern, bias);
    }
    return INLAY_OK;
}

/* The value that node divides by: that of Div, or of the Reciprocal or quotient that Mul reads. */
static uint32_t divisor_of(const struct rewrite *rewrite, const graph_node *node, uint32_t *out_divided)
{
    const bool is_div = pass_is_op(node, "Div");

    for (uint32_t i = 0; (is_div || pass_is_op(node, "Mul")) && i < (is_div ? 1 : 2); i++) {
        const uint32_t side = rewrite_input(rewrite, node, 1 - i);
        const graph_node *inverse = rewrite_producer_op(rewrite, side, "Reciprocal"),
                         *one = rewrite_producer_op(rewrite, side, "Div");

        *out_divided = rewrite_input(rewrite, node, i);
        if (is_div)
            return side;
        if (inverse != NULL)
            return rewrite_input(rewrite, inverse, 0);
        if (one != NULL && rewrite_is_scalar(rewrite, rewrite_input(rewrite, one, 0), 1))
            return rewrite_input(rewrite, one, 1);
    }
    return INLAY_NONE;
}

/* Reports a value that is divided by the root of a mean of squares, and why it is not a norm. */
static void report_near_miss(struct rewrite *rewrite, const graph_node *node)
{
    uint32_t divided = INLAY_NONE, squares = INLAY_NONE;
    const graph_node *root = rewrite_producer_op(rewrite, divisor_of(rewrite, node, &divided), "Sqrt"), *sum,
                     *mean = NULL;
    bool has_epsilon = false;
    double epsilon;
    int64_t axis;
    const char *why;

    sum = root == NULL ? NULL : rewrite_producer_op(rewrite, rewrite_input(rewrite, root, 0), "Add");
    for (uint32_t i = 0; sum != NULL && mean == NULL && i < 2; i++) {
        mean = rewrite_producer_op(rewrite, rewrite_input(rewrite, sum, i), "ReduceMean");
        has_epsilon = rewrite_scalar(rewrite, rewrite_input(rewrite, sum, 1 - i), &epsilon);
    }
    if (mean == NULL)
        return;
    squares = mean_of(rewrite, mean->info.outputs[0], &axis);
    if (!has_epsilon)
        why = "what is added to the mean of squares is not one constant";
    else if (squares == INLAY_NONE)
        why = "the mean is not over the last axes, or does not keep them";
    else if (square_of(rewrite, squares) != divided)
        why = "the mean is not that of the squares of the value that is divided";
    else if (!pass_allows(rewrite->ctx, centred(rewrite, divided, axis) != INLAY_NONE ? 17 : 23))
        why = "the opset of the file has no LayerNormalization (17) or RMSNormalization (23)";
    else
        why = "sizes of the last axes are open, constants have more axes than the value, or the type is not a float";
    rewrite_near_miss(rewrite, node, "a norm is not fused: %s", why);
}

static inlay_status match(struct rewrite *rewrite, graph_node *node)
{
    struct norm_pattern pattern;

    if (rewrite->ctx->at_end)
        report_near_miss(rewrite, node);

    if (pass_is_op(node, "Add") && node->info.since_version >= 7)
        return match_add(rewrite, node);
    if (find_scaled(rewrite, node, &pattern) || find_scaled_norm(rewrite, node, &pattern))
        return replace_by_norm(rewrite, node, &pattern, INLAY_NONE);
    if (!find_unscaled(rewrite, node, &pattern) || (pattern.scale = make_ones(rewrite, &pattern)) == INLAY_NONE)
        return INLAY_OK;
    return replace_by_norm(rewrite, node, &pattern, INLAY_NONE);
}

inlay_status pass_layer_norm(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
