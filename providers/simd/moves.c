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

/* Thin transposes: tiles of 16 bytes by as many rows, in vectors of 16 bytes, which every instruction set has. */
typedef uint8_t octets __attribute__((vector_size(16)));
typedef uint16_t shorts __attribute__((vector_size(16)));
typedef uint32_t words __attribute__((vector_size(16)));
typedef uint64_t longs __attribute__((vector_size(16)));

/* Interleaves the elements of the lower or upper halves of x and y. */
VEC_INLINE octets zip(const int size, const bool upper, octets x, octets y)
{
    if (size == 1)
        return upper ? __builtin_shufflevector(x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
                     : __builtin_shufflevector(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    if (size == 2)
        return (octets)(upper ? __builtin_shufflevector((shorts)x, (shorts)y, 4, 12, 5, 13, 6, 14, 7, 15)
                              : __builtin_shufflevector((shorts)x, (shorts)y, 0, 8, 1, 9, 2, 10, 3, 11));
    if (size == 4)
        return (octets)(upper ? __builtin_shufflevector((words)x, (words)y, 2, 6, 3, 7)
                              : __builtin_shufflevector((words)x, (words)y, 0, 4, 1, 5));
    return (octets)(upper ? __builtin_shufflevector((longs)x, (longs)y, 1, 3)
                          : __builtin_shufflevector((longs)x, (longs)y, 0, 2));
}

/* Loads 1 to 8 bytes and no others, by two loads that overlap. */
VEC_INLINE uint64_t load_bytes(const char *p, int64_t bytes)
{
    uint32_t first, last;
    uint16_t low, high;
    uint64_t all;

    if (bytes == 8) {
        memcpy(&all, p, 8);
        return all;
    }
    if (bytes >= 4) {
        memcpy(&first, p, 4);
        memcpy(&last, p + bytes - 4, 4);
        return first | (uint64_t)last << 8 * (bytes - 4);
    }
    if (bytes == 1)
        return (uint8_t)*p;
    memcpy(&low, p, 2);
    memcpy(&high, p + bytes - 2, 2);
    return low | (uint64_t)high << 8 * (bytes - 2);
}

/* Loads `bytes` bytes, up to 16, and no others. */
VEC_INLINE octets load_some(const char *p, int64_t bytes)
{
    return bytes <= 8 ? (octets)(longs){ load_bytes(p, bytes), 0 }
                      : (octets)(longs){ load_bytes(p, 8), load_bytes(p + 8, bytes - 8) };
}

/* Transposes the elements of `count` vectors, seen as a matrix of `rows` rows: rows and count are powers of two. */
VEC_INLINE void zip_rows(const int size, const int count, const int rows, octets *v)
{
    VEC_UNROLL
    for (int step = 1; step < rows; step *= 2) {
        octets z[16];

        VEC_UNROLL
        for (int r = 0; r < count / 2; r++) {
            z[2 * r] = zip(size, false, v[r], v[r + count / 2]);
            z[2 * r + 1] = zip(size, true, v[r], v[r + count / 2]);
        }
        VEC_UNROLL
        for (int r = 0; r < count; r++)
            v[r] = z[r];
    }
}

/* Transposes a matrix of `rows` rows in `count` vectors, which are x_step bytes apart. */
VEC_INLINE void turn_tile(const int size, const int count, const int rows, const char *x, int64_t x_step, char *y,
                          int64_t y_row)
{
    octets v[16];

    VEC_UNROLL
    for (int i = 0; i < count; i++, x += x_step)
        memcpy(&v[i], x, 16);
    zip_rows(size, count, rows, v);
    VEC_UNROLL
    for (int i = 0; i < count; i++) {
        VEC_UNROLL
        for (int at = 0; at < 16; at += rows * size, y += y_row)
            memcpy(y, (const char *)&v[i] + at, (size_t)(rows * size));
    }
}

/* Transposes up to `count` rows of up to 16 bytes; whole: 16 bytes of each row may be read. */
VEC_INLINE void turn_part(const int size, const int count, bool whole, const char *x, int64_t x_row, char *y,
                          int64_t y_row, int64_t rows, int64_t columns)
{
    const int group = count * size;
    const int64_t bytes = rows * size;
    octets v[16];

    VEC_UNROLL
    for (int r = 0; r < count; r++) {
        if (whole)
            memcpy(&v[r], x, 16);
        else
            v[r] = load_some(x, columns * size);
        x += r < rows - 1 ? x_row : 0;
    }
    zip_rows(size, count, count, v);
    for (int64_t c = 0; c < columns; c++, y += y_row) {
        const char *from = (const char *)v + c * group;

        if (bytes == group) {
            memcpy(y, from, (size_t)group);
        } else {
            memcpy(y, from, (size_t)group / 2);
            memcpy(y + bytes - group / 2, from + bytes - group / 2, (size_t)group / 2);
        }
    }
}

/* Transposes 4 rows of 4 elements of 8 bytes, in vectors of 32 bytes. */
VEC_INLINE void turn_longs(const char *x, int64_t x_row, char *y, int64_t y_row)
{
    typedef uint64_t four __attribute__((vector_size(32)));
    four v[4], z[4];

    VEC_UNROLL
    for (int r = 0; r < 4; r++)
        memcpy(&v[r], x + r * x_row, sizeof *v);
    VEC_UNROLL
    for (int r = 0; r < 2; r++) {
        z[r] = __builtin_shufflevector(v[2 * r], v[2 * r + 1], 0, 4, 2, 6);
        z[r + 2] = __builtin_shufflevector(v[2 * r], v[2 * r + 1], 1, 5, 3, 7);
    }
    VEC_UNROLL
    for (int c = 0; c < 2; c++) {
        v[c] = __builtin_shufflevector(z[2 * c], z[2 * c + 1], 0, 1, 4, 5);
        v[c + 2] = __builtin_shufflevector(z[2 * c], z[2 * c + 1], 2, 3, 6, 7);
    }
    VEC_UNROLL
    for (int c = 0; c < 4; c++)
        memcpy(y + c * y_row, &v[c], sizeof *v);
}

/* Transposes by tiles of `count` rows; the last tiles overlap those before. */
VEC_INLINE void turn_tiles(const int size, const int count, const char *x, int64_t x_row, char *y, int64_t y_row,
                           int64_t rows, int64_t columns)
{
    const int64_t side = size == 8 && count == 4 ? 4 : 16 / size, line = rows > count ? 64 / size : columns;
    const int64_t last_row = rows - count, last_column = columns - side;

    for (int64_t from = 0; from < columns; from += line)
        for (int64_t r0 = 0; r0 < rows; r0 += count) {
            const int64_t r = r0 < last_row ? r0 : last_row;

            for (int64_t c0 = from; c0 < columns && c0 < from + line; c0 += side) {
                const int64_t c = c0 < last_column ? c0 : last_column;

                if (size == 8 && count == 4)
                    turn_longs(x + r * x_row + c * size, x_row, y + c * y_row + r * size, y_row);
                else
                    turn_tile(size, count, count, x + r * x_row + c * size, x_row, y + c * y_row + r * size, y_row);
            }
        }
}

/* The same if there are fewer rows or columns than those of a tile. */
VEC_INLINE void turn_parts(const int size, const int count, const char *x, int64_t x_row, char *y, int64_t y_row,
                           int64_t rows, int64_t columns)
{
    const int64_t side = 16 / size, part_rows = rows < count ? rows : count,
                  part_columns = columns < side ? columns : side;
    const char *const end = x + (rows - 1) * x_row + columns * size;

    for (int64_t r0 = 0; r0 < rows; r0 += count)
        for (int64_t c0 = 0; c0 < columns; c0 += side) {
            const int64_t r = r0 < rows - part_rows ? r0 : rows - part_rows;
            const int64_t c = c0 < columns - part_columns ? c0 : columns - part_columns;
            const char *in = x + r * x_row + c * size;

            turn_part(size, count, end - (in + (part_rows - 1) * x_row) >= 16, in, x_row, y + c * y_row + r * size,
                      y_row, part_rows, part_columns);
        }
}

/* Transposes contiguous rows of 2, 4, 8 or 16 elements, at least 16 bytes of each column. */
VEC_INLINE void turn_columns(const int size, const int columns, const char *x, char *y, int64_t y_row, int64_t rows)
{
    const int side = 16 / size;

    for (int64_t r0 = 0; r0 < rows; r0 += side) {
        const int64_t r = r0 < rows - side ? r0 : rows - side;

        turn_tile(size, columns, side, x + r * columns * size, 16, y + r * size, y_row);
    }
}

/* Transposes a square whose rows are one vector each, with `per` elements in a word: first combines elements of `per`
 * rows to words, then transposes squares of words. Cache lines are read and written completely and once, because rows
 * at distances of a power of two evict each other. */
VEC_INLINE void turn_square(const char *input, int64_t x_row, char *output, int64_t y_row, const int per)
{
    vec words_of[4][VEC_LANES];

    for (int g = 0; g < VEC_LANES; g++) {
        vec v[4];

        VEC_UNROLL
        for (int k = 0; k < per; k++)
            v[k] = vec_load((const float *)(const void *)(input + (g * per + k) * x_row));
        if (per == 4) {
            const vec a = vec_zip_bytes_low(v[0], v[1]), b = vec_zip_bytes_low(v[2], v[3]);
            const vec c = vec_zip_bytes_high(v[0], v[1]), d = vec_zip_bytes_high(v[2], v[3]);

            words_of[0][g] = vec_zip_halves_low(a, b);
            words_of[1][g] = vec_zip_halves_high(a, b);
            words_of[2][g] = vec_zip_halves_low(c, d);
            words_of[3][g] = vec_zip_halves_high(c, d);
        } else if (per == 2) {
            words_of[0][g] = vec_zip_halves_low(v[0], v[1]);
            words_of[1][g] = vec_zip_halves_high(v[0], v[1]);
        } else {
            words_of[0][g] = v[0];
        }
    }
    for (int q = 0; q < per; q++) {
        vec t[VEC_LANES];

        for (int g = 0; g < VEC_LANES; g++)
            t[g] = words_of[q][g];
        vec_transpose(t);
        for (int w = 0; w < VEC_LANES; w++) /* 4 columns for each 128 bits */
            vec_store((float *)(void *)(output + (4 * per * (w / 4) + 4 * q + w % 4) * y_row), t[w]);
    }
}

/* The last squares overlap the previous ones. There is at least one square. */
VEC_INLINE void turn_squares(const char *input, int64_t x_row, char *output, int64_t y_row, int64_t rows,
                             int64_t columns, const int per)
{
    const int64_t side = per * VEC_LANES, size = 4 / per;

    for (int64_t from = 0; from < columns; from += BAND * side)
        for (int64_t r0 = 0; r0 < rows; r0 += side) {
            const int64_t r = r0 < rows - side ? r0 : rows - side;

            for (int64_t c0 = from; c0 < columns && c0 < from + BAND * side; c0 += side) {
                const int64_t c = c0 < columns - side ? c0 : columns - side;

                turn_square(input + r * x_row + c * size, x_row, output + c * y_row + r * size, y_row, per);
            }
        }
}

/* Interleaves the elements of the lower or upper halves of x and y: halves of each 128 bits, then these. */
VEC_INLINE vec zip_wide(const int size, const bool upper, vec x, vec y)
{
    if (size >= WORD)
        return vec_zip(size / WORD, upper, x, y);
    return size == 2 ? vec_zip(4, upper, vec_zip_halves_low(x, y), vec_zip_halves_high(x, y))
                     : vec_zip(4, upper, vec_zip_bytes_low(x, y), vec_zip_bytes_high(x, y));
}

/* Interleaves 2 or 4 rows of at least one vector. The last vectors overlap the previous ones. */
VEC_INLINE void interleave_wide(const int size, const int rows, const char *x, int64_t x_row, char *y, int64_t columns)
{
    const int64_t side = VEC_LANES * WORD / size;

    for (int64_t c0 = 0; c0 < columns; c0 += side) {
        const int64_t c = c0 < columns - side ? c0 : columns - side;
        vec v[4];

        VEC_UNROLL
        for (int r = 0; r < rows; r++)
            v[r] = vec_load((const float *)(const void *)(x + r * x_row + c * size));
        VEC_UNROLL
        for (int step = 1; step < rows; step *= 2) {
            const vec a = v[0], b = v[1], p = v[rows / 2], q = v[rows - 1];

            v[0] = zip_wide(size, false, a, p);
            v[1] = zip_wide(size, true, a, p);
            if (rows == 4) {
                v[2] = zip_wide(size, false, b, q);
                v[3] = zip_wide(size, true, b, q);
            }
        }
        VEC_UNROLL
        for (int r = 0; r < rows; r++)
            vec_store((float *)(void *)(y + c * rows * size) + r * VEC_LANES, v[r]);
    }
}

/* Splits contiguous pixels of 3 elements into planes. */
#define PART_3(T, size)                                                                                                \
    VEC_INLINE void part_3_##size(const char *x, char *y, int64_t y_row, int64_t pixels)                               \
    {                                                                                                                  \
        const T *restrict from = (const T *)(const void *)x;                                                           \
        T *restrict a = (T *)(void *)y, *restrict b = (T *)(void *)(y + y_row),                                        \
                    *restrict c = (T *)(void *)(y + 2 * y_row);                                                        \
                                                                                                                       \
        for (int64_t i = 0; i < pixels; i++) {                                                                         \
            a[i] = from[3 * i];                                                                                        \
            b[i] = from[3 * i + 1];                                                                                    \
            c[i] = from[3 * i + 2];                                                                                    \
        }                                                                                                              \
    }
typedef uint16_t __attribute__((aligned(1), may_alias)) half;
PART_3(uint8_t, 1)
PART_3(half, 2)

/* Transposes a matrix with few rows or columns. */
VEC_INLINE void turn_thin(const int size, const int count, const move_turns *turns, const char *x, char *y)
{
    const int64_t rows = turns->rows, columns = turns->columns, side = 16 / size;
    const bool dense = count == side && rows >= count && columns > 1 && columns <= side &&
                       (columns & (columns - 1)) == 0 && turns->x_row == columns * size;

    if (dense && columns == side)
        turn_columns(size, 16 / size, x, y, turns->y_row, rows);
    else if (dense && size < 8 && columns == 2)
        turn_columns(size, 2, x, y, turns->y_row, rows);
    else if (dense && size < 4 && columns == 4)
        turn_columns(size, 4, x, y, turns->y_row, rows);
    else if (dense && size < 2)
        turn_columns(size, 8, x, y, turns->y_row, rows);
    else if (rows >= count && columns >= side)
        turn_tiles(size, count, x, turns->x_row, y, turns->y_row, rows, columns);
    else
        turn_parts(size, count, x, turns->x_row, y, turns->y_row, rows, columns);
}

/* Are all rows floats at addresses of floats? */
VEC_INLINE bool is_aligned(const char *x, int64_t x_row, const char *y, int64_t y_row)
{
    return ((uintptr_t)x | (uintptr_t)y | (uintptr_t)x_row | (uintptr_t)y_row) % WORD == 0;
}

/* Transposes matrices of elements of `size` bytes. */
VEC_INLINE void turn(const int size, const move_turns *turns)
{
    const int64_t rows = turns->rows, columns = turns->columns, x_row = turns->x_row, y_row = turns->y_row;
    const char *x = turns->x;
    char *y = turns->y;

    INLAY_CHECK(rows > 0 && columns > 0);
    for (int64_t i = 0; i < turns->count; i++, x += turns->x_step, y += turns->y_step) {
        if (size <= 4 && rows * size >= VEC_LANES * WORD && columns * size >= VEC_LANES * WORD)
            turn_squares(x, x_row, y, y_row, rows, columns, size <= 4 ? 4 / size : 1);
        else if (size == 4 && rows == 3 && y_row == 3 * WORD && is_aligned(x, x_row, y, y_row))
            interleave((const float *)(const void *)x, x_row / WORD, columns, (float *)(void *)y);
        else if (rows == 2 && y_row == 2 * size && columns * size >= VEC_LANES * WORD)
            interleave_wide(size, 2, x, x_row, y, columns);
        else if (rows == 4 && y_row == 4 * size && columns * size >= VEC_LANES * WORD)
            interleave_wide(size, 4, x, x_row, y, columns);
        else if (size == 4 && columns == 3 && x_row == 3 * WORD && is_aligned(x, x_row, y, y_row))
            deinterleave((const float *)(const void *)x, (float *)(void *)y, y_row / WORD, rows);
        else if (size == 1 && columns == 3 && x_row == 3)
            part_3_1(x, y, y_row, rows);
        else if (size == 2 && columns == 3 && x_row == 6)
            part_3_2(x, y, y_row, rows);
        else if (size == 8 && rows >= 4 && columns >= 4)
            turn_tiles(size, 4, x, x_row, y, y_row, rows, columns);
        else if (size == 16)
            turn_tiles(size, 1, x, x_row, y, y_row, rows, columns);
        else if (size == 1 && rows >= 16)
            turn_thin(size, 16, turns, x, y);
        else if (size <= 2 && rows >= 8)
            turn_thin(size, 8, turns, x, y);
        else if (size <= 4 && rows >= 4)
            turn_thin(size, 4, turns, x, y);
        else
            turn_thin(size, 2, turns, x, y);
    }
}

KERNEL_PART(void, turn_1, const move_turns *turns)
{
    turn(1, turns);
}
KERNEL_PART(void, turn_2, const move_turns *turns)
{
    turn(2, turns);
}
KERNEL_PART(void, turn_4, const move_turns *turns)
{
    turn(4, turns);
}
KERNEL_PART(void, turn_8, const move_turns *turns)
{
    turn(8, turns);
}
KERNEL_PART(void, turn_16, const move_turns *turns)
{
    turn(16, turns);
}

const move_set KERNEL(moves) = {
    KERNEL_PART_OF(move_rows),
    KERNEL_PART_OF(move_every),
    { KERNEL_PART_OF(turn_1), KERNEL_PART_OF(turn_2), KERNEL_PART_OF(turn_4), KERNEL_PART_OF(turn_8),
      KERNEL_PART_OF(turn_16) },
};
