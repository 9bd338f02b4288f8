/* bytes_dots.h - the tile of bytes.c with dot products by a lane (INT_STEPS) and with products of two rows by two
 * columns (INT_SQUARES). */
#ifndef CPU_BYTES_DOTS_H
#define CPU_BYTES_DOTS_H
#include "cpu/quantized/bytes_results.h"
#include "simd/vec_int.h"

/* Prefetches the weights of a later tile for `count` steps; returns the address for the next ones. */
VEC_INLINE const int8_t *fetch_ahead(const int8_t *ahead, int64_t step, const int lines, const int count)
{
    VEC_UNROLL
    for (int i = 0; lines == INT_LINES && i < count; i++, ahead += step)
        vec_fetch_far(ahead);
    return ahead;
}

/* Four bytes of x in all lanes. */
VEC_INLINE ivec quad_at(const uint8_t *x)
{
    int32_t v;

    memcpy(&v, x, sizeof v);
    return int_set(v);
}

VEC_INLINE void multiply_dots(const int rows, const int lines, const bool flip, const byte_product *product)
{
    /* Which are in registers while four steps are added: the inputs of all rows, or the weights of all steps. */
    const bool inputs_stay = rows < INT_STEPS * lines;
    const int64_t steps = product->steps;
    const ivec upper = int_set_byte(flip ? 0x80 : 0);
    const int8_t *weights = product->weights, *ahead = product->ahead;
    ivec sum[BYTE_ROWS][BYTE_LINES];

    VEC_UNROLL
    for (int v = 0; v < lines; v++) {
        const ivec first = int_load(product->ending.first + v * VEC_LANES);

        VEC_UNROLL
        for (int r = 0; r < rows; r++)
            sum[r][v] = first;
    }
    for (int64_t tap = 0; tap < product->tap_count; tap++) {
        const uint8_t *row[BYTE_ROWS];
        int64_t k = 0;

        VEC_UNROLL
        for (int r = 0; r < rows; r++)
            row[r] = product->input + product->taps[tap] + r * product->x_pixel;
        for (; k + INT_STEPS <= steps; k += INT_STEPS) {
            ivec x[BYTE_ROWS], line[INT_STEPS][BYTE_LINES];

            VEC_UNROLL
            for (int r = 0; inputs_stay && r < rows; r++, row[r - 1] += 4 * INT_STEPS)
                x[r] = int_xor(int_load(row[r]), upper);
            VEC_UNROLL
            for (int i = 0; i < INT_STEPS; i++) {
                VEC_UNROLL
                for (int v = 0; v < lines; v++, weights += sizeof(ivec)) {
                    line[i][v] = int_load(weights);
                    VEC_UNROLL
                    for (int r = 0; inputs_stay && r < rows; r++)
                        sum[r][v] = int_dot_step(sum[r][v], x[r], line[i][v], i);
                }
            }
            VEC_UNROLL
            for (int r = 0; !inputs_stay && r < rows; r++, row[r - 1] += 4 * INT_STEPS) {
                x[r] = int_xor(int_load(row[r]), upper);
                VEC_UNROLL
                for (int i = 0; i < INT_STEPS; i++) {
                    VEC_UNROLL
                    for (int v = 0; v < lines; v++)
                        sum[r][v] = int_dot_step(sum[r][v], x[r], line[i][v], i);
                }
            }
            ahead = fetch_ahead(ahead, product->ahead_step, lines, INT_STEPS);
        }
        for (; k < steps; k++, weights += lines * (int)sizeof(ivec)) {
            VEC_UNROLL
            for (int r = 0; r < rows; r++, row[r - 1] += 4) {
                const ivec x = int_xor(quad_at(row[r]), upper);

                VEC_UNROLL
                for (int v = 0; v < lines; v++)
                    sum[r][v] = int_dot(sum[r][v], x, int_load(weights + v * (int)sizeof(ivec)));
            }
            ahead = fetch_ahead(ahead, product->ahead_step, lines, 1);
        }
    }
    store_results(product->ending.kind, rows, lines, product, sum);
}

#if defined(INT_SQUARES)
enum { BYTE_PAIRS = BYTE_ROWS / 2 };

/* Adds two steps, or the last one of a tap (`whole` is false). If the number of rows is odd, the last row is multiplied
 * twice. */
VEC_INLINE void add_squares(const int rows, const int lines, const bool whole, ivec upper, const uint8_t **row,
                            const int8_t *weights, ivec square[][2 * BYTE_LINES])
{
    const int pairs = (rows + 1) / 2;
    ivec x[BYTE_PAIRS];

    VEC_UNROLL
    for (int p = 0; p < pairs; p++) {
        const uint8_t *one = row[2 * p], *other = row[2 * p + 1 < rows ? 2 * p + 1 : 2 * p];

        x[p] = int_xor(whole ? int_rows(one, other) : int_row_ends(one, other), upper);
    }
    VEC_UNROLL
    for (int v = 0; v < lines; v++) {
        const ivec even = int_load(weights + v * (int)sizeof(ivec));
        const ivec odd = whole ? int_load(weights + (lines + v) * (int)sizeof(ivec)) : int_set(0);
        const ivec low = int_columns_low(even, odd), high = int_columns_high(even, odd);

        VEC_UNROLL
        for (int p = 0; p < pairs; p++)
            square[p][2 * v] = int_square(square[p][2 * v], x[p], low);
        VEC_UNROLL
        for (int p = 0; p < pairs; p++)
            square[p][2 * v + 1] = int_square(square[p][2 * v + 1], x[p], high);
    }
    VEC_UNROLL
    for (int r = 0; r < rows; r++)
        row[r] += 8;
}

VEC_INLINE void multiply_squares(const int rows, const int lines, const bool flip, const byte_product *product)
{
    const ivec upper = int_set_byte(flip ? 0x80 : 0);
    const int8_t *weights = product->weights, *ahead = product->ahead;
    ivec square[BYTE_PAIRS][2 * BYTE_LINES], sum[BYTE_ROWS][BYTE_LINES];

    VEC_UNROLL
    for (int v = 0; v < lines; v++) {
        const ivec first = int_load(product->ending.first + v * VEC_LANES);

        VEC_UNROLL
        for (int p = 0; 2 * p < rows; p++) {
            square[p][2 * v] = int_halves_low(first, first);
            square[p][2 * v + 1] = int_halves_high(first, first);
        }
    }
    for (int64_t tap = 0; tap < product->tap_count; tap++) {
        const uint8_t *row[BYTE_ROWS];
        int64_t k = 2;

        VEC_UNROLL
        for (int r = 0; r < rows; r++)
            row[r] = product->input + product->taps[tap] + r * product->x_pixel;
        for (; k <= product->steps; k += 2, weights += 2 * lines * (int)sizeof(ivec)) {
            add_squares(rows, lines, true, upper, row, weights, square);
            ahead = fetch_ahead(ahead, product->ahead_step, lines, 2);
        }
        if (k == product->steps + 1) {
            add_squares(rows, lines, false, upper, row, weights, square);
            weights += lines * (int)sizeof(ivec);
            ahead = fetch_ahead(ahead, product->ahead_step, lines, 1);
        }
    }
    VEC_UNROLL
    for (int r = 0; r < rows; r++) {
        VEC_UNROLL
        for (int v = 0; v < lines; v++) {
            const ivec low = square[r / 2][2 * v], high = square[r / 2][2 * v + 1];

            sum[r][v] = r % 2 == 0 ? int_halves_low(low, high) : int_halves_high(low, high);
        }
    }
    store_results(product->ending.kind, rows, lines, product, sum);
}
#endif

/* flip: the highest bit of each byte of the input is inverted before it is multiplied. */
VEC_INLINE void multiply_tile(const int rows, const int lines, const bool flip, const byte_product *product)
{
#if defined(INT_SQUARES)
    if (rows > 1) {
        multiply_squares(rows, lines, flip, product);
        return;
    }
#endif
    multiply_dots(rows, lines, flip, product);
}
#endif
