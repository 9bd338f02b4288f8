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

/* Is value a constant vector of so many elements, of that type? */
static bool is_vector(const struct rewrite *rewrite, uint32_t value, int64_t n, inlay_dtype dtype)
{
    const inlay_value_info *info = rw_info(rewrite, value);

    return rw_is_constant(rewrite, value) && info->rank == 1 && rw_dim(info, 0) == n && info->dtype == dtype;
}

/* input without a bias that is added to it, which is INLAY_NONE if there is none. */
static uint32_t without_bias(const struct rewrite *rewrite, uint32_t input, int64_t n, uint32_t *out_bias)
{
    const graph_node *add = rw_maker_op(rewrite, input, "Add");

    *out_bias = INLAY_NONE;
    for (uint32_t i = 0; add != NULL && add->info.since_version >= 7 && rw_is_only_use(rewrite, input) && i < 2; i++)
        if (is_vector(rewrite, rw_input(rewrite, add, i), n, rw_info(rewrite, input)->dtype) &&
            rw_same_type(rewrite, rw_input(rewrite, add, 1 - i), input)) {
            *out_bias = rw_input(rewrite, add, i);
            return rw_input(rewrite, add, 1 - i);
        }
    return input;
}

struct pattern {
    uint32_t x, skip, gamma, beta, bias, sum;
    bool centred;
    double epsilon;
};

static bool find(const struct rewrite *rewrite, const graph_node *node, struct pattern *pattern)
{
    uint32_t s = rw_input(rewrite, node, 0), rank = s == INLAY_NONE ? INLAY_RANK_UNKNOWN : rw_info(rewrite, s)->rank;
    const graph_node *add = rw_maker_op(rewrite, s, "Add");
    int64_t axis = rw_attr_int(node, "axis", -1), size;
    inlay_dtype dtype;

    pattern->centred = pass_is_op(node, "LayerNormalization");
    if ((!pattern->centred && !pass_is_op(node, "RMSNormalization")) || add == NULL || add->info.since_version < 7 ||
        rank == INLAY_RANK_UNKNOWN || rank < 2 || (axis != -1 && axis != (int64_t)rank - 1) ||
        rw_attr_int(node, "stash_type", INLAY_FLOAT) != INLAY_FLOAT || node->info.output_count != 1)
        return false;
    dtype = rw_info(rewrite, s)->dtype;
    size = rw_dim(rw_info(rewrite, s), -1);
    *pattern = (struct pattern){ .centred = pattern->centred,
                                 .sum = s,
                                 .gamma = rw_input(rewrite, node, 1),
                                 .beta = rw_input(rewrite, node, 2),
                                 .epsilon = rw_attr_float(node, "epsilon", 1e-5) };
    if (size < 1 || !element_is_float(dtype) || !is_vector(rewrite, pattern->gamma, size, dtype) ||
        (pattern->beta != INLAY_NONE && !is_vector(rewrite, pattern->beta, size, dtype)))
        return false;
    for (uint32_t i = 0; i < 2; i++)
        if (!rw_same_type(rewrite, rw_input(rewrite, add, i), s))
            return false;
    /* Biases belong to products, which are mostly the second operand. */
    for (uint32_t i = 2; i-- > 0;) {
        pattern->skip = rw_input(rewrite, add, 1 - i);
        pattern->x = without_bias(rewrite, rw_input(rewrite, add, i), size, &pattern->bias);
        if (pattern->bias != INLAY_NONE)
            break;
    }
    return pattern->x != pattern->skip || pattern->bias != INLAY_NONE;
}

static graph_node *make(struct rewrite *rewrite, const graph_node *node, const struct pattern *pattern,
                        uint32_t outputs)
{
    const uint32_t centred[] = { pattern->x, pattern->skip, pattern->gamma, pattern->beta, pattern->bias };
    const uint32_t simple[] = { pattern->x, pattern->skip, pattern->gamma, pattern->bias };
    uint32_t count = pattern->bias != INLAY_NONE                       ? (pattern->centred ? 5 : 4)
                     : pattern->centred && pattern->beta != INLAY_NONE ? 4
                                                                       : 3;
    graph_node *fresh =
        rw_make(rewrite, pattern->centred ? "SkipLayerNormalization" : "SkipSimplifiedLayerNormalization", 1, node,
                pattern->centred ? centred : simple, count, outputs);

    if (fresh == NULL || graph_set_attr_float(rewrite->graph, fresh, "epsilon", pattern->epsilon) != INLAY_OK)
        return NULL;
    fresh->info.domain = (inlay_str){ CONTRIBUTED, sizeof CONTRIBUTED - 1 };
    return fresh;
}

static inlay_status match(struct rewrite *rewrite, graph_node *node)
{
    graph_node *fresh;
    inlay_status status;
    uint32_t *outputs;
    bool done;
    struct pattern pattern;

    if (!find(rewrite, node, &pattern))
        return INLAY_OK;
    if (rw_is_only_use(rewrite, pattern.sum)) {
        fresh = make(rewrite, node, &pattern, 1);
        return fresh == NULL ? rw_no_memory(rewrite) : rw_replace(rewrite, node, fresh);
    }
    if (rewrite->is_output[pattern.sum]) /* it has a name, and a place of its own */
        return INLAY_OK;
    fresh = make(rewrite, node, &pattern, 4);
    if (fresh == NULL || rw_insert(rewrite, fresh, rw_info(rewrite, pattern.sum)->dtype) != INLAY_OK)
        return rw_no_memory(rewrite);
    outputs = (uint32_t *)(uintptr_t)fresh->info.outputs;
    outputs[1] = outputs[2] = INLAY_NONE; /* mean and deviation */
    status = rw_forward(rewrite, node->info.outputs[0], outputs[0], &done);
    return status != INLAY_OK ? status : rw_forward(rewrite, pattern.sum, outputs[3], &done);
}

inlay_status pass_skip_layer_norm(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
