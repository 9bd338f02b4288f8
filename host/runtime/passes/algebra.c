/* Algebraic identities that hold for every value, including NaN, infinities and signed zeros:
 *
 *     x * 1, x / 1, x ^ 1, x - 0, x + (-0), for integers x + 0    ->  x
 *     -(-x), not(not x)                                            ->  x
 *     f(f(x)) of Relu, Abs, Ceil, Floor, Round, Sign               ->  f(x)
 *     x + (-y)  ->  x - y        x - (-y)  ->  x + y        x ^ 2  ->  x * x
 *     x / c     ->  x * (1/c)    where c is a power of two
 *     where(not c, x, y)         ->  where(c, y, x)
 *
 * Similar identities that do not hold for every value and are not applied: x * 0 (NaN), x - x (infinity), x + 0 of
 * floats (-0 + 0 is +0), x ^ 0.5 (-0), and log(softmax(x)), which is minus infinity where the softmax is 0. */
#include "base/element.h"
#include "passes/rewrite.h"
#include <math.h>

/* Returns true if all elements of the constant equal `expected`; for float zeros the sign must match minus_zero. */
static bool all_equal(const struct rewrite *rewrite, uint32_t value, double expected, bool minus_zero)
{
    const inlay_value_info *info = rewrite_value_info(rewrite, value);
    uint64_t count;
    double element, imaginary;

    if (!rewrite_is_constant(rewrite, value) || info->data_bytes == 0 || info->data_bytes > 65536 ||
        inlay_dtype_bits(info->dtype) < 8)
        return false;
    count = info->data_bytes / (inlay_dtype_bits(info->dtype) / 8);
    for (uint64_t i = 0; i < count; i++)
        if (!element_number(info->dtype, info->data, (int64_t)i, &element, &imaginary) || element != expected ||
            imaginary != 0 || (expected == 0 && element_is_float(info->dtype) && (signbit(element) != 0) != minus_zero))
            return false;
    return true;
}

/* The input that always equals the node's result; INLAY_NONE: none. */
static uint32_t find_identity_operand(const struct rewrite *rewrite, const graph_node *node)
{
    uint32_t a = rewrite_input(rewrite, node, 0), b = rewrite_input(rewrite, node, 1), output = node->info.outputs[0];
    bool keeps_a, keeps_b;

    if (node->info.input_count != 2 || a == INLAY_NONE || b == INLAY_NONE || node->info.since_version < 7)
        return INLAY_NONE;
    keeps_a = rewrite_same_type(rewrite, a, output); /* no broadcasting of a */
    keeps_b = rewrite_same_type(rewrite, b, output);
    if (pass_is_op(node, "Mul"))
        return keeps_a && all_equal(rewrite, b, 1, false)   ? a
               : keeps_b && all_equal(rewrite, a, 1, false) ? b
                                                            : INLAY_NONE;
    if (pass_is_op(node, "Add")) {
        bool minus = element_is_float(rewrite_value_info(rewrite, output)->dtype);
        return keeps_a && all_equal(rewrite, b, 0, minus)   ? a
               : keeps_b && all_equal(rewrite, a, 0, minus) ? b
                                                            : INLAY_NONE;
    }
    if (pass_is_op(node, "Sub"))
        return keeps_a && all_equal(rewrite, b, 0, false) ? a : INLAY_NONE;
    if (pass_is_op(node, "Div") || pass_is_op(node, "Pow"))
        return keeps_a && all_equal(rewrite, b, 1, false) ? a : INLAY_NONE;
    return INLAY_NONE;
}

/* f(f(x)) = f(x) for idempotent operators, f(f(x)) = x for involutions. */
static uint32_t find_redundant_unary(const struct rewrite *rewrite, const graph_node *node)
{
    static const char *const idempotent[] = { "Relu", "Abs", "Ceil", "Floor", "Round", "Sign" };
    static const char *const involutions[] = { "Neg", "Not" };
    const graph_node *inner;

    if (node->info.input_count != 1)
        return INLAY_NONE;
    for (size_t i = 0; i < sizeof idempotent / sizeof idempotent[0]; i++)
        if (pass_is_op(node, idempotent[i]) &&
            rewrite_producer_op(rewrite, rewrite_input(rewrite, node, 0), idempotent[i]) != NULL)
            return rewrite_input(rewrite, node, 0);
    for (size_t i = 0; i < sizeof involutions / sizeof involutions[0]; i++)
        if (pass_is_op(node, involutions[i]) &&
            (inner = rewrite_producer_op(rewrite, rewrite_input(rewrite, node, 0), involutions[i])) != NULL)
            return rewrite_input(rewrite, inner, 0);
    return INLAY_NONE;
}

static inlay_status replace_by_binary(struct rewrite *rewrite, graph_node *node, const char *op, uint32_t a, uint32_t b)
{
    graph_node *new_node = rewrite_make_node(rewrite, op, node->opset, node, (const uint32_t[]){ a, b }, 2, 1);

    return new_node == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, new_node);
}

/* Folds a negation into Add or Sub: IEEE 754 defines x - y as x + (-y). */
static inlay_status fold_negation(struct rewrite *rewrite, graph_node *node, bool *out_done)
{
    bool add = pass_is_op(node, "Add");
    graph_node *a = add ? rewrite_producer_op(rewrite, rewrite_input(rewrite, node, 0), "Neg") : NULL;
    graph_node *b = rewrite_producer_op(rewrite, rewrite_input(rewrite, node, 1), "Neg");

    *out_done = false;
    if (node->info.since_version < 7 || !element_is_float(rewrite_value_info(rewrite, node->info.outputs[0])->dtype))
        return INLAY_OK;
    *out_done = a != NULL || b != NULL;
    if (b != NULL)
        return replace_by_binary(rewrite, node, add ? "Sub" : "Add", rewrite_input(rewrite, node, 0),
                                 rewrite_input(rewrite, b, 0));
    return a != NULL
               ? replace_by_binary(rewrite, node, "Sub", rewrite_input(rewrite, node, 1), rewrite_input(rewrite, a, 0))
               : INLAY_OK;
}

/* Division by a power of two equals multiplication by its inverse exactly, if the inverse is a normal number. */
static inlay_status invert_divisor(struct rewrite *rewrite, graph_node *node)
{
    uint32_t b = rewrite_input(rewrite, node, 1), inverse;
    const inlay_value_info *info = rewrite_value_info(rewrite, b);
    int exponent;
    double d;
    float f;

    if (node->info.since_version < 7 || info == NULL || info->dtype != INLAY_FLOAT || !rewrite_scalar(rewrite, b, &d) ||
        d == 1 || frexp(fabs(d), &exponent) != 0.5 || exponent < -100 || exponent > 100)
        return INLAY_OK;
    f = (float)(1 / d);
    inverse =
        rewrite_constant(rewrite, INLAY_FLOAT, info->rank, (const int64_t[]){ 1, 1, 1, 1, 1, 1, 1, 1 }, &f, sizeof f);
    if (info->rank > 8 || inverse == INLAY_NONE)
        return info->rank > 8 ? INLAY_OK : rewrite_no_memory(rewrite);
    return replace_by_binary(rewrite, node, "Mul", rewrite_input(rewrite, node, 0), inverse);
}

static inlay_status swap_where_branches(struct rewrite *rewrite, graph_node *node)
{
    graph_node *negation = rewrite_producer_op(rewrite, rewrite_input(rewrite, node, 0), "Not"), *new_node;

    if (negation == NULL)
        return INLAY_OK;
    new_node = rewrite_make_node(rewrite, "Where", node->opset, node,
                                 (const uint32_t[]){ rewrite_input(rewrite, negation, 0),
                                                     rewrite_input(rewrite, node, 2), rewrite_input(rewrite, node, 1) },
                                 3, 1);
    return new_node == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, new_node);
}

static inlay_status match(struct rewrite *rewrite, graph_node *node)
{
    uint32_t equivalent;
    bool done = false;
    inlay_status status;

    if (node->info.output_count != 1 || node->info.outputs[0] == INLAY_NONE)
        return INLAY_OK;
    equivalent = find_identity_operand(rewrite, node);
    if (equivalent == INLAY_NONE)
        equivalent = find_redundant_unary(rewrite, node);
    if (equivalent != INLAY_NONE)
        return rewrite_forward(rewrite, node->info.outputs[0], equivalent, &done);
    if (pass_is_op(node, "Add") || pass_is_op(node, "Sub")) {
        status = fold_negation(rewrite, node, &done);
        return status;
    }
    if (pass_is_op(node, "Div"))
        return invert_divisor(rewrite, node);
    if (pass_is_op(node, "Where"))
        return swap_where_branches(rewrite, node);
    if (pass_is_op(node, "Pow") &&
        rewrite_value_info(rewrite, rewrite_input(rewrite, node, 0))->dtype ==
            rewrite_value_info(rewrite, node->info.outputs[0])->dtype &&
        element_is_float(rewrite_value_info(rewrite, node->info.outputs[0])->dtype) &&
        rewrite_value_info(rewrite, rewrite_input(rewrite, node, 1))->rank == 0 &&
        all_equal(rewrite, rewrite_input(rewrite, node, 1), 2, false) && node->info.since_version >= 7)
        return replace_by_binary(rewrite, node, "Mul", rewrite_input(rewrite, node, 0),
                                 rewrite_input(rewrite, node, 0));
    return INLAY_OK;
}

inlay_status pass_algebra(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
