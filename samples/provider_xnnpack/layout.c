/* Changes of layout: ONNX's NCHW, and XNNPACK's NHWC. */
#include "provider.h"

enum { TILE = 16, ROWS_PER_TASK = 512 };

struct transposition {
    const float *from;
    float *to;
    int64_t rows, columns; /* of `from`, which is [batch][rows][columns]; `to` is [batch][columns][rows] */
    int64_t tasks;         /* per matrix: each handles ROWS_PER_TASK columns */
};

typedef float quad __attribute__((vector_size(16)));

static quad load(const float *from)
{
    quad value;

    memcpy(&value, from, sizeof value);
    return value;
}

/* Transposes a block of 4 x 4 elements. */
static void transpose_block(const float *from, int64_t from_step, float *to, int64_t to_step)
{
    const quad a = load(from), b = load(from + from_step), c = load(from + 2 * from_step),
               d = load(from + 3 * from_step);
    const quad ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const quad cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    const quad columns[] = { __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5),
                             __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7),
                             __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5),
                             __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7) };

    for (int64_t i = 0; i < 4; i++)
        memcpy(to + i * to_step, &columns[i], sizeof columns[i]);
}

/* Transposes some columns of a matrix, in tiles that fit into the cache. */
static void transpose_part(const float *restrict from, float *restrict to, int64_t rows, int64_t columns, int64_t begin,
                           int64_t end)
{
    for (int64_t first = 0; first < rows; first += TILE) {
        const int64_t row_end = first + TILE < rows ? first + TILE : rows;

        for (int64_t column = begin; column < end; column += 4) {
            int64_t row = first;

            for (; column + 4 <= end && row + 4 <= row_end; row += 4)
                transpose_block(from + row * columns + column, columns, to + column * rows + row, rows);
            for (; row < row_end; row++)
                for (int64_t c = column; c < end && c < column + 4; c++)
                    to[c * rows + row] = from[row * columns + c];
        }
    }
}

static void transpose_task(void *ctx, size_t task)
{
    const struct transposition *all = ctx;
    const int64_t matrix = (int64_t)task / all->tasks, begin = (int64_t)task % all->tasks * ROWS_PER_TASK;
    const int64_t end = begin + ROWS_PER_TASK < all->columns ? begin + ROWS_PER_TASK : all->columns;
    const int64_t offset = matrix * all->rows * all->columns;

    transpose_part(all->from + offset, all->to + offset, all->rows, all->columns, begin, end);
}

static void transpose(pthreadpool_t pool, const float *from, float *to, int64_t batch, int64_t rows, int64_t columns)
{
    struct transposition all = { from, to, rows, columns, (columns + ROWS_PER_TASK - 1) / ROWS_PER_TASK };

    if (rows == 1 || columns == 1)
        memcpy(to, from, (size_t)(batch * rows * columns) * sizeof *to);
    else
        pthreadpool_parallelize_1d(pool, transpose_task, &all, (size_t)(batch * all.tasks), 0);
}

void layout_enter(pthreadpool_t pool, const struct border *border, const float *from, float *to)
{
    transpose(pool, from, to, border->batch, border->channels, border->pixels);
}

void layout_leave(pthreadpool_t pool, const struct border *border, const float *from, float *to)
{
    transpose(pool, from, to, border->batch, border->pixels, border->channels);
}

void layout_permute(const void *from, const int64_t dims[4], const int order[4], float *to)
{
    const int64_t steps[] = { dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1 };
    const char *bytes = from;

    for (int64_t a = 0; a < dims[order[0]]; a++)
        for (int64_t b = 0; b < dims[order[1]]; b++)
            for (int64_t c = 0; c < dims[order[2]]; c++)
                for (int64_t d = 0; d < dims[order[3]]; d++) {
                    const int64_t at =
                        a * steps[order[0]] + b * steps[order[1]] + c * steps[order[2]] + d * steps[order[3]];

                    memcpy(to++, bytes + (size_t)at * sizeof *to, sizeof *to);
                }
}
