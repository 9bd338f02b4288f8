/* byte_loops.h - elementwise kernels for quantized operators: between bytes and floats, and on sums of products. */
#ifndef CPU_BYTE_LOOPS_H
#define CPU_BYTE_LOOPS_H
#include "cpu/layout/functions.h"
#include "simd/instances.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct byte_loops {
    /* output = (input - zero) * scale. */
    void (*dequantize)(float *output, const void *input, bool is_signed, int64_t count, float scale, float zero);
    /* output = saturate(round_half_even(input / scale) + zero), ONNX QuantizeLinear-13, for any scale. */
    void (*quantize)(void *output, const float *input, bool is_signed, int64_t count, float scale, float zero);
    /* Extends [*low, *high] to include the elements of input. *low becomes NaN if one of them is. */
    void (*range)(const float *input, int64_t count, float *low, float *high);
    /* output = clamp(input, low, high). */
    void (*clip)(void *output, const void *input, bool is_signed, int64_t count, int32_t low, int32_t high);
    int32_t (*sum)(const void *input, bool is_signed, int64_t count);
    /* The functions that quant_chain.c supports, of dequantized values. */
    void (*one_function)(float *restrict output, const float *restrict input, int64_t count, element_function function,
                         float alpha, float beta);
    void (*two_function)(float *restrict output, const float *p, const float *q, int64_t count,
                         element_function function);
    /* output -= rest * w_zeros modulo 2^32. */
    void (*without_weight_zeros)(int32_t *restrict output, const int32_t *restrict w_zeros, int64_t count,
                                 int32_t rest);
    /* output[i] = input[i] * scale[i * step]; step: 0 or 1. */
    void (*scaled)(float *restrict output, const int32_t *restrict input, int64_t count, const float *scale,
                   int64_t step);
    void (*add)(float *restrict output, const float *restrict input, int64_t count);
    void (*relu)(float *output, int64_t count);
    void (*gelu)(float *output, int64_t count);
} byte_loops;

KERNEL_INSTANCES(byte_loops, byte_loops)
#endif
