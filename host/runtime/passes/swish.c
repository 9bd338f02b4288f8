/* Activations that exporters spell out, as the one operator that ONNX has for them:
 *
 *     x * Sigmoid(x), x * Sigmoid(c * x)                    ->  Swish-24
 *     Clip(x + 3, 0, 6) / 6, Clip(x + 3, 0, 6) * (1/6)      ->  HardSigmoid-6 with alpha 1/6, beta 1/2
 *     x * HardSigmoid(x, 1/6, 1/2), x * Clip(x + 3, 0, 6) / 6  ->  HardSwish-14
 *     x * Tanh(Softplus(x))                                 ->  Mish-18 */
#include "passes/rewrite.h"
#include <math.h>

/* Is v Clip(x + 3, 0, 6)? Gives x. */
static uint32_t find_relu6(const struct rewrite *w, uint32_t v)
{
    const graph_node *clip = rw_maker_op(w, v, "Clip"), *sum;
    double low, high;
    bool bounds;

    if (clip == NULL)
        return INLAY_NONE;
    if (clip->info.since_version >= 11) {
        bounds = rw_scalar(w, rw_input(w, clip, 1), &low) && rw_scalar(w, rw_input(w, clip, 2), &high);
    } else {
        low = rw_attr_float(clip, "min", -1);
        high = rw_attr_float(clip, "max", -1);
        bounds = true;
    }
    sum = rw_maker_op(w, rw_input(w, clip, 0), "Add");
    if (!bounds || low != 0 || high != 6 || sum == NULL || sum->info.since_version < 7)
        return INLAY_NONE;
    for (uint32_t i = 0; i < 2; i++)
        if (rw_is_scalar(w, rw_input(w, sum, i), 3))
            return rw_input(w, sum, 1 - i);
    return INLAY_NONE;
}

/* Is n a / 6 or a * (1/6)? Gives a. */
static uint32_t find_sixth(const struct rewrite *w, const graph_node *n)
{
    if (n == NULL || n->info.since_version < 7)
        return INLAY_NONE;
    if (pass_is_op(n, "Div") && rw_is_scalar(w, rw_input(w, n, 1), 6))
        return rw_input(w, n, 0);
    for (uint32_t i = 0; pass_is_op(n, "Mul") && i < 2; i++)
        if (rw_is_scalar(w, rw_input(w, n, i), 1.0 / 6))
            return rw_input(w, n, 1 - i);
    return INLAY_NONE;
}

/* The c of v = c * x, 0 if it is no such product. */
static double factor_of(const struct rewrite *w, uint32_t v, uint32_t x)
{
    const graph_node *mul = rw_maker_op(w, v, "Mul");
    double c;

    for (uint32_t i = 0; mul != NULL && mul->info.since_version >= 7 && i < 2; i++)
        if (rw_input(w, mul, i) == x && rw_scalar(w, rw_input(w, mul, 1 - i), &c) && isfinite(c))
            return c;
    return 0;
}

/* The operator that is x times what makes `gate`, NULL if there is none. */
static const char *gated(const struct rewrite *w, uint32_t x, uint32_t gate, int64_t *out_opset, double *out_alpha)
{
    const graph_node *m = rw_maker(w, gate);

    *out_alpha = 1;
    if (m == NULL || !rw_is_only_use(w, gate) || m->info.input_count == 0)
        return NULL;
    if (pass_is_op(m, "Sigmoid")) {
        if (rw_input(w, m, 0) != x)
            *out_alpha = factor_of(w, rw_input(w, m, 0), x);
        *out_opset = 24;
        return *out_alpha != 0 ? "Swish" : NULL;
    }
    if (pass_is_op(m, "HardSigmoid") && rw_input(w, m, 0) == x &&
        rw_is_near(w, x, (float)rw_attr_float(m, "alpha", 0.2), 1.0 / 6) && rw_attr_float(m, "beta", 0.5) == 0.5) {
        *out_opset = 14;
        return "HardSwish";
    }
    if (pass_is_op(m, "Tanh")) {
        const graph_node *softplus = rw_maker_op(w, rw_input(w, m, 0), "Softplus");
        *out_opset = 18;
        return softplus != NULL && rw_input(w, softplus, 0) == x ? "Mish" : NULL;
    }
    return NULL;
}

static inlay_status become(struct rewrite *w, graph_node *n, const char *op, int64_t opset, uint32_t x, double alpha)
{
    graph_node *fresh;

    if (!rw_keeps_rank(w, n->info.outputs[0], x))
        return INLAY_OK;
    fresh = rw_make(w, op, n->opset > opset ? n->opset : opset, n, &x, 1, 1);
    if (fresh == NULL)
        return rw_no_memory(w);
    if (pass_is_op(fresh, "HardSigmoid") && (graph_set_attr_float(w->g, fresh, "alpha", 1.0 / 6) != INLAY_OK ||
                                             graph_set_attr_float(w->g, fresh, "beta", 0.5) != INLAY_OK))
        return rw_no_memory(w);
    if (alpha != 1 && graph_set_attr_float(w->g, fresh, "alpha", alpha) != INLAY_OK)
        return rw_no_memory(w);
    return rw_replace(w, n, fresh);
}

/* x * Clip(x + 3, 0, 6), whose sixth is taken afterwards: gives x. */
static uint32_t find_gated_relu6(const struct rewrite *w, uint32_t v)
{
    const graph_node *mul = rw_maker_op(w, v, "Mul");

    for (uint32_t i = 0; mul != NULL && rw_is_only_use(w, v) && i < 2; i++)
        if (find_relu6(w, rw_input(w, mul, 1 - i)) == rw_input(w, mul, i) && rw_input(w, mul, i) != INLAY_NONE)
            return rw_input(w, mul, i);
    return INLAY_NONE;
}

static inlay_status match(struct rewrite *w, graph_node *n)
{
    uint32_t inner, x;
    int64_t opset;
    double alpha;

    if (rw_is_quantized_later(w, n->info.outputs[0]))
        return INLAY_OK;
    inner = find_sixth(w, n);
    if (inner != INLAY_NONE && rw_info(w, inner)->dtype == INLAY_FLOAT) {
        x = find_gated_relu6(w, inner);
        if (x != INLAY_NONE && pass_allows(w->ctx, 14))
            return become(w, n, "HardSwish", 14, x, 1);
        x = rw_is_only_use(w, inner) ? find_relu6(w, inner) : INLAY_NONE;
        if (x != INLAY_NONE)
            return become(w, n, "HardSigmoid", 6, x, 1);
    }
    if (!pass_is_op(n, "Mul") || n->info.since_version < 7)
        return INLAY_OK;
    for (uint32_t i = 0; i < 2; i++) {
        const char *op;

        x = rw_input(w, n, i);
        op = x == INLAY_NONE ? NULL : gated(w, x, rw_input(w, n, 1 - i), &opset, &alpha);
        if (op != NULL && pass_allows(w->ctx, opset))
            return become(w, n, op, opset, x, alpha);
    }
    return INLAY_OK;
}

inlay_status pass_swish(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
