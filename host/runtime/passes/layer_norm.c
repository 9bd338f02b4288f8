/* Normalisation over the last axes, as exporters spell it out:
 *
 *     d = x - ReduceMean(x);  d / Sqrt(ReduceMean(d^2) + epsilon) * scale + bias    ->  LayerNormalization-17
 *     x / Sqrt(ReduceMean(x^2) + epsilon) * scale                                   ->  RMSNormalization-23
 *
 * d^2 may be d * d or Pow(d, 2); the quotient may be a product with Reciprocal, or with 1 / Sqrt. */
#include "base/element.h"
#include "passes/rewrite.h"

/* Is v ReduceMean(x) over the last axes, keeping them? Gives x and the first axis. */
static uint32_t mean_of(struct rewrite *w, uint32_t v, int64_t *out_axis)
{
    const graph_node *n = rw_maker_op(w, v, "ReduceMean");
    uint32_t x = n == NULL ? INLAY_NONE : rw_input(w, n, 0), count = 0, rank;
    const int64_t *axes;
    int64_t lowest = INT64_MAX;

    if (n == NULL || rw_info(w, x)->rank == INLAY_RANK_UNKNOWN || rw_attr_int(n, "keepdims", 1) == 0)
        return INLAY_NONE;
    rank = rw_info(w, x)->rank;
    axes = rw_attr_ints(n, "axes", &count);
    if ((axes == NULL && !rw_ints(w, rw_input(w, n, 1), &axes, &count)) || count == 0)
        return INLAY_NONE;
    for (uint32_t i = 0; i < count; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + (int64_t)rank : axes[i];
        lowest = axis < lowest ? axis : lowest;
    }
    if (lowest + (int64_t)count != (int64_t)rank) /* axes differ, so these are the last ones */
        return INLAY_NONE;
    *out_axis = lowest;
    return x;
}

/* Is v x^2? Gives x. */
static uint32_t square_of(const struct rewrite *w, uint32_t v)
{
    const graph_node *n = rw_maker_op(w, v, "Mul");

    if (n != NULL)
        return rw_input(w, n, 0) == rw_input(w, n, 1) ? rw_input(w, n, 0) : INLAY_NONE;
    n = rw_maker_op(w, v, "Pow");
    return n != NULL && rw_is_scalar(w, rw_input(w, n, 1), 2) ? rw_input(w, n, 0) : INLAY_NONE;
}

/* Is v Sqrt(ReduceMean(x^2) + epsilon)? Gives x. */
static uint32_t deviation_of(struct rewrite *w, uint32_t v, int64_t *out_axis, double *out_epsilon)
{
    const graph_node *root = rw_maker_op(w, v, "Sqrt");
    const graph_node *sum = root == NULL ? NULL : rw_maker_op(w, rw_input(w, root, 0), "Add");

    for (uint32_t i = 0; sum != NULL && i < 2; i++) {
        uint32_t squares;

        if (!rw_scalar(w, rw_input(w, sum, i), out_epsilon))
            continue;
        squares = mean_of(w, rw_input(w, sum, 1 - i), out_axis);
        return squares == INLAY_NONE ? INLAY_NONE : square_of(w, squares);
    }
    return INLAY_NONE;
}

/* Is n a / Sqrt(..), a * Reciprocal(Sqrt(..)) or a * (1 / Sqrt(..)), with what is under the root made of a? Gives a. */
static uint32_t normalised(struct rewrite *w, const graph_node *n, int64_t *out_axis, double *out_epsilon)
{
    if (n == NULL || n->info.since_version < 7)
        return INLAY_NONE;
    if (pass_is_op(n, "Div")) {
        uint32_t a = rw_input(w, n, 0);
        return deviation_of(w, rw_input(w, n, 1), out_axis, out_epsilon) == a ? a : INLAY_NONE;
    }
    for (uint32_t i = 0; pass_is_op(n, "Mul") && i < 2; i++) {
        uint32_t a = rw_input(w, n, i);
        const graph_node *inverse = rw_maker_op(w, rw_input(w, n, 1 - i), "Reciprocal");
        const graph_node *one = rw_maker_op(w, rw_input(w, n, 1 - i), "Div");

        if (inverse != NULL && deviation_of(w, rw_input(w, inverse, 0), out_axis, out_epsilon) == a)
            return a;
        if (one != NULL && rw_is_scalar(w, rw_input(w, one, 0), 1) &&
            deviation_of(w, rw_input(w, one, 1), out_axis, out_epsilon) == a)
            return a;
    }
    return INLAY_NONE;
}

/* The value that d subtracts its own mean from, INLAY_NONE if it is no such difference. */
static uint32_t centred(struct rewrite *w, uint32_t d, int64_t axis)
{
    const graph_node *sub = rw_maker_op(w, d, "Sub");
    int64_t mean_axis;

    if (sub == NULL || sub->info.since_version < 7 ||
        mean_of(w, rw_input(w, sub, 1), &mean_axis) != rw_input(w, sub, 0) || mean_axis != axis)
        return INLAY_NONE;
    return rw_input(w, sub, 0);
}

/* Has v just the shape of x from axis on? Then it can be scale or bias. */
static bool is_of_last_axes(const struct rewrite *w, uint32_t v, uint32_t x, int64_t axis)
{
    const inlay_value_info *s = rw_info(w, v), *info = rw_info(w, x);

    if (s == NULL || s->rank == INLAY_RANK_UNKNOWN || (int64_t)s->rank != (int64_t)info->rank - axis ||
        s->dtype != info->dtype)
        return false;
    for (uint32_t d = 0; d < s->rank; d++)
        if (rw_dim(s, d) < 0 || rw_dim(s, d) != rw_dim(info, axis + d))
            return false;
    return true;
}

/* What is known of a product: the normalised value and its factor. */
struct pattern {
    uint32_t x, scale;
    int64_t axis;
    double epsilon;
    bool is_centred;
};

/* Is n scale * normalised? Also with the factor taken in before: x * (scale * 1/deviation). */
static bool find_scaled(struct rewrite *w, const graph_node *n, struct pattern *p)
{
    for (uint32_t i = 0; n != NULL && pass_is_op(n, "Mul") && n->info.since_version >= 7 && i < 2; i++) {
        uint32_t v = rw_input(w, n, i), a = normalised(w, rw_maker(w, v), &p->axis, &p->epsilon), x;

        if (a == INLAY_NONE || !rw_is_only_use(w, v))
            continue;
        x = centred(w, a, p->axis);
        p->is_centred = x != INLAY_NONE;
        p->x = p->is_centred ? x : a;
        p->scale = rw_input(w, n, 1 - i);
        if (element_is_float(rw_info(w, p->x)->dtype) && is_of_last_axes(w, p->scale, p->x, p->axis))
            return true;
    }
    return false;
}

static inlay_status become(struct rewrite *w, graph_node *n, const struct pattern *p, uint32_t bias)
{
    const char *op = p->is_centred ? "LayerNormalization" : "RMSNormalization";
    int64_t opset = p->is_centred ? 17 : 23;
    graph_node *fresh;

    /* Axes were counted in squares and sums, whose rank is not that of x beside constants of more axes. */
    if (!pass_allows(w->ctx, opset) || !rw_keeps_rank(w, n->info.outputs[0], p->x))
        return INLAY_OK;
    fresh = rw_make(w, op, n->opset > opset ? n->opset : opset, n, (const uint32_t[]){ p->x, p->scale, bias },
                    bias == INLAY_NONE ? 2 : 3, 1);
    if (fresh == NULL || graph_set_attr_int(w->g, fresh, "axis", p->axis) != INLAY_OK ||
        graph_set_attr_float(w->g, fresh, "epsilon", p->epsilon) != INLAY_OK)
        return rw_no_memory(w);
    return rw_replace(w, n, fresh);
}

static inlay_status match(struct rewrite *w, graph_node *n)
{
    struct pattern p;

    if (pass_is_op(n, "Add") && n->info.since_version >= 7) {
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t v = rw_input(w, n, i), bias = rw_input(w, n, 1 - i);
            graph_node *norm = rw_maker_op(w, v, "LayerNormalization");

            if (v == INLAY_NONE || !rw_is_only_use(w, v))
                continue;
            if (norm != NULL && norm->info.output_count == 1 && rw_input(w, norm, 2) == INLAY_NONE) {
                p = (struct pattern){ .x = rw_input(w, norm, 0), .scale = rw_input(w, norm, 1), .is_centred = true };
                p.axis = rw_attr_int(norm, "axis", -1);
                p.epsilon = rw_attr_float(norm, "epsilon", 1e-5);
                if (rw_info(w, p.x)->rank == INLAY_RANK_UNKNOWN)
                    continue;
                p.axis = p.axis < 0 ? p.axis + (int64_t)rw_info(w, p.x)->rank : p.axis;
                if (is_of_last_axes(w, bias, p.x, p.axis))
                    return become(w, n, &p, bias);
            }
        }
        return INLAY_OK;
    }
    return find_scaled(w, n, &p) ? become(w, n, &p, INLAY_NONE) : INLAY_OK;
}

inlay_status pass_layer_norm(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
