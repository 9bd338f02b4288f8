/* Memory layouts. */
#include "build.h"

static void axis_tags(uint32_t rank, const int64_t *dims, int64_t *strides)
{
    int64_t stride = 1;

    for (uint32_t d = rank; d-- > 0;) {
        strides[d] = stride;
        stride *= dims[d] > 0 ? dims[d] : 1;
    }
}

void rg_md_plain(rg_md *md, uint32_t rank, const int64_t *dims)
{
    int64_t strides[DNNL_MAX_NDIMS], one = 1;

    if (rank == 0) { /* a scalar is a vector of one */
        rank = 1;
        dims = &one;
    }
    axis_tags(rank, dims, strides);
    rg_md_strides(md, rank, dims, strides);
}

void rg_md_any(rg_md *md, uint32_t rank, const int64_t *dims)
{
    (void)dnnl_memory_desc_init_by_tag(md, (int)rank, dims, dnnl_f32, dnnl_format_tag_any);
}

void rg_md_strides(rg_md *md, uint32_t rank, const int64_t *dims, const int64_t *strides)
{
    int64_t row_major[DNNL_MAX_NDIMS];

    if (dnnl_memory_desc_init_by_strides(md, (int)rank, dims, dnnl_f32, strides) == dnnl_success)
        return;
    /* It refuses axes that seem to overlap, as those of a part whose last step ends past the whole. */
    axis_tags(rank, dims, row_major);
    if (dnnl_memory_desc_init_by_strides(md, (int)rank, dims, dnnl_f32, row_major) == dnnl_success)
        memcpy(md->format_desc.blocking.strides, strides, rank * sizeof *strides);
    else
        memset(md, 0, sizeof *md);
}

void rg_md_channels_last(rg_md *md, uint32_t rank, const int64_t *dims)
{
    dnnl_dims_t strides;
    int64_t stride = dims[1];

    for (uint32_t d = rank; d-- > 2; stride *= dims[d])
        strides[d] = stride;
    strides[1] = 1;
    strides[0] = stride;
    rg_md_strides(md, rank, dims, strides);
}

int64_t rg_md_count(const rg_md *md)
{
    int64_t count = 1;

    for (int d = 0; d < md->ndims; d++)
        count *= md->dims[d];
    return count;
}

uint64_t rg_md_bytes(const rg_md *md)
{
    return dnnl_memory_desc_get_size(md);
}

bool rg_md_is_blocked(const rg_md *md)
{
    return md->format_kind == dnnl_blocked && md->format_desc.blocking.inner_nblks > 0;
}

bool rg_md_is_dense(const rg_md *md)
{
    return md->format_kind == dnnl_blocked &&
           rg_md_bytes(md) == (uint64_t)rg_md_count(md) * dnnl_data_type_size(md->data_type);
}

void rg_md_packed(rg_md *md, const rg_md *x)
{
    const int64_t *by = x->format_desc.blocking.strides;
    int64_t strides[DNNL_MAX_NDIMS], stride = 1;
    bool done[DNNL_MAX_NDIMS] = { false };

    for (int n = 0; n < x->ndims; n++) {
        int next = -1; /* of the smallest stride; the last of equals */

        for (int d = x->ndims; d-- > 0;)
            if (!done[d] && (next < 0 || by[d] < by[next]))
                next = d;
        done[next] = true;
        strides[next] = stride;
        stride *= x->dims[next];
    }
    rg_md_strides(md, (uint32_t)x->ndims, x->dims, strides);
    md->data_type = x->data_type;
}

bool rg_md_has_rows(const rg_md *x, int64_t *out_stride)
{
    const int64_t *by = x->format_desc.blocking.strides;
    int last = x->ndims - 1;
    int64_t stride = 0, rows = 1;

    if (rg_md_is_blocked(x) || (x->dims[last] != 1 && by[last] != 1))
        return false;
    for (int d = last; d-- > 0;) {
        if (x->dims[d] == 1)
            continue;
        if (stride == 0)
            stride = by[d];
        else if (by[d] != stride * rows)
            return false;
        rows *= x->dims[d];
    }
    *out_stride = stride > 0 ? stride : x->dims[last];
    return true;
}

bool rg_md_reshaped(const rg_md *x, uint32_t rank, const int64_t *dims, rg_md *out)
{
    int64_t strides[DNNL_MAX_NDIMS];
    uint32_t to = 0;
    int from = 0;

    if (rg_md_count(x) == 0 || rg_md_is_blocked(x))
        return false;
    /* Groups of axes on both sides that have as many elements. Within one of x's, axes follow each other without
     * gaps. */
    while (to < rank || from < x->ndims) {
        uint32_t first = to;
        int64_t theirs = 1, ours = 1, stride = 0;

        for (bool more = true; more;) {
            if (theirs <= ours && from < x->ndims) {
                if (x->dims[from] != 1) {
                    int64_t by = x->format_desc.blocking.strides[from];

                    if (stride != 0 && stride != by * x->dims[from])
                        return false;
                    stride = by;
                }
                theirs *= x->dims[from++];
            } else if (to < rank) {
                ours *= dims[to++];
            } else {
                return false;
            }
            more = theirs != ours;
        }
        while (to < rank && dims[to] == 1) /* stragglers of size 1 belong to the group before them */
            to++;
        stride = stride != 0 ? stride : 1;
        for (uint32_t d = to; d-- > first; stride *= dims[d])
            strides[d] = stride;
    }
    rg_md_strides(out, rank, dims, strides);
    out->data_type = x->data_type;
    return true;
}

/* Where an axis has one element, or one block, its stride says nothing. */
static void drop_idle_strides(rg_md *md)
{
    dnnl_blocking_desc_t *b = &md->format_desc.blocking;

    for (int d = 0; d < md->ndims; d++) {
        dnnl_dim_t block = 1;

        for (int i = 0; i < b->inner_nblks; i++)
            block *= b->inner_idxs[i] == d ? b->inner_blks[i] : 1;
        if (md->padded_dims[d] == block)
            b->strides[d] = 0;
    }
}

bool rg_md_equal(const rg_md *a, const rg_md *b)
{
    rg_md x, y;

    if (dnnl_memory_desc_equal(a, b) != 0)
        return true;
    if (a->format_kind != dnnl_blocked || b->format_kind != dnnl_blocked)
        return false;
    x = *a;
    y = *b;
    drop_idle_strides(&x);
    drop_idle_strides(&y);
    return dnnl_memory_desc_equal(&x, &y) != 0;
}

bool rg_md_is_plain(const rg_md *md)
{
    const dnnl_blocking_desc_t *b = &md->format_desc.blocking;
    int64_t expect = 1;
    int blocked_axis = -1;
    int64_t block = 1;

    if (md->format_kind != dnnl_blocked || md->offset0 != 0)
        return false;
    if (b->inner_nblks > 1)
        return false;
    if (b->inner_nblks == 1) {
        blocked_axis = (int)b->inner_idxs[0];
        block = b->inner_blks[0];
        /* Everything behind the axis has one element, and the axis fills its blocks. */
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
            if (md->dims[d] > block && b->strides[d] != expect * block)
                return false;
        } else if (md->dims[d] != 1 && b->strides[d] != expect) {
            return false;
        }
        expect *= md->dims[d];
    }
    return true;
}

bool rg_md_is_image(const rg_md *md)
{
    const dnnl_blocking_desc_t *b = &md->format_desc.blocking;
    int64_t expect = md->ndims >= 3 ? md->dims[1] : 0;

    if (rg_md_is_blocked(md))
        return true;
    if (md->ndims < 3 || md->format_kind != dnnl_blocked || !rg_md_is_dense(md) || b->strides[1] != 1)
        return false;
    for (int d = md->ndims; d-- > 2; expect *= md->dims[d])
        if (md->dims[d] != 1 && b->strides[d] != expect)
            return false;
    return md->dims[0] == 1 || b->strides[0] == expect;
}

bool rg_md_same_blocks(const rg_md *x, uint32_t rank, const int64_t *dims, rg_md *out)
{
    static const dnnl_format_tag_t tags[3][2] = { { dnnl_nCw16c, dnnl_nCw8c },
                                                  { dnnl_nChw16c, dnnl_nChw8c },
                                                  { dnnl_nCdhw16c, dnnl_nCdhw8c } };
    const dnnl_blocking_desc_t *blocks = &x->format_desc.blocking;

    if (!rg_md_is_blocked(x) || rank < 3 || rank > 5 || blocks->inner_nblks != 1 || blocks->inner_idxs[0] != 1 ||
        (blocks->inner_blks[0] != 16 && blocks->inner_blks[0] != 8))
        return false;
    return dnnl_memory_desc_init_by_tag(out, (int)rank, dims, dnnl_f32, tags[rank - 3][blocks->inner_blks[0] == 8]) ==
           dnnl_success;
}
