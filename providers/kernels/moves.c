/* Moves, see move_set.h: squares of VEC_LANES words are turned in registers. */
#include "move_set.h"
#include "vec.h"

/* y[pixels][3] from three rows. */
static void interleave(const float *x, int64_t step, int64_t pixels, float *y)
{
    int64_t w = 0;

    for (; w + VEC_LANES <= pixels; w += VEC_LANES)
        vec_interleave_3(y + 3 * w, vec_load(x + w), vec_load(x + step + w), vec_load(x + 2 * step + w));
    for (; w < pixels; w++)
        for (int64_t c = 0; c < 3; c++)
            y[3 * w + c] = x[c * step + w];
}

static void move_rows(const float *x, int64_t x_row, float *y, int64_t y_row, int64_t rows, int64_t columns)
{
    const int64_t whole = columns / VEC_LANES * VEC_LANES;
    const vmask tail = vec_first(columns - whole);

    for (int64_t r = 0; r < rows; r++, x += x_row, y += y_row) {
        for (int64_t c = 0; c < whole; c += VEC_LANES)
            vec_store(y + c, vec_load(x + c));
        if (whole < columns)
            vec_store_some(y + whole, tail, vec_load_some(tail, x + whole));
    }
}

VEC_INLINE void turn_block(const float *x, int64_t x_row, float *y, int64_t y_row, int64_t rows, int64_t columns,
                           bool full)
{
    const vmask in = vec_first(columns), out = vec_first(rows);
    vec v[VEC_LANES];

    for (int r = 0; r < VEC_LANES; r++)
        v[r] = full ? vec_load(x + r * x_row) : r < rows ? vec_load_some(in, x + r * x_row) : vec_zero();
    vec_transpose(v);
    for (int c = 0; c < VEC_LANES; c++)
        if (full)
            vec_store(y + c * y_row, v[c]);
        else if (c < columns)
            vec_store_some(y + c * y_row, out, v[c]);
}

/* Few rows whose columns follow each other without gaps, as pixels of few channels do: whole vectors are stored, and
 * what is too much is written over by the next. Returns how many columns were done; the last may not run over. */
static int64_t turn_few(const float *x, int64_t x_row, float *y, int64_t rows, int64_t columns)
{
    int64_t c = 0;

    for (; (columns - c - VEC_LANES + 1) * rows >= VEC_LANES; c += VEC_LANES) {
        vec v[VEC_LANES];

        for (int r = 0; r < VEC_LANES; r++)
            v[r] = r < rows ? vec_load(x + r * x_row + c) : vec_zero();
        vec_transpose(v);
        for (int i = 0; i < VEC_LANES; i++)
            vec_store(y + (c + i) * rows, v[i]);
    }
    return c;
}

static void move_turn(const float *x, int64_t x_row, float *y, int64_t y_row, int64_t rows, int64_t columns)
{
    int64_t first = 0;

    if (rows == 3 && y_row == 3) {
        interleave(x, x_row, columns, y);
        return;
    }
    if (rows < VEC_LANES && y_row == rows)
        first = turn_few(x, x_row, y, rows, columns);
    for (int64_t c = first; c < columns; c += VEC_LANES) {
        for (int64_t r = 0; r < rows; r += VEC_LANES) {
            const float *from = x + r * x_row + c;
            float *to = y + c * y_row + r;

            if (rows - r >= VEC_LANES && columns - c >= VEC_LANES)
                turn_block(from, x_row, to, y_row, VEC_LANES, VEC_LANES, true);
            else
                turn_block(from, x_row, to, y_row, rows - r < VEC_LANES ? rows - r : VEC_LANES,
                           columns - c < VEC_LANES ? columns - c : VEC_LANES, false);
        }
    }
}

const move_set KERNEL(moves) = { move_rows, move_turn };
