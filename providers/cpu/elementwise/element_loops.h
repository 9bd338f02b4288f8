/* element_loops.h - elementwise functions of one row and of two rows. */
#ifndef CPU_ELEMENT_LOOPS_H
#define CPU_ELEMENT_LOOPS_H
#include "simd/instances.h"
#include <stdint.h>

/* output[i] = f(input[i]) with parameters alpha and beta; output may be input. */
typedef void element_fn(const float *input, float *output, int64_t n, float alpha, float beta);

/* Elements from one row to the next. */
typedef struct pair_steps {
    int64_t y, x0, x1;
} pair_steps;

/* For `rows` rows of n elements: output[i] = f(x0[i * s0], x1[i * s1]); output may be x0. */
typedef void pair_fn(const float *x0, const float *x1, float *output, int64_t n, int64_t s0, int64_t s1, int64_t rows,
                     const pair_steps *step);

typedef struct element_loops {
    element_fn *log, *relu, *leaky, *scale, *linear, *clip, *abs, *sqrt, *swish, *gelu, *gelu_tanh, *elu, *softplus,
        *mish, *hardswish, *reciprocal, *floor, *ceil, *round, *sign, *softsign, *selu, *celu, *threshold, *shrink,
        *square, *cube, *root, *sin, *cos;
    pair_fn *add, *sub, *mul, *div, *max, *min, *prelu;
} element_loops;

KERNEL_INSTANCES(element_loops, element_loops)
#endif
