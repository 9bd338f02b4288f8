/* Compares operations on vectors of the level rvv with their definition, see cpu_riscv64.h. */
#include "simd/cpu_riscv64.h"
#include "simd/vec_permute.h"
#include <math.h>

enum { ROUNDS = 8, LONG = VEC_LANES * VEC_LANES };

static bool are_right(const float *x, int chosen)
{
    vec lines[VEC_LANES];
    const vec a = vec_load(x), b = vec_load(x + VEC_LANES), c = vec_load(x + 2 * VEC_LANES);
    const vec sum = vec_fma(a, b, c), some = vec_load_some(vec_first(chosen), x), even = vec_even(a, b);
    bool right = true;

    memcpy(lines, x, sizeof lines);
    vec_transpose(lines);
    for (int i = 0; i < VEC_LANES; i++) {
        right = right && sum[i] == fmaf(x[i], x[VEC_LANES + i], x[2 * VEC_LANES + i]) &&
                some[i] == (i < chosen ? x[i] : 0) && even[i] == x[2 * i];
        for (int j = 0; j < VEC_LANES; j++)
            right = right && lines[i][j] == x[VEC_LANES * j + i];
    }
    return right;
}

bool KERNEL(riscv64_vectors)(void)
{
    uint32_t noise = 1;

    for (int round = 0; round < ROUNDS; round++) {
        float x[LONG];

        for (int i = 0; i < LONG; i++) {
            noise = noise * 1664525 + 1013904223;
            x[i] = (float)(noise >> 8) * 0x1p-23f - 1;
        }
        if (!are_right(x, round))
            return false;
    }
    return true;
}
