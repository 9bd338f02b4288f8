/* Copies and transposes, see move_set.h. Squares of VEC_LANES words are transposed in registers. */
#include "simd/move_set.h"
#include "inlay/check.h"
#include "simd/vec_permute.h"
#include <stdbool.h>

/* BAND: squares of a row that are transposed before those of the next row, so that several adjacent cache lines of a
 * row are read one after another. */
enum { WORD = sizeof(float), BAND = 8 };

/* Interleaves three rows: output[pixels][3]. */
static void interleave(const float *input, int64_t step, int64_t pixels, float *output)
{
    int64_t w = 0;

    for (; w + VEC_LANES <= pixels; w += VEC_LANES)
        vec_interleave_3(output + 3 * w, vec_load(input + w), vec_load(input + step + w),
                         vec_load(input + 2 * step + w));
    for (; w < pixels; w++)
        for (int64_t c = 0; c < 3; c++)
            output[3 * w + c] = input[c * step + w];
}

/* Splits input[pixels][3] into three rows. */
static void deinterleave(const float *input, float *output, int64_t step, int64_t pixels)
{
    int64_t w = 0;

    for (; w + VEC_LANES <= pixels; w += VEC_LANES) {
        vec a, b, c;

        vec_part_3(input + 3 * w, &a, &b, &c);
        vec_store(output + w, a);
        vec_store(output + step + w, b);
        vec_store(output + 2 * step + w, c);
    }
    for (; w < pixels; w++)
        for (int64_t c = 0; c < 3; c++)
            output[c * step + w] = input[3 * w + c];
}

/* Rows of ALIGNED floats or more are stored from the first address on that is a multiple of a vector: stores that cross
 * lines of the cache take twice the time. The first and the last vector overlap their neighbours. */
enum { ALIGNED = 4 * VEC_LANES };

VEC_INLINE void copy_aligned(const float *input, float *output, int64_t columns)
{
    const int64_t last = columns - VEC_LANES;
    int64_t c = VEC_LANES - (int64_t)((uintptr_t)output / WORD % VEC_LANES);

    vec_store(output, vec_load(input));
    for (; c < last; c += VEC_LANES)
        vec_store(output + c, vec_load(input + c));
    vec_store(output + last, vec_load(input + last));
}

KERNEL_PART(void, move_rows, const float *input, int64_t x_row, float *output, int64_t y_row, int64_t rows,
            int64_t columns)
{
    const int64_t whole = columns / VEC_LANES * VEC_LANES;
    const vmask tail = vec_first(columns - whole);

    INLAY_CHECK(rows >= 0 && columns >= 0);
    for (int64_t r = 0; r < rows; r++, input += x_row, output += y_row) {
        if (columns >= ALIGNED) {
            copy_aligned(input, output, columns);
            continue;
        }
        for (int64_t c = 0; c < whole; c += VEC_LANES)
            vec_store(output + c, vec_load(input + c));
        if (whole < columns)
            vec_store_some(output + whole, tail, vec_load_some(tail, input + whole));
    }
}

/* Reads nothing after the last element. */
VEC_INLINE void every_second(const float *restrict x, float *restrict y, int64_t n)
{
    int64_t i = 0;

    for (; i + VEC_LANES < n; i += VEC_LANES)
        vec_store(y + i, vec_even(vec_load(x + 2 * i), vec_load(x + 2 * i + VEC_LANES)));
    if (i < n) {
        const int64_t left = 2 * (n - i) - 1;

        vec_store_some(y + i, vec_first(n - i),
                       vec_even(vec_load_some(vec_first(left), x + 2 * i),
                                vec_load_some(vec_first(left - VEC_LANES), x + 2 * i + VEC_LANES)));
    }
}

KERNEL_PART(void, move_every, const float *restrict x, int64_t step, float *restrict y, int64_t n)
{
    if (step == 1)
        memcpy(y, x, (size_t)n * sizeof *y);
    else if (step == 2)
        every_second(x, y, n);
    else
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i * step];
}

/* Transposes few rows to a contiguous output, such as pixels of few channels. Stores whole vectors; the next store
 * overwrites the excess elements. Returns the number of columns done. The caller transposes the last columns, because
 * whole vectors would be written beyond the end. */
static int64_t transpose_few_rows(const float *input, int64_t x_row, float *output, int64_t rows, int64_t columns)
{
    int64_t c = 0;

    for (; (columns - c - VEC_LANES + 1) * rows >= VEC_LANES; c += VEC_LANES) {
        vec v[VEC_LANES];

        for (int r = 0; r < VEC_LANES; r++)
            v[r] = r < rows ? vec_load(input + r * x_row + c) : vec_zero();
        vec_transpose(v);
        for (int i = 0; i < VEC_LANES; i++)
            vec_store(output + (c + i) * rows, v[i]);
    }
    return c;
}

/* The same for few columns of a contiguous input: loads whole vectors, and returns the number of rows done. */
static int64_t transpose_few_columns(const float *input, float *output, int64_t y_row, int64_t rows, int64_t columns)
{
    int64_t r = 0;

    for (; (rows - r - VEC_LANES + 1) * columns >= VEC_LANES; r += VEC_LANES) {
        vec v[VEC_LANES];

        for (int i = 0; i < VEC_LANES; i++)
            v[i] = vec_load(input + (r + i) * columns);
        vec_transpose(v);
        for (int c = 0; c < VEC_LANES; c++)
            if (c < columns)
                vec_store(output + c * y_row + r, v[c]);
    }
    return r;
}

/* Transposes a square whose rows are one vector each, with `per` elements in a word: first combines elements of `per`
 * rows to words, then transposes squares of words. Cache lines are read and written completely and once, because rows
 * at distances of a power of two evict each other. rows, columns: the valid part of the square unless full. */
VEC_INLINE void turn_square(const char *input, int64_t x_row, char *output, int64_t y_row, const int per,
                            const bool full, int64_t rows, int64_t columns)
{
    const int size = 4 / per;
    const bool wide = columns == per * VEC_LANES;
    const bool masked = VEC_LANES > 4 && columns % per == 0; /* masked loads and stores accept any address there */
    const vmask part = vec_first(rows / per), across = vec_first(columns / per);
    vec words[4][VEC_LANES];

    for (int g = 0; g < VEC_LANES; g++) {
        vec v[4];

        VEC_UNROLL
        for (int k = 0; k < per; k++) {
            const int64_t r = g * per + k;

            v[k] = vec_zero();
            if (full || (wide && r < rows))
                v[k] = vec_load((const float *)(const void *)(input + r * x_row));
            else if (masked && r < rows)
                v[k] = vec_load_some(across, (const float *)(const void *)(input + r * x_row));
            else if (r < rows)
                memcpy(&v[k], input + r * x_row, (size_t)(columns * size));
        }
        if (per == 4) {
            const vec a = vec_zip_bytes_low(v[0], v[1]), b = vec_zip_bytes_low(v[2], v[3]);
            const vec c = vec_zip_bytes_high(v[0], v[1]), d = vec_zip_bytes_high(v[2], v[3]);

            words[0][g] = vec_zip_halves_low(a, b);
            words[1][g] = vec_zip_halves_high(a, b);
            words[2][g] = vec_zip_halves_low(c, d);
            words[3][g] = vec_zip_halves_high(c, d);
        } else if (per == 2) {
            words[0][g] = vec_zip_halves_low(v[0], v[1]);
            words[1][g] = vec_zip_halves_high(v[0], v[1]);
        } else {
            words[0][g] = v[0];
        }
    }
    for (int q = 0; q < per; q++) {
        vec t[VEC_LANES];

        for (int g = 0; g < VEC_LANES; g++)
            t[g] = words[q][g];
        vec_transpose(t);
        for (int w = 0; w < VEC_LANES; w++) { /* 4 columns for each 128 bits */
            const int64_t c = 4 * per * (w / 4) + 4 * q + w % 4;
            char *to = output + c * y_row;

            if (full || (c < columns && rows == per * VEC_LANES))
                vec_store((float *)(void *)to, t[w]);
            else if (c < columns && VEC_LANES > 4 && rows % per == 0) /* as for loads */
                vec_store_some((float *)(void *)to, part, t[w]);
            else if (c < columns)
                memcpy(to, &t[w], (size_t)(rows * size));
        }
    }
}

/* The last squares overlap the previous ones; partial squares are used only if there is less than one square. */
VEC_INLINE void turn_squares(const char *input, int64_t x_row, char *output, int64_t y_row, int64_t rows,
                             int64_t columns, const int per)
{
    const int64_t side = per * VEC_LANES, size = 4 / per;
    const bool full = rows >= side && columns >= side;
    const int64_t last_row = rows > side ? rows - side : 0, last_column = columns > side ? columns - side : 0;

    if (rows == 0 || columns == 0)
        return;
    for (int64_t from = 0; from < last_column + side; from += BAND * side)
        for (int64_t r0 = 0; r0 < last_row + side; r0 += side) {
            const int64_t r = r0 < last_row ? r0 : last_row;

            for (int64_t c0 = from; c0 < last_column + side && c0 < from + BAND * side; c0 += side) {
                const int64_t c = c0 < last_column ? c0 : last_column;
                const char *in = input + r * x_row + c * size;
                char *out = output + c * y_row + r * size;

                if (full)
                    turn_square(in, x_row, out, y_row, per, true, side, side);
                else
                    turn_square(in, x_row, out, y_row, per, false, rows < side ? rows : side,
                                columns < side ? columns : side);
            }
        }
}

KERNEL_PART(void, move_turn, const float *input, int64_t x_row, float *output, int64_t y_row, int64_t rows,
            int64_t columns)
{
    int64_t column = 0, row = 0;

    INLAY_CHECK(rows >= 0 && columns >= 0);
    if (rows == 3 && y_row == 3) {
        interleave(input, x_row, columns, output);
        return;
    }
    if (columns == 3 && x_row == 3) {
        deinterleave(input, output, y_row, rows);
        return;
    }
    if (rows < VEC_LANES && y_row == rows)
        column = transpose_few_rows(input, x_row, output, rows, columns);
    else if (columns < VEC_LANES && x_row == columns)
        row = transpose_few_columns(input, output, y_row, rows, columns);
    turn_squares((const char *)(input + row * x_row + column), x_row * WORD, (char *)(output + column * y_row + row),
                 y_row * WORD, rows - row, columns - column, 1);
}

/* Splits contiguous pixels of 2 to 4 byte channels into planes. */
VEC_INLINE void deinterleave_bytes(const int channels, const uint8_t *restrict input, uint8_t *restrict output,
                                   int64_t step, int64_t pixels)
{
    uint8_t *restrict y1 = output + step, *restrict y2 = output + (channels > 2 ? 2 : 0) * step;

    for (int64_t i = 0; i < pixels; i++) {
        output[i] = input[channels * i];
        y1[i] = input[channels * i + 1];
        if (channels > 2)
            y2[i] = input[channels * i + 2];
    }
    for (int64_t i = 0; channels > 3 && i < pixels; i++)
        output[3 * step + i] = input[channels * i + 3];
}

/* Squares of few bytes, or of pixels of a few bytes, would be mostly empty. */
static bool is_thin(int64_t x_row, int64_t y_row, int64_t rows, int64_t columns)
{
    enum { FEW = 128, THIN = 8 };

    return rows * columns <= FEW || (rows < THIN && y_row == rows) || (columns < THIN && x_row == columns);
}

KERNEL_PART(void, turn_1, const char *input, int64_t x_row, char *output, int64_t y_row, int64_t rows, int64_t columns)
{
    enum { MANY = 64 };

    if (columns == 3 && x_row == 3 && rows >= MANY)
        deinterleave_bytes(3, (const uint8_t *)input, (uint8_t *)output, y_row, rows);
    else if (columns == 4 && x_row == 4 && rows >= MANY)
        deinterleave_bytes(4, (const uint8_t *)input, (uint8_t *)output, y_row, rows);
    else if (is_thin(x_row, y_row, rows, columns))
        for (int64_t c = 0; c < columns; c++)
            for (int64_t r = 0; r < rows; r++)
                output[c * y_row + r] = input[r * x_row + c];
    else
        turn_squares(input, x_row, output, y_row, rows, columns, 4);
}
KERNEL_PART(void, turn_2, const char *input, int64_t x_row, char *output, int64_t y_row, int64_t rows, int64_t columns)
{
    turn_squares(input, x_row, output, y_row, rows, columns, 2);
}
KERNEL_PART(void, turn_4, const char *input, int64_t x_row, char *output, int64_t y_row, int64_t rows, int64_t columns)
{
    turn_squares(input, x_row, output, y_row, rows, columns, 1);
}

const move_set KERNEL(moves) = {
    KERNEL_PART_OF(move_rows),
    KERNEL_PART_OF(move_every),
    KERNEL_PART_OF(move_turn),
    { KERNEL_PART_OF(turn_1), KERNEL_PART_OF(turn_2), KERNEL_PART_OF(turn_4) },
};
