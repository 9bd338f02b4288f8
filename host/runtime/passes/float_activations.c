/* Option float_activations: models that were quantized dynamically keep their integer weights and compute with float
 * activations. On [.., k]:
 *
 *     q, s, z = DynamicQuantizeLinear(x)
 *     Mul(Cast(MatMulInteger(q, w, z, wz)), Mul(s, ws))     ->  MatMul(x, DequantizeLinear(w, ws, wz))
 *
 * One scale for all rows of x loses what is small beside the largest element of any of them.
 *
 * Option dynamic_rows: x is rounded as DynamicQuantizeLinear does, but by a scale and zero point for each row. */
#include "passes/rewrite.h"
#include <float.h>

/* The factor besides `scale` in the product that v is; INLAY_NONE: it is none. */
static uint32_t other_factor(const struct rewrite *w, uint32_t v, uint32_t scale)
{
    const graph_node *mul = rw_maker_op(w, v, "Mul");

    for (uint32_t side = 0; mul != NULL && side < 2; side++)
        if (rw_input(w, mul, side) == scale)
            return rw_input(w, mul, 1 - side);
    return INLAY_NONE;
}

/* Is it one number, or one for each of n columns? */
static bool is_factor(const struct rewrite *w, uint32_t v, int64_t n, bool *out_one)
{
    const inlay_value_info *info = rw_info(w, v);

    if (v == INLAY_NONE || !rw_is_constant(w, v))
        return false;
    *out_one = info->rank == 0 || (info->rank == 1 && rw_dim(info, 0) == 1);
    return info->rank == 0 || (info->rank == 1 && (rw_dim(info, 0) == 1 || rw_dim(info, 0) == n));
}

/* w as DequantizeLinear makes it; INLAY_NONE in *out: its scale and zero point do not go together. */
static inlay_status dequantized(struct rewrite *w, uint32_t weights, uint32_t scale, uint32_t zero, uint32_t *out)
{
    const inlay_value_info *info = rw_info(w, weights);
    bool one_scale, one_zero = true;
    uint32_t inputs[3] = { weights, scale, zero };
    graph_node *n;

    *out = INLAY_NONE;
    if (info->rank != 2 || !is_factor(w, scale, rw_dim(info, 1), &one_scale) ||
        rw_info(w, scale)->dtype != INLAY_FLOAT ||
        (zero != INLAY_NONE && (!is_factor(w, zero, rw_dim(info, 1), &one_zero) || one_zero != one_scale ||
                                rw_info(w, zero)->rank != rw_info(w, scale)->rank)))
        return INLAY_OK;
    n = rw_make(w, "DequantizeLinear", 13, NULL, inputs, zero == INLAY_NONE ? 2 : 3, 1);
    if (n == NULL || graph_set_attr_int(w->g, n, "axis", 1) != INLAY_OK || rw_insert(w, n, INLAY_FLOAT) != INLAY_OK)
        return rw_no_memory(w);
    *out = n->info.outputs[0];
    return INLAY_OK;
}

/* op(a, b), b may be INLAY_NONE; INLAY_NONE: no memory. */
static uint32_t computed(struct rewrite *w, const char *op, uint32_t a, uint32_t b)
{
    const uint32_t inputs[] = { a, b };
    graph_node *n = rw_make(w, op, 13, NULL, inputs, b == INLAY_NONE ? 1 : 2, 1);

    return a == INLAY_NONE || n == NULL || rw_insert(w, n, INLAY_FLOAT) != INLAY_OK ? INLAY_NONE : n->info.outputs[0];
}

/* The least or largest element of each row, or 0. */
static uint32_t bound_of_rows(struct rewrite *w, const char *reduce, const char *with_zero, uint32_t x, uint32_t zero)
{
    static const int64_t last = -1;
    graph_node *n = rw_make(w, reduce, 13, NULL, &x, 1, 1);

    if (n == NULL || zero == INLAY_NONE || graph_set_attr_ints(w->g, n, "axes", &last, 1) != INLAY_OK ||
        graph_set_attr_int(w->g, n, "keepdims", 1) != INLAY_OK || rw_insert(w, n, INLAY_FLOAT) != INLAY_OK)
        return INLAY_NONE;
    return computed(w, with_zero, n->info.outputs[0], zero);
}

/* x as DynamicQuantizeLinear-11 and DequantizeLinear leave it, each row by itself; a row of zeros has the least scale.
 * INLAY_NONE: no memory. */
static uint32_t rounded_by_rows(struct rewrite *w, uint32_t x)
{
    const float zero = 0, steps = 255, least = FLT_MIN;
    const uint32_t none = rw_constant(w, INLAY_FLOAT, 0, NULL, &zero, sizeof zero);
    const uint32_t most = rw_constant(w, INLAY_FLOAT, 0, NULL, &steps, sizeof steps);
    const uint32_t tiny = rw_constant(w, INLAY_FLOAT, 0, NULL, &least, sizeof least);
    const uint32_t high = bound_of_rows(w, "ReduceMax", "Max", x, none),
                   low = bound_of_rows(w, "ReduceMin", "Min", x, none);
    const uint32_t below = computed(w, "Sub", none, low), range = computed(w, "Add", high, below);
    const uint32_t scale = computed(w, "Max", computed(w, "Div", range, most), tiny);
    const uint32_t middle = computed(w, "Round", computed(w, "Div", below, scale), INLAY_NONE);
    const uint32_t step = computed(w, "Round", computed(w, "Div", x, scale), INLAY_NONE);
    const uint32_t placed = computed(w, "Add", step, middle);
    const uint32_t within = computed(w, "Max", computed(w, "Min", placed, most), none);

    if (most == INLAY_NONE || tiny == INLAY_NONE || low == INLAY_NONE || below == INLAY_NONE || scale == INLAY_NONE ||
        middle == INLAY_NONE)
        return INLAY_NONE;
    return computed(w, "Mul", computed(w, "Sub", within, middle), scale);
}

static inlay_status match(struct rewrite *w, graph_node *n)
{
    const graph_node *cast = NULL, *product, *dynamic;
    uint32_t scale = INLAY_NONE, weights, x;
    graph_node *fresh;
    inlay_status status;

    for (uint32_t side = 0; pass_is_op(n, "Mul") && side < 2 && cast == NULL; side++) {
        cast = rw_maker_op(w, rw_input(w, n, side), "Cast");
        scale = rw_input(w, n, 1 - side);
    }
    product = cast == NULL ? NULL : rw_maker_op(w, rw_input(w, cast, 0), "MatMulInteger");
    dynamic = product == NULL ? NULL : rw_maker(w, rw_input(w, product, 0));
    if (dynamic == NULL || !pass_is_op(dynamic, "DynamicQuantizeLinear") ||
        rw_input(w, product, 0) != rw_resolve(w, dynamic->info.outputs[0]) ||
        rw_input(w, product, 2) != rw_resolve(w, dynamic->info.outputs[2]) ||
        !rw_is_constant(w, rw_input(w, product, 1)) || rw_info(w, n->info.outputs[0])->dtype != INLAY_FLOAT)
        return INLAY_OK;
    scale = other_factor(w, scale, rw_resolve(w, dynamic->info.outputs[1]));
    status = dequantized(w, rw_input(w, product, 1), scale, rw_input(w, product, 3), &weights);
    if (status != INLAY_OK || weights == INLAY_NONE)
        return status;
    x = rw_input(w, dynamic, 0);
    if (!w->ctx->float_activations && (x = rounded_by_rows(w, x)) == INLAY_NONE)
        return rw_no_memory(w);
    fresh = rw_make(w, "MatMul", 13, n, (const uint32_t[]){ x, weights }, 2, 1);
    return fresh == NULL ? rw_no_memory(w) : rw_replace(w, n, fresh);
}

inlay_status pass_float_activations(pass_ctx *ctx, bool *out_changed)
{
    return ctx->float_activations || ctx->dynamic_rows ? rewrite_each_graph(ctx, match, out_changed) : INLAY_OK;
}
