/* Identities that hold for every value, NaN, infinities and signed zeros included:
 *
 *     x * 1, x / 1, x ^ 1, x - 0, x + (-0), for integers x + 0    ->  x
 *     -(-x), not(not x)                                            ->  x
 *     f(f(x)) of Relu, Abs, Ceil, Floor, Round, Sign, Trunc        ->  f(x)
 *     x + (-y)  ->  x - y        x - (-y)  ->  x + y        x ^ 2  ->  x * x
 *     x / c     ->  x * (1/c)    where c is a power of two
 *     where(not c, x, y)         ->  where(c, y, x)
 *
 * What looks alike and is not there: x * 0 (NaN), x - x (infinity), x + 0 of floats (-0 + 0 is +0), x ^ 0.5 (-0), and
 * log(softmax(x)), which is minus infinity where the softmax is 0. */
#include "base/element.h"
#include "passes/rewrite.h"
#include <math.h>

/* Do all elements of constant value_index equal value, the sign of zeros of floats included? */
static bool all_equal(const struct rewrite *rewrite, uint32_t value_index, double value, bool minus_zero)
{
    const inlay_value_info *info = rw_info(rewrite, value_index);
    uint64_t count;
    double d, im;

    if (!rw_is_constant(rewrite, value_index) || info->data_bytes == 0 || info->data_bytes > 65536 ||
        inlay_dtype_bits(info->dtype) < 8)
        return false;
    count = info->data_bytes / (inlay_dtype_bits(info->dtype) / 8);
    for (uint64_t i = 0; i < count; i++)
        if (!element_number(info->dtype, info->data, (int64_t)i, &d, &im) || d != value || im != 0 ||
            (value == 0 && element_is_float(info->dtype) && (signbit(d) != 0) != minus_zero))
            return false;
    return true;
}

/* The input that the node's result always equals; INLAY_NONE if there is none. */
static uint32_t find_equal(const struct rewrite *rewrite, const graph_node *node)
{
    uint32_t a = rw_input(rewrite, node, 0), b = rw_input(rewrite, node, 1), output = node->info.outputs[0];
    bool keeps_a, keeps_b;

    if (node->info.input_count != 2 || a == INLAY_NONE || b == INLAY_NONE || node->info.since_version < 7)
        return INLAY_NONE;
    keeps_a = rw_same_type(rewrite, a, output); /* no broadcasting of a */
    keeps_b = rw_same_type(rewrite, b, output);
    if (pass_is_op(node, "Mul"))
        return keeps_a && all_equal(rewrite, b, 1, false)   ? a
               : keeps_b && all_equal(rewrite, a, 1, false) ? b
                                                            : INLAY_NONE;
    if (pass_is_op(node, "Add")) {
        bool minus = element_is_float(rw_info(rewrite, output)->dtype);
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

/* f(f(x)) = f(x), or = x. */
static uint32_t find_repeated(const struct rewrite *rewrite, const graph_node *node)
{
    static const char *const idempotent[] = { "Relu", "Abs", "Ceil", "Floor", "Round", "Sign" };
    static const char *const involutions[] = { "Neg", "Not" };
    const graph_node *inner;

    if (node->info.input_count != 1)
        return INLAY_NONE;
    for (size_t i = 0; i < sizeof idempotent / sizeof idempotent[0]; i++)
        if (pass_is_op(node, idempotent[i]) && rw_maker_op(rewrite, rw_input(rewrite, node, 0), idempotent[i]) != NULL)
            return rw_input(rewrite, node, 0);
    for (size_t i = 0; i < sizeof involutions / sizeof involutions[0]; i++)
        if (pass_is_op(node, involutions[i]) &&
            (inner = rw_maker_op(rewrite, rw_input(rewrite, node, 0), involutions[i])) != NULL)
            return rw_input(rewrite, inner, 0);
    return INLAY_NONE;
}

static inlay_status become(struct rewrite *rewrite, graph_node *node, const char *op, uint32_t a, uint32_t b)
{
    graph_node *fresh = rw_make(rewrite, op, node->opset, node, (const uint32_t[]){ a, b }, 2, 1);

    return fresh == NULL ? rw_no_memory(rewrite) : rw_replace(rewrite, node, fresh);
}

/* Negation into the sum: IEEE 754 defines x - y as x + (-y). */
static inlay_status join_negation(struct rewrite *rewrite, graph_node *node, bool *out_done)
{
    bool add = pass_is_op(node, "Add");
    graph_node *a = add ? rw_maker_op(rewrite, rw_input(rewrite, node, 0), "Neg") : NULL;
    graph_node *b = rw_maker_op(rewrite, rw_input(rewrite, node, 1), "Neg");

    *out_done = false;
    if (node->info.since_version < 7 || !element_is_float(rw_info(rewrite, node->info.outputs[0])->dtype))
        return INLAY_OK;
    *out_done = a != NULL || b != NULL;
    if (b != NULL)
        return become(rewrite, node, add ? "Sub" : "Add", rw_input(rewrite, node, 0), rw_input(rewrite, b, 0));
    return a != NULL ? become(rewrite, node, "Sub", rw_input(rewrite, node, 1), rw_input(rewrite, a, 0)) : INLAY_OK;
}

/* Dividing by a power of two is multiplying by its inverse, exactly, unless that is no normal number. */
static inlay_status invert_divisor(struct rewrite *rewrite, graph_node *node)
{
    uint32_t b = rw_input(rewrite, node, 1), inverse;
    const inlay_value_info *info = rw_info(rewrite, b);
    int exponent;
    double d;
    float f;

    if (node->info.since_version < 7 || info == NULL || info->dtype != INLAY_FLOAT || !rw_scalar(rewrite, b, &d) ||
        d == 1 || frexp(fabs(d), &exponent) != 0.5 || exponent < -100 || exponent > 100)
        return INLAY_OK;
    f = (float)(1 / d);
    inverse = rw_constant(rewrite, INLAY_FLOAT, info->rank, (const int64_t[]){ 1, 1, 1, 1, 1, 1, 1, 1 }, &f, sizeof f);
    if (info->rank > 8 || inverse == INLAY_NONE)
        return info->rank > 8 ? INLAY_OK : rw_no_memory(rewrite);
    return become(rewrite, node, "Mul", rw_input(rewrite, node, 0), inverse);
}

static inlay_status turn_choice(struct rewrite *rewrite, graph_node *node)
{
    graph_node *negation = rw_maker_op(rewrite, rw_input(rewrite, node, 0), "Not"), *fresh;

    if (negation == NULL)
        return INLAY_OK;
    fresh = rw_make(
        rewrite, "Where", node->opset, node,
        (const uint32_t[]){ rw_input(rewrite, negation, 0), rw_input(rewrite, node, 2), rw_input(rewrite, node, 1) }, 3,
        1);
    return fresh == NULL ? rw_no_memory(rewrite) : rw_replace(rewrite, node, fresh);
}

static inlay_status match(struct rewrite *rewrite, graph_node *node)
{
    uint32_t same;
    bool done = false;
    inlay_status status;

    if (node->info.output_count != 1 || node->info.outputs[0] == INLAY_NONE)
        return INLAY_OK;
    same = find_equal(rewrite, node);
    if (same == INLAY_NONE)
        same = find_repeated(rewrite, node);
    if (same != INLAY_NONE)
        return rw_forward(rewrite, node->info.outputs[0], same, &done);
    if (pass_is_op(node, "Add") || pass_is_op(node, "Sub")) {
        status = join_negation(rewrite, node, &done);
        return status;
    }
    if (pass_is_op(node, "Div"))
        return invert_divisor(rewrite, node);
    if (pass_is_op(node, "Where"))
        return turn_choice(rewrite, node);
    if (pass_is_op(node, "Pow") &&
        rw_info(rewrite, rw_input(rewrite, node, 0))->dtype == rw_info(rewrite, node->info.outputs[0])->dtype &&
        element_is_float(rw_info(rewrite, node->info.outputs[0])->dtype) &&
        rw_info(rewrite, rw_input(rewrite, node, 1))->rank == 0 &&
        all_equal(rewrite, rw_input(rewrite, node, 1), 2, false) && node->info.since_version >= 7)
        return become(rewrite, node, "Mul", rw_input(rewrite, node, 0), rw_input(rewrite, node, 0));
    return INLAY_OK;
}

inlay_status pass_algebra(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
