/* Merges nested Transposes into one, or none if they cancel out. A Transpose between views that merge axes before it
 * and split them again after it becomes a Transpose of all axes:
 *
 *     Reshape(Transpose(Reshape(k, [-1, length, size]), perm 0 2 1), [batch, heads, size, length])
 *     Transpose(k, perm 0 1 3 2)                                          k: [batch, heads, length, size]
 *
 * PyTorch exports the keys of an attention this way. If the first view has merged more axes than the second one splits,
 * as for keys that are repeated for groups of heads, the split moves before the Transpose, where both views become one:
 *
 *     Reshape(Transpose(Reshape(k, [-1, length, size]), perm 0 2 1), [batch, groups * repeats, size, length])
 *     Transpose(Reshape(k, [batch, groups * repeats, length, size]), perm 0 1 3 2)
 *                                                              k: [batch, groups, repeats, length, size] */
#include "passes/merge_transposes.h"
#include "passes/rewrite.h"

bool transpose_perm(const graph_node *node, uint32_t rank, int64_t *out)
{
    uint32_t count;
    const int64_t *perm = rewrite_attr_ints(node, "perm", &count);

    if (perm != NULL && count != rank)
        return false;
    for (uint32_t d = 0; d < rank; d++)
        out[d] = perm != NULL ? perm[d] : (int64_t)(rank - 1 - d);
    return true;
}

static inlay_status match_transpose(struct rewrite *rewrite, graph_node *node)
{
    graph_node *inner = rewrite_producer_op(rewrite, rewrite_input(rewrite, node, 0), "Transpose"), *new_node;
    const inlay_value_info *input =
        inner == NULL ? NULL : rewrite_value_info(rewrite, rewrite_input(rewrite, inner, 0));
    int64_t *first, *second, *both;
    bool is_identity = true;

    if (input == NULL || input->rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    first = arena_array(&rewrite->scratch, (size_t)input->rank + 1, sizeof *first);
    second = arena_array(&rewrite->scratch, (size_t)input->rank + 1, sizeof *second);
    both = arena_array(&rewrite->scratch, (size_t)input->rank + 1, sizeof *both);
    if (first == NULL || second == NULL || both == NULL)
        return rewrite_no_memory(rewrite);
    if (!transpose_perm(inner, input->rank, first) || !transpose_perm(node, input->rank, second))
        return INLAY_OK;
    for (uint32_t d = 0; d < input->rank; d++) {
        both[d] = first[second[d]];
        is_identity &= both[d] == (int64_t)d;
    }
    if (is_identity) {
        bool done;
        inlay_status status = rewrite_forward(rewrite, node->info.outputs[0], rewrite_input(rewrite, inner, 0), &done);
        if (status != INLAY_OK || done)
            return status;
    }
    if (!rewrite_has_one_use(rewrite, rewrite_input(rewrite, node, 0)))
        return INLAY_OK; /* the inner Transpose has other readers and is computed anyway */
    new_node = rewrite_make_node(rewrite, "Transpose", node->opset, node, inner->info.inputs, 1, 1);
    if (new_node == NULL || graph_set_attr_ints(rewrite->graph, new_node, "perm", both, input->rank) != INLAY_OK)
        return rewrite_no_memory(rewrite);
    return rewrite_replace_node(rewrite, node, new_node);
}

/* The axes of a value without those of size 1, which a view may move anywhere. */
struct axes {
    const inlay_value_info *info;
    uint32_t at[INLAY_MAX_RANK], count;
};

static bool is_one(const inlay_dim *dim)
{
    return dim->kind == INLAY_DIM_FIXED && dim->value == 1;
}

static struct axes find_axes(const struct rewrite *rewrite, uint32_t value)
{
    struct axes axes = { .info = rewrite_value_info(rewrite, value) };

    INLAY_CHECK(axes.info->rank <= INLAY_MAX_RANK);
    for (uint32_t d = 0; d < axes.info->rank; d++)
        if (!is_one(&axes.info->dims[d]))
            axes.at[axes.count++] = d;
    return axes;
}

static const inlay_dim *axis_size(const struct axes *axes, uint32_t i)
{
    return &axes->info->dims[axes->at[i]];
}

/* The number of axes of `input`, from axis `from` on in steps of `step`, whose sizes multiply to `merged`; at most
 * `most`. 0: not known. */
static uint32_t merged_axes(const struct axes *input, uint32_t from, int step, uint32_t most, const inlay_dim *merged)
{
    int64_t product = 1;

    if (most > 0 && rewrite_same_dim(axis_size(input, from), merged))
        return 1;
    for (uint32_t i = 0; i < most && merged->kind == INLAY_DIM_FIXED; i++) {
        const inlay_dim *size = axis_size(input, step > 0 ? from + i : from - i);

        if (size->kind != INLAY_DIM_FIXED || size->value <= 0 || size->value > merged->value / product)
            return 0;
        product *= size->value;
        if (product == merged->value)
            return i + 1;
    }
    return 0;
}

/* Finds which axes of `input` a view merges into each axis of `merged`: ends[i] is the index after the last one of
 * axis i. One axis of merged may have an unknown size: it consists of the axes that the others leave. */
static bool find_merged(const struct axes *input, const struct axes *merged, uint32_t *ends)
{
    uint32_t first = 0, last = merged->count, begin = 0, end = input->count, used;

    while (first < last && (used = merged_axes(input, begin, 1, end - begin, axis_size(merged, first))) > 0)
        ends[first++] = begin += used;
    while (first < last && end > begin &&
           (used = merged_axes(input, end - 1, -1, end - begin, axis_size(merged, last - 1))) > 0) {
        ends[--last] = end;
        end -= used;
    }
    if (first == last)
        return begin == end;
    ends[first] = end;
    return first + 1 == last && begin < end;
}

/* Finds the permutation of the axes of `input` that leads to `output` if a view makes `merged` of input, a Transpose
 * permutes that with `perm`, and a second view makes output of the result. */
static bool find_permutation(const struct axes *input, const struct axes *merged, const int64_t *perm,
                             const struct axes *output, int64_t *out_perm)
{
    uint32_t ends[INLAY_MAX_RANK], order[INLAY_MAX_RANK], count = 0, next = 0, one = 0;

    if (input->info->rank != output->info->rank || input->count != output->count || !find_merged(input, merged, ends))
        return false;
    for (uint32_t d = 0; d < merged->info->rank; d++)
        for (uint32_t i = 0; i < merged->count; i++)
            if (merged->at[i] == perm[d])
                for (uint32_t k = i > 0 ? ends[i - 1] : 0; k < ends[i]; k++)
                    order[count++] = k;
    INLAY_CHECK(count == input->count);
    for (uint32_t i = 0; i < count; i++)
        if (!rewrite_same_dim(axis_size(input, order[i]), axis_size(output, i)))
            return false;
    for (uint32_t d = 0; d < output->info->rank; d++) {
        if (!is_one(&output->info->dims[d])) {
            out_perm[d] = input->at[order[next++]];
            continue;
        }
        while (!is_one(&input->info->dims[one]))
            one++;
        out_perm[d] = one++;
    }
    return true;
}

/* Finds the shape that a view before the Transpose must make, and the permutation that leads from it to `output`, if a
 * Transpose permutes `merged` with `perm` and a view only splits axes of the result. One size may be unknown (-1). An
 * axis of size 1 stays behind the axis before it. */
static bool find_split(const struct axes *merged, const int64_t *perm, const struct axes *output, int64_t *out_shape,
                       int64_t *out_perm)
{
    const uint32_t rank = output->info->rank;
    struct axes permuted = { .info = merged->info };
    uint32_t ends[INLAY_MAX_RANK], group[INLAY_MAX_RANK], next = 0, unknown = 0;

    for (uint32_t d = 0; d < merged->info->rank; d++)
        if (!is_one(&merged->info->dims[perm[d]]))
            permuted.at[permuted.count++] = (uint32_t)perm[d];
    if (!find_merged(output, &permuted, ends))
        return false;
    for (uint32_t d = 0, i = 0, seen = 0; d < rank; d++) { /* group 0: before all axes; i + 1: in axis i of permuted */
        if (!is_one(&output->info->dims[d]) && seen++ == (i > 0 ? ends[i - 1] : 0))
            i++;
        group[d] = i;
    }
    for (uint32_t m = 0; m <= merged->count; m++) {
        uint32_t of = 0;

        for (uint32_t i = 0; m > 0 && i < permuted.count; i++)
            if (permuted.at[i] == merged->at[m - 1])
                of = i + 1;
        for (uint32_t d = 0; d < rank; d++) {
            const inlay_dim *dim = &output->info->dims[d];

            if (group[d] != of)
                continue;
            if (dim->kind == INLAY_DIM_FIXED && dim->value == 0)
                return false;
            unknown += dim->kind != INLAY_DIM_FIXED;
            out_shape[next] = dim->kind == INLAY_DIM_FIXED ? dim->value : -1;
            out_perm[d] = next++;
        }
    }
    INLAY_CHECK(next == rank);
    return unknown <= 1;
}

static inlay_status match_view(struct rewrite *rewrite, graph_node *node)
{
    const graph_node *transpose = rewrite_producer_op(rewrite, rewrite_input(rewrite, node, 0), "Transpose");
    const graph_node *view = transpose == NULL ? NULL : rewrite_producer(rewrite, rewrite_input(rewrite, transpose, 0));
    int64_t perm[INLAY_MAX_RANK], whole[INLAY_MAX_RANK], shape[INLAY_MAX_RANK];
    struct axes input, merged, output;
    graph_node *new_node, *split;
    uint32_t from, target;

    if (!pass_is_view(view) || !rewrite_has_one_use(rewrite, rewrite_input(rewrite, node, 0)))
        return INLAY_OK;
    from = rewrite_input(rewrite, view, 0);
    if (rewrite_value_info(rewrite, from)->rank == INLAY_RANK_UNKNOWN ||
        rewrite_value_info(rewrite, view->info.outputs[0])->rank == INLAY_RANK_UNKNOWN ||
        rewrite_value_info(rewrite, node->info.outputs[0])->rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    input = find_axes(rewrite, from);
    merged = find_axes(rewrite, view->info.outputs[0]);
    output = find_axes(rewrite, node->info.outputs[0]);
    if (!transpose_perm(transpose, merged.info->rank, perm))
        return INLAY_OK;
    if (!find_permutation(&input, &merged, perm, &output, whole)) {
        if (input.info->rank <= output.info->rank || !pass_allows(rewrite->ctx, 5) ||
            !find_split(&merged, perm, &output, shape, whole))
            return INLAY_OK;
        target = rewrite_constant_ints(rewrite, shape, output.info->rank);
        split = target == INLAY_NONE ? NULL
                                     : rewrite_make_node(rewrite, "Reshape", node->opset < 5 ? 5 : node->opset, NULL,
                                                         (const uint32_t[]){ from, target }, 2, 1);
        if (split == NULL || rewrite_insert_node(rewrite, split, input.info->dtype) != INLAY_OK)
            return rewrite_no_memory(rewrite);
        from = split->info.outputs[0];
    }
    new_node = rewrite_make_node(rewrite, "Transpose", transpose->opset, node, &from, 1, 1);
    if (new_node == NULL || graph_set_attr_ints(rewrite->graph, new_node, "perm", whole, output.info->rank) != INLAY_OK)
        return rewrite_no_memory(rewrite);
    return rewrite_replace_node(rewrite, node, new_node);
}

inlay_status match_merge_transposes(struct rewrite *rewrite, graph_node *node)
{
    if (pass_is_op(node, "Transpose"))
        return match_transpose(rewrite, node);
    return pass_is_view(node) ? match_view(rewrite, node) : INLAY_OK;
}
