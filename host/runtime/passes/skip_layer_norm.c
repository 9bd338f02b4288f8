/* Fuses a residual Add with the LayerNormalization or RMSNormalization over the last axis after it:
 *
 *     s = (x + bias) + skip;  LayerNormalization(s)    ->  com.microsoft SkipLayerNormalization(x, skip, ..), s
 *     s = (x + bias) + skip;  RMSNormalization(s)      ->  SkipSimplifiedLayerNormalization, s
 *
 * The sum becomes another output if it has other readers, such as the next residual. A bias is a constant vector that
 * is added to one of the operands. A provider may split the operator again: nothing is gained if a matrix
 * multiplication adds the residual as its epilogue (providers/cpu). */
#include "base/element.h"
#include "passes/rewrite.h"

static const char CONTRIBUTED[] = "com.microsoft";

/* Returns true if value is a constant vector of `count` elements of that type. */
static bool is_vector(const struct rewrite *rewrite, uint32_t value, int64_t count, inlay_dtype dtype)
{
    const inlay_value_info *info = rewrite_value_info(rewrite, value);

    return rewrite_is_constant(rewrite, value) && info->rank == 1 && rewrite_dim(info, 0) == count &&
           info->dtype == dtype;
}

/* Removes a bias that is added to input; *out_bias is INLAY_NONE if there is none. */
static uint32_t without_bias(const struct rewrite *rewrite, uint32_t input, int64_t size, uint32_t *out_bias)
{
    const graph_node *add = rewrite_producer_op(rewrite, input, "Add");

    *out_bias = INLAY_NONE;
    for (uint32_t i = 0; add != NULL && add->info.since_version >= 7 && rewrite_has_one_use(rewrite, input) && i < 2;
         i++)
        if (is_vector(rewrite, rewrite_input(rewrite, add, i), size, rewrite_value_info(rewrite, input)->dtype) &&
            rewrite_same_type(rewrite, rewrite_input(rewrite, add, 1 - i), input)) {
            *out_bias = rewrite_input(rewrite, add, i);
            return rewrite_input(rewrite, add, 1 - i);
        }
    return input;
}

struct skip_norm_pattern {
    uint32_t input, skip, gamma, beta, bias, sum;
    bool centred;
    double epsilon;
};

static bool find_pattern(const struct rewrite *rewrite, const graph_node *node, struct skip_norm_pattern *pattern)
{
    uint32_t sum = rewrite_input(rewrite, node, 0),
             rank = sum == INLAY_NONE ? INLAY_RANK_UNKNOWN : rewrite_value_info(rewrite, sum)->rank;
    const graph_node *add = rewrite_producer_op(rewrite, sum, "Add");
    int64_t axis = graph_attr_int(node, "axis", -1), size;
    inlay_dtype dtype;

    pattern->centred = pass_is_op(node, "LayerNormalization");
    if ((!pattern->centred && !pass_is_op(node, "RMSNormalization")) || add == NULL || add->info.since_version < 7 ||
        rank == INLAY_RANK_UNKNOWN || rank < 2 || (axis != -1 && axis != (int64_t)rank - 1) ||
        graph_attr_int(node, "stash_type", INLAY_FLOAT) != INLAY_FLOAT || node->info.output_count != 1)
        return false;
    dtype = rewrite_value_info(rewrite, sum)->dtype;
    size = rewrite_dim(rewrite_value_info(rewrite, sum), -1);
    *pattern = (struct skip_norm_pattern){ .centred = pattern->centred,
                                           .sum = sum,
                                           .gamma = rewrite_input(rewrite, node, 1),
                                           .beta = rewrite_input(rewrite, node, 2),
                                           .epsilon = graph_attr_float(node, "epsilon", 1e-5) };
    if (size < 1 || !element_is_float(dtype) || !is_vector(rewrite, pattern->gamma, size, dtype) ||
        (pattern->beta != INLAY_NONE && !is_vector(rewrite, pattern->beta, size, dtype)))
        return false;
    for (uint32_t i = 0; i < 2; i++)
        if (!rewrite_same_type(rewrite, rewrite_input(rewrite, add, i), sum))
            return false;
    /* A bias usually belongs to a matrix multiplication, which is usually the second operand. */
    for (uint32_t i = 2; i-- > 0;) {
        pattern->skip = rewrite_input(rewrite, add, 1 - i);
        pattern->input = without_bias(rewrite, rewrite_input(rewrite, add, i), size, &pattern->bias);
        if (pattern->bias != INLAY_NONE)
            break;
    }
    return pattern->input != pattern->skip || pattern->bias != INLAY_NONE;
}

static graph_node *make_skip_norm(struct rewrite *rewrite, const graph_node *node,
                                  const struct skip_norm_pattern *pattern, uint32_t outputs)
{
    const uint32_t centred[] = { pattern->input, pattern->skip, pattern->gamma, pattern->beta, pattern->bias };
    const uint32_t simple[] = { pattern->input, pattern->skip, pattern->gamma, pattern->bias };
    uint32_t count = pattern->bias != INLAY_NONE                       ? (pattern->centred ? 5 : 4)
                     : pattern->centred && pattern->beta != INLAY_NONE ? 4
                                                                       : 3;
    graph_node *new_node =
        rewrite_make_node(rewrite, pattern->centred ? "SkipLayerNormalization" : "SkipSimplifiedLayerNormalization", 1,
                          node, pattern->centred ? centred : simple, count, outputs);

    if (new_node == NULL || graph_set_attr_float(rewrite->graph, new_node, "epsilon", pattern->epsilon) != INLAY_OK)
        return NULL;
    new_node->info.domain = (inlay_str){ CONTRIBUTED, sizeof CONTRIBUTED - 1 };
    return new_node;
}

inlay_status match_skip_layer_norm(struct rewrite *rewrite, graph_node *node)
{
    graph_node *new_node;
    inlay_status status;
    uint32_t *outputs;
    bool done;
    struct skip_norm_pattern pattern;

    if (!find_pattern(rewrite, node, &pattern))
        return INLAY_OK;
    if (rewrite_has_one_use(rewrite, pattern.sum)) {
        new_node = make_skip_norm(rewrite, node, &pattern, 1);
        return new_node == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, new_node);
    }
    if (rewrite->is_output[pattern.sum]) /* graph outputs keep their node */
        return INLAY_OK;
    new_node = make_skip_norm(rewrite, node, &pattern, 4);
    if (new_node == NULL ||
        rewrite_insert_node(rewrite, new_node, rewrite_value_info(rewrite, pattern.sum)->dtype) != INLAY_OK)
        return rewrite_no_memory(rewrite);
    outputs = (uint32_t *)(uintptr_t)new_node->info.outputs;
    outputs[1] = outputs[2] = INLAY_NONE; /* mean and deviation */
    status = rewrite_forward(rewrite, node->info.outputs[0], outputs[0], &done);
    return status != INLAY_OK ? status : rewrite_forward(rewrite, pattern.sum, outputs[3], &done);
}
