/* Fuses activations written with basic operators into the ONNX operator:
 *
 *     x * Sigmoid(x), x * Sigmoid(c * x)                    ->  Swish-24, but not in a file: ONNX Runtime 1.30 has no
 *                                                               kernel for it on CPUs
 *     Clip(x + 3, 0, 6) / 6, Clip(x + 3, 0, 6) * (1/6)      ->  HardSigmoid-6 with alpha 1/6, beta 1/2
 *     x * HardSigmoid(x, 1/6, 1/2), x * Clip(x + 3, 0, 6) / 6  ->  HardSwish-14
 *     x * Tanh(Softplus(x))                                 ->  Mish-18 */
#include "passes/rewrite.h"
#include <math.h>

/* Matches value = Clip(x + 3, 0, 6). Returns x. */
static uint32_t find_relu6(const struct rewrite *rewrite, uint32_t value)
{
    const graph_node *clip = rewrite_producer_op(rewrite, value, "Clip"), *sum;
    double low, high;
    bool bounds;

    if (clip == NULL)
        return INLAY_NONE;
    if (clip->info.since_version >= 11) {
        bounds = rewrite_scalar(rewrite, rewrite_input(rewrite, clip, 1), &low) &&
                 rewrite_scalar(rewrite, rewrite_input(rewrite, clip, 2), &high);
    } else {
        low = graph_attr_float(clip, "min", -1);
        high = graph_attr_float(clip, "max", -1);
        bounds = true;
    }
    sum = rewrite_producer_op(rewrite, rewrite_input(rewrite, clip, 0), "Add");
    if (!bounds || low != 0 || high != 6 || sum == NULL || sum->info.since_version < 7)
        return INLAY_NONE;
    for (uint32_t i = 0; i < 2; i++)
        if (rewrite_is_scalar(rewrite, rewrite_input(rewrite, sum, i), 3))
            return rewrite_input(rewrite, sum, 1 - i);
    return INLAY_NONE;
}

/* Matches node = a / 6 or a * (1/6). Returns a. */
static uint32_t find_sixth(const struct rewrite *rewrite, const graph_node *node)
{
    if (node == NULL || node->info.since_version < 7)
        return INLAY_NONE;
    if (pass_is_op(node, "Div") && rewrite_is_scalar(rewrite, rewrite_input(rewrite, node, 1), 6))
        return rewrite_input(rewrite, node, 0);
    for (uint32_t i = 0; pass_is_op(node, "Mul") && i < 2; i++)
        if (rewrite_is_scalar(rewrite, rewrite_input(rewrite, node, i), 1.0 / 6))
            return rewrite_input(rewrite, node, 1 - i);
    return INLAY_NONE;
}

/* The factor in value = factor * input; 0: value is something else. */
static double factor_of(const struct rewrite *rewrite, uint32_t value, uint32_t input)
{
    const graph_node *mul = rewrite_producer_op(rewrite, value, "Mul");
    double factor;

    for (uint32_t i = 0; mul != NULL && mul->info.since_version >= 7 && i < 2; i++)
        if (rewrite_input(rewrite, mul, i) == input &&
            rewrite_scalar(rewrite, rewrite_input(rewrite, mul, 1 - i), &factor) && isfinite(factor))
            return factor;
    return 0;
}

/* The operator that equals input * gate; NULL: none. */
static const char *find_gated_operator(const struct rewrite *rewrite, uint32_t input, uint32_t gate, int64_t *out_opset,
                                       double *out_alpha)
{
    const graph_node *node = rewrite_producer(rewrite, gate);

    *out_alpha = 1;
    if (node == NULL || !rewrite_has_one_use(rewrite, gate) || node->info.input_count == 0)
        return NULL;
    if (pass_is_op(node, "Sigmoid")) {
        if (rewrite_input(rewrite, node, 0) != input)
            *out_alpha = factor_of(rewrite, rewrite_input(rewrite, node, 0), input);
        *out_opset = 24;
        return *out_alpha != 0 && rewrite->ctx->newest_opset == 0 ? "Swish" : NULL;
    }
    if (pass_is_op(node, "HardSigmoid") && rewrite_input(rewrite, node, 0) == input &&
        rewrite_is_near(rewrite, input, (float)graph_attr_float(node, "alpha", 0.2), 1.0 / 6) &&
        graph_attr_float(node, "beta", 0.5) == 0.5) {
        *out_opset = 14;
        return "HardSwish";
    }
    if (pass_is_op(node, "Tanh")) {
        const graph_node *softplus = rewrite_producer_op(rewrite, rewrite_input(rewrite, node, 0), "Softplus");
        *out_opset = 18;
        return softplus != NULL && rewrite_input(rewrite, softplus, 0) == input ? "Mish" : NULL;
    }
    return NULL;
}

static inlay_status replace_by_activation(struct rewrite *rewrite, graph_node *node, const char *op, int64_t opset,
                                          uint32_t input, double alpha)
{
    graph_node *new_node;

    if (!rewrite_keeps_rank(rewrite, node->info.outputs[0], input))
        return INLAY_OK;
    new_node = rewrite_make_node(rewrite, op, node->opset > opset ? node->opset : opset, node, &input, 1, 1);
    if (new_node == NULL)
        return rewrite_no_memory(rewrite);
    if (pass_is_op(new_node, "HardSigmoid") &&
        (graph_set_attr_float(rewrite->graph, new_node, "alpha", 1.0 / 6) != INLAY_OK ||
         graph_set_attr_float(rewrite->graph, new_node, "beta", 0.5) != INLAY_OK))
        return rewrite_no_memory(rewrite);
    if (alpha != 1 && graph_set_attr_float(rewrite->graph, new_node, "alpha", alpha) != INLAY_OK)
        return rewrite_no_memory(rewrite);
    return rewrite_replace_node(rewrite, node, new_node);
}

/* Matches x * Clip(x + 3, 0, 6), which is divided by 6 afterwards. Returns x. */
static uint32_t find_gated_relu6(const struct rewrite *rewrite, uint32_t value)
{
    const graph_node *mul = rewrite_producer_op(rewrite, value, "Mul");

    for (uint32_t i = 0; mul != NULL && rewrite_has_one_use(rewrite, value) && i < 2; i++)
        if (find_relu6(rewrite, rewrite_input(rewrite, mul, 1 - i)) == rewrite_input(rewrite, mul, i) &&
            rewrite_input(rewrite, mul, i) != INLAY_NONE)
            return rewrite_input(rewrite, mul, i);
    return INLAY_NONE;
}

static inlay_status match(struct rewrite *rewrite, graph_node *node)
{
    uint32_t inner, input;
    int64_t opset;
    double alpha;

    if (rewrite_is_quantized_later(rewrite, node->info.outputs[0]))
        return INLAY_OK;
    inner = find_sixth(rewrite, node);
    if (inner != INLAY_NONE && rewrite_value_info(rewrite, inner)->dtype == INLAY_FLOAT) {
        input = find_gated_relu6(rewrite, inner);
        if (input != INLAY_NONE && pass_allows(rewrite->ctx, 14))
            return replace_by_activation(rewrite, node, "HardSwish", 14, input, 1);
        input = rewrite_has_one_use(rewrite, inner) ? find_relu6(rewrite, inner) : INLAY_NONE;
        if (input != INLAY_NONE)
            return replace_by_activation(rewrite, node, "HardSigmoid", 6, input, 1);
    }
    if (!pass_is_op(node, "Mul") || node->info.since_version < 7)
        return INLAY_OK;
    for (uint32_t i = 0; i < 2; i++) {
        const char *op;

        input = rewrite_input(rewrite, node, i);
        op = input == INLAY_NONE
                 ? NULL
                 : find_gated_operator(rewrite, input, rewrite_input(rewrite, node, 1 - i), &opset, &alpha);
        if (op != NULL && pass_allows(rewrite->ctx, opset))
            return replace_by_activation(rewrite, node, op, opset, input, alpha);
    }
    return INLAY_OK;
}

inlay_status pass_swish(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
