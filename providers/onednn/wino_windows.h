/* wino_windows.h - transforms 3x3 kernels of weights for Winograd convolutions. */
#ifndef ONEDNN_WINO_WINDOWS_H
#define ONEDNN_WINO_WINDOWS_H
#include "simd/instances.h"
#include <stdint.h>

enum { WINO_R = 3, WINO_ALPHA = 6, WINO_BLOCK = 16 }; /* size of a kernel; maximum tile size; maximum lanes */

typedef float wino_matrix[WINO_ALPHA][WINO_R];

/* Transforms the kernels of WINO_BLOCK output channels, weights[WINO_R * WINO_R][WINO_BLOCK], and stores the first
 * `lanes` of them. Point (a, b) of the transforms starts at out + (a * alpha + b) * step. */
typedef void wino_windows_fn(const wino_matrix matrix, int alpha, const float *weights, int lanes, float *out,
                             int64_t step);
wino_windows_fn wino_windows_avx512, wino_windows_avx2, wino_windows_neon, wino_windows_c;
#endif
