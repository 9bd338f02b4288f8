/* Copies elements from one memory layout to another by plain loops. */
#include "cpu/layout/moves.h"
#include "inlay/check.h"
#include "simd/move_set.h"
#include <stdlib.h>
#include <string.h>

/* The offset of index i of axis d, in elements. Offsets of axes can be added, because the blocks of an axis do not
 * depend on other axes. */
static int64_t axis_offset(const tensor_layout *layout, int d, int64_t i)
{
    int64_t offset = 0, step = 1;

    INLAY_CHECK(d < layout->rank && i < layout->padded_dims[d]);
    for (int k = layout->block_count; k-- > 0; step *= layout->blocks[k]) {
        if (layout->block_axes[k] != d)
            continue;
        offset += i % layout->blocks[k] * step;
        i /= layout->blocks[k];
    }
    return offset + i * layout->strides[d];
}

static bool is_simple(const tensor_layout *layout)
{
    return layout->kind == LAYOUT_STRIDED && layout->rank > 0 && cpu_type_bytes(layout->type) == sizeof(uint32_t);
}

/* Offsets of the elements along each axis, in elements: [dims[d]] each. */
struct offsets {
    const int64_t *in[TENSOR_MAX_RANK], *out[TENSOR_MAX_RANK];
};

/* The axis of more than one element with the smallest stride; -1: none. */
static int nearest_axis(int rank, const int64_t *dims, const int64_t *const *table)
{
    int nearest = -1;

    for (int d = 0; d < rank; d++)
        if (dims[d] > 1 && (nearest < 0 || table[d][1] - table[d][0] < table[nearest][1] - table[nearest][0]))
            nearest = d;
    return nearest;
}

/* Along an axis, runs of `length` elements have stride `in` in the source and `out` in the target. */
typedef struct even_run {
    int64_t length, in, out;
} even_run;

static even_run run_along(const struct offsets *offsets, int axis, int64_t count)
{
    const int64_t *in = axis < 0 ? NULL : offsets->in[axis], *out = axis < 0 ? NULL : offsets->out[axis];
    even_run run = { count, 1, 1 };

    if (axis < 0 || count < 2)
        return run;
    run.in = in[1] - in[0];
    run.out = out[1] - out[0];
    for (int64_t x = 1; x < count && run.length > 1; x++) {
        const bool even = in[x] - in[x - 1] == run.in && out[x] - out[x - 1] == run.out;

        if (x % run.length != 0 && !even)
            run.length = run.length == count ? x : 1; /* the first gap determines the length of runs */
    }
    return run;
}

/* The innermost axes of the target (inner) and of the source (outer); negative: none. */
struct plane {
    int outer, inner;
    int64_t outer_count, inner_count;
    even_run outer_run, inner_run;
    const move_set *moves;
};

enum { WORD = sizeof(uint32_t), LEAST_RUN = 4 };

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Copies rows that are contiguous in both layouts. */
static void copy_rows(const struct offsets *offsets, const struct plane *plane, const char *source, char *target)
{
    for (int64_t y = 0; y < plane->outer_count; y++) {
        const char *read = source + (plane->outer < 0 ? 0 : offsets->in[plane->outer][y]) * WORD;
        char *write = target + (plane->outer < 0 ? 0 : offsets->out[plane->outer][y]) * WORD;

        for (int64_t x = 0; x < plane->inner_count; x += plane->inner_run.length)
            memcpy(write + offsets->out[plane->inner][x] * WORD, read + offsets->in[plane->inner][x] * WORD,
                   (size_t)min64(plane->inner_run.length, plane->inner_count - x) * WORD);
    }
}

/* Copies rows of the source to columns of the target. */
static void transpose_rows(const struct offsets *offsets, const struct plane *plane, const char *source, char *target)
{
    for (int64_t y = 0; y < plane->outer_count; y += plane->outer_run.length)
        for (int64_t x = 0; x < plane->inner_count; x += plane->inner_run.length)
            plane->moves->turn[2](
                &(move_turns){ .x = source + (offsets->in[plane->outer][y] + offsets->in[plane->inner][x]) * WORD,
                               .y = target + (offsets->out[plane->outer][y] + offsets->out[plane->inner][x]) * WORD,
                               .x_row = plane->inner_run.in * WORD,
                               .y_row = plane->outer_run.out * WORD,
                               .rows = min64(plane->inner_run.length, plane->inner_count - x),
                               .columns = min64(plane->outer_run.length, plane->outer_count - y),
                               .count = 1 });
}

/* Copies single elements by tiles, so that a cache line is used completely while it is in the first-level cache. */
static void copy_elements(const struct offsets *offsets, const struct plane *plane, const char *source, char *target)
{
    enum { TILE = 16 };

    for (int64_t i = 0; i < plane->outer_count; i += TILE)
        for (int64_t k = 0; k < plane->inner_count; k += 2 * TILE)
            for (int64_t y = i; y < min64(i + TILE, plane->outer_count); y++) {
                const char *read = source + (plane->outer < 0 ? 0 : offsets->in[plane->outer][y]) * WORD;
                char *write = target + (plane->outer < 0 ? 0 : offsets->out[plane->outer][y]) * WORD;

                for (int64_t x = k; x < min64(k + 2 * TILE, plane->inner_count); x++) /* the source may be unaligned */
                    memcpy(write + (plane->inner < 0 ? 0 : offsets->out[plane->inner][x]) * WORD,
                           read + (plane->inner < 0 ? 0 : offsets->in[plane->inner][x]) * WORD, WORD);
            }
}

static void copy_plane(const struct offsets *offsets, const struct plane *plane, const char *source, char *target)
{
    const bool several = plane->inner >= 0 && plane->inner_run.length >= LEAST_RUN && plane->inner_run.out == 1;

    if (several && plane->inner_run.in == 1)
        copy_rows(offsets, plane, source, target);
    else if (several && plane->outer >= 0 && plane->outer_run.length >= LEAST_RUN && plane->outer_run.in == 1)
        transpose_rows(offsets, plane, source, target);
    else
        copy_elements(offsets, plane, source, target);
}

bool layout_copy_part(const tensor_layout *from, const void *source, const tensor_layout *to, void *target,
                      const int64_t *dims, const int64_t *first)
{
    const int rank = from->rank;
    int64_t at[TENSOR_MAX_RANK] = { 0 }, total = 0, *tables, *next;
    int outer, inner;
    bool done = false;
    struct offsets offsets;
    struct plane plane;

    if (!is_simple(from) || !is_simple(to) || from->type != to->type || rank != to->rank ||
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
        offsets.in[d] = next;
        offsets.out[d] = next + dims[d];
        for (int64_t i = 0; i < dims[d]; i++, next++) {
            next[0] = axis_offset(from, d, first[d] + i);
            next[dims[d]] = axis_offset(to, d, first[d] + i);
        }
        next += dims[d];
    }
    INLAY_CHECK(next == tables + 2 * total);
    inner = nearest_axis(rank, dims, offsets.out);
    outer = nearest_axis(rank, dims, offsets.in);
    if (outer == inner) /* both layouts have the same innermost axis: choose another one */
        for (outer = rank - 1; outer >= 0 && (outer == inner || dims[outer] == 1);)
            outer--;
    plane = (struct plane){ outer, inner,         outer < 0 ? 1 : dims[outer], inner < 0 ? 1 : dims[inner], { 0 },
                            { 0 }, moves_of_cpu() };
    plane.outer_run = run_along(&offsets, outer, plane.outer_count);
    plane.inner_run = run_along(&offsets, inner, plane.inner_count);
    while (!done) {
        const char *read = source;
        char *write = target;

        for (int d = 0; d < rank; d++) {
            if (d == inner || d == outer)
                continue;
            read += offsets.in[d][at[d]] * WORD;
            write += offsets.out[d][at[d]] * WORD;
        }
        copy_plane(&offsets, &plane, read, write);
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

bool layout_copy(const tensor_layout *from, const void *source, const tensor_layout *to, void *target)
{
    enum { MOST = 1 << 18 };
    static const tensor_dims zero;
    const int64_t count = layout_count(from);

    if (count <= 0 || count > MOST || !is_simple(from) || !is_simple(to) || from->rank != to->rank)
        return false;
    memset(target, 0, layout_bytes(to)); /* padding of blocks */
    return layout_copy_part(from, source, to, target, from->dims, zero);
}
