/* Fast Fourier transforms of blocks, see fft_blocks.h. Vectors run across the columns, so that all lanes have the same
 * factor. */
#include "cpu/convolution/fft_blocks.h"
#include "simd/vec.h"
#include <math.h>

enum { PART_VECTORS = FFT_LANES / VEC_LANES };

typedef struct complex_vec {
    vec re, im;
} complex_vec;

VEC_INLINE complex_vec get(const float *record)
{
    return (complex_vec){ vec_load(record), vec_load(record + FFT_LANES) };
}

VEC_INLINE void put(float *record, complex_vec x)
{
    vec_store(record, x.re);
    vec_store(record + FFT_LANES, x.im);
}

VEC_INLINE complex_vec add(complex_vec x, complex_vec y)
{
    return (complex_vec){ vec_add(x.re, y.re), vec_add(x.im, y.im) };
}

VEC_INLINE complex_vec subtract(complex_vec x, complex_vec y)
{
    return (complex_vec){ vec_sub(x.re, y.re), vec_sub(x.im, y.im) };
}

/* x y, or x times the conjugate of y. */
VEC_INLINE complex_vec times(const bool conjugate, complex_vec x, complex_vec y)
{
    const vec re = vec_mul(x.re, y.re), im = vec_mul(x.im, y.re);

    return conjugate ? (complex_vec){ vec_fma(x.im, y.im, re), vec_fnma(x.re, y.im, im) }
                     : (complex_vec){ vec_fnma(x.im, y.im, re), vec_fma(x.re, y.im, im) };
}

VEC_INLINE complex_vec factor(const fft_block *block, int64_t i)
{
    return (complex_vec){ vec_set(block->factors[2 * i]), vec_set(block->factors[2 * i + 1]) };
}

/* One step for four rows, `quarter` apart, by factors w, w^2 and w^3; lone: they are 1. */
VEC_INLINE void four(const bool inverse, const bool lone, float *x, int64_t quarter, const complex_vec *w)
{
    complex_vec a = get(x), b = get(x + quarter), c = get(x + 2 * quarter), d = get(x + 3 * quarter), sum, difference,
                even, odd;

    if (inverse && !lone) {
        b = times(true, b, w[0]);
        c = times(true, c, w[1]);
        d = times(true, d, w[2]);
    }
    sum = add(a, c);
    difference = subtract(a, c);
    even = add(b, d);
    odd = subtract(b, d);
    odd = inverse ? (complex_vec){ vec_sub(vec_zero(), odd.im), odd.re }
                  : (complex_vec){ odd.im, vec_sub(vec_zero(), odd.re) };
    a = add(sum, even);
    c = subtract(sum, even);
    b = add(difference, odd);
    d = subtract(difference, odd);
    if (!inverse && !lone) {
        b = times(false, b, w[0]);
        c = times(false, c, w[1]);
        d = times(false, d, w[2]);
    }
    put(x, a);
    put(x + quarter, b);
    put(x + 2 * quarter, c);
    put(x + 3 * quarter, d);
}

/* One step of radix 4 for the columns of a record: transforms of `points` points each are divided into four, or put
 * together from four. */
VEC_INLINE void radix_4(const bool inverse, const fft_block *block, float *x, int64_t row, int64_t rows, int64_t points)
{
    const int64_t quarter = points / 4;

    for (int64_t j = 0; j < quarter; j++) {
        const int64_t at = j * (FFT_MOST / points);
        const complex_vec w[] = { factor(block, at), factor(block, 2 * at), factor(block, 3 * at) };

        for (int64_t first = j; first < rows; first += points)
            for (int i = 0; i < PART_VECTORS; i++) {
                if (j == 0)
                    four(inverse, true, x + first * row + i * VEC_LANES, quarter * row, w);
                else
                    four(inverse, false, x + first * row + i * VEC_LANES, quarter * row, w);
            }
    }
}

VEC_INLINE void radix_2(float *x, int64_t row, int64_t rows)
{
    for (int64_t first = 0; first < rows; first += 2)
        for (int i = 0; i < PART_VECTORS; i++) {
            float *at = x + first * row + i * VEC_LANES;
            const complex_vec a = get(at), b = get(at + row);

            put(at, add(a, b));
            put(at + row, subtract(a, b));
        }
}

static void columns_forward(const fft_block *block, float *x, int64_t rows, int64_t columns, int64_t used)
{
    const int64_t row = fft_row_floats(columns);

    for (int64_t column = 0; column < used; column += FFT_LANES, x += 2 * FFT_LANES) {
        int64_t points = rows;

        for (; points >= 4; points /= 4)
            radix_4(false, block, x, row, rows, points);
        if (points == 2)
            radix_2(x, row, rows);
    }
}

static void columns_inverse(const fft_block *block, float *x, int64_t rows, int64_t columns)
{
    const int64_t row = fft_row_floats(columns);
    int64_t least = rows;

    while (least >= 4)
        least /= 4;
    for (int64_t column = 0; column < columns; column += FFT_LANES, x += 2 * FFT_LANES) {
        if (least == 2)
            radix_2(x, row, rows);
        for (int64_t points = 4 * least; points <= rows; points *= 4)
            radix_4(true, block, x, row, rows, points);
    }
}

/* Where column `column` of a row begins: its real part. */
VEC_INLINE int64_t at_column(int64_t column)
{
    return column / FFT_LANES * (2 * FFT_LANES) + column % FFT_LANES;
}

/* y[j][i] = x[i][j]; with a twist t, times t[i][j] before, or times its conjugate after the inverse transform. */
VEC_INLINE void turn(const bool inverse, const fft_block *block, const float *x, int64_t rows, int64_t columns,
                     float *y)
{
    const int64_t x_row = fft_row_floats(columns), y_row = fft_row_floats(rows);

    for (int64_t i = 0; i < rows; i += VEC_LANES)
        for (int64_t j = 0; j < columns; j += VEC_LANES) {
            vec re[VEC_LANES], im[VEC_LANES];

            VEC_UNROLL
            for (int n = 0; n < VEC_LANES; n++) {
                complex_vec from = get(x + (i + n) * x_row + at_column(j));

                if (!inverse && block->twist != NULL)
                    from = times(false, from, get(block->twist + (i + n) * 2 * columns + at_column(j)));
                re[n] = from.re;
                im[n] = from.im;
            }
            vec_transpose(re);
            vec_transpose(im);
            VEC_UNROLL
            for (int n = 0; n < VEC_LANES; n++) {
                complex_vec to = { re[n], im[n] };

                if (inverse && block->twist != NULL)
                    to = times(true, to, get(block->twist + (j + n) * 2 * rows + at_column(i)));
                put(y + (j + n) * y_row + at_column(i), to);
            }
        }
}

KERNEL_PART(void, fft_forward, const fft_block *block, float *x, int64_t used, float *y)
{
    columns_forward(block, x, block->rows, block->columns, used);
    turn(false, block, x, block->rows, block->columns, y);
    columns_forward(block, y, block->columns, block->rows, block->rows);
}

KERNEL_PART(void, fft_inverse, const fft_block *block, float *y, float *x)
{
    columns_inverse(block, y, block->columns, block->rows);
    turn(true, block, y, block->columns, block->rows, x);
    columns_inverse(block, x, block->rows, block->columns);
}

VEC_INLINE void multiply(const int inputs, const int filters, const fft_block *block, const fft_product *p)
{
    const int64_t row = fft_row_floats(block->rows), used = block->rows / FFT_LANES * (2 * FFT_LANES);

    for (int64_t from = 0; from < block->columns * row; from += row)
        for (int64_t record = from; record < from + used; record += 2 * FFT_LANES)
            for (int i = 0; i < PART_VECTORS; i++) {
                const int64_t at = record + i * VEC_LANES;
                complex_vec sum[FFT_FILTERS];

                VEC_UNROLL
                for (int k = 0; k < filters; k++)
                    sum[k] =
                        p->first ? (complex_vec){ vec_zero(), vec_zero() } : get(p->results + k * p->result_step + at);
                VEC_UNROLL
                for (int c = 0; c < inputs; c++) {
                    const complex_vec x = get(p->inputs + c * p->input_step + at);

                    VEC_UNROLL
                    for (int k = 0; k < filters; k++) {
                        const complex_vec w = get(p->filters + (k * inputs + c) * p->filter_step + at);

                        sum[k].re = vec_fma(x.im, w.im, vec_fma(x.re, w.re, sum[k].re));
                        sum[k].im = vec_fnma(x.re, w.im, vec_fma(x.im, w.re, sum[k].im));
                    }
                }
                VEC_UNROLL
                for (int k = 0; k < filters; k++)
                    put(p->results + k * p->result_step + at, sum[k]);
            }
}

KERNEL_PART(void, fft_multiply, const fft_block *block, const fft_product *product)
{
    if (product->input_count == FFT_INPUTS && product->filter_count == FFT_FILTERS) {
        multiply(FFT_INPUTS, FFT_FILTERS, block, product);
        return;
    }
    for (int c = 0; c < product->input_count; c++)
        for (int k = 0; k < product->filter_count; k++) {
            fft_product one = *product;

            one.inputs += c * one.input_step;
            one.filters += (k * product->input_count + c) * one.filter_step;
            one.results += k * one.result_step;
            one.first = one.first && c == 0;
            multiply(1, 1, block, &one);
        }
}

KERNEL_PART(void, fft_weigh, const float *restrict x, int64_t n, float weight, float *restrict sums,
            float *restrict squares)
{
    for (int64_t i = 0; i < n; i++) {
        const float size = weight * fabsf(x[i]);

        sums[i] += size;
        squares[i] += size * size;
    }
}

KERNEL_PART(float, fft_sum, const float *x, int64_t n)
{
    vec sum = vec_zero();
    int64_t i = 0;

    for (; i + VEC_LANES <= n; i += VEC_LANES)
        sum = vec_add(sum, vec_load(x + i));
    if (i < n)
        sum = vec_add(sum, vec_load_some(vec_first(n - i), x + i));
    return vec_sum(sum);
}

KERNEL_PART(void, fft_put, const float *part, int64_t n, float scale, float bias, bool clamp, float low, float high,
            float *output)
{
    const vec factor_of_all = vec_set(scale), addend = vec_set(bias), least = vec_set(low), most = vec_set(high);

    for (int64_t i = 0; i < n; i += VEC_LANES) {
        vec x = vec_fma(vec_load(part + at_column(i)), factor_of_all, addend);

        if (clamp)
            x = vec_min(most, vec_max(least, x)); /* NaN is kept */
        if (n - i >= VEC_LANES)
            vec_store(output + i, x);
        else
            vec_store_some(output + i, vec_first(n - i), x);
    }
}

const fft_set KERNEL(fft_blocks) = { KERNEL_PART_OF(fft_forward),  KERNEL_PART_OF(fft_inverse),
                                     KERNEL_PART_OF(fft_multiply), KERNEL_PART_OF(fft_weigh),
                                     KERNEL_PART_OF(fft_sum),      KERNEL_PART_OF(fft_put) };
