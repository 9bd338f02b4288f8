/* Reshapes of tensors that are not row-major. A channel shuffle, for example, changes the order of channels only, so a
 * channels-last image keeps its layout. */
#include "cpu/layout/layout.h"
#include "inlay/check.h"
#include "inlay/types.h"

/* Axes [old, old_end) of the input, without axes of one element, whose elements become a range of the output's axes. */
struct axis_range {
    uint32_t old, old_end;
    int64_t key; /* the smallest stride */
};

struct axes {
    uint32_t at[CPU_MAX_RANK]; /* axes with more than one element */
    uint32_t count;
};

static struct axes real_axes(uint32_t rank, const int64_t *dims)
{
    struct axes axes = { .count = 0 };

    for (uint32_t d = 0; d < rank; d++)
        if (dims[d] != 1)
            axes.at[axes.count++] = d;
    return axes;
}

/* Returns the number of ranges; 0: the element counts differ. */
static uint32_t find_ranges(const struct axes *old, const int64_t *old_dims, const struct axes *new_axes,
                            const int64_t *new_dims, struct axis_range *ranges)
{
    uint32_t i = 0, j = 0, count = 0;

    while (i < old->count && j < new_axes->count) {
        struct axis_range *range = &ranges[count++];
        int64_t a = old_dims[old->at[i]], b = new_dims[new_axes->at[j]];

        range->old = i++;
        j++;
        while (a != b) {
            if (a < b && i < old->count)
                a *= old_dims[old->at[i++]];
            else if (b < a && j < new_axes->count)
                b *= new_dims[new_axes->at[j++]];
            else
                return 0;
        }
        range->old_end = i;
    }
    return i == old->count && j == new_axes->count ? count : 0;
}

/* Do the elements of the range fill a contiguous block, in any order? Sets its key. */
static bool is_contiguous(const tensor_layout *input, const struct axes *old, struct axis_range *range)
{
    const int64_t *by = input->strides;
    int64_t elements = 1, span = 0;

    range->key = by[old->at[range->old]];
    for (uint32_t i = range->old; i < range->old_end; i++) {
        int64_t size = input->dims[old->at[i]], stride = by[old->at[i]];

        elements *= size;
        span = stride * size > span ? stride * size : span;
        range->key = stride < range->key ? stride : range->key;
    }
    return range->old_end - range->old == 1 || span == elements * range->key;
}

bool layout_merged(const tensor_layout *input, uint32_t rank, const int64_t *dims, tensor_layout *out)
{
    struct axes old, new_axes = real_axes(rank, dims);
    struct axis_range ranges[CPU_MAX_RANK];
    bool done[CPU_MAX_RANK] = { false };
    tensor_dims strides = { 0 };
    int64_t stride = 1;
    uint32_t count;

    if (input->kind != LAYOUT_STRIDED || layout_is_blocked(input) || input->rank > CPU_MAX_RANK || rank > CPU_MAX_RANK)
        return false;
    old = real_axes((uint32_t)input->rank, input->dims);
    count = find_ranges(&old, input->dims, &new_axes, dims, ranges);
    INLAY_CHECK(count <= CPU_MAX_RANK);
    for (uint32_t range = 0; range < count; range++)
        if (!is_contiguous(input, &old, &ranges[range]))
            return false;
    for (uint32_t step = 0; step < count; step++) { /* from the innermost range outwards */
        uint32_t next = INLAY_NONE;

        for (uint32_t range = 0; range < count; range++)
            if (!done[range] && (next == INLAY_NONE || ranges[range].key <= ranges[next].key))
                next = range;
        INLAY_CHECK(next < count);
        done[next] = true;
        for (uint32_t i = ranges[next].old_end; i-- > ranges[next].old; stride *= input->dims[old.at[i]])
            strides[old.at[i]] = stride;
    }
    for (int d = 0; d < input->rank; d++)
        strides[d] = input->dims[d] == 1 ? stride : strides[d];
    layout_strides(out, (uint32_t)input->rank, input->dims, strides);
    out->type = input->type;
    return count > 0;
}
