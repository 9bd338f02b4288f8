/* Memory layouts: construction, comparison, reshapes. */
#include "cpu/layout/layout.h"
#include "inlay/check.h"
#include <string.h>

static void row_major_strides(uint32_t rank, const int64_t *dims, int64_t *strides)
{
    int64_t stride = 1;

    for (uint32_t d = rank; d-- > 0;) {
        strides[d] = stride;
        stride *= dims[d] > 0 ? dims[d] : 1;
    }
}

void layout_set_row_major(tensor_layout *layout)
{
    INLAY_CHECK(!layout_is_blocked(layout));
    row_major_strides((uint32_t)layout->rank, layout->dims, layout->strides);
}

void layout_plain(tensor_layout *layout, uint32_t rank, const int64_t *dims)
{
    int64_t strides[TENSOR_MAX_RANK], one = 1;

    if (rank == 0) { /* a scalar becomes a vector of one element */
        rank = 1;
        dims = &one;
    }
    INLAY_CHECK(rank <= TENSOR_MAX_RANK);
    row_major_strides(rank, dims, strides);
    layout_strides(layout, rank, dims, strides);
}

/* Initialises a descriptor without strides. A rank or dims out of range leave rank 0. */
static void init_desc(tensor_layout *layout, uint32_t rank, const int64_t *dims)
{
    memset(layout, 0, sizeof *layout);
    if (rank > TENSOR_MAX_RANK)
        return;
    for (uint32_t d = 0; d < rank; d++)
        if (dims[d] < 0)
            return;
    layout->rank = (int)rank;
    layout->type = ELEMENT_FLOAT;
    layout->kind = LAYOUT_STRIDED;
    memcpy(layout->dims, dims, rank * sizeof *dims);
    memcpy(layout->padded_dims, dims, rank * sizeof *dims);
}

void layout_strides(tensor_layout *layout, uint32_t rank, const int64_t *dims, const int64_t *strides)
{
    init_desc(layout, rank, dims);
    if (layout->rank > 0)
        memcpy(layout->strides, strides, rank * sizeof *strides);
}

bool layout_blocks(tensor_layout *layout, uint32_t rank, const int64_t *dims, const char *tag)
{
    int64_t blocks[TENSOR_MAX_RANK], stride = 1;
    const char *inner;

    init_desc(layout, rank, dims);
    if (layout->rank == 0 || strspn(tag, "abcdefABCDEF") != rank)
        return false;
    for (uint32_t d = 0; d < rank; d++)
        blocks[d] = 1;
    for (inner = tag + rank; *inner != '\0' && layout->block_count < LAYOUT_MAX_BLOCKS;
         inner++, layout->block_count++) {
        int64_t block = 0;

        for (; *inner >= '0' && *inner <= '9'; inner++)
            block = block * 10 + (*inner - '0');
        INLAY_CHECK(block > 0 && *inner >= 'a' && *inner < 'a' + (int)rank);
        layout->blocks[layout->block_count] = block;
        layout->block_axes[layout->block_count] = *inner - 'a';
        blocks[*inner - 'a'] *= block;
        stride *= block;
    }
    for (uint32_t i = rank; i-- > 0;) {
        uint32_t d = (uint32_t)((tag[i] | 0x20) - 'a');

        INLAY_CHECK(d < rank);
        layout->padded_dims[d] = (dims[d] + blocks[d] - 1) / blocks[d] * blocks[d];
        layout->strides[d] = stride;
        stride *= layout->padded_dims[d] > 0 ? layout->padded_dims[d] / blocks[d] : 1;
    }
    return true;
}

static bool same_numbers(const int64_t *a, const int64_t *b, int count)
{
    return memcmp(a, b, (size_t)count * sizeof *a) == 0;
}

size_t cpu_type_bytes(element_type type)
{
    switch (type) {
    case ELEMENT_FLOAT:
    case ELEMENT_INT32:
        return 4;
    case ELEMENT_INT8:
    case ELEMENT_UINT8:
        return 1;
    case ELEMENT_INT64:
        return 8;
    default:
        return 0;
    }
}

void layout_channels_last(tensor_layout *layout, uint32_t rank, const int64_t *dims)
{
    tensor_dims strides;
    int64_t stride;

    INLAY_CHECK(rank >= 2 && rank <= TENSOR_MAX_RANK);
    stride = dims[1];
    for (uint32_t d = rank; d-- > 2; stride *= dims[d])
        strides[d] = stride;
    strides[1] = 1;
    strides[0] = stride;
    layout_strides(layout, rank, dims, strides);
}

int64_t layout_offset(uint32_t axes, const int64_t *dims, const int64_t *steps, int64_t i)
{
    int64_t at = 0;

    for (uint32_t axis = axes; axis-- > 0; i /= dims[axis])
        at += i % dims[axis] * steps[axis];
    return at;
}

int64_t layout_count(const tensor_layout *layout)
{
    int64_t count = 1;

    for (int d = 0; d < layout->rank; d++)
        count *= layout->dims[d];
    return count;
}

/* The number of elements, or blocks, along axis d. */
static int64_t blocks_along(const tensor_layout *layout, int d)
{
    int64_t count = layout->padded_dims[d];

    for (int i = 0; i < layout->block_count; i++)
        if (layout->block_axes[i] == d)
            count /= layout->blocks[i];
    return count;
}

uint64_t layout_bytes(const tensor_layout *layout)
{
    uint64_t end = 1, block_total = 1; /* end: of the last block, in elements */

    if (layout->kind != LAYOUT_STRIDED)
        return layout->packed_bytes;
    if (layout->rank == 0)
        return 0;
    for (int d = 0; d < layout->rank; d++)
        if (layout->dims[d] == 0)
            return 0;
    for (int i = 0; i < layout->block_count; i++)
        block_total *= (uint64_t)layout->blocks[i];
    /* The axis with the largest extent ends where the tensor ends. */
    for (int d = 0; d < layout->rank; d++) {
        const int64_t blocks = blocks_along(layout, d);

        if (blocks > 1 && (uint64_t)blocks * (uint64_t)layout->strides[d] > end)
            end = (uint64_t)blocks * (uint64_t)layout->strides[d];
    }
    return (end == 1 ? block_total : end) * cpu_type_bytes(layout->type);
}

bool layout_is_blocked(const tensor_layout *layout)
{
    return layout->kind == LAYOUT_STRIDED && layout->block_count > 0;
}

bool layout_is_dense(const tensor_layout *layout)
{
    return layout->kind == LAYOUT_STRIDED &&
           layout_bytes(layout) == (uint64_t)layout_count(layout) * cpu_type_bytes(layout->type);
}

void layout_packed(tensor_layout *layout, const tensor_layout *input)
{
    int64_t strides[TENSOR_MAX_RANK], stride = 1;
    bool done[TENSOR_MAX_RANK] = { false };

    INLAY_CHECK(!layout_is_blocked(input));
    for (int n = 0; n < input->rank; n++) {
        int next = -1; /* the axis with the smallest stride; the last one of equals */

        for (int d = input->rank; d-- > 0;)
            if (!done[d] && (next < 0 || input->strides[d] < input->strides[next]))
                next = d;
        done[next] = true;
        strides[next] = stride;
        stride *= input->dims[next];
    }
    layout_strides(layout, (uint32_t)input->rank, input->dims, strides);
    layout->type = input->type;
}

bool layout_has_rows(const tensor_layout *input, int64_t *out_stride)
{
    int last = input->rank - 1;
    int64_t stride = 0, rows = 1;

    INLAY_CHECK(last >= 0);
    if (layout_is_blocked(input) || (input->dims[last] != 1 && input->strides[last] != 1))
        return false;
    for (int d = last; d-- > 0;) {
        if (input->dims[d] == 1)
            continue;
        if (stride == 0)
            stride = input->strides[d];
        else if (input->strides[d] != stride * rows)
            return false;
        rows *= input->dims[d];
    }
    *out_stride = stride > 0 ? stride : input->dims[last];
    return true;
}

bool layout_reshaped(const tensor_layout *input, uint32_t rank, const int64_t *dims, tensor_layout *out)
{
    int64_t strides[TENSOR_MAX_RANK];
    uint32_t to = 0;
    int from = 0;

    INLAY_CHECK(rank <= TENSOR_MAX_RANK);
    if (layout_count(input) == 0 || layout_is_blocked(input))
        return false;
    /* Splits both lists of axes into groups with equal numbers of elements. Within a group of the input, axes must be
     * contiguous. */
    while (to < rank || from < input->rank) {
        uint32_t first = to;
        int64_t old_count = 1, new_count = 1, stride = 0;

        for (bool more = true; more;) {
            if (old_count <= new_count && from < input->rank) {
                if (input->dims[from] != 1) {
                    int64_t next = input->strides[from];

                    if (stride != 0 && stride != next * input->dims[from])
                        return false;
                    stride = next;
                }
                old_count *= input->dims[from++];
            } else if (to < rank) {
                new_count *= dims[to++];
            } else {
                return false;
            }
            more = old_count != new_count;
        }
        while (to < rank && dims[to] == 1) /* trailing axes of size 1 belong to this group */
            to++;
        stride = stride != 0 ? stride : 1;
        for (uint32_t d = to; d-- > first; stride *= dims[d])
            strides[d] = stride;
    }
    layout_strides(out, rank, dims, strides);
    out->type = input->type;
    return true;
}

bool layout_equal(const tensor_layout *a, const tensor_layout *b)
{
    if (a->rank != b->rank || a->type != b->type || a->kind != b->kind || !same_numbers(a->dims, b->dims, a->rank) ||
        !same_numbers(a->padded_dims, b->padded_dims, a->rank))
        return false;
    if (a->kind != LAYOUT_STRIDED)
        return a->packing == b->packing;
    if (a->block_count != b->block_count || !same_numbers(a->blocks, b->blocks, a->block_count) ||
        !same_numbers(a->block_axes, b->block_axes, a->block_count))
        return false;
    for (int d = 0; d < a->rank; d++)
        if (a->strides[d] != b->strides[d] && blocks_along(a, d) != 1)
            return false;
    return true;
}

bool layout_is_plain(const tensor_layout *layout)
{
    int64_t expect = 1;

    if (layout->kind != LAYOUT_STRIDED || layout->block_count > 0)
        return false;
    for (int d = layout->rank; d-- > 0; expect *= layout->dims[d])
        if (layout->dims[d] != 1 && layout->strides[d] != expect)
            return false;
    return true;
}

bool layout_is_image(const tensor_layout *layout)
{
    int64_t expect = layout->rank >= 3 ? layout->dims[1] : 0;

    if (layout->rank < 3 || layout->kind != LAYOUT_STRIDED || layout->block_count > 0 || !layout_is_dense(layout) ||
        layout->strides[1] != 1)
        return false;
    for (int d = layout->rank; d-- > 2; expect *= layout->dims[d])
        if (layout->dims[d] != 1 && layout->strides[d] != expect)
            return false;
    return layout->dims[0] == 1 || layout->strides[0] == expect;
}

bool tiles_accept_layout(const tensor_layout *layout)
{
    const int64_t *strides = layout->strides;
    const int last = layout->rank - 1;
    int64_t step;

    if (layout->kind != LAYOUT_STRIDED || layout_is_blocked(layout))
        return false;
    INLAY_CHECK(last >= 0);
    if (layout->dims[1] > 1 && strides[1] != 1)
        return false;
    step = strides[last] * layout->dims[last];
    for (int d = last - 1; d >= 2; step *= layout->dims[d--])
        if (layout->dims[d] > 1 && strides[d] != step)
            return false;
    return strides[last] >= layout->dims[1] && (layout->dims[0] == 1 || strides[0] == step);
}

int64_t tiles_pixel_step(const tensor_layout *layout)
{
    return layout->strides[layout->rank - 1];
}
