/* element_loops.h - functions of each element of a row, and of the elements of two rows. */
#ifndef CPU_ELEMENT_LOOPS_H
#define CPU_ELEMENT_LOOPS_H
#include "simd/instances.h"
#include <stdint.h>

/* y[i] = f(x[i]) with its parameters; y may be x. */
typedef void element_fn(const float *x, float *y, int64_t n, float alpha, float beta);

/* Elements from one row to the next. */
typedef struct pair_steps {
    int64_t y, x0, x1;
} pair_steps;

/* `rows` rows of n elements: y[i] = f(p[i * s0], q[i * s1]); y may be p. */
typedef void pair_fn(const float *p, const float *q, float *y, int64_t n, int64_t s0, int64_t s1, int64_t rows,
                     const pair_steps *step);

typedef struct element_loops {
    element_fn *log, *relu, *leaky, *scale, *linear, *clip, *abs, *sqrt, *swish, *gelu, *gelu_tanh, *elu, *softplus,
        *mish, *hardswish, *reciprocal, *floor, *ceil, *round, *sign, *softsign, *selu, *celu, *threshold, *shrink,
        *square, *cube, *root;
    pair_fn *add, *sub, *mul, *div, *max, *min, *prelu;
} element_loops;

KERNEL_INSTANCES(element_loops, element_loops)
#endif
