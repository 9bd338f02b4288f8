/* Two Transposes with nothing but element-wise operators between them are one, or none: the operators do not mind the
 * order of the axes. Constants on the way change their shape with it. */
#include "passes/merge_transposes.h"
#include "passes/rewrite.h"
#include <string.h>

enum { MOST = 16 }; /* operators between them */

static bool is_unary(const graph_node *n)
{
    return pass_is_among(n, "Relu Sigmoid Tanh LeakyRelu HardSwish HardSigmoid Swish Gelu Mish Elu Selu Softplus Clip "
                            "Neg Abs Exp Sqrt Cast Erf Floor Ceil Round Reciprocal Log");
}

static bool is_binary(const graph_node *n)
{
    return pass_is_among(n, "Add Sub Mul Div Pow Max Min PRelu") && n->info.input_count == 2 &&
           n->info.since_version >= 7;
}

/* The axis of a result of that rank that the constant varies along; -1 = none: a scalar. -2: more than one. */
static int64_t varying_axis(const inlay_value_info *c, uint32_t rank)
{
    int64_t axis = -1;

    if (c->rank > rank)
        return -2;
    for (uint32_t d = 0; d < c->rank; d++) {
        if (c->dims[d].value == 1)
            continue;
        if (axis >= 0)
            return -2;
        axis = (int64_t)(rank - c->rank + d);
    }
    return axis;
}

/* The input of an element-wise node that the chain comes through; UINT32_MAX: it is no such node. */
static uint32_t chain_input(const struct rewrite *w, const graph_node *n, uint32_t rank)
{
    if (n == NULL || n->info.output_count != 1)
        return UINT32_MAX;
    if (is_unary(n))
        return 0;
    for (uint32_t side = 0; is_binary(n) && side < (pass_is_op(n, "PRelu") ? 1 : 2); side++) {
        uint32_t c = rw_input(w, n, 1 - side);
        if (rw_is_constant(w, c) && varying_axis(rw_info(w, c), rank) > -2)
            return side;
    }
    return UINT32_MAX;
}

/* The constant for axes that perm has reordered: what lay along axis perm[d] lies along d now. */
static uint32_t turn_constant(struct rewrite *w, uint32_t v, uint32_t rank, const int64_t *perm)
{
    const inlay_value_info *c = rw_info(w, v);
    int64_t axis = varying_axis(c, rank), *dims = arena_array(&w->scratch, (size_t)rank + 1, sizeof *dims);

    if (axis < 0)
        return v;
    for (uint32_t d = 0; dims != NULL && d < rank; d++)
        dims[d] = perm[d] == axis ? c->dims[(uint32_t)axis - (rank - c->rank)].value : 1;
    return dims == NULL ? INLAY_NONE : rw_constant(w, c->dtype, rank, dims, c->data, c->data_bytes);
}

static inlay_status match(struct rewrite *w, graph_node *n)
{
    graph_node *chain[MOST], *first, *merged, *copy;
    uint32_t count = 0, v = rw_input(w, n, 0), at, rank;
    int64_t *before, *after, *both;
    bool done, idle = true;

    if (!pass_is_op(n, "Transpose") || rw_info(w, v)->rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    rank = rw_info(w, v)->rank;
    while (count < MOST && rw_is_only_use(w, v) && (at = chain_input(w, rw_maker(w, v), rank)) != UINT32_MAX &&
           rw_info(w, rw_input(w, rw_maker(w, v), at))->rank == rank) {
        chain[count++] = rw_maker(w, v);
        v = rw_input(w, chain[count - 1], at);
    }
    first = count == 0 || !rw_is_only_use(w, v) ? NULL : rw_maker_op(w, v, "Transpose");
    before = arena_array(&w->scratch, (size_t)rank + 1, sizeof *before);
    after = arena_array(&w->scratch, (size_t)rank + 1, sizeof *after);
    both = arena_array(&w->scratch, (size_t)rank + 1, sizeof *both);
    if (before == NULL || after == NULL || both == NULL)
        return rw_no_memory(w);
    if (first == NULL || !transpose_perm(first, rank, before) || !transpose_perm(n, rank, after) ||
        w->is_output[n->info.outputs[0]])
        return INLAY_OK;
    for (uint32_t d = 0; d < rank; d++) {
        both[d] = before[after[d]];
        idle &= both[d] == (int64_t)d;
    }
    v = rw_input(w, first, 0);
    if (!idle) {
        merged = rw_make(w, "Transpose", n->opset, NULL, &v, 1, 1);
        if (merged == NULL || graph_set_attr_ints(w->g, merged, "perm", both, rank) != INLAY_OK ||
            rw_insert(w, merged, rw_info(w, v)->dtype) != INLAY_OK)
            return rw_no_memory(w);
        v = merged->info.outputs[0];
    }
    for (uint32_t i = count; i-- > 0;) {
        at = chain_input(w, chain[i], rank);
        copy = rw_copy(w, chain[i]);
        if (copy == NULL)
            return rw_no_memory(w);
        rw_set_input(w, copy, at, v);
        if (is_binary(chain[i])) {
            v = turn_constant(w, rw_input(w, chain[i], 1 - at), rank, after);
            if (v == INLAY_NONE)
                return rw_no_memory(w);
            rw_set_input(w, copy, 1 - at, v);
        }
        if (rw_insert(w, copy, rw_info(w, chain[i]->info.outputs[0])->dtype) != INLAY_OK)
            return rw_no_memory(w);
        v = copy->info.outputs[0];
    }
    return rw_forward(w, n->info.outputs[0], v, &done);
}

inlay_status pass_cancel_transposes(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
