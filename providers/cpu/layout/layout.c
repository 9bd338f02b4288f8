/* Memory layouts: construction, comparison, reshapes. */
#include "cpu/layout/layout.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

static void row_major_strides(uint32_t rank, const int64_t *dims, int64_t *strides)
{
    int64_t stride = 1;

    for (uint32_t d = rank; d-- > 0;) {
        strides[d] = stride;
        stride *= dims[d] > 0 ? dims[d] : 1;
    }
}

void memory_desc_plain(memory_desc *md, uint32_t rank, const int64_t *dims)
{
    int64_t strides[LIBRARY_MAX_NDIMS], one = 1;

    if (rank == 0) { /* a scalar becomes a vector of one element */
        rank = 1;
        dims = &one;
    }
    INLAY_CHECK(rank <= LIBRARY_MAX_NDIMS);
    row_major_strides(rank, dims, strides);
    memory_desc_strides(md, rank, dims, strides);
}

/* Initialises a descriptor without strides. The library is not called for layouts, because small models do not load it
 * (lazy_load.c), and because it rejects strides that seem to overlap, such as those of a slice whose last stride ends
 * past the whole tensor. A rank or dims out of range leave ndims 0. */
static void init_desc(memory_desc *md, cpu_layout kind, uint32_t rank, const int64_t *dims)
{
    memset(md, 0, sizeof *md);
    if (rank > LIBRARY_MAX_NDIMS)
        return;
    for (uint32_t d = 0; d < rank; d++)
        if (dims[d] < 0)
            return;
    md->ndims = (int)rank;
    md->data_type = LIBRARY_F32;
    md->kind = kind;
    memcpy(md->dims, dims, rank * sizeof *dims);
    memcpy(md->padded_dims, dims, rank * sizeof *dims);
}

void memory_desc_any(memory_desc *md, uint32_t rank, const int64_t *dims)
{
    init_desc(md, CPU_ANY, rank, dims);
}

void memory_desc_strides(memory_desc *md, uint32_t rank, const int64_t *dims, const int64_t *strides)
{
    init_desc(md, CPU_BLOCKED, rank, dims);
    if (md->ndims > 0)
        memcpy(md->strides, strides, rank * sizeof *strides);
}

bool memory_desc_blocks(memory_desc *md, uint32_t rank, const int64_t *dims, const char *tag)
{
    int64_t blocks[LIBRARY_MAX_NDIMS], stride = 1;
    const char *inner;

    init_desc(md, CPU_BLOCKED, rank, dims);
    if (md->ndims == 0 || strspn(tag, "abcdefABCDEF") != rank)
        return false;
    for (uint32_t d = 0; d < rank; d++)
        blocks[d] = 1;
    for (inner = tag + rank; *inner != '\0' && md->inner_nblks < CPU_MAX_BLOCKS; inner++, md->inner_nblks++) {
        char *axis;
        int64_t block = strtol(inner, &axis, 10);

        INLAY_CHECK(block > 0 && *axis >= 'a' && *axis < 'a' + (int)rank);
        md->inner_blks[md->inner_nblks] = block;
        md->inner_idxs[md->inner_nblks] = *axis - 'a';
        blocks[*axis - 'a'] *= block;
        stride *= block;
        inner = axis;
    }
    for (uint32_t i = rank; i-- > 0;) {
        uint32_t d = (uint32_t)((tag[i] | 0x20) - 'a');

        INLAY_CHECK(d < rank);
        md->padded_dims[d] = (dims[d] + blocks[d] - 1) / blocks[d] * blocks[d];
        md->strides[d] = stride;
        stride *= md->padded_dims[d] > 0 ? md->padded_dims[d] / blocks[d] : 1;
    }
    return true;
}

static bool same_numbers(const int64_t *a, const int64_t *b, int count)
{
    return memcmp(a, b, (size_t)count * sizeof *a) == 0;
}

size_t cpu_type_bytes(library_type type)
{
    switch (type) {
    case LIBRARY_F32:
    case LIBRARY_S32:
        return 4;
    case LIBRARY_F16:
    case LIBRARY_BF16:
        return 2;
    case LIBRARY_S8:
    case LIBRARY_U8:
        return 1;
    default:
        return 0;
    }
}

void memory_desc_channels_last(memory_desc *md, uint32_t rank, const int64_t *dims)
{
    library_dims strides;
    int64_t stride;

    INLAY_CHECK(rank >= 2 && rank <= LIBRARY_MAX_NDIMS);
    stride = dims[1];
    for (uint32_t d = rank; d-- > 2; stride *= dims[d])
        strides[d] = stride;
    strides[1] = 1;
    strides[0] = stride;
    memory_desc_strides(md, rank, dims, strides);
}

int64_t memory_desc_count(const memory_desc *md)
{
    int64_t count = 1;

    for (int d = 0; d < md->ndims; d++)
        count *= md->dims[d];
    return count;
}

uint64_t memory_desc_bytes(const memory_desc *md)
{
    uint64_t end = 1, block_total = 1; /* end: of the last block, in elements */

    if (md->kind != CPU_BLOCKED)
        return md->opaque_bytes;
    if (md->ndims == 0 || memory_desc_count(md) == 0)
        return 0;
    for (int i = 0; i < md->inner_nblks; i++)
        block_total *= (uint64_t)md->inner_blks[i];
    /* The axis with the largest extent ends where the tensor ends. */
    for (int d = 0; d < md->ndims; d++) {
        int64_t blocks = md->padded_dims[d];

        for (int i = 0; i < md->inner_nblks; i++)
            if (md->inner_idxs[i] == d)
                blocks /= md->inner_blks[i];
        if (blocks > 1 && (uint64_t)blocks * (uint64_t)md->strides[d] > end)
            end = (uint64_t)blocks * (uint64_t)md->strides[d];
    }
    return (end == 1 ? block_total : end) * cpu_type_bytes(md->data_type);
}

bool memory_desc_is_blocked(const memory_desc *md)
{
    return md->kind == CPU_BLOCKED && md->inner_nblks > 0;
}

bool memory_desc_is_dense(const memory_desc *md)
{
    return md->kind == CPU_BLOCKED &&
           memory_desc_bytes(md) == (uint64_t)memory_desc_count(md) * cpu_type_bytes(md->data_type);
}

void memory_desc_packed(memory_desc *md, const memory_desc *input)
{
    int64_t strides[LIBRARY_MAX_NDIMS], stride = 1;
    bool done[LIBRARY_MAX_NDIMS] = { false };

    INLAY_CHECK(!memory_desc_is_blocked(input));
    for (int n = 0; n < input->ndims; n++) {
        int next = -1; /* the axis with the smallest stride; the last one of equals */

        for (int d = input->ndims; d-- > 0;)
            if (!done[d] && (next < 0 || input->strides[d] < input->strides[next]))
                next = d;
        done[next] = true;
        strides[next] = stride;
        stride *= input->dims[next];
    }
    memory_desc_strides(md, (uint32_t)input->ndims, input->dims, strides);
    md->data_type = input->data_type;
}

bool memory_desc_has_rows(const memory_desc *input, int64_t *out_stride)
{
    int last = input->ndims - 1;
    int64_t stride = 0, rows = 1;

    INLAY_CHECK(last >= 0);
    if (memory_desc_is_blocked(input) || (input->dims[last] != 1 && input->strides[last] != 1))
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

bool memory_desc_reshaped(const memory_desc *input, uint32_t rank, const int64_t *dims, memory_desc *out)
{
    int64_t strides[LIBRARY_MAX_NDIMS];
    uint32_t to = 0;
    int from = 0;

    INLAY_CHECK(rank <= LIBRARY_MAX_NDIMS);
    if (memory_desc_count(input) == 0 || memory_desc_is_blocked(input))
        return false;
    /* Splits both lists of axes into groups with equal numbers of elements. Within a group of the input, axes must be
     * contiguous. */
    while (to < rank || from < input->ndims) {
        uint32_t first = to;
        int64_t old_count = 1, new_count = 1, stride = 0;

        for (bool more = true; more;) {
            if (old_count <= new_count && from < input->ndims) {
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
    memory_desc_strides(out, rank, dims, strides);
    out->data_type = input->data_type;
    return true;
}

/* Clears the strides of axes with one element or one block, which have no meaning. */
static void clear_unused_strides(memory_desc *md)
{
    for (int d = 0; d < md->ndims; d++) {
        int64_t block = 1;

        for (int i = 0; i < md->inner_nblks; i++)
            block *= md->inner_idxs[i] == d ? md->inner_blks[i] : 1;
        if (md->padded_dims[d] == block)
            md->strides[d] = 0;
    }
}

bool memory_desc_equal(const memory_desc *a, const memory_desc *b)
{
    memory_desc first, second;

    if (a->ndims != b->ndims || a->data_type != b->data_type || a->kind != b->kind ||
        !same_numbers(a->dims, b->dims, a->ndims) || !same_numbers(a->padded_dims, b->padded_dims, a->ndims))
        return false;
    if (a->kind != CPU_BLOCKED)
        return a->opaque == b->opaque;
    if (a->inner_nblks != b->inner_nblks || !same_numbers(a->inner_blks, b->inner_blks, a->inner_nblks) ||
        !same_numbers(a->inner_idxs, b->inner_idxs, a->inner_nblks))
        return false;
    if (same_numbers(a->strides, b->strides, a->ndims))
        return true;
    first = *a;
    second = *b;
    clear_unused_strides(&first);
    clear_unused_strides(&second);
    return same_numbers(first.strides, second.strides, a->ndims);
}

bool memory_desc_permuted(const memory_desc *input, const int *to, memory_desc *out)
{
    *out = *input;
    for (int d = 0; d < input->ndims; d++) {
        INLAY_CHECK(to[d] >= 0 && to[d] < input->ndims);
        out->dims[to[d]] = input->dims[d];
        out->padded_dims[to[d]] = input->padded_dims[d];
        out->strides[to[d]] = input->strides[d];
    }
    for (int i = 0; i < input->inner_nblks; i++)
        out->inner_idxs[i] = to[input->inner_idxs[i]];
    return library_knows(out);
}

bool memory_desc_is_plain(const memory_desc *md)
{
    int64_t expect = 1;
    int blocked_axis = -1;
    int64_t block = 1;

    if (md->kind != CPU_BLOCKED)
        return false;
    if (md->inner_nblks > 1)
        return false;
    if (md->inner_nblks == 1) {
        blocked_axis = (int)md->inner_idxs[0];
        block = md->inner_blks[0];
        INLAY_CHECK(blocked_axis >= 0 && blocked_axis < md->ndims && block > 0);
        /* Blocks are row-major only if all inner axes have one element, and the axis fills its blocks. */
        for (int d = blocked_axis + 1; d < md->ndims; d++)
            if (md->dims[d] != 1)
                return false;
        if (md->dims[blocked_axis] % block != 0 || md->padded_dims[blocked_axis] != md->dims[blocked_axis])
            return false;
    }
    for (int d = md->ndims; d-- > 0;) {
        if (md->padded_dims[d] != md->dims[d])
            return false;
        if (d == blocked_axis) {
            if (md->dims[d] > block && md->strides[d] != expect * block)
                return false;
        } else if (md->dims[d] != 1 && md->strides[d] != expect) {
            return false;
        }
        expect *= md->dims[d];
    }
    return true;
}

bool memory_desc_is_image(const memory_desc *md)
{
    int64_t expect = md->ndims >= 3 ? md->dims[1] : 0;

    if (memory_desc_is_blocked(md))
        return true;
    if (md->ndims < 3 || md->kind != CPU_BLOCKED || !memory_desc_is_dense(md) || md->strides[1] != 1)
        return false;
    for (int d = md->ndims; d-- > 2; expect *= md->dims[d])
        if (md->dims[d] != 1 && md->strides[d] != expect)
            return false;
    return md->dims[0] == 1 || md->strides[0] == expect;
}

bool memory_desc_same_blocks(const memory_desc *input, uint32_t rank, const int64_t *dims, memory_desc *out)
{
    static const char *const tags[3][2] = { { "aBc16b", "aBc8b" }, { "aBcd16b", "aBcd8b" }, { "aBcde16b", "aBcde8b" } };

    if (!memory_desc_is_blocked(input) || rank < 3 || rank > 5 || input->inner_nblks != 1 ||
        input->inner_idxs[0] != 1 || (input->inner_blks[0] != 16 && input->inner_blks[0] != 8))
        return false;
    return memory_desc_blocks(out, rank, dims, tags[rank - 3][input->inner_blks[0] == 8]);
}

bool tiles_accept_layout(const memory_desc *md)
{
    const int64_t *strides = md->strides;
    int last = md->ndims - 1;

    if (md->kind != CPU_BLOCKED || memory_desc_is_blocked(md))
        return false;
    INLAY_CHECK(last >= 0);
    if (md->dims[1] > 1 && strides[1] != 1)
        return false;
    if (md->ndims == 4 && md->dims[2] > 1 && strides[2] != strides[3] * md->dims[3])
        return false;
    return strides[last] >= md->dims[1] &&
           (md->dims[0] == 1 || strides[0] == strides[last] * md->dims[last] * (last == 3 ? md->dims[2] : 1));
}

int64_t tiles_pixel_step(const memory_desc *md)
{
    return md->strides[md->ndims - 1];
}
