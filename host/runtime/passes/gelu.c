/* Gelu, spelled out with Erf or Tanh in any order of its factors, is Gelu-20:
 *
 *     0.5 * x * (1 + Erf(x / sqrt(2)))
 *     0.5 * x * (1 + Tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))  */
#include "passes/rewrite.h"

#define ROOT_HALF 0.70710678118654752
#define ROOT_2_BY_PI 0.79788456080286536

enum { MOST = 6, MOST_VISITS = 24 };

/* The factors of a product: what the Mul nodes that lead to v multiply, the constant ones as one number. */
struct product {
    uint32_t factors[MOST];
    uint32_t count;
    uint32_t visits;
    double constant;
    bool is_whole; /* nothing was left out */
};

static void collect(const struct rewrite *w, uint32_t v, bool inner, struct product *p)
{
    const graph_node *mul = rw_maker_op(w, v, "Mul"), *div = rw_maker_op(w, v, "Div");
    double c;

    /* NOLINTNEXTLINE(bugprone-branch-clone): two reasons for one answer */
    if (++p->visits > MOST_VISITS) { /* a chain of products may be as long as the model */
        p->is_whole = false;
    } else if (rw_scalar(w, v, &c)) {
        p->constant *= c;
    } else if (mul != NULL && mul->info.since_version >= 7 && (!inner || rw_is_only_use(w, v))) {
        collect(w, rw_input(w, mul, 0), true, p);
        collect(w, rw_input(w, mul, 1), true, p);
    } else if (div != NULL && div->info.since_version >= 7 && (!inner || rw_is_only_use(w, v)) &&
               rw_scalar(w, rw_input(w, div, 1), &c)) {
        p->constant /= c;
        collect(w, rw_input(w, div, 0), true, p);
    } else if (p->count < MOST) {
        p->factors[p->count++] = v;
    } else {
        p->is_whole = false;
    }
}

static struct product factors_of(const struct rewrite *w, uint32_t v)
{
    struct product p = { .constant = 1, .is_whole = true };

    collect(w, v, false, &p);
    return p;
}

/* Is v = c * x? */
static bool is_scaled(const struct rewrite *w, uint32_t v, uint32_t x, double c)
{
    struct product p = factors_of(w, v);

    return p.is_whole && p.count == 1 && p.factors[0] == x && rw_is_near(w, x, p.constant, c);
}

/* Is v = x^3, as a product or a power? */
static bool is_cube(const struct rewrite *w, const struct product *p, uint32_t x)
{
    const graph_node *pow = p->count == 1 ? rw_maker_op(w, p->factors[0], "Pow") : NULL;

    if (pow != NULL)
        return rw_input(w, pow, 0) == x && rw_is_scalar(w, rw_input(w, pow, 1), 3);
    return p->count == 3 && p->factors[0] == x && p->factors[1] == x && p->factors[2] == x;
}

/* Is v = x + 0.044715 * x^3, or x * (1 + 0.044715 * x^2)? */
static bool is_cubic(const struct rewrite *w, uint32_t v, uint32_t x)
{
    const graph_node *sum = rw_maker_op(w, v, "Add");
    struct product p;

    if (sum != NULL) {
        for (uint32_t i = 0; i < 2; i++) {
            if (rw_input(w, sum, i) != x)
                continue;
            p = factors_of(w, rw_input(w, sum, 1 - i));
            if (p.is_whole && rw_is_near(w, x, p.constant, 0.044715) && is_cube(w, &p, x))
                return true;
        }
        return false;
    }
    return false;
}

static bool is_tanh_argument(const struct rewrite *w, uint32_t v, uint32_t x)
{
    struct product p = factors_of(w, v);

    if (!p.is_whole || !rw_is_near(w, x, p.constant, ROOT_2_BY_PI))
        return false;
    if (p.count == 1)
        return is_cubic(w, p.factors[0], x);
    /* x * (1 + 0.044715 * x * x) */
    for (uint32_t i = 0; p.count == 2 && i < 2; i++) {
        const graph_node *sum = rw_maker_op(w, p.factors[1 - i], "Add");
        for (uint32_t k = 0; p.factors[i] == x && sum != NULL && k < 2; k++) {
            struct product q = factors_of(w, rw_input(w, sum, 1 - k));
            if (rw_is_scalar(w, rw_input(w, sum, k), 1) && q.is_whole && rw_is_near(w, x, q.constant, 0.044715) &&
                q.count == 2 && q.factors[0] == x && q.factors[1] == x)
                return true;
        }
    }
    return false;
}

/* Is v = 1 + Erf(x / sqrt(2)), or with Tanh? Gives the value of Gelu's attribute, NULL if not. */
static const char *kind_of(const struct rewrite *w, uint32_t v, uint32_t x)
{
    const graph_node *sum = rw_maker_op(w, v, "Add");

    for (uint32_t i = 0; sum != NULL && i < 2; i++) {
        const graph_node *erf = rw_maker_op(w, rw_input(w, sum, 1 - i), "Erf");
        const graph_node *tanh_node = rw_maker_op(w, rw_input(w, sum, 1 - i), "Tanh");

        if (!rw_is_scalar(w, rw_input(w, sum, i), 1))
            continue;
        if (erf != NULL && is_scaled(w, rw_input(w, erf, 0), x, ROOT_HALF))
            return "none";
        if (tanh_node != NULL && is_tanh_argument(w, rw_input(w, tanh_node, 0), x))
            return "tanh";
    }
    return NULL;
}

static inlay_status match(struct rewrite *w, graph_node *n)
{
    struct product p;

    if ((!pass_is_op(n, "Mul") && !pass_is_op(n, "Div")) || rw_is_quantized_later(w, n->info.outputs[0]))
        return INLAY_OK;
    p = factors_of(w, n->info.outputs[0]);
    if (!p.is_whole || p.count != 2 || !rw_is_near(w, n->info.outputs[0], p.constant, 0.5))
        return INLAY_OK;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t x = p.factors[i];
        const char *kind = kind_of(w, p.factors[1 - i], x);
        graph_node *fresh;

        if (kind == NULL || !pass_allows(w->ctx, 20) || !rw_is_only_use(w, p.factors[1 - i]) ||
            !rw_keeps_rank(w, n->info.outputs[0], x))
            continue;
        fresh = rw_make(w, "Gelu", n->opset > 20 ? n->opset : 20, n, &x, 1, 1);
        if (fresh == NULL || graph_set_attr_string(w->g, fresh, "approximate", kind) != INLAY_OK)
            return rw_no_memory(w);
        return rw_replace(w, n, fresh);
    }
    return INLAY_OK;
}

inlay_status pass_gelu(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
