/* Tiles of columns, see axis.h. */
#include "simd/axis.h"
#include "inlay/check.h"
#include "simd/move_set.h"
#include <stdalign.h>

enum {
    ROOM = 32768,    /* bytes of the buffer for transposed elements, ... */
    RESULTS = 16384, /* ... and of that for results of folds */
    WORD = 4,
    LINE = 64,   /* bytes of a line of the cache */
    SQUARE = 16, /* columns that are transposed at once: a vector */
    FULL = 128   /* columns whose last vector, which is not full, does not matter */
};

/* In a group, rows of a cache line or more are moved as they are; others are transposed, so that columns are in another
 * order. */
static bool is_whole(const axis_cut *cut)
{
    return cut->inner * cut->in_bytes >= LINE && cut->in_bytes >= WORD;
}

axis_cut axis_cut_of(int64_t outer, int64_t n, int64_t inner, int64_t in_bytes, int64_t out_bytes, bool folds,
                     int64_t width, int64_t rows_from)
{
    axis_cut cut = { outer, n, inner, 0, width, 0, in_bytes, out_bytes, folds };
    int64_t least;
    bool thin;

    INLAY_CHECK(outer > 0 && n > 0 && inner > 0 && width > 0);
    if (n == 1) {
        cut.inner *= cut.outer;
        cut.outer = 1;
    }
    thin = cut.inner == 1 ? n < rows_from : cut.inner < FULL / 2 && cut.inner % SQUARE != 0;
    least = is_whole(&cut) ? (FULL + cut.inner - 1) / cut.inner : SQUARE;
    if (thin && n <= ROOM / (least * cut.inner * in_bytes)) {
        const int64_t block = n * cut.inner * in_bytes, results = folds ? RESULTS / (cut.inner * out_bytes) : ROOM;

        cut.group = ROOM / 2 / block < results ? ROOM / 2 / block : results;
        cut.group = cut.group > least ? cut.group / least * least : least;
    }
    if (cut.group > 0)
        cut.units = (cut.outer + cut.group - 1) / cut.group;
    else
        cut.units = cut.outer * ((cut.inner + width - 1) / width);
    return cut;
}

/* Transposes a matrix of elements of `bytes` bytes; rows are x_row and y_row bytes apart. */
static void turn(int64_t bytes, const char *x, int64_t x_row, char *y, int64_t y_row, int64_t rows, int64_t columns)
{
    KERNEL_BEST(moves)->turn[__builtin_ctz((uint32_t)bytes)](&(move_turns){
        .x = x, .y = y, .x_row = x_row, .y_row = y_row, .rows = rows, .columns = columns, .count = 1 });
}

/* From [count][n][inner] to [n][count][inner], in words; back: from the latter to the former. */
static void move_pieces(const float *input, float *output, int64_t count, int64_t n, int64_t inner, bool back)
{
    const int64_t block = n * inner, row = count * inner;

    for (int64_t i = 0; i < n; i++)
        KERNEL_BEST(moves)->rows(input + i * (back ? row : inner), back ? inner : block,
                                 output + i * (back ? inner : row), back ? block : inner, count, inner);
}

/* Processes the outer indices of one unit, whose first elements are those of input and output. */
static void run_group(const axis_cut *cut, const char *input, char *output, axis_fn fn, const void *ctx)
{
    const int64_t count = cut->outer, block = cut->n * cut->inner, used = cut->inner * count;
    const int64_t in_row = block * cut->in_bytes, out_row = (cut->folds ? cut->inner : block) * cut->out_bytes;
    /* a part of a vector takes more time than a whole one */
    const int64_t vector = cut->in_bytes > WORD ? SQUARE / 2 : SQUARE;
    const int64_t columns = cut->inner == 1 ? (used + vector - 1) / vector * vector : used;
    alignas(64) char elements[ROOM], results[RESULTS];
    const bool whole = is_whole(cut), pads = columns > used;
    char *made = !cut->folds ? elements : (cut->inner == 1 && !pads) || whole ? output : results;

    if (count == 1) {
        fn(ctx, input, output, &(axis_tile){ cut->n, used, used, used, used });
        return;
    }
    INLAY_CHECK(columns * cut->n * cut->in_bytes <= ROOM && (made != results || columns * cut->out_bytes <= RESULTS));
    if (pads)
        memset(elements, 0, (size_t)(cut->n * columns * cut->in_bytes));
    if (whole)
        move_pieces((const float *)(const void *)input, (float *)(void *)elements, count, cut->n,
                    cut->inner * cut->in_bytes / WORD, false);
    else
        turn(cut->in_bytes, input, in_row, elements, columns / cut->inner * cut->in_bytes, count, block);
    for (int64_t at = 0; at < columns; at += cut->width) {
        const int64_t width = columns - at < cut->width ? columns - at : cut->width;
        const axis_tile tile = { cut->n, columns, width, width, width };

        fn(ctx, elements + at * cut->in_bytes, made + at * cut->out_bytes, &tile);
    }
    if (whole && !cut->folds)
        move_pieces((const float *)(const void *)elements, (float *)(void *)output, count, cut->n,
                    cut->inner * cut->in_bytes / WORD, true);
    else if (made == results && cut->inner == 1)
        memcpy(output, results, (size_t)(used * cut->out_bytes));
    else if (made != output)
        turn(cut->out_bytes, made, columns / cut->inner * cut->out_bytes, output, out_row,
             cut->folds ? cut->inner : block, count);
}

axis_tile axis_tile_of(int64_t n, int64_t inner)
{
    axis_tile tile = { n, inner, inner, inner, inner };
    int64_t repeat = 1;

    while (repeat * inner < FULL && repeat * 4 <= n)
        repeat *= 2;
    tile.rows = (n + repeat - 1) / repeat;
    tile.stride = tile.columns = repeat * inner;
    tile.last = (n - (tile.rows - 1) * repeat) * inner;
    return tile;
}

/* The results of a fold before those of the unit whose first element is `first`. */
static int64_t results_before(const axis_cut *cut, int64_t first)
{
    const int64_t block = cut->n * cut->inner;

    return first / block * cut->inner + first % block;
}

int64_t axis_part(const axis_cut *cut, int64_t unit, axis_cut *part)
{
    const int64_t blocks = (cut->inner + cut->width - 1) / cut->width;
    const int64_t outer = cut->group > 0 ? unit * cut->group : unit / blocks;
    const int64_t column = cut->group > 0 ? 0 : unit % blocks * cut->width;

    INLAY_CHECK(unit >= 0 && unit < cut->units);
    *part = *cut;
    part->units = 1;
    if (cut->group > 0)
        part->outer = cut->outer - outer < cut->group ? cut->outer - outer : cut->group;
    else {
        part->outer = 1;
        part->inner = cut->inner - column < cut->width ? cut->inner - column : cut->width;
    }
    return outer * cut->n * cut->inner + column;
}

int64_t axis_unit_elements(const axis_cut *cut)
{
    return cut->n * (cut->group > 0 ? cut->group * cut->inner : cut->inner < cut->width ? cut->inner : cut->width);
}

void axis_run(const axis_cut *cut, int64_t begin, int64_t end, const void *input, void *output, axis_fn fn,
              const void *ctx)
{
    INLAY_CHECK(begin >= 0 && end <= cut->units);
    for (int64_t unit = begin; unit < end; unit++) {
        axis_cut part;
        const int64_t first = axis_part(cut, unit, &part);
        const char *from = (const char *)input + first * cut->in_bytes;
        char *to = (char *)output + (cut->folds ? results_before(cut, first) : first) * cut->out_bytes;

        if (cut->group > 0) {
            run_group(&part, from, to, fn, ctx);
        } else {
            axis_tile tile = { cut->n, cut->inner, part.inner, part.inner, part.inner };

            if (part.inner == cut->inner)
                tile = axis_tile_of(cut->n, cut->inner);
            fn(ctx, from, to, &tile);
        }
    }
}
