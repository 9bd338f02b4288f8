/* wino_windows.h - windows of weights are transformed for Winograd's convolutions. */
#ifndef ONEDNN_WINO_WINDOWS_H
#define ONEDNN_WINO_WINDOWS_H
#include "simd/instances.h"
#include <stdint.h>

enum { WINO_R = 3, WINO_ALPHA = 6, WINO_BLOCK = 16 }; /* side of a window, most points of a side, most lanes */

typedef float wino_matrix[WINO_ALPHA][WINO_R];

/* weights: [WINO_R * WINO_R][WINO_BLOCK] windows of as many output channels; point (a, b) starts at
 * out + (a * alpha + b) * step. */
typedef void wino_windows_fn(const wino_matrix matrix, int alpha, const float *weights, int lanes, float *out,
                             int64_t step);
wino_windows_fn wino_windows_avx512, wino_windows_avx2, wino_windows_neon, wino_windows_c;
#endif
