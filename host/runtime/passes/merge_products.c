/* Merges multiplications of one input with several constant matrices, with or without biases (queries, keys and values
 * of attention, gates), into one multiplication with the concatenated matrices, and a Split:
 *
 *     x * A + a, x * B + b, x * C + c   ->   Split(x * [A B C] + [a b c])
 *
 * Only for few rows of x, as in decoders that generate one token at a time: there the multiplication is bound by memory
 * bandwidth, and one loop over all weights makes better use of several threads. With many rows, or a number known only
 * at run time, the gain is small and the weights are stored twice, so it is done only if the user requests the pass by
 * name. */
#include "passes/rewrite.h"
#include "base/order.h"
#include "inlay/check.h"
#include <string.h>

enum { MAX_BRANCHES = 8, MAX_ROWS = 16 };

/* One of the multiplications. */
struct branch {
    graph_node *product, *sum; /* sum: the Add of the bias, or NULL */
    uint32_t weight, bias;
    int64_t columns;
};

struct product_group {
    struct branch list[MAX_BRANCHES];
    uint32_t count;
    int64_t rows, columns; /* of the concatenated weight */
    bool biased;
};

/* Index of the readers of each value, built once for the visit of a graph. */
struct readers {
    uint32_t nodes, values;
    uint32_t *first; /* [values] first MatMul that reads the value as its left operand; INLAY_NONE */
    uint32_t *next;  /* [nodes] next such MatMul of the same value */
    uint32_t *only;  /* [values] a reader: the only one if there is just one */
};

static struct readers *index_readers(struct rewrite *rewrite)
{
    struct readers *readers = arena_alloc(&rewrite->arena, sizeof *readers);

    if (readers == NULL)
        return NULL;
    *readers = (struct readers){ .nodes = rewrite->graph->node_count, .values = rewrite->graph->value_count };
    readers->first = arena_array(&rewrite->arena, (size_t)readers->values + 1, sizeof *readers->first);
    readers->next = arena_array(&rewrite->arena, (size_t)readers->nodes + 1, sizeof *readers->next);
    readers->only = arena_array(&rewrite->arena, (size_t)readers->values + 1, sizeof *readers->only);
    if (readers->first == NULL || readers->next == NULL || readers->only == NULL)
        return NULL;
    memset(readers->first, 0xff, readers->values * sizeof *readers->first);
    memset(readers->only, 0xff, readers->values * sizeof *readers->only);
    for (uint32_t i = readers->nodes; i-- > 0;) {
        const graph_node *node = rewrite->graph->nodes[i];

        for (uint32_t k = 0; node != NULL && k < node->info.input_count; k++)
            if (node->info.inputs[k] != INLAY_NONE)
                readers->only[node->info.inputs[k]] = i;
        if (node == NULL || !pass_is_op(node, "MatMul") || node->info.inputs[0] == INLAY_NONE)
            continue;
        readers->next[i] = readers->first[node->info.inputs[0]];
        readers->first[node->info.inputs[0]] = i;
    }
    return readers;
}

/* Matches a MatMul of input with a constant FLOAT matrix. */
static bool read_branch(struct rewrite *rewrite, graph_node *node, uint32_t input, struct branch *out)
{
    const inlay_value_info *info;

    if (node == NULL || !pass_is_op(node, "MatMul") || rewrite_input(rewrite, node, 0) != input ||
        !rewrite_is_constant(rewrite, rewrite_input(rewrite, node, 1)))
        return false;
    *out = (struct branch){ .product = node, .weight = rewrite_input(rewrite, node, 1), .bias = INLAY_NONE };
    info = rewrite_value_info(rewrite, out->weight);
    if (info->rank != 2 || info->dtype != INLAY_FLOAT || info->dims[0].value <= 0 || info->dims[1].value <= 0)
        return false;
    out->columns = info->dims[1].value;
    return true;
}

/* Finds the Add of a constant [columns] that is the only reader of the product. */
static void find_bias(struct rewrite *rewrite, const struct readers *readers, struct branch *branch)
{
    uint32_t output = branch->product->info.outputs[0],
             at = output < readers->values && rewrite_has_one_use(rewrite, output) ? readers->only[output] : INLAY_NONE;
    graph_node *node = at == INLAY_NONE ? NULL : rewrite->graph->nodes[at];

    for (uint32_t i = 0; node != NULL && pass_is_op(node, "Add") && node->info.since_version >= 7 && i < 2; i++) {
        uint32_t addend = rewrite_input(rewrite, node, 1 - i);
        const inlay_value_info *info = rewrite_value_info(rewrite, addend);

        if (rewrite_input(rewrite, node, i) == output && rewrite_is_constant(rewrite, addend) &&
            info->dtype == INLAY_FLOAT && info->rank == 1 && info->dims[0].value == branch->columns &&
            !rewrite->is_output[node->info.outputs[0]]) {
            branch->sum = node;
            branch->bias = addend;
        }
    }
}

/* Number of rows of input: all dims but the last; -1: unknown or too many. */
static int64_t count_rows(const inlay_value_info *input)
{
    int64_t rows = 1;

    if (input->rank == INLAY_RANK_UNKNOWN || input->rank < 2)
        return -1;
    for (uint32_t d = 0; d + 1 < input->rank; d++) {
        if (input->dims[d].kind != INLAY_DIM_FIXED || input->dims[d].value > MAX_ROWS)
            return -1;
        rows *= input->dims[d].value;
        if (rows > MAX_ROWS)
            return -1;
    }
    return rows;
}

/* Collects all MatMuls of `input` if node is the first of them. Skips MatMuls that produce graph outputs, which must
 * keep their names. */
static void collect_branches(struct rewrite *rewrite, const struct readers *readers, graph_node *node, uint32_t input,
                             struct product_group *group)
{
    struct branch branch;

    for (uint32_t i = input < readers->values ? readers->first[input] : INLAY_NONE;
         i != INLAY_NONE && group->count < MAX_BRANCHES; i = readers->next[i]) {
        if (!read_branch(rewrite, rewrite->graph->nodes[i], input, &branch) ||
            rewrite->is_output[branch.product->info.outputs[0]])
            continue;
        if (group->count == 0 && branch.product != node)
            return;
        find_bias(rewrite, readers, &branch);
        group->list[group->count++] = branch;
        group->columns += branch.columns;
    }
}

/* Concatenates the weights to [rows, columns]; concat_biases() does the same with the biases. */
static uint32_t concat_weights(struct rewrite *rewrite, const struct product_group *group)
{
    float *data = graph_blob_alloc(rewrite->graph->model, (size_t)(group->rows * group->columns) * sizeof *data);
    int64_t at = 0;

    if (data == NULL)
        return INLAY_NONE;
    for (uint32_t k = 0; k < group->count; k++) {
        const struct branch *branch = &group->list[k];
        const unsigned char *from = rewrite_value_info(rewrite, branch->weight)->data;

        for (int64_t row = 0; row < group->rows; row++)
            memcpy(data + row * group->columns + at, from + (size_t)(row * branch->columns) * sizeof(float),
                   (size_t)branch->columns * sizeof(float));
        at += branch->columns;
    }
    INLAY_CHECK(at == group->columns);
    return rewrite_constant_blob(rewrite, INLAY_FLOAT, 2, (const int64_t[]){ group->rows, group->columns }, data,
                                 (uint64_t)(group->rows * group->columns) * sizeof *data);
}

static uint32_t concat_biases(struct rewrite *rewrite, const struct product_group *group)
{
    float *data = arena_array(&rewrite->scratch, (size_t)group->columns, sizeof *data);
    int64_t at = 0;

    if (data == NULL)
        return INLAY_NONE;
    for (uint32_t k = 0; k < group->count; k++) {
        memcpy(data + at, rewrite_value_info(rewrite, group->list[k].bias)->data,
               (size_t)group->list[k].columns * sizeof *data);
        at += group->list[k].columns;
    }
    return rewrite_constant(rewrite, INLAY_FLOAT, 1, &group->columns, data, (uint64_t)group->columns * sizeof *data);
}

/* Inserts the merged multiplication and the biases: *out_value is [.., columns]. */
static inlay_status make_merged_product(struct rewrite *rewrite, const struct product_group *group, uint32_t input,
                                        uint32_t *out_value)
{
    const graph_node *like = group->list[0].product;
    uint32_t weight = concat_weights(rewrite, group), bias;
    graph_node *new_node = weight == INLAY_NONE ? NULL
                                                : rewrite_make_node(rewrite, "MatMul", like->opset, like,
                                                                    (const uint32_t[]){ input, weight }, 2, 1);

    if (new_node == NULL || rewrite_insert_node(rewrite, new_node, INLAY_FLOAT) != INLAY_OK)
        return rewrite_no_memory(rewrite);
    *out_value = new_node->info.outputs[0];
    if (!group->biased)
        return INLAY_OK;
    bias = concat_biases(rewrite, group);
    new_node = bias == INLAY_NONE
                   ? NULL
                   : rewrite_make_node(rewrite, "Add", 0, NULL, (const uint32_t[]){ *out_value, bias }, 2, 1);
    if (new_node == NULL || rewrite_insert_node(rewrite, new_node, INLAY_FLOAT) != INLAY_OK)
        return rewrite_no_memory(rewrite);
    *out_value = new_node->info.outputs[0];
    return INLAY_OK;
}

inlay_status match_merge_products(struct rewrite *rewrite, graph_node *node)
{
    const pass_ctx *ctx = rewrite->ctx;
    struct readers *readers = rewrite->pass_state =
        rewrite->pass_state == NULL ? index_readers(rewrite) : rewrite->pass_state;
    uint32_t input = rewrite_input(rewrite, node, 0), output = INLAY_NONE, lengths;
    int64_t sizes[MAX_BRANCHES], rows;
    struct product_group group = { .count = 0 };
    graph_node *split;
    inlay_status status;
    struct branch branch;

    if (readers == NULL)
        return rewrite_no_memory(rewrite);
    if (!pass_allows(ctx, 13))
        return INLAY_OK;
    if (!read_branch(rewrite, node, input, &branch))
        return INLAY_OK;
    rows = count_rows(rewrite_value_info(rewrite, input));
    if (rewrite_value_info(rewrite, input)->rank == INLAY_RANK_UNKNOWN ||
        rewrite_value_info(rewrite, input)->rank < 2 ||
        (rows < 0 && !is_text_listed(ctx->chosen.only, ctx->chosen.only_count, ctx->run.pass)))
        return INLAY_OK;
    collect_branches(rewrite, readers, node, input, &group);
    if (group.count < 2)
        return INLAY_OK;
    group.rows = rewrite_value_info(rewrite, branch.weight)->dims[0].value;
    group.biased = group.list[0].sum != NULL;
    for (uint32_t k = 0; k < group.count; k++) {
        if (rewrite_value_info(rewrite, group.list[k].weight)->dims[0].value != group.rows ||
            (group.list[k].sum != NULL) != group.biased)
            return INLAY_OK;
        sizes[k] = group.list[k].columns;
    }
    status = make_merged_product(rewrite, &group, input, &output);
    if (status != INLAY_OK)
        return status;
    lengths = rewrite_constant_ints(rewrite, sizes, group.count);
    split = lengths == INLAY_NONE ? NULL
                                  : rewrite_make_node(rewrite, "Split", node->opset > 13 ? node->opset : 13, NULL,
                                                      (const uint32_t[]){ output, lengths }, 2, group.count);
    if (split == NULL ||
        graph_set_attr_int(rewrite->graph, split, "axis", (int64_t)rewrite_value_info(rewrite, input)->rank - 1) !=
            INLAY_OK ||
        rewrite_insert_node(rewrite, split, INLAY_FLOAT) != INLAY_OK)
        return rewrite_no_memory(rewrite);
    for (uint32_t k = 0; k < group.count; k++) {
        graph_node *last = group.list[k].sum != NULL ? group.list[k].sum : group.list[k].product;
        bool done;

        status = rewrite_forward(rewrite, last->info.outputs[0], split->info.outputs[k], &done);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}
