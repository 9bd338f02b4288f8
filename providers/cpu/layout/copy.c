/* Copies of elements from one memory layout to another, by plain loops. */
#include "layout/moves.h"
#include "region/build.h"
#include "simd/move_set.h"
#include <stdlib.h>

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
struct offsets {
    const int64_t *in[DN_MAX_NDIMS], *out[DN_MAX_NDIMS];
};

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

static even_run run_along(const struct offsets *o, int axis, int64_t count)
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
struct plane {
    int outer, inner;
    int64_t outer_count, inner_count;
    even_run outer_run, inner_run;
    const move_set *moves;
};

enum { WORD = sizeof(uint32_t), LEAST_RUN = 4 };

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Rows that lie alike in both. */
static void copy_rows(const struct offsets *o, const struct plane *p, const char *source, char *target)
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
static void turn_rows(const struct offsets *o, const struct plane *p, const char *source, char *target)
{
    for (int64_t y = 0; y < p->outer_count; y += p->outer_run.length)
        for (int64_t x = 0; x < p->inner_count; x += p->inner_run.length)
            p->moves->turn_elements[2](
                source + (o->in[p->outer][y] + o->in[p->inner][x]) * WORD, p->inner_run.in * WORD,
                target + (o->out[p->outer][y] + o->out[p->inner][x]) * WORD, p->outer_run.out * WORD,
                least(p->inner_run.length, p->inner_count - x), least(p->outer_run.length, p->outer_count - y));
}

/* Any others, by tiles, so that what is read of a line is used while it is in the nearest cache. */
static void copy_elements(const struct offsets *o, const struct plane *p, const char *source, char *target)
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

static void copy_plane(const struct offsets *o, const struct plane *p, const char *source, char *target)
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
    struct offsets o;
    struct plane p;

    if (!is_simple(from) || !is_simple(to) || from->data_type != to->data_type || rank != to->ndims ||
        memcmp(from->dims, to->dims, (size_t)rank * sizeof *from->dims) != 0)
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
    p = (struct plane){ outer, inner,         outer < 0 ? 1 : dims[outer], inner < 0 ? 1 : dims[inner], { 0 },
                        { 0 }, moves_of_cpu() };
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
