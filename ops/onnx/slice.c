/* onnx/slice.c - slices along axes. */
#include "schema.h"
#include "inlay/check.h"

/* The slice of one axis. */
struct cut {
    bool named; /* the node slices this axis */
    bool known; /* start, end and step are known */
    int64_t start, end, step;
    bool counted; /* step 1 with symbolic bounds: `to` is a size, `from` is a size or the negative of one */
    inlay_dim from, to;
};

/* Reads bounds that are symbolic sizes. axes: [axis_count], NULL for the first axes. */
static void read_sizes(op_infer *infer, const int64_t *axes, uint32_t axis_count, uint32_t rank, struct cut *cuts)
{
    uint32_t count, end_count;
    const inlay_dim *starts = infer_elements(infer, 1, &count), *ends = infer_elements(infer, 2, &end_count);

    if (starts == NULL || ends == NULL || count != end_count || count != axis_count)
        return;
    for (uint32_t i = 0; i < count; i++) {
        int64_t axis = axes == NULL ? (int64_t)i : axes[i] < 0 ? axes[i] + (int64_t)rank : axes[i];

        if (axis < 0 || axis >= (int64_t)rank || !dim_is_size(infer, ends[i]) ||
            (!dim_is_size(infer, starts[i]) && !dim_is_size(infer, dim_sub(infer, dim_fixed(0), starts[i]))))
            continue;
        cuts[axis].counted = true;
        cuts[axis].from = starts[i];
        cuts[axis].to = ends[i];
    }
}

/* Reads starts, ends, axes and steps into cuts[rank]. *out_known is false if the axes are not known. */
static inlay_status read_cuts(op_infer *infer, uint32_t rank, struct cut *cuts, bool *out_known)
{
    const bool attributes = infer->node->since_version < 10;
    int64_t starts[INLAY_MAX_RANK], ends[INLAY_MAX_RANK], axes[INLAY_MAX_RANK], steps[INLAY_MAX_RANK];
    uint32_t count = 0, end_count = 0, axis_count = 0, step_count = 0;
    bool has_values, has_axes;

    *out_known = true;
    if (attributes) {
        const int64_t *s = infer_attr_ints(infer, "starts", &count), *e = infer_attr_ints(infer, "ends", &end_count);
        const int64_t *a = infer_attr_ints(infer, "axes", &axis_count);

        has_values = true;
        has_axes = a != NULL && axis_count > 0;
        if (count > rank || end_count != count || (has_axes && axis_count != count))
            return infer_fail(infer, INLAY_INVALID_MODEL, "starts, ends and axes must have one length, at most %u",
                              rank);
        for (uint32_t i = 0; i < count; i++) {
            starts[i] = s[i];
            ends[i] = e[i];
            axes[i] = has_axes ? a[i] : (int64_t)i;
            steps[i] = 1;
        }
    } else {
        const inlay_dim length = infer_dim(infer, 1, 0);

        for (uint32_t i = 1; i < 5; i++) {
            const inlay_status status = infer_check_list(infer, i);

            if (status != INLAY_OK)
                return status;
        }
        has_values = infer_ints(infer, 1, starts, INLAY_MAX_RANK, &count) &&
                     infer_ints(infer, 2, ends, INLAY_MAX_RANK, &end_count) && count == end_count;
        has_axes = infer_has_in(infer, 3);
        if (!has_values && length.kind == INLAY_DIM_FIXED && length.value <= (int64_t)rank)
            count = (uint32_t)length.value;
        else if (!has_values)
            *out_known = has_axes;
        if (has_axes && !infer_ints(infer, 3, axes, INLAY_MAX_RANK, &axis_count))
            *out_known = false;
        count = has_axes ? axis_count : count;
        if (!*out_known)
            return INLAY_OK;
        for (uint32_t i = 0; i < count && i < INLAY_MAX_RANK; i++)
            steps[i] = 1;
        if (infer_has_in(infer, 4) && !infer_ints(infer, 4, steps, INLAY_MAX_RANK, &step_count))
            has_values = false;
        if (count > rank || (has_values && (end_count != count || (step_count > 0 && step_count != count))))
            return infer_fail(infer, INLAY_INVALID_MODEL,
                              "starts, ends, axes and steps must have one length, at most %u", rank);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis;
        inlay_status status = infer_axis(infer, has_axes ? axes[i] : (int64_t)i, rank, "axes", &axis);

        if (status != INLAY_OK)
            return status;
        if (cuts[axis].named)
            return infer_fail(infer, INLAY_INVALID_MODEL, "axes names axis %u twice", axis);
        if (has_values && steps[i] == 0)
            return infer_fail(infer, INLAY_INVALID_MODEL, "steps[%u] is 0", i);
        cuts[axis] = (struct cut){ .named = true, .known = has_values };
        if (has_values)
            cuts[axis] =
                (struct cut){ .named = true, .known = true, .start = starts[i], .end = ends[i], .step = steps[i] };
    }
    if (!attributes && !has_values) {
        bool single = true;

        if (infer_has_in(infer, 4))
            for (uint32_t i = 0; i < count; i++)
                single &= step_count == count && steps[i] == 1;
        if (single)
            read_sizes(infer, has_axes ? axes : NULL, count, rank, cuts);
    }
    return INLAY_OK;
}

/* The number of elements of a slice of an axis of fixed size; *out_start is the index of the first. Slice-10: negative
 * values count from the end, and bounds are clamped; with a negative step, the least end is -1, before the first
 * element. */
static int64_t cut_fixed(int64_t dim, const struct cut *cut, int64_t *out_start)
{
    const int64_t low = cut->step < 0 ? -1 : 0, high = cut->step < 0 ? dim - 1 : dim;
    int64_t start = cut->start < 0 ? cut->start + dim : cut->start, end = cut->end < 0 ? cut->end + dim : cut->end;
    uint64_t span, stride = cut->step < 0 ? 0 - (uint64_t)cut->step : (uint64_t)cut->step;

    INLAY_CHECK(dim >= 0 && cut->known && cut->step != 0);
    start = start < 0 ? 0 : start > high ? high : start;
    end = end < low ? low : end > high ? high : end;
    *out_start = start;
    if (dim == 0 || (cut->step > 0 ? end <= start : end >= start))
        return 0;
    span = (uint64_t)(cut->step > 0 ? end - start : start - end);
    return (int64_t)((span - 1) / stride + 1);
}

/* The size of a slice of an axis of symbolic size, on the assumption that the axis is long enough for the bounds not to
 * be clamped; unknown for other bounds. */
static inlay_dim cut_symbolic(op_infer *infer, inlay_dim dim, const struct cut *cut)
{
    if (cut->step == -1 && (cut->start == -1 || cut->start >= INT32_MAX) && cut->end <= -INT32_MAX)
        return dim;
    if (cut->step != 1)
        return cut->start == 0 && cut->end >= INT32_MAX && cut->step > 0
                   ? dim_ceil_div(infer, dim, dim_fixed(cut->step))
                   : dim_unknown();
    if (cut->start >= 0 && cut->end >= INT32_MAX)
        return dim_sub(infer, dim, dim_fixed(cut->start));
    if (cut->start >= 0 && cut->end < 0)
        return dim_sub(infer, dim_add(infer, dim, dim_fixed(cut->end)), dim_fixed(cut->start));
    return dim_unknown();
}

/* min(to, dim) - min(from, dim) if that is known not to be negative; for a negative `from` and no end, the last -from
 * elements of dim. */
static inlay_dim cut_counted(op_infer *infer, inlay_dim dim, const struct cut *cut)
{
    bool to_end = cut->to.kind == INLAY_DIM_FIXED && cut->to.value >= INT32_MAX;
    inlay_dim from, to;

    if (!dim_is_size(infer, cut->from))
        return to_end ? dim_last(infer, dim_sub(infer, dim_fixed(0), cut->from), dim) : dim_unknown();
    from = dim_min(infer, cut->from, dim);
    to = to_end ? dim : dim_min(infer, cut->to, dim);

    if (dim_same(from, dim_fixed(0)))
        return to;
    return to_end || dim_is_size(infer, dim_sub(infer, cut->to, cut->from)) ? dim_sub(infer, to, from) : dim_unknown();
}

/* Propagates the elements of a slice of a vector. */
static inlay_status slice_elements(op_infer *infer, const struct cut *cut)
{
    inlay_dim kept[INFER_MAX_ELEMENTS];
    uint32_t count;
    const inlay_dim *elements = infer_elements(infer, 0, &count);
    int64_t start = 0, left;

    if (elements == NULL || (cut->named && !cut->known))
        return INLAY_OK;
    left = cut->named ? cut_fixed((int64_t)count, cut, &start) : (int64_t)count;
    INLAY_CHECK(left <= (int64_t)count);
    for (int64_t i = 0; i < left; i++)
        kept[i] = elements[i == 0 ? start : start + i * cut->step];
    return infer_set_elements(infer, 0, (uint32_t)left, kept);
}

static inlay_status infer_slice(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    struct cut cuts[INLAY_MAX_RANK] = { { .named = false } };
    inlay_dim dims[INLAY_MAX_RANK];
    inlay_status status = INLAY_OK;
    bool known;

    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    INLAY_TRY(read_cuts(infer, rank, cuts, &known));
    for (uint32_t d = 0; d < rank; d++) {
        int64_t start;

        dims[d] = infer_dim(infer, 0, d);
        if (known && cuts[d].counted)
            dims[d] = cut_counted(infer, dims[d], &cuts[d]);
        else if (!known || (cuts[d].named && !cuts[d].known))
            dims[d] = dim_unknown();
        else if (cuts[d].named)
            dims[d] = dims[d].kind == INLAY_DIM_FIXED ? dim_fixed(cut_fixed(dims[d].value, &cuts[d], &start))
                                                      : cut_symbolic(infer, dims[d], &cuts[d]);
    }
    INLAY_TRY(infer_set_shape(infer, 0, rank, dims));
    if (rank == 1 && known)
        status = slice_elements(infer, &cuts[0]);
done:
    return status;
}

static const op_row onnx_slice_rows[] = {
    { "Slice", 1, 0, "data:T -> output:T; T=@all; axes:is, ends:is!, starts:is!", infer_slice },
    { "Slice", 10, 0, "data:T, starts:Tind, ends:Tind, axes?:Tind, steps?:Tind -> output:T; T=@all, Tind=int32|int64",
      infer_slice },
    { "Slice", 11, 0, "data:T, starts:Tind, ends:Tind, axes?:Tind, steps?:Tind -> output:T; T=@all, Tind=int32|int64",
      infer_slice },
    { "Slice", 13, 0,
      "data:T, starts:Tind, ends:Tind, axes?:Tind, steps?:Tind -> output:T; T=@all_ir4, Tind=int32|int64",
      infer_slice },
};

const op_table op_onnx_slice = { "ai.onnx", onnx_slice_rows, OP_COUNT(onnx_slice_rows) };
