/* Transform of weights, see wino_windows.h. */
#include "onednn/wino_windows.h"
#include "inlay/check.h"
#include "simd/vec.h"

void KERNEL(wino_windows)(const wino_matrix matrix, int alpha, const float *weights, int lanes, float *out,
                          int64_t step)
{
    float half[WINO_ALPHA][WINO_R][WINO_BLOCK], whole[WINO_BLOCK];

    INLAY_CHECK(alpha <= WINO_ALPHA && lanes <= WINO_BLOCK);
    for (int a = 0; a < alpha; a++)
        for (int x = 0; x < WINO_R; x++)
            for (int o = 0; o < WINO_BLOCK; o++)
                half[a][x][o] = matrix[a][0] * weights[x * WINO_BLOCK + o] +
                                matrix[a][1] * weights[(WINO_R + x) * WINO_BLOCK + o] +
                                matrix[a][2] * weights[(2 * WINO_R + x) * WINO_BLOCK + o];
    for (int a = 0; a < alpha; a++) {
        for (int b = 0; b < alpha; b++) {
            for (int o = 0; o < WINO_BLOCK; o++)
                whole[o] = half[a][0][o] * matrix[b][0] + half[a][1][o] * matrix[b][1] + half[a][2][o] * matrix[b][2];
            memcpy(out + (a * alpha + b) * step, whole, (size_t)lanes * sizeof *out);
        }
    }
}
