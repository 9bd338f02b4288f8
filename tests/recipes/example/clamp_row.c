/* y[i] = the larger of x[i] and 0; NaN stays NaN. */
#include "simd/clamp_row.h"
#include "simd/vec.h"

void KERNEL(clamp_row)(const float *x, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i += VEC_LANES) {
        const vmask some = vec_first(n - i);

        vec_store_some(y + i, some, vec_max(vec_zero(), vec_load_some(some, x + i)));
    }
}
