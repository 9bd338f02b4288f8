/* Fuses scaled dot-product attention into ai.inlay's Attention on [batch, heads, length, size]:
 *
 *     MatMul(Softmax(MatMul(q, Transpose(k)) * scale + mask), v)
 *
 * The scale may be a factor or divisor of the scores, of q, of k, or of both (its square root each). Attention scales
 * scores. Operands stay scaled before the product, because unscaled scores may exceed the largest float. A scale of k
 * is moved to q, which has the same effect on the scores, so that keys that are kept from run to run are read as they
 * are. There may be no mask, up to four masks that are added or are Where(visible, scores, constant)
 * (attention_masks.c), or a constant causal triangle. Keys and values that are repeated for groups of heads are read
 * before the repetition. Where(IsNaN(p), 0, p) may follow Softmax.
 *
 * ONNX's Attention differs: for rows in which all scores are -infinity (it gives zeros, not NaN), where a replaced
 * score is NaN, and for the guard against NaN (ops/inlay/attention.c). A model that is written to a file therefore
 * keeps its nodes.
 *
 * Operands of rank 3, [batch * heads, length, size], are treated as one batch with batch * heads heads: views add the
 * leading axis. */
#include "passes/attention.h"
#include "inlay/check.h"
#include "base/element.h"
#include <math.h>
#include <string.h>

static const char ATTENTION_DOMAIN[] = "ai.inlay";

/* Attention takes such a scale. */
static bool is_positive(double scale)
{
    return scale > 0 && isfinite(scale);
}

/* Finds k as [.., length, size] for the input that MatMul reads as [.., size, length]. If the Transpose also permutes
 * other axes ([batch, length, heads, size] with perm 0 2 3 1), a Transpose that does only that is inserted. */
static inlay_status find_keys(struct rewrite *rewrite, uint32_t kt, double *scale, uint32_t *out_k)
{
    const graph_node *node;
    const int64_t *perm;
    int64_t rest[4];
    uint32_t count = 0, rank;
    bool moves = false;

    *out_k = INLAY_NONE;
    kt = attention_unscaled(rewrite, kt, scale);
    node = rewrite_producer_op(rewrite, kt, "Transpose");
    rank = rewrite_value_info(rewrite, kt)->rank;
    if (node == NULL || rank < 3 || rank > 4)
        return INLAY_OK;
    perm = rewrite_attr_ints(node, "perm", &count);
    if (count != rank)
        return INLAY_OK;
    for (uint32_t d = 0; d < rank; d++) {
        rest[d] = perm[d + 2 < rank ? d : d + 2 == rank ? rank - 1 : rank - 2];
        moves |= rest[d] != (int64_t)d;
    }
    if (!moves) {
        *out_k = attention_unscaled(rewrite, rewrite_input(rewrite, node, 0), scale);
    } else if (is_positive(*scale)) {
        graph_node *new_node = rewrite_make_node(rewrite, "Transpose", node->opset, NULL, node->info.inputs, 1, 1);

        if (new_node == NULL || graph_set_attr_ints(rewrite->graph, new_node, "perm", rest, rank) != INLAY_OK ||
            rewrite_insert_node(rewrite, new_node, rewrite_value_info(rewrite, kt)->dtype) != INLAY_OK)
            return rewrite_no_memory(rewrite);
        *out_k = new_node->info.outputs[0];
    }
    return INLAY_OK;
}

/* Finds the value that [batch, heads, length, size] repeats along the heads: Reshape(Expand(Unsqueeze(value))) through
 * [batch, groups, repeats, length, size]. INLAY_NONE: not a repetition. */
static uint32_t before_repeat(const struct rewrite *rewrite, uint32_t value, int64_t *out_repeats)
{
    const graph_node *merge = rewrite_producer_op(rewrite, value, "Reshape");
    const graph_node *expand =
        merge == NULL ? NULL : rewrite_producer_op(rewrite, rewrite_input(rewrite, merge, 0), "Expand");
    const graph_node *split = expand == NULL ? NULL : rewrite_producer(rewrite, rewrite_input(rewrite, expand, 0));
    const inlay_value_info *output = rewrite_value_info(rewrite, value), *info, *input;
    uint32_t from;

    if (split == NULL || !(pass_is_op(split, "Unsqueeze") || pass_is_op(split, "Reshape")) || output->rank != 4)
        return INLAY_NONE;
    from = rewrite_input(rewrite, split, 0);
    info = rewrite_value_info(rewrite, rewrite_input(rewrite, merge, 0));
    input = rewrite_value_info(rewrite, from);
    if (info->rank != 5 || input->rank != 4 ||
        rewrite_value_info(rewrite, rewrite_input(rewrite, expand, 0))->rank != 5 ||
        rewrite_dim(rewrite_value_info(rewrite, rewrite_input(rewrite, expand, 0)), 2) != 1 ||
        rewrite_dim(input, 1) <= 0 || rewrite_dim(info, 1) != rewrite_dim(input, 1) || rewrite_dim(info, 2) <= 0 ||
        rewrite_dim(output, 1) != rewrite_dim(info, 1) * rewrite_dim(info, 2))
        return INLAY_NONE;
    for (uint32_t d = 0; d < 4; d++) {
        const inlay_dim *between = &info->dims[d < 2 ? d : d + 1];

        if (d != 1 && (!rewrite_same_dim(&input->dims[d], between) || !rewrite_same_dim(&output->dims[d], between)))
            return INLAY_NONE;
    }
    for (uint32_t d = 0; d < 4; d++) /* `split` is an Unsqueeze, possibly written as a Reshape */
        if (!rewrite_same_dim(&input->dims[d],
                              &rewrite_value_info(rewrite, rewrite_input(rewrite, expand, 0))->dims[d < 2 ? d : d + 1]))
            return INLAY_NONE;
    *out_repeats = rewrite_dim(info, 2);
    return from;
}

/* The Softmax that produces p, optionally through Where(IsNaN(p), 0, p) (*guarded); NULL if it has other readers. */
static graph_node *find_softmax(const struct rewrite *rewrite, uint32_t p, bool *guarded)
{
    const graph_node *where = rewrite_producer_op(rewrite, p, "Where"), *test;

    *guarded = where != NULL;
    if (!rewrite_has_one_use(rewrite, p))
        return NULL;
    if (where == NULL)
        return rewrite_producer_op(rewrite, p, "Softmax");
    test = rewrite_producer_op(rewrite, rewrite_input(rewrite, where, 0), "IsNaN");
    p = rewrite_input(rewrite, where, 2);
    return test != NULL && rewrite_input(rewrite, test, 0) == p && rewrite->uses[p] == 2 &&
                   rewrite_has_one_use(rewrite, test->info.outputs[0]) &&
                   rewrite_is_scalar(rewrite, rewrite_input(rewrite, where, 1), 0) &&
                   rewrite_value_info(rewrite, rewrite_input(rewrite, where, 1))->rank <= 1
               ? rewrite_producer_op(rewrite, p, "Softmax")
               : NULL;
}

/* Returns true if queries, keys (as MatMul reads them, [.., size, length]) and values have the same batch and number of
 * heads, or if keys and values have one head for all queries, which MatMul broadcasts. */
static bool heads_agree(const struct rewrite *rewrite, uint32_t q, uint32_t kt, uint32_t value)
{
    const inlay_value_info *a = rewrite_value_info(rewrite, q), *b = rewrite_value_info(rewrite, kt),
                           *info = rewrite_value_info(rewrite, value);
    uint32_t rank = a->rank;

    if (rank == INLAY_RANK_UNKNOWN || rank < 3 || rank > 4 || b->rank != rank || info->rank != rank ||
        !rewrite_same_dim(&b->dims[rank - 1], &info->dims[rank - 2]))
        return false;
    for (uint32_t d = 0; d + 2 < rank; d++) {
        bool one = rank == 4 && d == 1 && rewrite_dim(b, 1) == 1 && rewrite_dim(a, 1) > 0;

        if (!rewrite_same_dim(&b->dims[d], &info->dims[d]) || (!one && !rewrite_same_dim(&a->dims[d], &b->dims[d])))
            return false;
    }
    return true;
}

/* Adds a leading axis of size 1. INLAY_NONE: out of memory. */
static uint32_t with_batch(struct rewrite *rewrite, uint32_t value)
{
    const int64_t first = 0;
    inlay_dtype dtype = rewrite_value_info(rewrite, value)->dtype;
    uint32_t axes = rewrite_constant_ints(rewrite, &first, 1);
    graph_node *view = axes == INLAY_NONE
                           ? NULL
                           : rewrite_make_node(rewrite, "Unsqueeze", 13, NULL, (const uint32_t[]){ value, axes }, 2, 1);

    return view == NULL || rewrite_insert_node(rewrite, view, dtype) != INLAY_OK ? INLAY_NONE : view->info.outputs[0];
}

struct operands {
    uint32_t q, k, v, bias, hidden;
    double scale;
    bool causal, guarded;
};

/* Returns true if this pass made the node. */
static bool is_fused_attention(const graph_node *node)
{
    return node != NULL && strcmp(node->info.op_type.data, "Attention") == 0 &&
           strcmp(node->info.domain.data, ATTENTION_DOMAIN) == 0;
}

static inlay_status replace_by_attention(struct rewrite *rewrite, graph_node *node, const struct operands *operands,
                                         uint32_t rank)
{
    const int64_t first = 0;
    uint32_t inputs[5] = { operands->q, operands->k, operands->v, operands->bias, operands->hidden }, squeezed[2];
    const uint32_t count = operands->hidden != INLAY_NONE ? 5 : operands->bias != INLAY_NONE ? 4 : 3;
    graph_node *new_node, *view;

    INLAY_CHECK(rank == 3 || rank == 4);
    for (uint32_t i = 0; rank == 3 && i < 3; i++)
        if ((inputs[i] = with_batch(rewrite, inputs[i])) == INLAY_NONE)
            return rewrite_no_memory(rewrite);
    new_node = rewrite_make_node(rewrite, "Attention", 1, node, inputs, count, 1);
    if (new_node == NULL || graph_set_attr_float(rewrite->graph, new_node, "scale", operands->scale) != INLAY_OK ||
        (operands->causal && graph_set_attr_int(rewrite->graph, new_node, "causal", 1) != INLAY_OK) ||
        (operands->guarded && graph_set_attr_int(rewrite->graph, new_node, "guarded", 1) != INLAY_OK))
        return rewrite_no_memory(rewrite);
    new_node->info.domain = (inlay_str){ ATTENTION_DOMAIN, sizeof ATTENTION_DOMAIN - 1 };
    if (rank == 4)
        return rewrite_replace_node(rewrite, node, new_node);
    if (rewrite_insert_node(rewrite, new_node, rewrite_value_info(rewrite, node->info.outputs[0])->dtype) != INLAY_OK)
        return rewrite_no_memory(rewrite);
    squeezed[0] = new_node->info.outputs[0];
    squeezed[1] = rewrite_constant_ints(rewrite, &first, 1);
    view = squeezed[1] == INLAY_NONE ? NULL : rewrite_make_node(rewrite, "Squeeze", 13, node, squeezed, 2, 1);
    return view == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, view);
}

/* Returns true if `reshape`, which reads the transposed product of `node`, proves that the product has as many rows as
 * q. Without this proof a mask might have more rows than q and broadcast the scores. */
static bool has_query_rows(const struct rewrite *rewrite, const graph_node *node, const graph_node *reshape, uint32_t q)
{
    const inlay_value_info *out = reshape == NULL ? NULL : rewrite_value_info(rewrite, reshape->info.outputs[0]);
    const inlay_value_info *output = rewrite_value_info(rewrite, node->info.outputs[0]),
                           *from = rewrite_value_info(rewrite, q);

    return out != NULL && out->rank == 3 && from->rank == 4 && output->rank == 4 && rewrite_dim(output, 1) > 0 &&
           rewrite_dim(output, 3) > 0 && rewrite_dim(out, 2) == rewrite_dim(output, 1) * rewrite_dim(output, 3) &&
           rewrite_same_dim(&out->dims[0], &from->dims[0]) && rewrite_same_dim(&out->dims[1], &from->dims[2]);
}

/* The scales of the two operands of the scores. */
struct operand_scales {
    double query, key;
};

/* Keeps the operands of the product scaled. value: the product's operand q; operands->q is this operand without its
 * scale. Attention of 16-bit floats computes in float, where the product cannot exceed the largest number; there the
 * scales of the operands become a part of the scale of the scores. */
static inlay_status keep_operands_scaled(struct rewrite *rewrite, uint32_t value, const struct operand_scales *scales,
                                         struct operands *operands)
{
    const inlay_dtype dtype = rewrite_value_info(rewrite, value)->dtype;
    const double wide = scales->query * scales->key;
    const float narrow = (float)wide;
    const void *data = dtype == INLAY_DOUBLE ? (const void *)&wide : &narrow;
    graph_node *mul;
    uint32_t factor;

    if (dtype != INLAY_FLOAT && dtype != INLAY_DOUBLE) {
        operands->scale *= wide;
        return INLAY_OK;
    }
    if (scales->key == 1) {
        operands->q = value;
        return INLAY_OK;
    }
    factor = rewrite_constant(rewrite, dtype, 0, NULL, data, (uint64_t)inlay_dtype_bits(dtype) / 8);
    mul = factor == INLAY_NONE
              ? NULL
              : rewrite_make_node(rewrite, "Mul", 14, NULL, (const uint32_t[]){ operands->q, factor }, 2, 1);
    if (mul == NULL || rewrite_insert_node(rewrite, mul, dtype) != INLAY_OK)
        return rewrite_no_memory(rewrite);
    operands->q = mul->info.outputs[0];
    return INLAY_OK;
}

/* Follows element-wise operators and views back from value to a node of that operator. NULL: there is none, or it is
 * more than *visits nodes away. */
static const graph_node *find_behind(const struct rewrite *rewrite, uint32_t value, const char *op, uint32_t *visits)
{
    const graph_node *node = rewrite_producer(rewrite, value), *found = NULL;

    if (node == NULL || *visits == 0 || pass_is_op(node, op))
        return node != NULL && pass_is_op(node, op) ? node : NULL;
    --*visits;
    if (!pass_is_view(node) && !pass_is_among(node, "Add Sub Mul Div Where Cast Clip Tanh Dropout Identity Max Min"))
        return NULL;
    for (uint32_t i = 0; found == NULL && i < node->info.input_count; i++)
        found = find_behind(rewrite, rewrite_input(rewrite, node, i), op, visits);
    return found;
}

/* Reports `why` if the product is that of an attention: Softmax after its first operand, and another product after
 * that. */
static inlay_status near_miss(const struct rewrite *rewrite, const graph_node *node, const graph_node *reshape,
                              const char *why)
{
    uint32_t visits = 16;
    const graph_node *softmax = !rewrite->ctx->run.at_end || reshape != NULL
                                    ? NULL
                                    : find_behind(rewrite, rewrite_input(rewrite, node, 0), "Softmax", &visits);

    visits = 32;
    if (softmax != NULL && find_behind(rewrite, rewrite_input(rewrite, softmax, 0), "MatMul", &visits) != NULL)
        rewrite_near_miss(rewrite, node, "attention is not fused: %s", why);
    return INLAY_OK;
}

/* Why find_softmax() found none. */
static const char *why_no_softmax(const struct rewrite *rewrite, uint32_t p)
{
    const graph_node *node = rewrite_producer(rewrite, p);

    if (!rewrite_has_one_use(rewrite, p))
        return "its weights have another reader, or are an output";
    if (node != NULL && pass_is_op(node, "Where"))
        return "its weights pass a Where that is not Where(IsNaN(p), 0, p), or p has other readers";
    return "its weights are changed between Softmax and the product with the values";
}

/* Why attention_scores() stopped at this value. */
static const char *why_no_scores(const struct rewrite *rewrite, uint32_t value)
{
    const graph_node *node = rewrite_producer(rewrite, value);

    if (!rewrite_has_one_use(rewrite, value))
        return "its scores have another reader, or are an output";
    if (node != NULL && pass_is_among(node, "Add Where"))
        return "a mask has no axis of keys, more axes than the scores, another type, or is not constant where it hides";
    return "its scores are changed by more than constant factors and masks";
}

/* reshape: the reader of the transposed product if the visit is at that Reshape; otherwise NULL. */
static inlay_status match_matmul(struct rewrite *rewrite, graph_node *node, const graph_node *reshape)
{
    struct operands operands = {
        .v = rewrite_input(rewrite, node, 1), .bias = INLAY_NONE, .hidden = INLAY_NONE, .scale = 1
    };
    struct operand_scales scales = { .query = 1, .key = 1 };
    graph_node *softmax = find_softmax(rewrite, rewrite_input(rewrite, node, 0), &operands.guarded), *scores;
    uint32_t value, query, rank, shared_k, shared_v;
    int64_t repeats_k, repeats_v, axis;
    attention_masks masks;
    inlay_status status;

    if (softmax == NULL)
        return near_miss(rewrite, node, reshape, why_no_softmax(rewrite, rewrite_input(rewrite, node, 0)));
    if (rewrite->ctx->options.newest_opset != 0)
        return near_miss(rewrite, node, reshape,
                         "no operator of ONNX treats NaN and hidden rows as these nodes do; sessions fuse them");
    /* Values that are quantized later are fused at every level (by the lowering), or at none. */
    if (rewrite->ctx->run.lowers != rewrite_is_quantized_later(rewrite, node->info.outputs[0]))
        return near_miss(rewrite, node, reshape, "its result is quantized while the model runs");
    rank = rewrite_value_info(rewrite, softmax->info.outputs[0])->rank;
    axis = graph_attr_int(softmax, "axis", softmax->info.since_version < 13 ? 1 : -1);
    if (rank < 3 || rank > 4 || rewrite_value_info(rewrite, operands.v)->rank != rank)
        return near_miss(rewrite, node, reshape, "its scores and values are not known to have both 3 or both 4 axes");
    if (axis != -1 && axis != (int64_t)rank - 1)
        return near_miss(rewrite, node, reshape, "Softmax is not over the last axis");
    value = rewrite_input(rewrite, softmax, 0);
    if (!element_is_float(rewrite_value_info(rewrite, value)->dtype))
        return INLAY_OK;
    value = attention_scores(rewrite, value, &masks);
    if (value == INLAY_NONE)
        return near_miss(rewrite, node, reshape, why_no_scores(rewrite, masks.stopped));
    value = attention_unscaled(rewrite, value, &operands.scale);
    scores = rewrite_producer_op(rewrite, value, "MatMul");
    if (scores == NULL || !rewrite_has_one_use(rewrite, value))
        return near_miss(rewrite, node, reshape, "its scores have another reader, or are an output");
    query = rewrite_input(rewrite, scores, 0);
    if (!heads_agree(rewrite, query, rewrite_input(rewrite, scores, 1), operands.v))
        return near_miss(rewrite, node, reshape,
                         "queries, keys and values are not known to agree in batch, heads and length");
    if (masks.rows_open && !has_query_rows(rewrite, node, reshape, query))
        return near_miss(rewrite, node, reshape, "a mask may have more rows than there are queries");
    operands.q = attention_unscaled(rewrite, query, &scales.query);
    if (!is_positive(operands.scale) || !is_positive(scales.query))
        return near_miss(rewrite, node, reshape, "its scale is not positive and finite");
    status = find_keys(rewrite, rewrite_input(rewrite, scores, 1), &scales.key, &operands.k);
    if (status == INLAY_OK && (operands.k == INLAY_NONE || !is_positive(scales.key)))
        return near_miss(rewrite, node, reshape,
                         "the keys are not transposed by one Transpose, or their scale is not positive");
    INLAY_TRY(status);
    operands.causal = attention_is_causal(rewrite, &masks);
    shared_k = before_repeat(rewrite, operands.k, &repeats_k);
    shared_v = before_repeat(rewrite, operands.v, &repeats_v);
    if (shared_k != INLAY_NONE && shared_v != INLAY_NONE && repeats_k == repeats_v) {
        operands.k = shared_k;
        operands.v = shared_v;
    }
    /* The number of keys may be read from the values: not from repeated ones, which would be computed for that. */
    INLAY_TRY(attention_join_masks(rewrite, &masks, operands.q, operands.v, &operands.bias, &operands.hidden));
    INLAY_TRY(keep_operands_scaled(rewrite, query, &scales, &operands));
    return replace_by_attention(rewrite, node, &operands, rank);
done:
    return status;
}

/* Moves a Transpose from after the Squeeze of a fused Attention to before it: the kernel then writes through it. */
static inlay_status match_transpose(struct rewrite *rewrite, graph_node *node)
{
    const graph_node *view = rewrite_producer_op(rewrite, rewrite_input(rewrite, node, 0), "Squeeze");
    uint32_t input = view == NULL ? INLAY_NONE : rewrite_input(rewrite, view, 0), count = 0;
    const int64_t *perm = rewrite_attr_ints(node, "perm", &count);
    int64_t whole[4] = { 0 };
    graph_node *moved, *new_node;

    if (view == NULL || count != 3 || !rewrite_has_one_use(rewrite, rewrite_input(rewrite, node, 0)) ||
        !is_fused_attention(rewrite_producer(rewrite, input)) || rewrite_value_info(rewrite, input)->rank != 4 ||
        rewrite_dim(rewrite_value_info(rewrite, input), 0) != 1 || rewrite_input(rewrite, view, 1) == INLAY_NONE ||
        rewrite_value_info(rewrite, rewrite_input(rewrite, node, 0))->rank != 3)
        return INLAY_OK;
    for (uint32_t d = 0; d < 3; d++)
        whole[d + 1] = perm[d] + 1;
    moved = rewrite_make_node(rewrite, "Transpose", node->opset, NULL, &input, 1, 1);
    if (moved == NULL || graph_set_attr_ints(rewrite->graph, moved, "perm", whole, 4) != INLAY_OK ||
        rewrite_insert_node(rewrite, moved, rewrite_value_info(rewrite, input)->dtype) != INLAY_OK)
        return rewrite_no_memory(rewrite);
    new_node = rewrite_make_node(rewrite, "Squeeze", view->opset, node,
                                 (const uint32_t[]){ moved->info.outputs[0], rewrite_input(rewrite, view, 1) }, 2, 1);
    return new_node == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, new_node);
}

/* A MatMul after Reshape(Transpose(..)), whose number of rows the Reshape proves. */
static inlay_status match_reshape(struct rewrite *rewrite, graph_node *node)
{
    graph_node *transpose = rewrite_producer_op(rewrite, rewrite_input(rewrite, node, 0), "Transpose");
    graph_node *product =
        transpose == NULL ? NULL : rewrite_producer_op(rewrite, rewrite_input(rewrite, transpose, 0), "MatMul");

    return product == NULL || !rewrite_has_one_use(rewrite, rewrite_input(rewrite, node, 0)) ||
                   !rewrite_has_one_use(rewrite, rewrite_input(rewrite, transpose, 0))
               ? INLAY_OK
               : match_matmul(rewrite, product, node);
}

inlay_status match_attention(struct rewrite *rewrite, graph_node *node)
{
    if (pass_is_op(node, "Transpose"))
        return match_transpose(rewrite, node);
    if (pass_is_op(node, "Reshape"))
        return match_reshape(rewrite, node);
    return pass_is_op(node, "MatMul") ? match_matmul(rewrite, node, NULL) : INLAY_OK;
}
