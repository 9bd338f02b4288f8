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

static struct readers *index_readers(struct rewrite *w)
{
    struct readers *r = arena_alloc(&w->own, sizeof *r);

    if (r == NULL)
        return NULL;
    *r = (struct readers){ .nodes = w->g->node_count, .values = w->g->value_count };
    r->first = arena_array(&w->own, (size_t)r->values + 1, sizeof *r->first);
    r->next = arena_array(&w->own, (size_t)r->nodes + 1, sizeof *r->next);
    r->only = arena_array(&w->own, (size_t)r->values + 1, sizeof *r->only);
    if (r->first == NULL || r->next == NULL || r->only == NULL)
        return NULL;
    memset(r->first, 0xff, r->values * sizeof *r->first);
    memset(r->only, 0xff, r->values * sizeof *r->only);
    for (uint32_t i = r->nodes; i-- > 0;) {
        const graph_node *n = w->g->nodes[i];

        for (uint32_t k = 0; n != NULL && k < n->info.input_count; k++)
            if (n->info.inputs[k] != INLAY_NONE)
                r->only[n->info.inputs[k]] = i;
        if (n == NULL || !pass_is_op(n, "MatMul") || n->info.inputs[0] == INLAY_NONE)
            continue;
        r->next[i] = r->first[n->info.inputs[0]];
        r->first[n->info.inputs[0]] = i;
    }
    return r;
}

/* Is n a product of x with a constant FLOAT matrix? */
static bool read_branch(struct rewrite *w, graph_node *n, uint32_t x, struct branch *out)
{
    const inlay_value_info *info;

    if (n == NULL || !pass_is_op(n, "MatMul") || rw_input(w, n, 0) != x || !rw_is_constant(w, rw_input(w, n, 1)))
        return false;
    *out = (struct branch){ .product = n, .weight = rw_input(w, n, 1), .bias = INLAY_NONE };
    info = rw_info(w, out->weight);
    if (info->rank != 2 || info->dtype != INLAY_FLOAT || info->dims[0].value <= 0 || info->dims[1].value <= 0)
        return false;
    out->columns = info->dims[1].value;
    return true;
}

/* The Add of a constant [columns] that is the only reader of the product, if there is one. */
static void find_bias(struct rewrite *w, const struct readers *r, struct branch *b)
{
    uint32_t y = b->product->info.outputs[0], at = y < r->values && rw_is_only_use(w, y) ? r->only[y] : INLAY_NONE;
    graph_node *n = at == INLAY_NONE ? NULL : w->g->nodes[at];

    for (uint32_t i = 0; n != NULL && pass_is_op(n, "Add") && n->info.since_version >= 7 && i < 2; i++) {
        uint32_t c = rw_input(w, n, 1 - i);
        const inlay_value_info *info = rw_info(w, c);

        if (rw_input(w, n, i) == y && rw_is_constant(w, c) && info->dtype == INLAY_FLOAT && info->rank == 1 &&
            info->dims[0].value == b->columns && !w->is_output[n->info.outputs[0]]) {
            b->sum = n;
            b->bias = c;
        }
    }
}

/* Rows of x, all dims but the last; -1: not known. */
static int64_t count_rows(const inlay_value_info *x)
{
    int64_t rows = 1;

    if (x->rank == INLAY_RANK_UNKNOWN || x->rank < 2)
        return -1;
    for (uint32_t d = 0; d + 1 < x->rank; d++) {
        if (x->dims[d].kind != INLAY_DIM_FIXED || x->dims[d].value > MOST_ROWS)
            return -1;
        rows *= x->dims[d].value;
        if (rows > MOST_ROWS)
            return -1;
    }
    return rows;
}

/* All products of x, if n is the first; none that makes an output of the graph, for those keep their names. */
static void gather(struct rewrite *w, const struct readers *r, graph_node *n, uint32_t x, struct bundle *all)
{
    struct branch b;

    for (uint32_t i = x < r->values ? r->first[x] : INLAY_NONE; i != INLAY_NONE && all->count < MOST; i = r->next[i]) {
        if (!read_branch(w, w->g->nodes[i], x, &b) || w->is_output[b.product->info.outputs[0]])
            continue;
        if (all->count == 0 && b.product != n)
            return;
        find_bias(w, r, &b);
        all->list[all->count++] = b;
        all->columns += b.columns;
    }
}

/* The weights beside one another, [rows, columns]; the biases likewise. */
static uint32_t join_weights(struct rewrite *w, const struct bundle *all)
{
    float *joined = graph_blob_alloc(w->g->model, (size_t)(all->rows * all->columns) * sizeof *joined);
    int64_t at = 0;

    if (joined == NULL)
        return INLAY_NONE;
    for (uint32_t k = 0; k < all->count; k++) {
        const struct branch *b = &all->list[k];
        const unsigned char *from = rw_info(w, b->weight)->data;

        for (int64_t r = 0; r < all->rows; r++)
            memcpy(joined + r * all->columns + at, from + (size_t)(r * b->columns) * sizeof(float),
                   (size_t)b->columns * sizeof(float));
        at += b->columns;
    }
    return rw_constant_blob(w, INLAY_FLOAT, 2, (const int64_t[]){ all->rows, all->columns }, joined,
                            (uint64_t)(all->rows * all->columns) * sizeof *joined);
}

static uint32_t join_biases(struct rewrite *w, const struct bundle *all)
{
    float *joined = arena_array(&w->scratch, (size_t)all->columns, sizeof *joined);
    int64_t at = 0;

    if (joined == NULL)
        return INLAY_NONE;
    for (uint32_t k = 0; k < all->count; k++) {
        memcpy(joined + at, rw_info(w, all->list[k].bias)->data, (size_t)all->list[k].columns * sizeof *joined);
        at += all->list[k].columns;
    }
    return rw_constant(w, INLAY_FLOAT, 1, &all->columns, joined, (uint64_t)all->columns * sizeof *joined);
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
static inlay_status make_product(struct rewrite *w, const struct bundle *all, uint32_t x, uint32_t *out_y)
{
    const graph_node *like = all->list[0].product;
    uint32_t weight = join_weights(w, all), bias;
    graph_node *fresh =
        weight == INLAY_NONE ? NULL : rw_make(w, "MatMul", like->opset, like, (const uint32_t[]){ x, weight }, 2, 1);

    if (fresh == NULL || rw_insert(w, fresh, INLAY_FLOAT) != INLAY_OK)
        return rw_no_memory(w);
    *out_y = fresh->info.outputs[0];
    if (!all->biased)
        return INLAY_OK;
    bias = join_biases(w, all);
    fresh = bias == INLAY_NONE ? NULL : rw_make(w, "Add", 0, NULL, (const uint32_t[]){ *out_y, bias }, 2, 1);
    if (fresh == NULL || rw_insert(w, fresh, INLAY_FLOAT) != INLAY_OK)
        return rw_no_memory(w);
    *out_y = fresh->info.outputs[0];
    return INLAY_OK;
}

static inlay_status match(struct rewrite *w, graph_node *n)
{
    struct readers *r = w->memory = w->memory == NULL ? index_readers(w) : w->memory;
    uint32_t x = rw_input(w, n, 0), y = INLAY_NONE, lengths;
    int64_t sizes[MOST], rows;
    struct bundle all = { .count = 0 };
    graph_node *split;
    inlay_status status;
    struct branch b;

    if (r == NULL)
        return rw_no_memory(w);
    if (!pass_allows(w->ctx, 13))
        return INLAY_OK;
    if (!read_branch(w, n, x, &b))
        return INLAY_OK;
    rows = count_rows(rw_info(w, x));
    if (rw_info(w, x)->rank == INLAY_RANK_UNKNOWN || rw_info(w, x)->rank < 2 || (rows < 0 && !is_asked_for(w->ctx)))
        return INLAY_OK;
    gather(w, r, n, x, &all);
    if (all.count < 2)
        return INLAY_OK;
    all.rows = rw_info(w, b.weight)->dims[0].value;
    all.biased = all.list[0].sum != NULL;
    for (uint32_t k = 0; k < all.count; k++) {
        if (rw_info(w, all.list[k].weight)->dims[0].value != all.rows || (all.list[k].sum != NULL) != all.biased)
            return INLAY_OK;
        sizes[k] = all.list[k].columns;
    }
    status = make_product(w, &all, x, &y);
    if (status != INLAY_OK)
        return status;
    lengths = rw_constant_ints(w, sizes, all.count);
    split = lengths == INLAY_NONE ? NULL
                                  : rw_make(w, "Split", n->opset > 13 ? n->opset : 13, NULL,
                                            (const uint32_t[]){ y, lengths }, 2, all.count);
    if (split == NULL || graph_set_attr_int(w->g, split, "axis", (int64_t)rw_info(w, x)->rank - 1) != INLAY_OK ||
        rw_insert(w, split, INLAY_FLOAT) != INLAY_OK)
        return rw_no_memory(w);
    for (uint32_t k = 0; k < all.count; k++) {
        graph_node *last = all.list[k].sum != NULL ? all.list[k].sum : all.list[k].product;
        bool done;

        status = rw_forward(w, last->info.outputs[0], split->info.outputs[k], &done);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

inlay_status pass_merge_products(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
