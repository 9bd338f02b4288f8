/* groups.h - the inner loop of convolutions whose groups have one channel, in any number of dimensions. */
#ifndef CPU_GROUPS_H
#define CPU_GROUPS_H
#include <stdbool.h>
#include <stdint.h>

/* Pixels of an output row, for contiguous channels:
 *
 *     output[p * y_step + c] = bias[c] + sum over t of input[p * x_step + taps[t] + c] * weights[t * w_step + c]
 *
 * Steps count floats. */
typedef struct thin_row {
    const float *input;
    int64_t x_step;
    const int64_t *taps;
    int64_t tap_count;
    const float *weights;
    int64_t w_step;
    const float *bias; /* NULL: none */
    float *output;
    int64_t y_step, pixels, channels;
} thin_row;

void thin_row_avx512(const thin_row *row);
void thin_row_avx2(const thin_row *row);
void thin_row_neon(const thin_row *row);
void thin_row_rvv(const thin_row *row);
void thin_row_wasm(const thin_row *row);
void thin_row_c(const thin_row *row);
__attribute__((weak)) void thin_row_uniform(const thin_row *row);
__attribute__((weak)) void thin_row_uniform_c(const thin_row *row);
#endif
