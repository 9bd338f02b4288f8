/* Scaled dot-product attention, spelled out, is ai.inlay's Attention on [batch, heads, length, size]:
 *
 *     MatMul(Softmax(MatMul(q, Transpose(k)) * scale + mask), v)
 *
 * The scale may stand as a product or quotient of the scores, of q, of k, or of both (its root each). Masks may be
 * missing; be sums, or Where(seen, scores, c), up to four of them (attention_masks.c); or be a constant triangle. Keys
 * and values that are repeated for groups of heads are read before that. Where(IsNaN(p), 0, p) may stand behind
 * Softmax.
 *
 * It is not ONNX's Attention, which means something else where a row of scores is -infinity throughout (zeros for NaN),
 * where a score that is replaced is NaN, and for the guard against NaN (ops/inlay/attention.c). So a model that is
 * written to a file keeps its nodes.
 *
 * Operands of rank 3, [batch * heads, length, size], are those of one batch with so many heads: views put an axis in
 * front of them. */
#include "passes/attention.h"
#include "base/element.h"
#include <math.h>
#include <string.h>

static const char OWN[] = "ai.inlay";

/* k as [.., length, size] from the value that MatMul reads as [.., size, length]. When the Transpose also moved other
 * axes ([batch, length, heads, size] with perm 0 2 3 1), one that only does this is put in. */
static inlay_status find_keys(struct rewrite *rewrite, uint32_t kt, double *scale, uint32_t *out_k)
{
    const graph_node *node;
    const int64_t *perm;
    int64_t rest[4];
    uint32_t count = 0, rank;
    bool moves = false;

    *out_k = INLAY_NONE;
    kt = attention_unscaled(rewrite, kt, scale);
    node = rw_maker_op(rewrite, kt, "Transpose");
    rank = rw_info(rewrite, kt)->rank;
    if (node == NULL || rank < 3 || rank > 4)
        return INLAY_OK;
    perm = rw_attr_ints(node, "perm", &count);
    if (count != rank)
        return INLAY_OK;
    for (uint32_t d = 0; d < rank; d++) {
        rest[d] = perm[d + 2 < rank ? d : d + 2 == rank ? rank - 1 : rank - 2];
        moves |= rest[d] != (int64_t)d;
    }
    if (!moves) {
        *out_k = attention_unscaled(rewrite, rw_input(rewrite, node, 0), scale);
    } else if (*scale > 0 && isfinite(*scale)) {
        graph_node *fresh = rw_make(rewrite, "Transpose", node->opset, NULL, node->info.inputs, 1, 1);

        if (fresh == NULL || graph_set_attr_ints(rewrite->graph, fresh, "perm", rest, rank) != INLAY_OK ||
            rw_insert(rewrite, fresh, rw_info(rewrite, kt)->dtype) != INLAY_OK)
            return rw_no_memory(rewrite);
        *out_k = fresh->info.outputs[0];
    }
    return INLAY_OK;
}

/* ------------------------------------------------------------------ groups of heads */

/* What [batch, heads, length, size] is a repetition of along the heads, times of them for each: Reshape of Expand of
 * Unsqueeze, [batch, groups, 1, length, size] in between. INLAY_NONE: it is none. */
static uint32_t unrepeated(const struct rewrite *rewrite, uint32_t value, int64_t *out_times)
{
    const graph_node *merge = rw_maker_op(rewrite, value, "Reshape");
    const graph_node *expand = merge == NULL ? NULL : rw_maker_op(rewrite, rw_input(rewrite, merge, 0), "Expand");
    const graph_node *split = expand == NULL ? NULL : rw_maker(rewrite, rw_input(rewrite, expand, 0));
    const inlay_value_info *output = rw_info(rewrite, value), *info, *input;
    uint32_t from;

    if (split == NULL || !(pass_is_op(split, "Unsqueeze") || pass_is_op(split, "Reshape")) || output->rank != 4)
        return INLAY_NONE;
    from = rw_input(rewrite, split, 0);
    info = rw_info(rewrite, rw_input(rewrite, merge, 0));
    input = rw_info(rewrite, from);
    if (info->rank != 5 || input->rank != 4 || rw_info(rewrite, rw_input(rewrite, expand, 0))->rank != 5 ||
        rw_dim(rw_info(rewrite, rw_input(rewrite, expand, 0)), 2) != 1 || rw_dim(input, 1) <= 0 ||
        rw_dim(info, 1) != rw_dim(input, 1) || rw_dim(info, 2) <= 0 ||
        rw_dim(output, 1) != rw_dim(info, 1) * rw_dim(info, 2))
        return INLAY_NONE;
    for (uint32_t d = 0; d < 4; d++) {
        const inlay_dim *between = &info->dims[d < 2 ? d : d + 1];

        if (d != 1 && (!attention_same_dim(&input->dims[d], between) || !attention_same_dim(&output->dims[d], between)))
            return INLAY_NONE;
    }
    for (uint32_t d = 0; d < 4; d++) /* Unsqueeze, even as Reshape */
        if (!attention_same_dim(&input->dims[d],
                                &rw_info(rewrite, rw_input(rewrite, expand, 0))->dims[d < 2 ? d : d + 1]))
            return INLAY_NONE;
    *out_times = rw_dim(info, 2);
    return from;
}

/* ------------------------------------------------------------------ the pattern */

/* The Softmax that makes p, with Where(IsNaN(p), 0, p) behind it (*guarded) or not; NULL if others read it, too. */
static graph_node *find_softmax(const struct rewrite *rewrite, uint32_t p, bool *guarded)
{
    const graph_node *where = rw_maker_op(rewrite, p, "Where"), *test;

    *guarded = where != NULL;
    if (!rw_is_only_use(rewrite, p))
        return NULL;
    if (where == NULL)
        return rw_maker_op(rewrite, p, "Softmax");
    test = rw_maker_op(rewrite, rw_input(rewrite, where, 0), "IsNaN");
    p = rw_input(rewrite, where, 2);
    return test != NULL && rw_input(rewrite, test, 0) == p && rewrite->uses[p] == 2 &&
                   rw_is_only_use(rewrite, test->info.outputs[0]) &&
                   rw_is_scalar(rewrite, rw_input(rewrite, where, 1), 0) &&
                   rw_info(rewrite, rw_input(rewrite, where, 1))->rank <= 1
               ? rw_maker_op(rewrite, p, "Softmax")
               : NULL;
}

/* Do queries, keys (as the product reads them, [.., size, length]) and values have the same batch, and as many heads,
 * or keys and values one for all? MatMul would broadcast them, too. */
static bool heads_agree(const struct rewrite *rewrite, uint32_t q, uint32_t kt, uint32_t value)
{
    const inlay_value_info *a = rw_info(rewrite, q), *b = rw_info(rewrite, kt), *info = rw_info(rewrite, value);
    uint32_t rank = a->rank;

    if (rank == INLAY_RANK_UNKNOWN || rank < 3 || rank > 4 || b->rank != rank || info->rank != rank ||
        !attention_same_dim(&b->dims[rank - 1], &info->dims[rank - 2]))
        return false;
    for (uint32_t d = 0; d + 2 < rank; d++) {
        bool one = rank == 4 && d == 1 && rw_dim(b, 1) == 1 && rw_dim(a, 1) > 0;

        if (!attention_same_dim(&b->dims[d], &info->dims[d]) || (!one && !attention_same_dim(&a->dims[d], &b->dims[d])))
            return false;
    }
    return true;
}

/* The value with an axis of 1 in front; INLAY_NONE: no memory. */
static uint32_t with_batch(struct rewrite *rewrite, uint32_t value)
{
    const int64_t first = 0;
    inlay_dtype dtype = rw_info(rewrite, value)->dtype;
    uint32_t axes = rw_constant_ints(rewrite, &first, 1);
    graph_node *view =
        axes == INLAY_NONE ? NULL : rw_make(rewrite, "Unsqueeze", 13, NULL, (const uint32_t[]){ value, axes }, 2, 1);

    return view == NULL || rw_insert(rewrite, view, dtype) != INLAY_OK ? INLAY_NONE : view->info.outputs[0];
}

struct operands {
    uint32_t q, k, v, bias, hidden;
    double scale;
    bool causal, guarded;
};

/* Is node what this pass makes? */
static bool is_own(const graph_node *node)
{
    return node != NULL && strcmp(node->info.op_type.data, "Attention") == 0 &&
           strcmp(node->info.domain.data, OWN) == 0;
}

static inlay_status become(struct rewrite *rewrite, graph_node *node, const struct operands *operands, uint32_t rank)
{
    const int64_t first = 0;
    uint32_t inputs[5] = { operands->q, operands->k, operands->v, operands->bias, operands->hidden }, squeezed[2];
    const uint32_t count = operands->hidden != INLAY_NONE ? 5 : operands->bias != INLAY_NONE ? 4 : 3;
    graph_node *fresh, *view;

    for (uint32_t i = 0; rank == 3 && i < 3; i++)
        if ((inputs[i] = with_batch(rewrite, inputs[i])) == INLAY_NONE)
            return rw_no_memory(rewrite);
    fresh = rw_make(rewrite, "Attention", 1, node, inputs, count, 1);
    if (fresh == NULL || graph_set_attr_float(rewrite->graph, fresh, "scale", operands->scale) != INLAY_OK ||
        (operands->causal && graph_set_attr_int(rewrite->graph, fresh, "causal", 1) != INLAY_OK) ||
        (operands->guarded && graph_set_attr_int(rewrite->graph, fresh, "guarded", 1) != INLAY_OK))
        return rw_no_memory(rewrite);
    fresh->info.domain = (inlay_str){ OWN, sizeof OWN - 1 };
    if (rank == 4)
        return rw_replace(rewrite, node, fresh);
    if (rw_insert(rewrite, fresh, rw_info(rewrite, node->info.outputs[0])->dtype) != INLAY_OK)
        return rw_no_memory(rewrite);
    squeezed[0] = fresh->info.outputs[0];
    squeezed[1] = rw_constant_ints(rewrite, &first, 1);
    view = squeezed[1] == INLAY_NONE ? NULL : rw_make(rewrite, "Squeeze", 13, node, squeezed, 2, 1);
    return view == NULL ? rw_no_memory(rewrite) : rw_replace(rewrite, node, view);
}

/* Is the product node read by a Transpose and `reshape` alone, from which it is sure to have as many rows as q? Masks
 * that might have more do not say so. */
static bool rows_are_sure(const struct rewrite *rewrite, const graph_node *node, const graph_node *reshape, uint32_t q)
{
    const inlay_value_info *out = reshape == NULL ? NULL : rw_info(rewrite, reshape->info.outputs[0]);
    const inlay_value_info *output = rw_info(rewrite, node->info.outputs[0]), *from = rw_info(rewrite, q);

    return out != NULL && out->rank == 3 && from->rank == 4 && output->rank == 4 && rw_dim(output, 1) > 0 &&
           rw_dim(output, 3) > 0 && rw_dim(out, 2) == rw_dim(output, 1) * rw_dim(output, 3) &&
           attention_same_dim(&out->dims[0], &from->dims[0]) && attention_same_dim(&out->dims[1], &from->dims[2]);
}

/* reshape: what reads the product, when that is where the visit is; otherwise NULL. */
static inlay_status match_product(struct rewrite *rewrite, graph_node *node, const graph_node *reshape)
{
    struct operands operands = {
        .v = rw_input(rewrite, node, 1), .bias = INLAY_NONE, .hidden = INLAY_NONE, .scale = 1
    };
    graph_node *softmax = find_softmax(rewrite, rw_input(rewrite, node, 0), &operands.guarded), *scores;
    uint32_t value, rank, shared_k, shared_v;
    int64_t times_k, times_v, axis;
    attention_masks masks;
    inlay_status status;

    /* What is quantized later is made at every level, or at none. */
    if (softmax == NULL || rewrite->ctx->newest_opset != 0 ||
        rewrite->ctx->lowers != rw_is_quantized_later(rewrite, node->info.outputs[0]))
        return INLAY_OK;
    rank = rw_info(rewrite, softmax->info.outputs[0])->rank;
    axis = rw_attr_int(softmax, "axis", softmax->info.since_version < 13 ? 1 : -1);
    if (rank < 3 || rank > 4 || rw_info(rewrite, operands.v)->rank != rank || (axis != -1 && axis != (int64_t)rank - 1))
        return INLAY_OK;
    value = rw_input(rewrite, softmax, 0);
    if (!element_is_float(rw_info(rewrite, value)->dtype) ||
        (value = attention_scores(rewrite, value, &masks)) == INLAY_NONE)
        return INLAY_OK;
    value = attention_unscaled(rewrite, value, &operands.scale);
    scores = rw_maker_op(rewrite, value, "MatMul");
    if (scores == NULL || !rw_is_only_use(rewrite, value) ||
        !heads_agree(rewrite, rw_input(rewrite, scores, 0), rw_input(rewrite, scores, 1), operands.v) ||
        (masks.rows_open && !rows_are_sure(rewrite, node, reshape, rw_input(rewrite, scores, 0))))
        return INLAY_OK;
    operands.q = attention_unscaled(rewrite, rw_input(rewrite, scores, 0), &operands.scale);
    /* The scale must be a positive number, for Attention spreads its root over q and k. */
    if (!(operands.scale > 0) || !isfinite(operands.scale))
        return INLAY_OK;
    status = find_keys(rewrite, rw_input(rewrite, scores, 1), &operands.scale, &operands.k);
    if (status != INLAY_OK || operands.k == INLAY_NONE || !(operands.scale > 0) || !isfinite(operands.scale))
        return status;
    operands.causal = attention_is_causal(rewrite, &masks);
    INLAY_TRY(attention_join_masks(rewrite, &masks, operands.q, operands.v, &operands.bias, &operands.hidden));
    shared_k = unrepeated(rewrite, operands.k, &times_k);
    shared_v = unrepeated(rewrite, operands.v, &times_v);
    if (shared_k != INLAY_NONE && shared_v != INLAY_NONE && times_k == times_v) {
        operands.k = shared_k;
        operands.v = shared_v;
    }
    return become(rewrite, node, &operands, rank);
done:
    return status;
}

/* Transpose of the Squeeze behind an Attention of ours: the Transpose first, which the kernel then writes through. */
static inlay_status match_transpose(struct rewrite *rewrite, graph_node *node)
{
    const graph_node *view = rw_maker_op(rewrite, rw_input(rewrite, node, 0), "Squeeze");
    uint32_t input = view == NULL ? INLAY_NONE : rw_input(rewrite, view, 0), count = 0;
    const int64_t *perm = rw_attr_ints(node, "perm", &count);
    int64_t whole[4] = { 0 };
    graph_node *moved, *fresh;

    if (view == NULL || count != 3 || !rw_is_only_use(rewrite, rw_input(rewrite, node, 0)) ||
        !is_own(rw_maker(rewrite, input)) || rw_info(rewrite, input)->rank != 4 ||
        rw_dim(rw_info(rewrite, input), 0) != 1 || rw_input(rewrite, view, 1) == INLAY_NONE ||
        rw_info(rewrite, rw_input(rewrite, node, 0))->rank != 3)
        return INLAY_OK;
    for (uint32_t d = 0; d < 3; d++)
        whole[d + 1] = perm[d] + 1;
    moved = rw_make(rewrite, "Transpose", node->opset, NULL, &input, 1, 1);
    if (moved == NULL || graph_set_attr_ints(rewrite->graph, moved, "perm", whole, 4) != INLAY_OK ||
        rw_insert(rewrite, moved, rw_info(rewrite, input)->dtype) != INLAY_OK)
        return rw_no_memory(rewrite);
    fresh = rw_make(rewrite, "Squeeze", view->opset, node,
                    (const uint32_t[]){ moved->info.outputs[0], rw_input(rewrite, view, 1) }, 2, 1);
    return fresh == NULL ? rw_no_memory(rewrite) : rw_replace(rewrite, node, fresh);
}

/* The product behind a Reshape of its Transpose, whose rows are known from there. */
static inlay_status match_reshape(struct rewrite *rewrite, graph_node *node)
{
    graph_node *turn = rw_maker_op(rewrite, rw_input(rewrite, node, 0), "Transpose");
    graph_node *product = turn == NULL ? NULL : rw_maker_op(rewrite, rw_input(rewrite, turn, 0), "MatMul");

    return product == NULL || !rw_is_only_use(rewrite, rw_input(rewrite, node, 0)) ||
                   !rw_is_only_use(rewrite, rw_input(rewrite, turn, 0))
               ? INLAY_OK
               : match_product(rewrite, product, node);
}

static inlay_status match(struct rewrite *rewrite, graph_node *node)
{
    if (pass_is_op(node, "Transpose"))
        return match_transpose(rewrite, node);
    if (pass_is_op(node, "Reshape"))
        return match_reshape(rewrite, node);
    return pass_is_op(node, "MatMul") ? match_product(rewrite, node, NULL) : INLAY_OK;
}

inlay_status pass_attention(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
