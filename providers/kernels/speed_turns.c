/* Multiplications and additions from registers, see speed.h. */
#include "speed.h"
#include "vec.h"

enum { SUMS = 10 }; /* more than a core has under way at once, and fewer than its registers */

static void run(float *sums, float factor, float term, int64_t turns)
{
    const vec f = vec_set(factor), t = vec_set(term);
    vec sum[SUMS];

    for (int k = 0; k < SUMS; k++)
        sum[k] = vec_load(sums + k * VEC_LANES);
    for (int64_t turn = 0; turn < turns; turn++) {
        VEC_UNROLL
        for (int k = 0; k < SUMS; k++)
            sum[k] = vec_fma(sum[k], f, t);
    }
    for (int k = 0; k < SUMS; k++)
        vec_store(sums + k * VEC_LANES, sum[k]);
}

const speed_loop KERNEL(speed_turns) = { 2 * SUMS * VEC_LANES, run };
