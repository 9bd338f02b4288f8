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

/* Do all elements of constant v equal value, the sign of zeros of floats included? */
static bool all_equal(const struct rewrite *w, uint32_t v, double value, bool minus_zero)
{
    const inlay_value_info *c = rw_info(w, v);
    uint64_t count;
    double d, im;

    if (!rw_is_constant(w, v) || c->data_bytes == 0 || c->data_bytes > 65536 || inlay_dtype_bits(c->dtype) < 8)
        return false;
    count = c->data_bytes / (inlay_dtype_bits(c->dtype) / 8);
    for (uint64_t i = 0; i < count; i++)
        if (!element_number(c->dtype, c->data, (int64_t)i, &d, &im) || d != value || im != 0 ||
            (value == 0 && element_is_float(c->dtype) && (signbit(d) != 0) != minus_zero))
            return false;
    return true;
}

/* The input that the node's result always equals; INLAY_NONE if there is none. */
static uint32_t find_equal(const struct rewrite *w, const graph_node *n)
{
    uint32_t a = rw_input(w, n, 0), b = rw_input(w, n, 1), y = n->info.outputs[0];
    bool keeps_a, keeps_b;

    if (n->info.input_count != 2 || a == INLAY_NONE || b == INLAY_NONE || n->info.since_version < 7)
        return INLAY_NONE;
    keeps_a = rw_same_type(w, a, y); /* no broadcasting of a */
    keeps_b = rw_same_type(w, b, y);
    if (pass_is_op(n, "Mul"))
        return keeps_a && all_equal(w, b, 1, false) ? a : keeps_b && all_equal(w, a, 1, false) ? b : INLAY_NONE;
    if (pass_is_op(n, "Add")) {
        bool minus = element_is_float(rw_info(w, y)->dtype);
        return keeps_a && all_equal(w, b, 0, minus) ? a : keeps_b && all_equal(w, a, 0, minus) ? b : INLAY_NONE;
    }
    if (pass_is_op(n, "Sub"))
        return keeps_a && all_equal(w, b, 0, false) ? a : INLAY_NONE;
    if (pass_is_op(n, "Div") || pass_is_op(n, "Pow"))
        return keeps_a && all_equal(w, b, 1, false) ? a : INLAY_NONE;
    return INLAY_NONE;
}

/* f(f(x)) = f(x), or = x. */
static uint32_t find_repeated(const struct rewrite *w, const graph_node *n)
{
    static const char *const idempotent[] = { "Relu", "Abs", "Ceil", "Floor", "Round", "Sign" };
    static const char *const involutions[] = { "Neg", "Not" };
    const graph_node *inner;

    if (n->info.input_count != 1)
        return INLAY_NONE;
    for (size_t i = 0; i < sizeof idempotent / sizeof idempotent[0]; i++)
        if (pass_is_op(n, idempotent[i]) && rw_maker_op(w, rw_input(w, n, 0), idempotent[i]) != NULL)
            return rw_input(w, n, 0);
    for (size_t i = 0; i < sizeof involutions / sizeof involutions[0]; i++)
        if (pass_is_op(n, involutions[i]) && (inner = rw_maker_op(w, rw_input(w, n, 0), involutions[i])) != NULL)
            return rw_input(w, inner, 0);
    return INLAY_NONE;
}

static inlay_status become(struct rewrite *w, graph_node *n, const char *op, uint32_t a, uint32_t b)
{
    graph_node *fresh = rw_make(w, op, n->opset, n, (const uint32_t[]){ a, b }, 2, 1);

    return fresh == NULL ? rw_no_memory(w) : rw_replace(w, n, fresh);
}

/* Negation into the sum: IEEE 754 defines x - y as x + (-y). */
static inlay_status join_negation(struct rewrite *w, graph_node *n, bool *out_done)
{
    bool add = pass_is_op(n, "Add");
    graph_node *a = add ? rw_maker_op(w, rw_input(w, n, 0), "Neg") : NULL;
    graph_node *b = rw_maker_op(w, rw_input(w, n, 1), "Neg");

    *out_done = false;
    if (n->info.since_version < 7 || !element_is_float(rw_info(w, n->info.outputs[0])->dtype))
        return INLAY_OK;
    *out_done = a != NULL || b != NULL;
    if (b != NULL)
        return become(w, n, add ? "Sub" : "Add", rw_input(w, n, 0), rw_input(w, b, 0));
    return a != NULL ? become(w, n, "Sub", rw_input(w, n, 1), rw_input(w, a, 0)) : INLAY_OK;
}

/* Dividing by a power of two is multiplying by its inverse, exactly, unless that is no normal number. */
static inlay_status invert_divisor(struct rewrite *w, graph_node *n)
{
    uint32_t b = rw_input(w, n, 1), inverse;
    const inlay_value_info *c = rw_info(w, b);
    int exponent;
    double d;
    float f;

    if (n->info.since_version < 7 || c == NULL || c->dtype != INLAY_FLOAT || !rw_scalar(w, b, &d) || d == 1 ||
        frexp(fabs(d), &exponent) != 0.5 || exponent < -100 || exponent > 100)
        return INLAY_OK;
    f = (float)(1 / d);
    inverse = rw_constant(w, INLAY_FLOAT, c->rank, (const int64_t[]){ 1, 1, 1, 1, 1, 1, 1, 1 }, &f, sizeof f);
    if (c->rank > 8 || inverse == INLAY_NONE)
        return c->rank > 8 ? INLAY_OK : rw_no_memory(w);
    return become(w, n, "Mul", rw_input(w, n, 0), inverse);
}

static inlay_status turn_choice(struct rewrite *w, graph_node *n)
{
    graph_node *negation = rw_maker_op(w, rw_input(w, n, 0), "Not"), *fresh;

    if (negation == NULL)
        return INLAY_OK;
    fresh = rw_make(w, "Where", n->opset, n,
                    (const uint32_t[]){ rw_input(w, negation, 0), rw_input(w, n, 2), rw_input(w, n, 1) }, 3, 1);
    return fresh == NULL ? rw_no_memory(w) : rw_replace(w, n, fresh);
}

static inlay_status match(struct rewrite *w, graph_node *n)
{
    uint32_t same;
    bool done = false;
    inlay_status status;

    if (n->info.output_count != 1 || n->info.outputs[0] == INLAY_NONE)
        return INLAY_OK;
    same = find_equal(w, n);
    if (same == INLAY_NONE)
        same = find_repeated(w, n);
    if (same != INLAY_NONE)
        return rw_forward(w, n->info.outputs[0], same, &done);
    if (pass_is_op(n, "Add") || pass_is_op(n, "Sub")) {
        status = join_negation(w, n, &done);
        return status;
    }
    if (pass_is_op(n, "Div"))
        return invert_divisor(w, n);
    if (pass_is_op(n, "Where"))
        return turn_choice(w, n);
    if (pass_is_op(n, "Pow") && rw_info(w, rw_input(w, n, 0))->dtype == rw_info(w, n->info.outputs[0])->dtype &&
        element_is_float(rw_info(w, n->info.outputs[0])->dtype) && rw_info(w, rw_input(w, n, 1))->rank == 0 &&
        all_equal(w, rw_input(w, n, 1), 2, false) && n->info.since_version >= 7)
        return become(w, n, "Mul", rw_input(w, n, 0), rw_input(w, n, 0));
    return INLAY_OK;
}

inlay_status pass_algebra(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
