/* byte_loops.h - loops over bytes, what they stand for, and sums of their products. */
#ifndef CPU_BYTE_LOOPS_H
#define CPU_BYTE_LOOPS_H
#include "library/dn.h"
#include "simd/instances.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct byte_loops {
    /* y = (x - zero) * scale. */
    void (*dequantize)(float *y, const void *x, bool is_signed, int64_t n, float scale, float zero);
    /* y = saturate(round_half_even(x / scale) + zero), as ONNX QuantizeLinear-13, by any scale. */
    void (*quantize)(void *y, const float *x, bool is_signed, int64_t n, float scale, float zero);
    /* Widens [*low, *high] by what x holds, NaN aside. */
    void (*range)(const float *x, int64_t n, float *low, float *high);
    /* y = x within [low, high]. */
    void (*clip)(void *y, const void *x, bool is_signed, int64_t n, int32_t low, int32_t high);
    int32_t (*sum)(const void *x, bool is_signed, int64_t n);
    /* Functions of dequantized values, as quant_chain.c has them. */
    void (*one_function)(float *restrict y, const float *restrict x, int64_t n, dn_alg alg, float alpha, float beta);
    void (*two_function)(float *restrict y, const float *p, const float *q, int64_t n, dn_alg alg);
    /* y = acc - zero * sums; y -= rest * w_zeros: both modulo 2^32. */
    void (*without_zeros)(int32_t *restrict y, const int32_t *restrict acc, const int32_t *restrict sums, int64_t n,
                          int32_t zero);
    void (*without_weight_zeros)(int32_t *restrict y, const int32_t *restrict w_zeros, int64_t n, int32_t rest);
    /* y[i] = x[i] * scale[i * step]; step: 0 or 1. */
    void (*scaled)(float *restrict y, const int32_t *restrict x, int64_t n, const float *scale, int64_t step);
    void (*as_floats)(float *restrict y, const int32_t *restrict x, int64_t n);
    void (*add)(float *restrict y, const float *restrict x, int64_t n);
    void (*relu)(float *y, int64_t n);
    void (*gelu)(float *y, int64_t n);
    /* sums += w as int8, with the bits of flip turned. */
    void (*add_bytes)(int32_t *restrict sums, const uint8_t *restrict w, int64_t n, uint8_t flip);
} byte_loops;

KERNEL_INSTANCES(byte_loops, byte_loops)
#endif
