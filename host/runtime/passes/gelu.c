/* Fuses Gelu written with Erf or Tanh, with its factors in any order, into Gelu-20:
 *
 *     0.5 * x * (1 + Erf(x / sqrt(2)))
 *     0.5 * x * (1 + Tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))  */
#include "passes/rewrite.h"

#define ROOT_HALF 0.70710678118654752
#define ROOT_2_BY_PI 0.79788456080286536

enum { MAX_FACTORS = 6, MAX_VISITS = 24 };

/* The factors of a product: operands of the Mul nodes that lead to a value, with the constant ones multiplied. */
struct product {
    uint32_t factors[MAX_FACTORS];
    uint32_t count;
    uint32_t visits;
    double constant;
    bool is_whole; /* false: the limits were exceeded and factors are missing */
};

static void collect(const struct rewrite *rewrite, uint32_t value, bool inner, struct product *product)
{
    const graph_node *mul = rewrite_producer_op(rewrite, value, "Mul"),
                     *div = rewrite_producer_op(rewrite, value, "Div");
    double number;

    /* NOLINTNEXTLINE(bugprone-branch-clone): two conditions with the same result */
    if (++product->visits > MAX_VISITS) { /* a chain of products can be as long as the model */
        product->is_whole = false;
    } else if (rewrite_scalar(rewrite, value, &number)) {
        product->constant *= number;
    } else if (mul != NULL && mul->info.since_version >= 7 && (!inner || rewrite_has_one_use(rewrite, value))) {
        collect(rewrite, rewrite_input(rewrite, mul, 0), true, product);
        collect(rewrite, rewrite_input(rewrite, mul, 1), true, product);
    } else if (div != NULL && div->info.since_version >= 7 && (!inner || rewrite_has_one_use(rewrite, value)) &&
               rewrite_scalar(rewrite, rewrite_input(rewrite, div, 1), &number)) {
        product->constant /= number;
        collect(rewrite, rewrite_input(rewrite, div, 0), true, product);
    } else if (product->count < MAX_FACTORS) {
        product->factors[product->count++] = value;
    } else {
        product->is_whole = false;
    }
}

static struct product factors_of(const struct rewrite *rewrite, uint32_t value)
{
    struct product product = { .constant = 1, .is_whole = true };

    collect(rewrite, value, false, &product);
    return product;
}

/* Returns true if value = factor * input. */
static bool is_scaled(const struct rewrite *rewrite, uint32_t value, uint32_t input, double factor)
{
    struct product product = factors_of(rewrite, value);

    return product.is_whole && product.count == 1 && product.factors[0] == input &&
           rewrite_is_near(rewrite, input, product.constant, factor);
}

/* Returns true if the product is input^3, as a product or a Pow. */
static bool is_cube(const struct rewrite *rewrite, const struct product *product, uint32_t input)
{
    const graph_node *pow = product->count == 1 ? rewrite_producer_op(rewrite, product->factors[0], "Pow") : NULL;

    if (pow != NULL)
        return rewrite_input(rewrite, pow, 0) == input && rewrite_is_scalar(rewrite, rewrite_input(rewrite, pow, 1), 3);
    return product->count == 3 && product->factors[0] == input && product->factors[1] == input &&
           product->factors[2] == input;
}

/* Returns true if value = input + 0.044715 * input^3. */
static bool is_cubic(const struct rewrite *rewrite, uint32_t value, uint32_t input)
{
    const graph_node *sum = rewrite_producer_op(rewrite, value, "Add");
    struct product product;

    for (uint32_t i = 0; sum != NULL && i < 2; i++) {
        if (rewrite_input(rewrite, sum, i) != input)
            continue;
        product = factors_of(rewrite, rewrite_input(rewrite, sum, 1 - i));
        if (product.is_whole && rewrite_is_near(rewrite, input, product.constant, 0.044715) &&
            is_cube(rewrite, &product, input))
            return true;
    }
    return false;
}

static bool is_tanh_argument(const struct rewrite *rewrite, uint32_t value, uint32_t input)
{
    struct product product = factors_of(rewrite, value);

    if (!product.is_whole || !rewrite_is_near(rewrite, input, product.constant, ROOT_2_BY_PI))
        return false;
    if (product.count == 1)
        return is_cubic(rewrite, product.factors[0], input);
    /* input * (1 + 0.044715 * input * input) */
    for (uint32_t i = 0; product.count == 2 && i < 2; i++) {
        const graph_node *sum = rewrite_producer_op(rewrite, product.factors[1 - i], "Add");
        for (uint32_t k = 0; product.factors[i] == input && sum != NULL && k < 2; k++) {
            struct product square = factors_of(rewrite, rewrite_input(rewrite, sum, 1 - k));
            if (rewrite_is_scalar(rewrite, rewrite_input(rewrite, sum, k), 1) && square.is_whole &&
                rewrite_is_near(rewrite, input, square.constant, 0.044715) && square.count == 2 &&
                square.factors[0] == input && square.factors[1] == input)
                return true;
        }
    }
    return false;
}

/* Matches value = 1 + Erf(input / sqrt(2)), or the form with Tanh. Returns the value of Gelu's attribute `approximate`;
 * NULL: no match. */
static const char *kind_of(const struct rewrite *rewrite, uint32_t value, uint32_t input)
{
    const graph_node *sum = rewrite_producer_op(rewrite, value, "Add");

    for (uint32_t i = 0; sum != NULL && i < 2; i++) {
        const graph_node *erf = rewrite_producer_op(rewrite, rewrite_input(rewrite, sum, 1 - i), "Erf");
        const graph_node *tanh_node = rewrite_producer_op(rewrite, rewrite_input(rewrite, sum, 1 - i), "Tanh");

        if (!rewrite_is_scalar(rewrite, rewrite_input(rewrite, sum, i), 1))
            continue;
        if (erf != NULL && is_scaled(rewrite, rewrite_input(rewrite, erf, 0), input, ROOT_HALF))
            return "none";
        if (tanh_node != NULL && is_tanh_argument(rewrite, rewrite_input(rewrite, tanh_node, 0), input))
            return "tanh";
    }
    return NULL;
}

static inlay_status match(struct rewrite *rewrite, graph_node *node)
{
    struct product product;

    if ((!pass_is_op(node, "Mul") && !pass_is_op(node, "Div")) ||
        rewrite_is_quantized_later(rewrite, node->info.outputs[0]))
        return INLAY_OK;
    product = factors_of(rewrite, node->info.outputs[0]);
    if (!product.is_whole || product.count != 2 ||
        !rewrite_is_near(rewrite, node->info.outputs[0], product.constant, 0.5))
        return INLAY_OK;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t input = product.factors[i];
        const char *kind = kind_of(rewrite, product.factors[1 - i], input);
        graph_node *new_node;

        if (kind == NULL || !pass_allows(rewrite->ctx, 20) || !rewrite_has_one_use(rewrite, product.factors[1 - i]) ||
            !rewrite_keeps_rank(rewrite, node->info.outputs[0], input))
            continue;
        new_node = rewrite_make_node(rewrite, "Gelu", node->opset > 20 ? node->opset : 20, node, &input, 1, 1);
        if (new_node == NULL || graph_set_attr_string(rewrite->graph, new_node, "approximate", kind) != INLAY_OK)
            return rewrite_no_memory(rewrite);
        return rewrite_replace_node(rewrite, node, new_node);
    }
    return INLAY_OK;
}

inlay_status pass_gelu(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
