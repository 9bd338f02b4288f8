/* Merges nested Slices (Slice-10 and later, with constant bounds): over different axes always; over the same axis if
 * all bounds count from the front or the size is known. */
#include "passes/rewrite.h"
#include "inlay/check.h"

enum { MAX_AXES = 16 }; /* axes of both Slices */

struct bounds {
    int64_t starts[MAX_AXES], ends[MAX_AXES], axes[MAX_AXES], steps[MAX_AXES];
    uint32_t count;
};

/* Appends the bounds of the node; axes become non-negative. */
static bool read_bounds(struct rewrite *rewrite, const graph_node *node, struct bounds *bounds)
{
    const int64_t *list[4];
    uint32_t counts[4], rank = rewrite_value_info(rewrite, rewrite_input(rewrite, node, 0))->rank;

    for (uint32_t i = 0; i < 4; i++)
        if (rewrite_input(rewrite, node, i + 1) == INLAY_NONE && i >= 2)
            list[i] = NULL;
        else if (!rewrite_integers(rewrite, rewrite_input(rewrite, node, i + 1), &list[i], &counts[i]) ||
                 counts[i] != counts[0])
            return false;
    if (rank == INLAY_RANK_UNKNOWN || counts[0] > MAX_AXES - bounds->count)
        return false;
    for (uint32_t i = 0; i < counts[0]; i++, bounds->count++) {
        int64_t axis = list[2] == NULL ? (int64_t)i : list[2][i];

        INLAY_CHECK(bounds->count < MAX_AXES);
        bounds->starts[bounds->count] = list[0][i];
        bounds->ends[bounds->count] = list[1][i];
        bounds->axes[bounds->count] = axis < 0 ? axis + (int64_t)rank : axis;
        bounds->steps[bounds->count] = list[3] == NULL ? 1 : list[3][i];
    }
    return true;
}

/* The elements that the bounds select from an axis: the first, the distance to the next, and their number. */
struct range {
    int64_t first, step, count;
};

/* ONNX Slice-10: negative bounds count from the end. Then they are clamped to [0, size] for forward steps, and to [-1,
 * size - 1] (for the start [0, size - 1]) for backward steps. Returns false for a step of 0 and for sizes or steps that
 * could overflow. */
static bool resolve_range(int64_t start, int64_t end, int64_t step, int64_t size, struct range *out)
{
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;

    if (step == 0 || step == INT64_MIN || size > INT64_MAX / 4)
        return false;
    start = start < 0 ? (start < -size ? low : start + size) : start;
    end = end < 0 ? (end < -size ? low : end + size) : end;
    start = start < 0 ? 0 : start > high ? high : start;
    end = end < low ? low : end > high ? high : end;
    out->first = start;
    out->step = step;
    out->count =
        step > 0 ? (end > start ? (end - start - 1) / step + 1 : 0) : (start > end ? (start - end - 1) / -step + 1 : 0);
    out->count = size == 0 ? 0 : out->count;
    INLAY_CHECK(out->count >= 0 && out->count <= size);
    return true;
}

/* Merges bounds k of the outer Slice into bounds i of the inner one, over one axis of that size. */
static bool merge_bounds(struct bounds *bounds, uint32_t i, uint32_t k, int64_t size)
{
    struct range outer, inner;
    int64_t step, last, first;

    if (!resolve_range(bounds->starts[i], bounds->ends[i], bounds->steps[i], size, &inner) ||
        !resolve_range(bounds->starts[k], bounds->ends[k], bounds->steps[k], inner.count, &outer))
        return false;
    if (outer.count == 0) {
        bounds->starts[i] = bounds->ends[i] = 0;
        bounds->steps[i] = 1;
        return true;
    }
    step = outer.count == 1 ? 1 : inner.step * outer.step; /* no overflow: at least two elements lie within the size */
    first = inner.first + outer.first * inner.step;
    last = first + (outer.count - 1) * step;
    bounds->starts[i] = first;
    bounds->steps[i] = step;
    /* A backward range that includes element 0 cannot end at -1, which would count from the end. */
    bounds->ends[i] = step > 0 ? last + 1 : last > 0 ? last - 1 : -size - 1;
    return true;
}

/* The same for forward steps and non-negative bounds, where the size does not matter. */
static bool merge_forward_bounds(struct bounds *bounds, uint32_t i, uint32_t k)
{
    int64_t ahead, end;

    if (bounds->starts[i] < 0 || bounds->ends[i] < 0 || bounds->steps[i] <= 0 || bounds->starts[k] < 0 ||
        bounds->ends[k] < 0 || bounds->steps[k] <= 0 ||
        __builtin_mul_overflow(bounds->steps[i], bounds->starts[k], &ahead) ||
        __builtin_add_overflow(bounds->starts[i], ahead, &ahead) ||
        __builtin_mul_overflow(bounds->steps[i], bounds->steps[k], &bounds->steps[k]))
        return false;
    if (!__builtin_mul_overflow(bounds->steps[i], bounds->ends[k], &end) &&
        !__builtin_add_overflow(bounds->starts[i], end, &end) && end < bounds->ends[i])
        bounds->ends[i] = end;
    bounds->starts[i] = ahead;
    bounds->steps[i] = bounds->steps[k];
    return true;
}

/* Merges bounds over the same axis. The bounds of the outer Slice begin at first_count. */
static bool merge_axes(struct bounds *bounds, uint32_t first_count, const inlay_value_info *input)
{
    uint32_t kept = first_count;

    for (uint32_t k = first_count; k < bounds->count; k++) {
        uint32_t i = 0;

        while (i < first_count && bounds->axes[i] != bounds->axes[k])
            i++;
        if (i < first_count) {
            int64_t size = rewrite_dim(input, bounds->axes[k]);

            if (size < 0 ? !merge_forward_bounds(bounds, i, k) : !merge_bounds(bounds, i, k, size))
                return false;
            continue;
        }
        bounds->starts[kept] = bounds->starts[k];
        bounds->ends[kept] = bounds->ends[k];
        bounds->axes[kept] = bounds->axes[k];
        bounds->steps[kept++] = bounds->steps[k];
    }
    bounds->count = kept;
    return true;
}

/* Returns true if one Slice names an axis twice; such Slices are not merged. */
static bool has_duplicate_axes(const struct bounds *bounds, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; i++)
        for (uint32_t k = begin; k < i; k++)
            if (bounds->axes[i] == bounds->axes[k])
                return true;
    return false;
}

inlay_status match_merge_slices(struct rewrite *rewrite, graph_node *node)
{
    graph_node *inner = pass_is_op(node, "Slice")
                            ? rewrite_producer_op(rewrite, rewrite_input(rewrite, node, 0), "Slice")
                            : NULL,
               *new_node;
    struct bounds bounds = { .count = 0 };
    uint32_t inputs[5], first_count;

    if (inner == NULL || node->info.since_version < 10 || inner->info.since_version < 10 ||
        !rewrite_has_one_use(rewrite, rewrite_input(rewrite, node, 0)) || !read_bounds(rewrite, inner, &bounds))
        return INLAY_OK;
    first_count = bounds.count;
    if (!read_bounds(rewrite, node, &bounds) || has_duplicate_axes(&bounds, 0, first_count) ||
        has_duplicate_axes(&bounds, first_count, bounds.count) ||
        !merge_axes(&bounds, first_count, rewrite_value_info(rewrite, rewrite_input(rewrite, inner, 0))))
        return INLAY_OK;
    inputs[0] = rewrite_input(rewrite, inner, 0);
    inputs[1] = rewrite_constant_ints(rewrite, bounds.starts, bounds.count);
    inputs[2] = rewrite_constant_ints(rewrite, bounds.ends, bounds.count);
    inputs[3] = rewrite_constant_ints(rewrite, bounds.axes, bounds.count);
    inputs[4] = rewrite_constant_ints(rewrite, bounds.steps, bounds.count);
    for (uint32_t i = 1; i < 5; i++)
        if (inputs[i] == INLAY_NONE)
            return rewrite_no_memory(rewrite);
    new_node = rewrite_make_node(rewrite, "Slice", node->opset, node, inputs, 5, 1);
    return new_node == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, new_node);
}
