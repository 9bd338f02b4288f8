/* quantize/blockmul.h - products of small blocks of floats, for matrices of moments and what is made of them. */
#ifndef QUANTIZE_BLOCKMUL_H
#define QUANTIZE_BLOCKMUL_H
#include <stdint.h>

/* c[i][j] += factor * sum over k of a[i * a_row + k * a_step] * b[k * b_row + j], for i < rows, j < columns and k <
 * depth. c, [rows] rows of c_row floats, overlaps neither. */
typedef struct blockmul {
    float *c;
    const float *a, *b;
    int64_t rows, columns, depth;
    int64_t c_row, a_row, a_step, b_row;
    float factor;
} blockmul;

void blockmul_add(const blockmul *m);
#endif
