/* Products of one input with several constant matrices, with their biases or without (queries, keys and values of
 * attention, gates), are one product with the matrices beside one another, and a Split:
 *
 *     x * A + a, x * B + b, x * C + c   ->   Split(x * [A B C] + [a b c])
 *
 * Only for few rows of x, as in decoders that write word by word: there the product reads each weight once and waits
 * for memory, and one loop over all weights makes better use of several threads. With many rows, or rows that only the
 * run knows, little is gained (README.md has figures) for weights that are there twice, so then it is done only when
 * the pass is asked for by name. */
#include "passes/rewrite.h"
#include <string.h>

enum { MOST = 8, MOST_ROWS = 16 };

/* One of the products. */
struct branch {
    graph_node *product, *sum; /* sum: NULL = without bias */
    uint32_t weight, bias;
    int64_t columns;
};

struct bundle {
    struct branch list[MOST];
    uint32_t count;
    int64_t rows, columns; /* of the weight that is made */
    bool biased;
};

/* What the visit of a graph remembers: who reads what, as it was at first. */
struct readers {
    uint32_t nodes, values;
    uint32_t *first; /* [values] index of the first product that reads it as its left side, INLAY_NONE */
    uint32_t *next;  /* [nodes] the next such product of the same value */
    uint32_t *only;  /* [values] index of a reader: the only one, where there is one */
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

/* Is node a product of input with a constant FLOAT matrix? */
static bool read_branch(struct rewrite *rewrite, graph_node *node, uint32_t input, struct branch *out)
{
    const inlay_value_info *info;

    if (node == NULL || !pass_is_op(node, "MatMul") || rw_input(rewrite, node, 0) != input ||
        !rw_is_constant(rewrite, rw_input(rewrite, node, 1)))
        return false;
    *out = (struct branch){ .product = node, .weight = rw_input(rewrite, node, 1), .bias = INLAY_NONE };
    info = rw_info(rewrite, out->weight);
    if (info->rank != 2 || info->dtype != INLAY_FLOAT || info->dims[0].value <= 0 || info->dims[1].value <= 0)
        return false;
    out->columns = info->dims[1].value;
    return true;
}

/* The Add of a constant [columns] that is the only reader of the product, if there is one. */
static void find_bias(struct rewrite *rewrite, const struct readers *readers, struct branch *branch)
{
    uint32_t output = branch->product->info.outputs[0],
             at = output < readers->values && rw_is_only_use(rewrite, output) ? readers->only[output] : INLAY_NONE;
    graph_node *node = at == INLAY_NONE ? NULL : rewrite->graph->nodes[at];

    for (uint32_t i = 0; node != NULL && pass_is_op(node, "Add") && node->info.since_version >= 7 && i < 2; i++) {
        uint32_t c = rw_input(rewrite, node, 1 - i);
        const inlay_value_info *info = rw_info(rewrite, c);

        if (rw_input(rewrite, node, i) == output && rw_is_constant(rewrite, c) && info->dtype == INLAY_FLOAT &&
            info->rank == 1 && info->dims[0].value == branch->columns && !rewrite->is_output[node->info.outputs[0]]) {
            branch->sum = node;
            branch->bias = c;
        }
    }
}

/* Rows of input, all dims but the last; -1: not known. */
static int64_t count_rows(const inlay_value_info *input)
{
    int64_t rows = 1;

    if (input->rank == INLAY_RANK_UNKNOWN || input->rank < 2)
        return -1;
    for (uint32_t d = 0; d + 1 < input->rank; d++) {
        if (input->dims[d].kind != INLAY_DIM_FIXED || input->dims[d].value > MOST_ROWS)
            return -1;
        rows *= input->dims[d].value;
        if (rows > MOST_ROWS)
            return -1;
    }
    return rows;
}

/* All products of input, if node is the first; none that makes an output of the graph, for those keep their names. */
static void gather(struct rewrite *rewrite, const struct readers *readers, graph_node *node, uint32_t input,
                   struct bundle *all)
{
    struct branch branch;

    for (uint32_t i = input < readers->values ? readers->first[input] : INLAY_NONE;
         i != INLAY_NONE && all->count < MOST; i = readers->next[i]) {
        if (!read_branch(rewrite, rewrite->graph->nodes[i], input, &branch) ||
            rewrite->is_output[branch.product->info.outputs[0]])
            continue;
        if (all->count == 0 && branch.product != node)
            return;
        find_bias(rewrite, readers, &branch);
        all->list[all->count++] = branch;
        all->columns += branch.columns;
    }
}

/* The weights beside one another, [rows, columns]; the biases likewise. */
static uint32_t join_weights(struct rewrite *rewrite, const struct bundle *all)
{
    float *joined = graph_blob_alloc(rewrite->graph->model, (size_t)(all->rows * all->columns) * sizeof *joined);
    int64_t at = 0;

    if (joined == NULL)
        return INLAY_NONE;
    for (uint32_t k = 0; k < all->count; k++) {
        const struct branch *branch = &all->list[k];
        const unsigned char *from = rw_info(rewrite, branch->weight)->data;

        for (int64_t r = 0; r < all->rows; r++)
            memcpy(joined + r * all->columns + at, from + (size_t)(r * branch->columns) * sizeof(float),
                   (size_t)branch->columns * sizeof(float));
        at += branch->columns;
    }
    return rw_constant_blob(rewrite, INLAY_FLOAT, 2, (const int64_t[]){ all->rows, all->columns }, joined,
                            (uint64_t)(all->rows * all->columns) * sizeof *joined);
}

static uint32_t join_biases(struct rewrite *rewrite, const struct bundle *all)
{
    float *joined = arena_array(&rewrite->scratch, (size_t)all->columns, sizeof *joined);
    int64_t at = 0;

    if (joined == NULL)
        return INLAY_NONE;
    for (uint32_t k = 0; k < all->count; k++) {
        memcpy(joined + at, rw_info(rewrite, all->list[k].bias)->data, (size_t)all->list[k].columns * sizeof *joined);
        at += all->list[k].columns;
    }
    return rw_constant(rewrite, INLAY_FLOAT, 1, &all->columns, joined, (uint64_t)all->columns * sizeof *joined);
}

/* Was the pass asked for by name? Then the user knows better. */
static bool is_asked_for(const pass_ctx *ctx)
{
    for (uint32_t i = 0; i < ctx->only_count; i++)
        if (strcmp(ctx->only[i], ctx->pass) == 0)
            return true;
    return false;
}

/* The product of all, with the biases: *out_y is [.., columns]. */
static inlay_status make_product(struct rewrite *rewrite, const struct bundle *all, uint32_t input, uint32_t *out_y)
{
    const graph_node *like = all->list[0].product;
    uint32_t weight = join_weights(rewrite, all), bias;
    graph_node *fresh = weight == INLAY_NONE
                            ? NULL
                            : rw_make(rewrite, "MatMul", like->opset, like, (const uint32_t[]){ input, weight }, 2, 1);

    if (fresh == NULL || rw_insert(rewrite, fresh, INLAY_FLOAT) != INLAY_OK)
        return rw_no_memory(rewrite);
    *out_y = fresh->info.outputs[0];
    if (!all->biased)
        return INLAY_OK;
    bias = join_biases(rewrite, all);
    fresh = bias == INLAY_NONE ? NULL : rw_make(rewrite, "Add", 0, NULL, (const uint32_t[]){ *out_y, bias }, 2, 1);
    if (fresh == NULL || rw_insert(rewrite, fresh, INLAY_FLOAT) != INLAY_OK)
        return rw_no_memory(rewrite);
    *out_y = fresh->info.outputs[0];
    return INLAY_OK;
}

static inlay_status match(struct rewrite *rewrite, graph_node *node)
{
    struct readers *readers = rewrite->pass_state =
        rewrite->pass_state == NULL ? index_readers(rewrite) : rewrite->pass_state;
    uint32_t input = rw_input(rewrite, node, 0), output = INLAY_NONE, lengths;
    int64_t sizes[MOST], rows;
    struct bundle all = { .count = 0 };
    graph_node *split;
    inlay_status status;
    struct branch branch;

    if (readers == NULL)
        return rw_no_memory(rewrite);
    if (!pass_allows(rewrite->ctx, 13))
        return INLAY_OK;
    if (!read_branch(rewrite, node, input, &branch))
        return INLAY_OK;
    rows = count_rows(rw_info(rewrite, input));
    if (rw_info(rewrite, input)->rank == INLAY_RANK_UNKNOWN || rw_info(rewrite, input)->rank < 2 ||
        (rows < 0 && !is_asked_for(rewrite->ctx)))
        return INLAY_OK;
    gather(rewrite, readers, node, input, &all);
    if (all.count < 2)
        return INLAY_OK;
    all.rows = rw_info(rewrite, branch.weight)->dims[0].value;
    all.biased = all.list[0].sum != NULL;
    for (uint32_t k = 0; k < all.count; k++) {
        if (rw_info(rewrite, all.list[k].weight)->dims[0].value != all.rows || (all.list[k].sum != NULL) != all.biased)
            return INLAY_OK;
        sizes[k] = all.list[k].columns;
    }
    status = make_product(rewrite, &all, input, &output);
    if (status != INLAY_OK)
        return status;
    lengths = rw_constant_ints(rewrite, sizes, all.count);
    split = lengths == INLAY_NONE ? NULL
                                  : rw_make(rewrite, "Split", node->opset > 13 ? node->opset : 13, NULL,
                                            (const uint32_t[]){ output, lengths }, 2, all.count);
    if (split == NULL ||
        graph_set_attr_int(rewrite->graph, split, "axis", (int64_t)rw_info(rewrite, input)->rank - 1) != INLAY_OK ||
        rw_insert(rewrite, split, INLAY_FLOAT) != INLAY_OK)
        return rw_no_memory(rewrite);
    for (uint32_t k = 0; k < all.count; k++) {
        graph_node *last = all.list[k].sum != NULL ? all.list[k].sum : all.list[k].product;
        bool done;

        status = rw_forward(rewrite, last->info.outputs[0], split->info.outputs[k], &done);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

inlay_status pass_merge_products(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
