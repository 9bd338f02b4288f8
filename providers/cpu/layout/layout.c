/* Memory layouts. */
#include "layout/moves.h"
#include "region/build.h"
#include "simd/move_set.h"
#include <stdlib.h>

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
    int64_t strides[DN_MAX_NDIMS], one = 1;

    if (rank == 0) { /* a scalar is a vector of one */
        rank = 1;
        dims = &one;
    }
    axis_tags(rank, dims, strides);
    rg_md_strides(md, rank, dims, strides);
}

/* Layouts without blocks are written here, not by the library, which small models do without (late.c); and it refuses
 * axes that seem to overlap, as those of a part whose last step ends past the whole. */
static void start_md(rg_md *md, rg_layout kind, uint32_t rank, const int64_t *dims)
{
    memset(md, 0, sizeof *md);
    if (rank > DN_MAX_NDIMS)
        return;
    for (uint32_t d = 0; d < rank; d++)
        if (dims[d] < 0)
            return;
    md->ndims = (int)rank;
    md->data_type = DN_F32;
    md->kind = kind;
    memcpy(md->dims, dims, rank * sizeof *dims);
    memcpy(md->padded_dims, dims, rank * sizeof *dims);
}

void rg_md_any(rg_md *md, uint32_t rank, const int64_t *dims)
{
    start_md(md, RG_ANY, rank, dims);
}

void rg_md_strides(rg_md *md, uint32_t rank, const int64_t *dims, const int64_t *strides)
{
    start_md(md, RG_BLOCKED, rank, dims);
    if (md->ndims > 0)
        memcpy(md->strides, strides, rank * sizeof *strides);
}

bool rg_md_blocks(rg_md *md, uint32_t rank, const int64_t *dims, const char *tag)
{
    rg_md *b = md;
    int64_t blocks[DN_MAX_NDIMS], stride = 1;
    const char *inner;

    start_md(md, RG_BLOCKED, rank, dims);
    if (md->ndims == 0 || strspn(tag, "abcdefABCDEF") != rank)
        return false;
    for (uint32_t d = 0; d < rank; d++)
        blocks[d] = 1;
    for (inner = tag + rank; *inner != '\0' && b->inner_nblks < RG_MAX_BLOCKS; inner++, b->inner_nblks++) {
        char *axis;
        int64_t block = strtol(inner, &axis, 10);

        b->inner_blks[b->inner_nblks] = block;
        b->inner_idxs[b->inner_nblks] = *axis - 'a';
        blocks[*axis - 'a'] *= block;
        stride *= block;
        inner = axis;
    }
    for (uint32_t i = rank; i-- > 0;) {
        uint32_t d = (uint32_t)((tag[i] | 0x20) - 'a');

        md->padded_dims[d] = (dims[d] + blocks[d] - 1) / blocks[d] * blocks[d];
        b->strides[d] = stride;
        stride *= md->padded_dims[d] > 0 ? md->padded_dims[d] / blocks[d] : 1;
    }
    return true;
}

static bool same_numbers(const int64_t *a, const int64_t *b, int count)
{
    return memcmp(a, b, (size_t)count * sizeof *a) == 0;
}

/* Where index i of axis d lies, in elements: axes add up, for blocks of one do not depend on another. */
static int64_t axis_offset(const rg_md *md, int d, int64_t i)
{
    const rg_md *b = md;
    int64_t offset = 0, step = 1;

    for (int k = b->inner_nblks; k-- > 0; step *= b->inner_blks[k]) {
        if (b->inner_idxs[k] != d)
            continue;
        offset += i % b->inner_blks[k] * step;
        i /= b->inner_blks[k];
    }
    return offset + i * b->strides[d];
}

static bool is_simple(const rg_md *md)
{
    return md->kind == RG_BLOCKED && md->ndims > 0 && rg_type_bytes(md->data_type) == sizeof(uint32_t);
}

/* Offsets of the elements along each axis, in elements: [dims[d]] each. */
typedef struct offsets {
    const int64_t *in[DN_MAX_NDIMS], *out[DN_MAX_NDIMS];
} offsets;

/* The axis of more than one element whose neighbours are nearest; -1: there is none. */
static int nearest_axis(int rank, const int64_t *dims, const int64_t *const *table)
{
    int nearest = -1;

    for (int d = 0; d < rank; d++)
        if (dims[d] > 1 && (nearest < 0 || table[d][1] - table[d][0] < table[nearest][1] - table[nearest][0]))
            nearest = d;
    return nearest;
}

/* Along an axis, `length` neighbours are `in` elements apart in the source and `out` in the target. */
typedef struct even_run {
    int64_t length, in, out;
} even_run;

static even_run run_along(const offsets *o, int axis, int64_t count)
{
    const int64_t *in = axis < 0 ? NULL : o->in[axis], *out = axis < 0 ? NULL : o->out[axis];
    even_run r = { count, 1, 1 };

    if (axis < 0 || count < 2)
        return r;
    r.in = in[1] - in[0];
    r.out = out[1] - out[0];
    for (int64_t x = 1; x < count && r.length > 1; x++) {
        const bool even = in[x] - in[x - 1] == r.in && out[x] - out[x - 1] == r.out;

        if (x % r.length != 0 && !even)
            r.length = r.length == count ? x : 1; /* the first gap says how long runs are */
    }
    return r;
}

/* The two axes that are innermost in the source and in the target; inner < 0: there is but one, or none. */
typedef struct plane {
    int outer, inner;
    int64_t outer_count, inner_count;
    even_run outer_run, inner_run;
    const move_set *moves;
} plane;

enum { WORD = sizeof(uint32_t), LEAST_RUN = 4 };

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Rows that lie alike in both. */
static void copy_rows(const offsets *o, const plane *p, const char *source, char *target)
{
    for (int64_t y = 0; y < p->outer_count; y++) {
        const char *read = source + (p->outer < 0 ? 0 : o->in[p->outer][y]) * WORD;
        char *write = target + (p->outer < 0 ? 0 : o->out[p->outer][y]) * WORD;

        for (int64_t x = 0; x < p->inner_count; x += p->inner_run.length)
            memcpy(write + o->out[p->inner][x] * WORD, read + o->in[p->inner][x] * WORD,
                   (size_t)least(p->inner_run.length, p->inner_count - x) * WORD);
    }
}

/* Rows of the source that are columns of the target. */
static void turn_rows(const offsets *o, const plane *p, const char *source, char *target)
{
    for (int64_t y = 0; y < p->outer_count; y += p->outer_run.length)
        for (int64_t x = 0; x < p->inner_count; x += p->inner_run.length)
            p->moves->turn_elements[2](
                source + (o->in[p->outer][y] + o->in[p->inner][x]) * WORD, p->inner_run.in * WORD,
                target + (o->out[p->outer][y] + o->out[p->inner][x]) * WORD, p->outer_run.out * WORD,
                least(p->inner_run.length, p->inner_count - x), least(p->outer_run.length, p->outer_count - y));
}

/* Any others, by tiles, so that what is read of a line is used while it is in the nearest cache. */
static void copy_elements(const offsets *o, const plane *p, const char *source, char *target)
{
    enum { TILE = 16 };

    for (int64_t i = 0; i < p->outer_count; i += TILE)
        for (int64_t k = 0; k < p->inner_count; k += 2 * TILE)
            for (int64_t y = i; y < least(i + TILE, p->outer_count); y++) {
                const char *read = source + (p->outer < 0 ? 0 : o->in[p->outer][y]) * WORD;
                char *write = target + (p->outer < 0 ? 0 : o->out[p->outer][y]) * WORD;

                for (int64_t x = k; x < least(k + 2 * TILE, p->inner_count); x++) /* files promise no alignment */
                    memcpy(write + (p->inner < 0 ? 0 : o->out[p->inner][x]) * WORD,
                           read + (p->inner < 0 ? 0 : o->in[p->inner][x]) * WORD, WORD);
            }
}

static void copy_plane(const offsets *o, const plane *p, const char *source, char *target)
{
    const bool several = p->inner >= 0 && p->inner_run.length >= LEAST_RUN && p->inner_run.out == 1;

    if (several && p->inner_run.in == 1)
        copy_rows(o, p, source, target);
    else if (several && p->outer >= 0 && p->outer_run.length >= LEAST_RUN && p->outer_run.in == 1)
        turn_rows(o, p, source, target);
    else
        copy_elements(o, p, source, target);
}

bool rg_md_copy_part(const rg_md *from, const void *source, const rg_md *to, void *target, const int64_t *dims,
                     const int64_t *first)
{
    const int rank = from->ndims;
    int64_t at[DN_MAX_NDIMS] = { 0 }, total = 0, *tables, *next;
    int outer, inner;
    bool done = false;
    offsets o;
    plane p;

    if (!is_simple(from) || !is_simple(to) || from->data_type != to->data_type || rank != to->ndims ||
        !same_numbers(from->dims, to->dims, rank))
        return false;
    for (int d = 0; d < rank; d++) {
        if (dims[d] < 1)
            return true;
        total += dims[d];
    }
    tables = next = malloc(2 * (size_t)total * sizeof *tables);
    if (tables == NULL)
        return false;
    for (int d = 0; d < rank; d++) {
        o.in[d] = next;
        o.out[d] = next + dims[d];
        for (int64_t i = 0; i < dims[d]; i++, next++) {
            next[0] = axis_offset(from, d, first[d] + i);
            next[dims[d]] = axis_offset(to, d, first[d] + i);
        }
        next += dims[d];
    }
    inner = nearest_axis(rank, dims, o.out);
    outer = nearest_axis(rank, dims, o.in);
    if (outer == inner) /* the same in both: any other will do */
        for (outer = rank - 1; outer >= 0 && (outer == inner || dims[outer] == 1);)
            outer--;
    p = (plane){ outer, inner, outer < 0 ? 1 : dims[outer], inner < 0 ? 1 : dims[inner], { 0 }, { 0 }, moves_of_cpu() };
    p.outer_run = run_along(&o, outer, p.outer_count);
    p.inner_run = run_along(&o, inner, p.inner_count);
    while (!done) {
        const char *read = source;
        char *write = target;

        for (int d = 0; d < rank; d++) {
            if (d == inner || d == outer)
                continue;
            read += o.in[d][at[d]] * WORD;
            write += o.out[d][at[d]] * WORD;
        }
        copy_plane(&o, &p, read, write);
        done = true;
        for (int d = rank; d-- > 0 && done;) {
            if (d == inner || d == outer)
                continue;
            done = ++at[d] == dims[d];
            at[d] = done ? 0 : at[d];
        }
    }
    free(tables);
    return true;
}

bool rg_md_copy(const rg_md *from, const void *source, const rg_md *to, void *target)
{
    enum { MOST = 1 << 18 };
    static const dn_dims zero;
    const int64_t count = rg_md_count(from);

    if (count <= 0 || count > MOST || !is_simple(from) || !is_simple(to) || from->ndims != to->ndims)
        return false;
    memset(target, 0, rg_md_bytes(to)); /* what pads blocks */
    return rg_md_copy_part(from, source, to, target, from->dims, zero);
}

size_t rg_type_bytes(dn_type type)
{
    switch (type) {
    case DN_F32:
    case DN_S32:
        return 4;
    case DN_F16:
    case DN_BF16:
        return 2;
    case DN_S8:
    case DN_U8:
        return 1;
    default:
        return 0;
    }
}

void rg_md_channels_last(rg_md *md, uint32_t rank, const int64_t *dims)
{
    dn_dims strides;
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
    const rg_md *b = md;
    uint64_t most = 1, block_total = 1;

    if (md->kind != RG_BLOCKED)
        return md->opaque_bytes;
    if (md->ndims == 0 || rg_md_count(md) == 0)
        return 0;
    for (int i = 0; i < b->inner_nblks; i++)
        block_total *= (uint64_t)b->inner_blks[i];
    /* The axis that reaches farthest; its last element ends there. */
    for (int d = 0; d < md->ndims; d++) {
        int64_t blocks = md->padded_dims[d];

        for (int i = 0; i < b->inner_nblks; i++)
            if (b->inner_idxs[i] == d)
                blocks /= b->inner_blks[i];
        if (blocks > 1 && (uint64_t)blocks * (uint64_t)b->strides[d] > most)
            most = (uint64_t)blocks * (uint64_t)b->strides[d];
    }
    return (most == 1 ? block_total : most) * rg_type_bytes(md->data_type);
}

bool rg_md_is_blocked(const rg_md *md)
{
    return md->kind == RG_BLOCKED && md->inner_nblks > 0;
}

bool rg_md_is_dense(const rg_md *md)
{
    return md->kind == RG_BLOCKED && rg_md_bytes(md) == (uint64_t)rg_md_count(md) * rg_type_bytes(md->data_type);
}

void rg_md_packed(rg_md *md, const rg_md *x)
{
    const int64_t *by = x->strides;
    int64_t strides[DN_MAX_NDIMS], stride = 1;
    bool done[DN_MAX_NDIMS] = { false };

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
    const int64_t *by = x->strides;
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
    int64_t strides[DN_MAX_NDIMS];
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
                    int64_t by = x->strides[from];

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
    rg_md *b = md;

    for (int d = 0; d < md->ndims; d++) {
        int64_t block = 1;

        for (int i = 0; i < b->inner_nblks; i++)
            block *= b->inner_idxs[i] == d ? b->inner_blks[i] : 1;
        if (md->padded_dims[d] == block)
            b->strides[d] = 0;
    }
}

bool rg_md_equal(const rg_md *a, const rg_md *b)
{
    const rg_md *p = a, *q = b;
    rg_md x, y;

    if (a->ndims != b->ndims || a->data_type != b->data_type || a->kind != b->kind ||
        !same_numbers(a->dims, b->dims, a->ndims) || !same_numbers(a->padded_dims, b->padded_dims, a->ndims))
        return false;
    if (a->kind != RG_BLOCKED)
        return a->opaque == b->opaque;
    if (p->inner_nblks != q->inner_nblks || !same_numbers(p->inner_blks, q->inner_blks, p->inner_nblks) ||
        !same_numbers(p->inner_idxs, q->inner_idxs, p->inner_nblks))
        return false;
    if (same_numbers(p->strides, q->strides, a->ndims))
        return true;
    x = *a;
    y = *b;
    drop_idle_strides(&x);
    drop_idle_strides(&y);
    return same_numbers(x.strides, y.strides, a->ndims);
}

bool rg_md_permuted(const rg_md *x, const int *to, rg_md *out)
{
    *out = *x;
    for (int d = 0; d < x->ndims; d++) {
        out->dims[to[d]] = x->dims[d];
        out->padded_dims[to[d]] = x->padded_dims[d];
        out->strides[to[d]] = x->strides[d];
    }
    for (int i = 0; i < x->inner_nblks; i++)
        out->inner_idxs[i] = to[x->inner_idxs[i]];
    return dn_knows(out);
}

bool rg_md_is_plain(const rg_md *md)
{
    const rg_md *b = md;
    int64_t expect = 1;
    int blocked_axis = -1;
    int64_t block = 1;

    if (md->kind != RG_BLOCKED)
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
    const rg_md *b = md;
    int64_t expect = md->ndims >= 3 ? md->dims[1] : 0;

    if (rg_md_is_blocked(md))
        return true;
    if (md->ndims < 3 || md->kind != RG_BLOCKED || !rg_md_is_dense(md) || b->strides[1] != 1)
        return false;
    for (int d = md->ndims; d-- > 2; expect *= md->dims[d])
        if (md->dims[d] != 1 && b->strides[d] != expect)
            return false;
    return md->dims[0] == 1 || b->strides[0] == expect;
}

bool rg_md_same_blocks(const rg_md *x, uint32_t rank, const int64_t *dims, rg_md *out)
{
    static const char *const tags[3][2] = { { "aBc16b", "aBc8b" }, { "aBcd16b", "aBcd8b" }, { "aBcde16b", "aBcde8b" } };
    const rg_md *blocks = x;

    if (!rg_md_is_blocked(x) || rank < 3 || rank > 5 || blocks->inner_nblks != 1 || blocks->inner_idxs[0] != 1 ||
        (blocks->inner_blks[0] != 16 && blocks->inner_blks[0] != 8))
        return false;
    return rg_md_blocks(out, rank, dims, tags[rank - 3][blocks->inner_blks[0] == 8]);
}
