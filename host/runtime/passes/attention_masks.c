/* Masks of an attention: values added to the scores, and values that replace scores. Masks of windows (Swin) are
 * applied to scores reshaped from [batch * windows, heads, n, n] to [batch, windows, heads, n, n]. */
#include "passes/attention.h"
#include "inlay/check.h"

/* Adding a value at or below this absorbs any score of ordinary size, and Exp of the sum is 0. */
static const double MASK_THRESHOLD = -1e20;

uint32_t attention_unscaled(const struct rewrite *rewrite, uint32_t value, double *scale)
{
    for (uint32_t steps = 0; steps < 4; steps++) {
        const graph_node *mul = rewrite_producer_op(rewrite, value, "Mul"),
                         *node = mul != NULL ? mul : rewrite_producer_op(rewrite, value, "Div");
        double c = 0;
        uint32_t side;

        if (node == NULL || !rewrite_has_one_use(rewrite, value))
            return value;
        for (side = mul != NULL ? 0 : 1; side < 2; side++)
            if (rewrite_scalar(rewrite, rewrite_input(rewrite, node, side), &c) && (mul != NULL || c != 0))
                break;
        if (side == 2 || rewrite_value_info(rewrite, rewrite_input(rewrite, node, 1 - side))->rank !=
                             rewrite_value_info(rewrite, value)->rank)
            return value;
        *scale *= mul != NULL ? c : 1 / c;
        value = rewrite_input(rewrite, node, 1 - side);
    }
    return value;
}

/* Returns true if `value` can be the result of a mask on these scores: same type and sizes except for the last axis,
 * which ends up as the number of keys. *rows_open is set if the number of rows is not proven equal. */
static bool matches_scores(const struct rewrite *rewrite, uint32_t scores, uint32_t value, bool *rows_open)
{
    const inlay_value_info *score_info = rewrite_value_info(rewrite, scores),
                           *value_info = rewrite_value_info(rewrite, value);

    if (score_info == NULL || score_info->kind != value_info->kind || score_info->dtype != value_info->dtype ||
        score_info->rank != value_info->rank || score_info->rank == INLAY_RANK_UNKNOWN || score_info->rank < 2)
        return false;
    for (uint32_t d = 0; d + 2 < score_info->rank; d++)
        if (!rewrite_same_dim(&score_info->dims[d], &value_info->dims[d]))
            return false;
    if (rewrite_same_dim(&score_info->dims[score_info->rank - 2], &value_info->dims[score_info->rank - 2]))
        return true;
    *rows_open = true;
    return score_info->dims[score_info->rank - 2].kind != INLAY_DIM_FIXED &&
           value_info->dims[score_info->rank - 2].kind != INLAY_DIM_FIXED;
}

/* Returns true if `mask` may be a mask for these scores: it broadcasts to them, and its last dimension equals the
 * number of keys (*out_whole) or is symbolic. A symbolic one is the number of keys or 1, because the MatMul after
 * Softmax admits no other size. */
static bool is_mask(const struct rewrite *rewrite, uint32_t mask, uint32_t scores, inlay_dtype dtype, bool *out_whole)
{
    const inlay_value_info *info = rewrite_value_info(rewrite, mask), *score_info = rewrite_value_info(rewrite, scores);
    const inlay_dim *last;

    if (info == NULL || info->rank == INLAY_RANK_UNKNOWN || info->rank < 2 || info->rank > score_info->rank ||
        info->dtype != dtype)
        return false;
    last = &info->dims[info->rank - 1];
    *out_whole = rewrite_same_dim(last, &score_info->dims[score_info->rank - 1]);
    return *out_whole || last->kind != INLAY_DIM_FIXED;
}

/* Returns true for a constant [.., n, n] that is 0 up to the diagonal and below the threshold after it. */
static bool is_triangle(struct rewrite *rewrite, uint32_t mask)
{
    const inlay_value_info *info = rewrite_value_info(rewrite, mask);
    const float *elements = rewrite_floats(rewrite, mask);
    int64_t size = rewrite_dim(info, -1);

    if (elements == NULL || size < 2 || rewrite_dim(info, -2) != size)
        return false;
    for (uint32_t d = 0; d + 2 < info->rank; d++)
        if (info->dims[d].value != 1)
            return false;
    for (int64_t i = 0; i < size; i++)
        for (int64_t k = 0; k < size; k++)
            if (k <= i ? elements[i * size + k] != 0 : !((double)elements[i * size + k] <= MASK_THRESHOLD))
                return false;
    return true;
}

bool attention_is_causal(struct rewrite *rewrite, const attention_masks *masks)
{
    return masks->count == 1 && masks->list[0].choice == NULL && !masks->list[0].windows &&
           is_triangle(rewrite, masks->list[0].value);
}

static uint32_t find_unmasked_scores(struct rewrite *rewrite, uint32_t v, bool windows, attention_masks *masks);

/* Requires known sizes, except for the batch, because the mask is repeated for each group of windows. */
static bool is_window_mask(const inlay_value_info *info, const inlay_value_info *scores)
{
    for (uint32_t d = 1; d < 5; d++)
        if (scores->dims[d].kind != INLAY_DIM_FIXED || scores->dims[d].value <= 0)
            return false;
    for (uint32_t d = 1; d < info->rank && d <= 4; d++)
        if (info->dims[info->rank - d].kind != INLAY_DIM_FIXED)
            return false;
    return true;
}

/* Records the mask and continues with the scores that it applies to. If that fails, removes the mask again and returns
 * INLAY_NONE. */
static uint32_t continue_with_mask(struct rewrite *rewrite, uint32_t scores, attention_mask mask, bool rows_open,
                                   bool windows, attention_masks *masks)
{
    const inlay_value_info *info = rewrite_value_info(rewrite, scores);
    uint32_t count = masks->count, found,
             from = mask.choice != NULL ? rewrite_input(rewrite, mask.choice, 0) : mask.value;

    INLAY_CHECK(count < ATTENTION_MASKS);
    if (windows && !is_window_mask(rewrite_value_info(rewrite, from), info))
        return INLAY_NONE;
    mask.windows = windows && rewrite_value_info(rewrite, from)->rank >= 4;
    if (mask.windows) {
        mask.groups = info->dims[0];
        mask.window_count = info->dims[1].value;
    }
    masks->list[masks->count++] = mask;
    found = find_unmasked_scores(rewrite, scores, windows, masks);
    if (found == INLAY_NONE)
        masks->count = count;
    else
        masks->rows_open |= rows_open;
    return found;
}

/* Where(visible, scores, constant) or Where(hidden, constant, scores). */
static uint32_t match_where_mask(struct rewrite *rewrite, uint32_t value, const graph_node *where, bool windows,
                                 attention_masks *masks)
{
    attention_mask mask = { .value = INLAY_NONE, .choice = where };
    double c;

    for (uint32_t i = 1; i < 3; i++) {
        uint32_t hidden = rewrite_input(rewrite, where, i), scores = rewrite_input(rewrite, where, 3 - i), found;
        bool rows_open = false;

        mask.hidden = i;
        if (!rewrite_scalar(rewrite, hidden, &c) || rewrite_value_info(rewrite, hidden)->rank > 1 ||
            !matches_scores(rewrite, scores, value, &rows_open) ||
            !is_mask(rewrite, rewrite_input(rewrite, where, 0), scores, INLAY_BOOL, &mask.whole))
            continue;
        found = continue_with_mask(rewrite, scores, mask, rows_open, windows, masks);
        if (found != INLAY_NONE)
            return found;
    }
    return INLAY_NONE;
}

/* The constant 0 for all scores: exporters write it where a layer has no mask. */
static bool is_zero(const struct rewrite *rewrite, uint32_t value)
{
    double c;

    return rewrite_scalar(rewrite, value, &c) && c == 0 && rewrite_value_info(rewrite, value)->rank <= 1;
}

static uint32_t match_added_mask(struct rewrite *rewrite, uint32_t value, const graph_node *sum, bool windows,
                                 attention_masks *masks)
{
    attention_mask mask = { .choice = NULL };

    for (uint32_t i = 0; i < 2; i++) {
        uint32_t scores = rewrite_input(rewrite, sum, i), found;
        bool rows_open = false;

        mask.value = rewrite_input(rewrite, sum, 1 - i);
        if (is_zero(rewrite, mask.value))
            return find_unmasked_scores(rewrite, scores, windows, masks);
        if (!matches_scores(rewrite, scores, value, &rows_open) ||
            !is_mask(rewrite, mask.value, scores, rewrite_value_info(rewrite, value)->dtype, &mask.whole))
            continue;
        found = continue_with_mask(rewrite, scores, mask, rows_open, windows, masks);
        if (found != INLAY_NONE)
            return found;
    }
    return INLAY_NONE;
}

/* Returns true for a Reshape that merges or splits batch and windows and keeps the last three axes. */
static bool keeps_scores(const struct rewrite *rewrite, uint32_t a, uint32_t b)
{
    const inlay_value_info *first = rewrite_value_info(rewrite, a), *second = rewrite_value_info(rewrite, b);

    if (first->rank != 4 && first->rank != 5)
        return false;
    if (second->rank != 9 - first->rank)
        return false;
    for (uint32_t d = 1; d < 4; d++)
        if (first->dims[first->rank - d].kind != INLAY_DIM_FIXED || first->dims[first->rank - d].value <= 0 ||
            !rewrite_same_dim(&first->dims[first->rank - d], &second->dims[second->rank - d]))
            return false;
    return true;
}

static uint32_t find_unmasked_scores(struct rewrite *rewrite, uint32_t value, bool windows, attention_masks *masks)
{
    const graph_node *node = rewrite_producer(rewrite, value);
    uint32_t inner = node == NULL ? INLAY_NONE : rewrite_input(rewrite, node, 0);

    masks->stopped = value;
    if (node == NULL || !rewrite_has_one_use(rewrite, value))
        return INLAY_NONE;
    if (!windows && rewrite_producer_op(rewrite, attention_unscaled(rewrite, value, &(double){ 1 }), "MatMul") != NULL)
        return value;
    if (pass_is_op(node, "Reshape") && inner != INLAY_NONE &&
        rewrite_value_info(rewrite, inner)->rank != INLAY_RANK_UNKNOWN &&
        rewrite_value_info(rewrite, value)->rank == (windows ? 5u : 4u) && keeps_scores(rewrite, value, inner))
        return find_unmasked_scores(rewrite, inner, !windows, masks);
    if (masks->count == ATTENTION_MASKS)
        return INLAY_NONE;
    if (pass_is_op(node, "Where"))
        return match_where_mask(rewrite, value, node, windows, masks);
    return pass_is_op(node, "Add") && node->info.since_version >= 7
               ? match_added_mask(rewrite, value, node, windows, masks)
               : INLAY_NONE;
}

uint32_t attention_scores(struct rewrite *rewrite, uint32_t value, attention_masks *masks)
{
    *masks = (attention_masks){ .count = 0 };
    return find_unmasked_scores(rewrite, value, false, masks);
}

/* Inserts a node with one output. INLAY_NONE: out of memory. */
static uint32_t insert(struct rewrite *rewrite, const char *op, int64_t opset, const uint32_t *inputs, uint32_t count,
                       inlay_dtype dtype)
{
    graph_node *node = rewrite_make_node(rewrite, op, opset, NULL, inputs, count, 1);

    return node == NULL || rewrite_insert_node(rewrite, node, dtype) != INLAY_OK ? INLAY_NONE : node->info.outputs[0];
}

/* Size of one axis of value, as int64 [1]. */
static uint32_t emit_size(struct rewrite *rewrite, uint32_t value, int64_t axis)
{
    graph_node *shape = rewrite_make_node(rewrite, "Shape", 15, NULL, &value, 1, 1);

    if (shape == NULL || graph_set_attr_int(rewrite->graph, shape, "start", axis) != INLAY_OK ||
        graph_set_attr_int(rewrite->graph, shape, "end", axis + 1) != INLAY_OK ||
        rewrite_insert_node(rewrite, shape, INLAY_INT64) != INLAY_OK)
        return INLAY_NONE;
    return shape->info.outputs[0];
}

/* One zero for each key; all attentions of a graph with the same number of keys share it. */
struct key_zeros {
    struct key_zeros *next;
    inlay_dim keys;
    inlay_dtype dtype;
    uint32_t value;
};

static uint32_t shared_zeros(struct rewrite *rewrite, uint32_t k, inlay_dtype dtype)
{
    const inlay_value_info *info = rewrite_value_info(rewrite, k);
    const inlay_dim keys = info->dims[info->rank - 2];
    uint64_t bytes = (uint64_t)inlay_dtype_bits(dtype) / 8, zero_bits = 0;
    struct key_zeros *zeros;

    for (zeros = rewrite->pass_state; zeros != NULL; zeros = zeros->next)
        if (zeros->dtype == dtype && rewrite_same_dim(&zeros->keys, &keys))
            return zeros->value;
    zeros = arena_array(&rewrite->arena, 1, sizeof *zeros);
    if (zeros != NULL) {
        const uint32_t inputs[] = { rewrite_constant(rewrite, dtype, 0, NULL, &zero_bits, bytes),
                                    emit_size(rewrite, k, info->rank - 2) };

        *zeros = (struct key_zeros){ rewrite->pass_state, keys, dtype, INLAY_NONE };
        if (inputs[0] != INLAY_NONE && inputs[1] != INLAY_NONE)
            zeros->value = insert(rewrite, "Expand", 13, inputs, 2, dtype);
        rewrite->pass_state = zeros;
    }
    return zeros == NULL ? INLAY_NONE : zeros->value;
}

/* The shape to which the mask of one group of windows is repeated for the whole batch. */
static uint32_t shape_of_groups(struct rewrite *rewrite, const attention_mask *mask, uint32_t q)
{
    const int64_t sizes[4] = { mask->window_count, 1, 1, 1 };
    uint32_t parts[2] = { emit_size(rewrite, q, 0), rewrite_constant_ints(rewrite, sizes, 1) };
    graph_node *concat;

    if (parts[0] == INLAY_NONE || parts[1] == INLAY_NONE)
        return INLAY_NONE;
    parts[0] = insert(rewrite, "Div", 14, parts, 2, INLAY_INT64);
    parts[1] = rewrite_constant_ints(rewrite, sizes, 4);
    concat = parts[0] == INLAY_NONE || parts[1] == INLAY_NONE
                 ? NULL
                 : rewrite_make_node(rewrite, "Concat", 13, NULL, parts, 2, 1);
    return concat == NULL || graph_set_attr_int(rewrite->graph, concat, "axis", 0) != INLAY_OK ||
                   rewrite_insert_node(rewrite, concat, INLAY_INT64) != INLAY_OK
               ? INLAY_NONE
               : concat->info.outputs[0];
}

/* Repeats a mask of windows, [.., windows, heads, queries, keys], for each group of the batch: [batch * windows, heads,
 * queries, keys]. The sizes are those of `from`. */
static uint32_t repeat_windows(struct rewrite *rewrite, const attention_mask *window_mask, uint32_t mask, uint32_t from,
                               uint32_t q, inlay_dtype dtype)
{
    const inlay_value_info *info = rewrite_value_info(rewrite, from);
    const bool one = window_mask->groups.kind == INLAY_DIM_FIXED && window_mask->groups.value == 1 && info->rank >= 4 &&
                     info->dims[info->rank - 4].value == window_mask->window_count;
    int64_t shape[4] = { -1 };
    uint32_t to;

    for (uint32_t d = 1; d < 4; d++)
        shape[d] = info->dims[info->rank - 4 + d].value;
    if (!one) {
        to = shape_of_groups(rewrite, window_mask, q);
        mask = to == INLAY_NONE ? INLAY_NONE : insert(rewrite, "Expand", 13, (const uint32_t[]){ mask, to }, 2, dtype);
    }
    to = mask == INLAY_NONE ? INLAY_NONE : rewrite_constant_ints(rewrite, shape, 4);
    return to == INLAY_NONE ? INLAY_NONE : insert(rewrite, "Reshape", 14, (const uint32_t[]){ mask, to }, 2, dtype);
}

/* The condition that selects hidden scores, without the window axis. */
static uint32_t hidden_scores(struct rewrite *rewrite, const attention_mask *mask, uint32_t q)
{
    uint32_t condition = rewrite_input(rewrite, mask->choice, 0), hidden = condition;

    if (mask->windows)
        hidden = repeat_windows(rewrite, mask, condition, condition, q, INLAY_BOOL);
    return hidden == INLAY_NONE || mask->hidden == 1 ? hidden : insert(rewrite, "Not", 1, &hidden, 1, INLAY_BOOL);
}

/* Adds a mask to the bias collected so far. */
static uint32_t add_mask(struct rewrite *rewrite, const attention_mask *mask, uint32_t bias, uint32_t q,
                         inlay_dtype dtype)
{
    uint32_t value = mask->windows ? repeat_windows(rewrite, mask, mask->value, mask->value, q, dtype) : mask->value;

    return value == INLAY_NONE || bias == INLAY_NONE
               ? value
               : insert(rewrite, "Add", 14, (const uint32_t[]){ bias, value }, 2, dtype);
}

/* From the innermost mask outwards: a Where mask replaces the scores and everything added to them by its constant. */
inlay_status attention_join_masks(struct rewrite *rewrite, const attention_masks *masks, uint32_t q, uint32_t v,
                                  uint32_t *out_bias, uint32_t *out_hidden)
{
    inlay_dtype dtype = rewrite_value_info(rewrite, q)->dtype;
    uint32_t bias = INLAY_NONE, hidden = INLAY_NONE;
    bool whole = masks->count == 0;

    for (uint32_t i = 0; i < masks->count; i++)
        whole |= masks->list[i].whole;
    if (!whole && (bias = shared_zeros(rewrite, v, dtype)) == INLAY_NONE)
        return rewrite_no_memory(rewrite);
    for (uint32_t i = masks->count; i-- > 0;) {
        const attention_mask *one = &masks->list[i];

        if (one->choice == NULL) {
            bias = add_mask(rewrite, one, bias, q, dtype);
        } else {
            const uint32_t low = rewrite_input(rewrite, one->choice, one->hidden),
                           here = hidden_scores(rewrite, one, q);

            if (bias == INLAY_NONE)
                bias =
                    rewrite_constant(rewrite, dtype, 0, NULL, &(uint64_t){ 0 }, (uint64_t)inlay_dtype_bits(dtype) / 8);
            if (here == INLAY_NONE || bias == INLAY_NONE)
                return rewrite_no_memory(rewrite);
            hidden = hidden == INLAY_NONE ? here
                                          : insert(rewrite, "Or", 7, (const uint32_t[]){ hidden, here }, 2, INLAY_BOOL);
            bias = hidden == INLAY_NONE ? INLAY_NONE
                                        : insert(rewrite, "Where", 16, (const uint32_t[]){ here, low, bias }, 3, dtype);
        }
        if (bias == INLAY_NONE)
            return rewrite_no_memory(rewrite);
    }
    *out_bias = bias;
    *out_hidden = hidden;
    return INLAY_OK;
}
