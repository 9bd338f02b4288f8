/* Copies and transposes, see move_set.h. Squares of VEC_LANES words are transposed in registers. */
#include "simd/move_set.h"
#include "inlay/check.h"
#include "simd/vec.h"
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

/* The first bytes of a vector, or a whole one. Masked loads and stores accept any address where vectors are long. */
VEC_INLINE vec load_bytes(const char *p, int64_t bytes, bool whole)
{
    vec v = vec_zero();

    if (whole)
        return vec_load((const float *)(const void *)p);
    if (VEC_LANES > 4 && bytes % WORD == 0)
        return vec_load_some(vec_first(bytes / WORD), (const float *)(const void *)p);
    memcpy(&v, p, (size_t)bytes);
    return v;
}
VEC_INLINE void store_bytes(char *p, int64_t bytes, vec v, bool whole)
{
    if (whole)
        vec_store((float *)(void *)p, v);
    else if (VEC_LANES > 4 && bytes % WORD == 0)
        vec_store_some((float *)(void *)p, vec_first(bytes / WORD), v);
    else
        memcpy(p, &v, (size_t)bytes);
}

/* Index lists of shuffles: every second lane from f on; and lanes f, f + n, f + 1, f + n + 1 ... */
#define EACH_2(f) (f), (f) + 2
#define EACH_4(f) EACH_2(f), EACH_2((f) + 4)
#define EACH_8(f) EACH_4(f), EACH_4((f) + 8)
#define EACH_16(f) EACH_8(f), EACH_8((f) + 16)
#define ZIP_2(f, n) (f), (f) + (n)
#define ZIP_4(f, n) ZIP_2(f, n), ZIP_2((f) + 1, n)
#define ZIP_8(f, n) ZIP_4(f, n), ZIP_4((f) + 2, n)
#define ZIP_16(f, n) ZIP_8(f, n), ZIP_8((f) + 4, n)

/* Of `count` vectors, a power of two, of type T with `lanes` lanes: weave_ interleaves them, so that lane i of vector v
 * becomes element i * count + v; part_ is the inverse. `lanes` vectors are transposed. */
#define NETWORKS(name, T, lanes)                                                                                       \
    VEC_INLINE void weave_##name(vec *v, const int count)                                                              \
    {                                                                                                                  \
        VEC_UNROLL                                                                                                     \
        for (int left = count; left > 1; left /= 2) {                                                                  \
            vec from[VEC_LANES];                                                                                       \
                                                                                                                       \
            memcpy(from, v, (size_t)count * sizeof *v);                                                                \
            VEC_UNROLL                                                                                                 \
            for (int i = 0; i < count / 2; i++) {                                                                      \
                const T a = (T)from[i], b = (T)from[i + count / 2];                                                    \
                                                                                                                       \
                v[2 * i] = (vec)__builtin_shufflevector(a, b, ZIP_##lanes(0, lanes));                                  \
                v[2 * i + 1] = (vec)__builtin_shufflevector(a, b, ZIP_##lanes(lanes / 2, lanes));                      \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    VEC_INLINE void part_##name(vec *v, const int count)                                                               \
    {                                                                                                                  \
        VEC_UNROLL                                                                                                     \
        for (int left = count; left > 1; left /= 2) {                                                                  \
            vec from[VEC_LANES];                                                                                       \
                                                                                                                       \
            memcpy(from, v, (size_t)count * sizeof *v);                                                                \
            VEC_UNROLL                                                                                                 \
            for (int i = 0; i < count / 2; i++) {                                                                      \
                const T a = (T)from[2 * i], b = (T)from[2 * i + 1];                                                    \
                                                                                                                       \
                v[i] = (vec)__builtin_shufflevector(a, b, EACH_##lanes(0));                                            \
                v[i + count / 2] = (vec)__builtin_shufflevector(a, b, EACH_##lanes(1));                                \
            }                                                                                                          \
        }                                                                                                              \
    }
typedef float word_lanes __attribute__((vector_size(sizeof(vec))));
typedef double pair_lanes __attribute__((vector_size(sizeof(vec))));
#if defined(KERNEL_IS_avx512)
NETWORKS(words, word_lanes, 16)
NETWORKS(pairs, pair_lanes, 8)
#elif defined(KERNEL_IS_avx2) || defined(KERNEL_IS_rvv) || defined(KERNEL_IS_uniform_c)
NETWORKS(words, word_lanes, 8)
NETWORKS(pairs, pair_lanes, 4)
#else
NETWORKS(words, word_lanes, 4)
NETWORKS(pairs, pair_lanes, 2)
#endif

/* Transposes a square of elements of 4 or 8 bytes. */
VEC_INLINE void turn_vectors(vec *v, const int size)
{
    if (size > WORD)
        weave_pairs(v, VEC_LANES / 2);
    else
        vec_transpose(v);
}

/* Interleaves `count` rows to a contiguous output; returns the number of columns done, whole vectors. */
VEC_INLINE int64_t weave_rows(const char *input, int64_t x_row, char *output, int64_t columns, const int size,
                              const int count)
{
    const int64_t side = (int64_t)sizeof(vec) / size;
    int64_t c = 0;

    for (; c + side <= columns; c += side, output += count * (int64_t)sizeof(vec)) {
        vec v[VEC_LANES];

        for (int r = 0; r < count; r++)
            v[r] = load_bytes(input + r * x_row + c * size, 0, true);
        if (size > WORD)
            weave_pairs(v, count);
        else
            weave_words(v, count);
        for (int r = 0; r < count; r++)
            store_bytes(output + r * (int64_t)sizeof(vec), 0, v[r], true);
    }
    return c;
}

/* The inverse: splits a contiguous input to `count` rows; returns the number of elements of each. */
VEC_INLINE int64_t part_rows(const char *input, char *output, int64_t y_row, int64_t rows, const int size,
                             const int count)
{
    const int64_t side = (int64_t)sizeof(vec) / size;
    int64_t r = 0;

    for (; r + side <= rows; r += side, input += count * (int64_t)sizeof(vec)) {
        vec v[VEC_LANES];

        for (int c = 0; c < count; c++)
            v[c] = load_bytes(input + c * (int64_t)sizeof(vec), 0, true);
        if (size > WORD)
            part_pairs(v, count);
        else
            part_words(v, count);
        for (int c = 0; c < count; c++)
            store_bytes(output + c * y_row + r * size, 0, v[c], true);
    }
    return r;
}

/* Transposes few rows to a contiguous output, such as pixels of few channels. Powers of two are interleaved; otherwise
 * whole vectors are stored, and the next store overwrites the excess elements. Returns the number of columns done. The
 * caller transposes the last columns, because whole vectors would be written beyond the end. */
VEC_INLINE int64_t few_rows(const char *input, int64_t x_row, char *output, int64_t rows, int64_t columns,
                            const int size)
{
    const int64_t side = (int64_t)sizeof(vec) / size;
    int64_t c = 0;

    if (rows == 2)
        return weave_rows(input, x_row, output, columns, size, 2);
    if (rows == 4)
        return weave_rows(input, x_row, output, columns, size, 4);
    for (; (columns - c - side + 1) * rows >= side; c += side) {
        vec v[VEC_LANES];

        for (int r = 0; r < side; r++)
            v[r] = r < rows ? load_bytes(input + r * x_row + c * size, 0, true) : vec_zero();
        turn_vectors(v, size);
        for (int i = 0; i < side; i++)
            store_bytes(output + (c + i) * rows * size, 0, v[i], true);
    }
    return c;
}

/* The same for few columns of a contiguous input: loads whole vectors, and returns the number of rows done. */
VEC_INLINE int64_t few_columns(const char *input, char *output, int64_t y_row, int64_t rows, int64_t columns,
                               const int size)
{
    const int64_t side = (int64_t)sizeof(vec) / size;
    int64_t r = 0;

    if (columns == 2)
        return part_rows(input, output, y_row, rows, size, 2);
    if (columns == 4)
        return part_rows(input, output, y_row, rows, size, 4);
    for (; (rows - r - side + 1) * columns >= side; r += side) {
        vec v[VEC_LANES];

        for (int i = 0; i < side; i++)
            v[i] = load_bytes(input + (r + i) * columns * size, 0, true);
        turn_vectors(v, size);
        for (int c = 0; c < side; c++)
            if (c < columns)
                store_bytes(output + c * y_row + r * size, 0, v[c], true);
    }
    return r;
}

/* Transposes a square whose rows are one vector each, of elements of `size` bytes: smaller elements of several rows are
 * first combined to words, then squares of words are transposed. Cache lines are read and written completely and once,
 * because rows at distances of a power of two evict each other. rows, columns: the valid part unless full. */
VEC_INLINE void turn_square(const char *input, int64_t x_row, char *output, int64_t y_row, const int size,
                            const bool full, int64_t rows, int64_t columns)
{
    const int per = size < WORD ? WORD / size : 1, side = (int)sizeof(vec) / size;
    const bool wide = full || columns == side, high = full || rows == side;
    vec words[4][VEC_LANES];

    for (int g = 0; g < side / per; g++) {
        vec v[4];

        VEC_UNROLL
        for (int k = 0; k < per; k++)
            v[k] = full || g * per + k < rows ? load_bytes(input + (g * per + k) * x_row, columns * size, wide)
                                              : vec_zero();
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

        for (int g = 0; g < side / per; g++)
            t[g] = words[q][g];
        turn_vectors(t, size);
        for (int w = 0; w < side / per; w++) { /* 4 columns for each 128 bits */
            const int64_t c = 4 * per * (w / 4) + 4 * q + w % 4;

            if (full || c < columns)
                store_bytes(output + c * y_row, rows * size, t[w], high);
        }
    }
}

/* The last squares overlap the previous ones; partial squares are used only if there is less than one square. */
VEC_INLINE void turn_squares(const char *input, int64_t x_row, char *output, int64_t y_row, int64_t rows,
                             int64_t columns, const int size)
{
    const int64_t side = (int64_t)sizeof(vec) / size;
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
                    turn_square(in, x_row, out, y_row, size, true, side, side);
                else
                    turn_square(in, x_row, out, y_row, size, false, rows < side ? rows : side,
                                columns < side ? columns : side);
            }
        }
}

/* Elements of 4 or 8 bytes. */
VEC_INLINE void turn_large(const char *input, int64_t x_row, char *output, int64_t y_row, int64_t rows, int64_t columns,
                           const int size)
{
    const int64_t side = (int64_t)sizeof(vec) / size;
    int64_t column = 0, row = 0;

    INLAY_CHECK(rows >= 0 && columns >= 0);
    if (rows < side && y_row == rows * size)
        column = few_rows(input, x_row, output, rows, columns, size);
    else if (columns < side && x_row == columns * size)
        row = few_columns(input, output, y_row, rows, columns, size);
    turn_squares(input + row * x_row + column * size, x_row, output + column * y_row + row * size, y_row, rows - row,
                 columns - column, size);
}

KERNEL_PART(void, move_turn, const float *input, int64_t x_row, float *output, int64_t y_row, int64_t rows,
            int64_t columns)
{
    if (rows == 3 && y_row == 3)
        interleave(input, x_row, columns, output);
    else if (columns == 3 && x_row == 3)
        deinterleave(input, output, y_row, rows);
    else
        turn_large((const char *)input, x_row * WORD, (char *)output, y_row * WORD, rows, columns, WORD);
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
        turn_squares(input, x_row, output, y_row, rows, columns, 1);
}
KERNEL_PART(void, turn_2, const char *input, int64_t x_row, char *output, int64_t y_row, int64_t rows, int64_t columns)
{
    turn_squares(input, x_row, output, y_row, rows, columns, 2);
}
KERNEL_PART(void, turn_4, const char *input, int64_t x_row, char *output, int64_t y_row, int64_t rows, int64_t columns)
{
    turn_large(input, x_row, output, y_row, rows, columns, 4);
}
KERNEL_PART(void, turn_8, const char *input, int64_t x_row, char *output, int64_t y_row, int64_t rows, int64_t columns)
{
    turn_large(input, x_row, output, y_row, rows, columns, 8);
}

const move_set KERNEL(moves) = {
    KERNEL_PART_OF(move_rows),
    KERNEL_PART_OF(move_turn),
    { KERNEL_PART_OF(turn_1), KERNEL_PART_OF(turn_2), KERNEL_PART_OF(turn_4), KERNEL_PART_OF(turn_8) },
};
