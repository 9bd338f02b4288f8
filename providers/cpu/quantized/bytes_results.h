/* bytes_results.h - the results of sums of a tile (byte_ending), for kernels that are compiled for an instruction
 * set. */
#ifndef CPU_BYTES_RESULTS_H
#define CPU_BYTES_RESULTS_H
#include "cpu/quantized/byte_set.h"
#include "simd/vec_int.h"

VEC_INLINE void end_tile(const int rows, const int lines, const byte_product *product, ivec sum[][BYTE_LINES])
{
    const byte_ending *ending = &product->ending;
    const ivec zero = int_set_short(ending->zero), low = int_set_byte(ending->low), high = int_set_byte(ending->high);
    const ivec flip = int_set_byte(ending->flip);
    const int step = lines == 1 ? 4 : lines == 2 ? 2 : 1; /* rows that fill a vector of bytes */
    vec scale[BYTE_LINES];

    VEC_UNROLL
    for (int v = 0; v < lines; v++)
        scale[v] = vec_load(ending->scale + v * VEC_LANES);
    VEC_UNROLL
    for (int r = 0; r < rows; r += step) {
        ivec q[4], bytes;

        VEC_UNROLL
        for (int i = 0; i < 4; i++) {
            const int row = r + (lines == 1 ? i : lines == 2 ? i / 2 : 0), v = lines == 1 ? 0 : lines == 2 ? i % 2 : i;

            q[i] = row < rows && v < lines ? int_round(vec_mul(int_float(sum[row][v]), scale[v])) : int_set(0);
        }
        bytes = int_in_order(int_xor(int_bytes(q, zero, low, high), flip));
        VEC_UNROLL
        for (int i = 0; i < step; i++)
            if (r + i < rows)
                int_store_part((uint8_t *)product->output + (r + i) * product->y_pixel, bytes, i, step,
                               product->columns);
    }
}

VEC_INLINE void store_sums(const int rows, const int lines, const byte_product *product, ivec sum[][BYTE_LINES])
{
    VEC_UNROLL
    for (int r = 0; r < rows; r++) {
        uint8_t *output = (uint8_t *)product->output + r * product->y_pixel;

        VEC_UNROLL
        for (int v = 0; v < lines; v++, output += sizeof(ivec)) {
            const int64_t left = product->columns - v * VEC_LANES;

            if (left >= VEC_LANES)
                int_store(output, sum[r][v]);
            else
                vec_store_some((float *)(void *)output, vec_first(left), (vec)sum[r][v]);
        }
    }
}

VEC_INLINE void store_floats(const int rows, const int lines, const byte_product *product, ivec sum[][BYTE_LINES])
{
    VEC_UNROLL
    for (int v = 0; v < lines; v++) {
        const vec scale = vec_load(product->ending.scale + v * VEC_LANES),
                  shift = vec_load(product->ending.shift + v * VEC_LANES);
        const int64_t left = product->columns - v * VEC_LANES;
        const vmask some = vec_first(left);
        uint8_t *output = (uint8_t *)product->output + v * (int64_t)sizeof(vec);

        VEC_UNROLL
        for (int r = 0; r < rows; r++, output += product->y_pixel) {
            const vec x = vec_add(vec_mul(int_float(sum[r][v]), scale), shift);

            if (left >= VEC_LANES)
                vec_store((float *)(void *)output, x);
            else
                vec_store_some((float *)(void *)output, some, x);
        }
    }
}

/* Stores rows x lines vectors of sums as kind says. */
VEC_INLINE void store_results(const byte_kind kind, const int rows, const int lines, const byte_product *product,
                              ivec sum[][BYTE_LINES])
{
    if (kind == BYTE_FLOATS)
        store_floats(rows, lines, product, sum);
    else if (kind == BYTE_SUMS)
        store_sums(rows, lines, product, sum);
    else
        end_tile(rows, lines, product, sum);
}
#endif
