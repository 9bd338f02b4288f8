/* Merges two Transposes that only element-wise operators separate into one, or none: the order of the axes does not
 * matter to these operators. Constants between them are transposed as well. */
#include "passes/merge_transposes.h"
#include "passes/rewrite.h"

enum { MAX_CHAIN = 16 }; /* operators between the two Transposes */

static bool is_unary(const graph_node *node)
{
    return pass_is_among(node,
                         "Relu Sigmoid Tanh LeakyRelu HardSwish HardSigmoid Swish Gelu Mish Elu Selu Softplus Clip "
                         "Neg Abs Exp Sqrt Cast Erf Floor Ceil Round Reciprocal Log");
}

static bool is_binary(const graph_node *node)
{
    return pass_is_among(node, "Add Sub Mul Div Pow Max Min PRelu") && node->info.input_count == 2 &&
           node->info.since_version >= 7;
}

/* The only axis of a result of that rank along which the constant varies; -1: none (a scalar); -2: several axes. */
static int64_t varying_axis(const inlay_value_info *info, uint32_t rank)
{
    int64_t axis = -1;

    if (info->rank > rank)
        return -2;
    for (uint32_t d = 0; d < info->rank; d++) {
        if (info->dims[d].value == 1)
            continue;
        if (axis >= 0)
            return -2;
        axis = (int64_t)(rank - info->rank + d);
    }
    return axis;
}

/* Index of the input through which an element-wise node continues the chain; UINT32_MAX: not such a node. */
static uint32_t chain_input(const struct rewrite *rewrite, const graph_node *node, uint32_t rank)
{
    if (node == NULL || node->info.output_count != 1)
        return UINT32_MAX;
    if (is_unary(node))
        return 0;
    for (uint32_t side = 0; is_binary(node) && side < (pass_is_op(node, "PRelu") ? 1 : 2); side++) {
        uint32_t c = rewrite_input(rewrite, node, 1 - side);
        if (rewrite_is_constant(rewrite, c) && varying_axis(rewrite_value_info(rewrite, c), rank) > -2)
            return side;
    }
    return UINT32_MAX;
}

/* The constant after perm: axis d of the result is axis perm[d] of the original. */
static uint32_t permute_constant(struct rewrite *rewrite, uint32_t value, uint32_t rank, const int64_t *perm)
{
    const inlay_value_info *info = rewrite_value_info(rewrite, value);
    int64_t axis = varying_axis(info, rank), *dims = arena_array(&rewrite->scratch, (size_t)rank + 1, sizeof *dims);

    if (axis < 0)
        return value;
    for (uint32_t d = 0; dims != NULL && d < rank; d++)
        dims[d] = perm[d] == axis ? info->dims[(uint32_t)axis - (rank - info->rank)].value : 1;
    return dims == NULL ? INLAY_NONE : rewrite_constant(rewrite, info->dtype, rank, dims, info->data, info->data_bytes);
}

inlay_status match_cancel_transposes(struct rewrite *rewrite, graph_node *node)
{
    graph_node *chain[MAX_CHAIN], *first, *merged, *copy;
    uint32_t count = 0, value = rewrite_input(rewrite, node, 0), at, rank;
    int64_t *before, *after, *both;
    bool done, is_identity = true;

    if (!pass_is_op(node, "Transpose") || rewrite_value_info(rewrite, value)->rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    rank = rewrite_value_info(rewrite, value)->rank;
    while (count < MAX_CHAIN && rewrite_has_one_use(rewrite, value) &&
           (at = chain_input(rewrite, rewrite_producer(rewrite, value), rank)) != UINT32_MAX &&
           rewrite_value_info(rewrite, rewrite_input(rewrite, rewrite_producer(rewrite, value), at))->rank == rank) {
        chain[count++] = rewrite_producer(rewrite, value);
        value = rewrite_input(rewrite, chain[count - 1], at);
    }
    first =
        count == 0 || !rewrite_has_one_use(rewrite, value) ? NULL : rewrite_producer_op(rewrite, value, "Transpose");
    before = arena_array(&rewrite->scratch, (size_t)rank + 1, sizeof *before);
    after = arena_array(&rewrite->scratch, (size_t)rank + 1, sizeof *after);
    both = arena_array(&rewrite->scratch, (size_t)rank + 1, sizeof *both);
    if (before == NULL || after == NULL || both == NULL)
        return rewrite_no_memory(rewrite);
    if (first == NULL || !transpose_perm(first, rank, before) || !transpose_perm(node, rank, after) ||
        rewrite->is_output[node->info.outputs[0]])
        return INLAY_OK;
    for (uint32_t d = 0; d < rank; d++) {
        both[d] = before[after[d]];
        is_identity &= both[d] == (int64_t)d;
    }
    value = rewrite_input(rewrite, first, 0);
    if (!is_identity) {
        merged = rewrite_make_node(rewrite, "Transpose", node->opset, NULL, &value, 1, 1);
        if (merged == NULL || graph_set_attr_ints(rewrite->graph, merged, "perm", both, rank) != INLAY_OK ||
            rewrite_insert_node(rewrite, merged, rewrite_value_info(rewrite, value)->dtype) != INLAY_OK)
            return rewrite_no_memory(rewrite);
        value = merged->info.outputs[0];
    }
    for (uint32_t i = count; i-- > 0;) {
        at = chain_input(rewrite, chain[i], rank);
        copy = rewrite_copy_node(rewrite, chain[i]);
        if (copy == NULL)
            return rewrite_no_memory(rewrite);
        rewrite_set_input(rewrite, copy, at, value);
        if (is_binary(chain[i])) {
            value = permute_constant(rewrite, rewrite_input(rewrite, chain[i], 1 - at), rank, after);
            if (value == INLAY_NONE)
                return rewrite_no_memory(rewrite);
            rewrite_set_input(rewrite, copy, 1 - at, value);
        }
        if (rewrite_insert_node(rewrite, copy, rewrite_value_info(rewrite, chain[i]->info.outputs[0])->dtype) !=
            INLAY_OK)
            return rewrite_no_memory(rewrite);
        value = copy->info.outputs[0];
    }
    return rewrite_forward(rewrite, node->info.outputs[0], value, &done);
}
