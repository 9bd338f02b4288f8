/* A residual that is added right before LayerNormalization or RMSNormalization over the last axis:
 *
 *     s = (x + bias) + skip;  LayerNormalization(s)    ->  com.microsoft SkipLayerNormalization(x, skip, ..), s
 *     s = (x + bias) + skip;  RMSNormalization(s)      ->  SkipSimplifiedLayerNormalization, s
 *
 * The sum, which the next residual is added to, is another output where somebody else reads it. A bias is a constant
 * vector that is added to one of both. Providers may take that apart again: where a product adds the residual to its
 * sums, there is nothing to be gained (providers/cpu). */
#include "base/element.h"
#include "passes/rewrite.h"

static const char CONTRIBUTED[] = "com.microsoft";

/* Is v a constant vector of so many elements, of that type? */
static bool is_vector(const struct rewrite *w, uint32_t v, int64_t n, inlay_dtype dtype)
{
    const inlay_value_info *info = rw_info(w, v);

    return rw_is_constant(w, v) && info->rank == 1 && rw_dim(info, 0) == n && info->dtype == dtype;
}

/* x without a bias that is added to it, which is INLAY_NONE if there is none. */
static uint32_t without_bias(const struct rewrite *w, uint32_t x, int64_t n, uint32_t *out_bias)
{
    const graph_node *add = rw_maker_op(w, x, "Add");

    *out_bias = INLAY_NONE;
    for (uint32_t i = 0; add != NULL && add->info.since_version >= 7 && rw_is_only_use(w, x) && i < 2; i++)
        if (is_vector(w, rw_input(w, add, i), n, rw_info(w, x)->dtype) && rw_same_type(w, rw_input(w, add, 1 - i), x)) {
            *out_bias = rw_input(w, add, i);
            return rw_input(w, add, 1 - i);
        }
    return x;
}

struct pattern {
    uint32_t x, skip, gamma, beta, bias, sum;
    bool centred;
    double epsilon;
};

static bool find(const struct rewrite *w, const graph_node *n, struct pattern *p)
{
    uint32_t s = rw_input(w, n, 0), rank = s == INLAY_NONE ? INLAY_RANK_UNKNOWN : rw_info(w, s)->rank;
    const graph_node *add = rw_maker_op(w, s, "Add");
    int64_t axis = rw_attr_int(n, "axis", -1), size;
    inlay_dtype dtype;

    p->centred = pass_is_op(n, "LayerNormalization");
    if ((!p->centred && !pass_is_op(n, "RMSNormalization")) || add == NULL || add->info.since_version < 7 ||
        rank == INLAY_RANK_UNKNOWN || rank < 2 || (axis != -1 && axis != (int64_t)rank - 1) ||
        rw_attr_int(n, "stash_type", INLAY_FLOAT) != INLAY_FLOAT || n->info.output_count != 1)
        return false;
    dtype = rw_info(w, s)->dtype;
    size = rw_dim(rw_info(w, s), -1);
    *p = (struct pattern){ .centred = p->centred,
                           .sum = s,
                           .gamma = rw_input(w, n, 1),
                           .beta = rw_input(w, n, 2),
                           .epsilon = rw_attr_float(n, "epsilon", 1e-5) };
    if (size < 1 || !element_is_float(dtype) || !is_vector(w, p->gamma, size, dtype) ||
        (p->beta != INLAY_NONE && !is_vector(w, p->beta, size, dtype)))
        return false;
    for (uint32_t i = 0; i < 2; i++)
        if (!rw_same_type(w, rw_input(w, add, i), s))
            return false;
    /* Biases belong to products, which are mostly the second operand. */
    for (uint32_t i = 2; i-- > 0;) {
        p->skip = rw_input(w, add, 1 - i);
        p->x = without_bias(w, rw_input(w, add, i), size, &p->bias);
        if (p->bias != INLAY_NONE)
            break;
    }
    return p->x != p->skip || p->bias != INLAY_NONE;
}

static graph_node *make(struct rewrite *w, const graph_node *n, const struct pattern *p, uint32_t outputs)
{
    const uint32_t centred[] = { p->x, p->skip, p->gamma, p->beta, p->bias };
    const uint32_t simple[] = { p->x, p->skip, p->gamma, p->bias };
    uint32_t count = p->bias != INLAY_NONE ? (p->centred ? 5 : 4) : p->centred && p->beta != INLAY_NONE ? 4 : 3;
    graph_node *fresh = rw_make(w, p->centred ? "SkipLayerNormalization" : "SkipSimplifiedLayerNormalization", 1, n,
                                p->centred ? centred : simple, count, outputs);

    if (fresh == NULL || graph_set_attr_float(w->g, fresh, "epsilon", p->epsilon) != INLAY_OK)
        return NULL;
    fresh->info.domain = (inlay_str){ CONTRIBUTED, sizeof CONTRIBUTED - 1 };
    return fresh;
}

static inlay_status match(struct rewrite *w, graph_node *n)
{
    graph_node *fresh;
    inlay_status status;
    uint32_t *outputs;
    bool done;
    struct pattern p;

    if (!find(w, n, &p))
        return INLAY_OK;
    if (rw_is_only_use(w, p.sum)) {
        fresh = make(w, n, &p, 1);
        return fresh == NULL ? rw_no_memory(w) : rw_replace(w, n, fresh);
    }
    if (w->is_output[p.sum]) /* it has a name, and a place of its own */
        return INLAY_OK;
    fresh = make(w, n, &p, 4);
    if (fresh == NULL || rw_insert(w, fresh, rw_info(w, p.sum)->dtype) != INLAY_OK)
        return rw_no_memory(w);
    outputs = (uint32_t *)(uintptr_t)fresh->info.outputs;
    outputs[1] = outputs[2] = INLAY_NONE; /* mean and deviation */
    status = rw_forward(w, n->info.outputs[0], outputs[0], &done);
    return status != INLAY_OK ? status : rw_forward(w, p.sum, outputs[3], &done);
}

inlay_status pass_skip_layer_norm(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
