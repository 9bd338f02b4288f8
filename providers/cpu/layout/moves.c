/* The axes of a copy between two layouts. */
#include "cpu/layout/moves.h"
#include "inlay/check.h"

const move_set *moves_of_cpu(void)
{
    return KERNEL_BEST(moves);
}

/* The blocked axis and the size of its blocks; block 1: no axis is blocked. false: the layout is not supported. Blocked
 * layouts are supported only for elements of 4 bytes. */
static bool find_block(const tensor_layout *layout, int *out_axis, int64_t *out_block)
{
    *out_axis = -1;
    *out_block = 1;
    if (layout->kind != LAYOUT_STRIDED || layout->block_count > 1 || cpu_type_bytes(layout->type) > sizeof(float))
        return false;
    if (layout->block_count == 0)
        return true;
    if (cpu_type_bytes(layout->type) != sizeof(float))
        return false;
    *out_axis = (int)layout->block_axes[0];
    *out_block = layout->blocks[0];
    return layout->dims[*out_axis] % *out_block == 0;
}

/* Inserts an axis, ordered by the target's strides. */
static void add_axis(move_axes *axes, int64_t size, int64_t from, int64_t to)
{
    uint32_t at = axes->rank;

    if (size == 1)
        return;
    INLAY_CHECK(at < TENSOR_MAX_RANK);
    for (; at > 0 && axes->to[at - 1] < to; at--) {
        axes->dims[at] = axes->dims[at - 1];
        axes->from[at] = axes->from[at - 1];
        axes->to[at] = axes->to[at - 1];
    }
    axes->dims[at] = size;
    axes->from[at] = from;
    axes->to[at] = to;
    axes->rank++;
}

/* Merges adjacent axes that are contiguous on both sides. */
static void merge_axes(move_axes *axes)
{
    uint32_t last = 0;

    INLAY_CHECK(axes->rank > 0);
    for (uint32_t d = 1; d < axes->rank; d++) {
        bool contiguous =
            axes->to[last] == axes->to[d] * axes->dims[d] && axes->from[last] == axes->from[d] * axes->dims[d];
        int64_t outer = contiguous ? axes->dims[last] : 1;

        last += contiguous ? 0 : 1;
        axes->dims[last] = outer * axes->dims[d];
        axes->from[last] = axes->from[d];
        axes->to[last] = axes->to[d];
    }
    axes->rank = last + 1;
}

bool move_axes_of(const tensor_layout *from, const tensor_layout *to, move_axes *out)
{
    const int64_t *from_strides = from->strides, *to_strides = to->strides;
    int axis, other;
    int64_t block, second;

    if (!find_block(from, &axis, &block) || !find_block(to, &other, &second) || from->type != to->type ||
        from->rank != to->rank || (axis >= 0 && other >= 0 && (axis != other || block != second)))
        return false;
    out->rank = 0;
    for (int d = 0; d < to->rank; d++) {
        int64_t size = d == axis ? block : d == other ? second : 1;

        if (from->dims[d] != to->dims[d] || to->dims[d] < 1)
            return false;
        add_axis(out, to->dims[d] / size, d == axis ? from_strides[d] : from_strides[d] * size,
                 d == other ? to_strides[d] : to_strides[d] * size);
        add_axis(out, size, d == axis ? 1 : from_strides[d], d == other ? 1 : to_strides[d]);
    }
    if (out->rank == 0)
        *out = (move_axes){ 1, { 1 }, { 1 }, { 1 } };
    merge_axes(out);
    return true;
}
