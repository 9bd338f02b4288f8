/* functions.h - activation functions on vectors, for the epilogue of kernels. */
#ifndef CPU_FUNCTIONS_H
#define CPU_FUNCTIONS_H
#include "cpu/matrix/sgemm.h"
#include "simd/vec.h"

/* 1 + e^(k x / log2(e)): 2^n times a polynomial of 2^r, accurate to about 2 ulp for k x in [-16, 16]. Beyond, the
 * error is negligible relative to 1. NaN is kept; overflow gives infinity. */
VEC_INLINE vec one_and_exp2(vec x, vec k)
{
    const vec most = vec_min(vec_set(128), vec_mul(x, k));
    const vec t = VEC_SCALES_ALL ? most : vec_max(vec_set(-200), most);
    const vec n = vec_round(t), r = vec_sub(t, n);
    vec p = vec_fma(vec_set(0.0013264727f), r, vec_set(0.009671513f));

    p = vec_fma(p, r, vec_set(0.055507336f));
    p = vec_fma(p, r, vec_set(0.24022242f));
    p = vec_fma(p, r, vec_set(0.693147f));
    p = vec_fma(p, r, vec_set(1));
    return vec_add(vec_set(1), vec_scale(p, n));
}

/* fn is a constant where this is inlined. k: -log2(e) times alpha for Sigmoid and Swish. */
VEC_INLINE vec function_of(const sgemm_fn fn, vec x, vec k)
{
    if (fn == SGEMM_SIGMOID)
        return vec_div(vec_set(1), one_and_exp2(x, k));
    if (fn == SGEMM_SWISH)
        return vec_div(x, one_and_exp2(x, k));
    /* hardswish */
    return vec_mul(x, vec_min(vec_set(1), vec_max(vec_zero(), vec_fma(x, vec_set(1.0f / 6), vec_set(0.5f)))));
}
#endif
