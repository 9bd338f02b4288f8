/* functions_avx512.h - functions of vectors for x86-64-v4, as our loops apply them to what they made. */
#ifndef ONEDNN_FUNCTIONS_AVX512_H
#define ONEDNN_FUNCTIONS_AVX512_H
#include "sgemm.h"
#include <immintrin.h>

/* 1 + e^(k x / log2(e)): 2^n times a polynomial of 2^r, to some 2 ulp where k x is within [-16, 16]; absolute errors
 * beyond are nothing beside 1. NaN stays; infinity where it overflows. */
static inline __attribute__((always_inline)) __m512 one_and_exp2(__m512 x, __m512 k)
{
    const __m512 t = _mm512_min_ps(_mm512_set1_ps(128), _mm512_mul_ps(x, k));
    const __m512 n = _mm512_roundscale_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m512 r = _mm512_sub_ps(t, n);
    __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(0.0013264727f), r, _mm512_set1_ps(0.009671513f));

    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.055507336f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.24022242f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.693147f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1));
    return _mm512_add_ps(_mm512_set1_ps(1), _mm512_scalef_ps(p, n));
}

/* fn is a constant where this is inlined. k: of a gate, -log2(e) times its alpha. */
static inline __attribute__((always_inline)) __m512 function_of(const sg_fn fn, __m512 x, __m512 k)
{
    if (fn == SG_SIGMOID)
        return _mm512_div_ps(_mm512_set1_ps(1), one_and_exp2(x, k));
    if (fn == SG_SWISH)
        return _mm512_div_ps(x, one_and_exp2(x, k));
    /* hardswish */
    return _mm512_mul_ps(x, _mm512_min_ps(_mm512_set1_ps(1),
                                          _mm512_max_ps(_mm512_setzero_ps(),
                                                        _mm512_fmadd_ps(x, _mm512_set1_ps(1.0f / 6),
                                                                        _mm512_set1_ps(0.5f)))));
}
#endif
