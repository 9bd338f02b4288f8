/* Elementwise functions, see element_loops.h. */
#include "cpu/elementwise/element_loops.h"
#include "simd/vec.h"
#include "simd/uniform_math.h"
#include "simd/vecmath.h"
#include <math.h>

#define FUNCTION(name, expression)                                                                                     \
    static void name(const float *x, float *y, int64_t n, float alpha, float beta)                                     \
    {                                                                                                                  \
        (void)alpha, (void)beta;                                                                                       \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                                                            \
        {                                                                                                              \
            const float a = x[i];                                                                                      \
            y[i] = (expression);                                                                                       \
        }                                                                                                              \
    }
/* ln(1 + t) for 0 <= t <= 1: 2 artanh(t / (2 + t)), whose series converges quickly there. */
static inline float log1p_unit(float t)
{
    const float s = t / (2 + t), z = s * s;
    float p = 1.0f / 15;

    p = p * z + 1.0f / 13;
    p = p * z + 1.0f / 11;
    p = p * z + 1.0f / 9;
    p = p * z + 1.0f / 7;
    p = p * z + 1.0f / 5;
    p = p * z + 1.0f / 3;
    return 2 * s + 2 * s * z * p;
}

/* Log is rounded as in other implementations. Models compute buckets of positions from logarithms such as log(2), and a
 * result that is one bit lower selects another bucket. */
FUNCTION(log_row, vm_log(a))
FUNCTION(relu_row, a < 0 ? 0 : a)
FUNCTION(leaky_row, a < 0 ? a * alpha : a)
FUNCTION(scale_row, a *alpha)
FUNCTION(linear_row, a *alpha + beta)
FUNCTION(clip_row, a<alpha ? alpha : a> beta ? beta : a)
FUNCTION(abs_row, vm_abs(a))
FUNCTION(sqrt_row, sqrtf(a))
FUNCTION(swish_row, a *vm_sigmoid(alpha *a))
FUNCTION(gelu_row, vm_gelu(a))
FUNCTION(gelu_tanh_row, vm_gelu_tanh(a))
FUNCTION(elu_row, a < 0 ? alpha * vm_expm1(a) : a)
FUNCTION(softplus_row, (a < 0 ? 0 : a) + log1p_unit(vm_exp(-vm_abs(a))))
/* x tanh(softplus x) = x u / (u + 2) with u = t^2 + 2t, t = e^x */
static inline float mish_of(float a)
{
    const float t = vm_exp(a < 20 ? a : 20), u = t * (t + 2);

    return a != a ? a : a * (u / (u + 2));
}
FUNCTION(mish_row, mish_of(a))
static inline float hard_unit(float a)
{
    return a < 0 ? 0 : a > 1 ? 1 : a;
}
FUNCTION(hardswish_row, a *hard_unit(a *(1.0f / 6) + 0.5f))
FUNCTION(reciprocal_row, 1 / a)
FUNCTION(floor_row, floorf(a))
FUNCTION(ceil_row, ceilf(a))
FUNCTION(round_row, rintf(a))
FUNCTION(sign_row, a > 0 ? 1.0f : a < 0 ? -1.0f : a == 0 ? 0.0f : a)
FUNCTION(softsign_row, a / (1 + vm_abs(a)))
FUNCTION(selu_row, a < 0 ? beta * alpha * vm_expm1(a) : beta * a)
static inline float celu_of(float a, float alpha)
{
    const float quotient = a / alpha, low = alpha * (quotient == 0 ? quotient : vm_expm1(quotient));

    return a < 0 ? low : a;
}
FUNCTION(celu_row, celu_of(a, alpha))
FUNCTION(threshold_row, a > alpha ? a : 0) /* of NaN: 0, as in ONNX's function bodies */
FUNCTION(shrink_row, a<-alpha ? a + beta : a> alpha ? a - beta : 0)
FUNCTION(sin_near_row, a == 0 ? a : vm_sin(a)) /* keeps the sign of 0 */
FUNCTION(cos_near_row, vm_cos(a))

static float far_sin(float x)
{
    return (float)uniform_sin((double)x);
}

static float far_cos(float x)
{
    return (float)uniform_cos((double)x);
}

/* Applies `near` to blocks of angles below VM_TRIG_MAX, and `any` to the other blocks. */
static void angle_row(const float *x, float *y, int64_t n, element_fn *near, float (*any)(float))
{
    enum { BLOCK = 256 };

    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t block = n - at < BLOCK ? n - at : BLOCK;
        int far = 0;

        for (int64_t i = at; i < at + block; i++)
            far |= !(vm_abs(x[i]) < VM_TRIG_MAX);
        if (far == 0)
            near(x + at, y + at, block, 0, 0);
        else
            for (int64_t i = at; i < at + block; i++)
                y[i] = any(x[i]);
    }
}

static void sin_row(const float *x, float *y, int64_t n, float alpha, float beta)
{
    (void)alpha, (void)beta;
    angle_row(x, y, n, sin_near_row, far_sin);
}

static void cos_row(const float *x, float *y, int64_t n, float alpha, float beta)
{
    (void)alpha, (void)beta;
    angle_row(x, y, n, cos_near_row, far_cos);
}
FUNCTION(square_row, a *a)
FUNCTION(cube_row, a *a *a)
FUNCTION(root_row, a < -3.40282347e38f ? -a : sqrtf(a) + 0.0f) /* the power 1/2: that of -0 is 0 */

/* `rows` rows of n elements; y may be x0. */
#define ROWS(name, expression)                                                                                         \
    static void name(const float *x0, const float *x1, float *y, int64_t n, int64_t s0, int64_t s1, int64_t rows,      \
                     const pair_steps *step)                                                                           \
    {                                                                                                                  \
        for (int64_t r = 0; r < rows; r++, x0 += step->x0, x1 += step->x1, y += step->y) {                             \
            if (s0 == 1 && s1 == 1) {                                                                                  \
                _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                                                    \
                {                                                                                                      \
                    const float a = x0[i], b = x1[i];                                                                  \
                    y[i] = (expression);                                                                               \
                }                                                                                                      \
            } else if (s0 == 1 && s1 == 0) {                                                                           \
                const float b = x1[0];                                                                                 \
                _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                                                    \
                {                                                                                                      \
                    const float a = x0[i];                                                                             \
                    y[i] = (expression);                                                                               \
                }                                                                                                      \
            } else if (s0 == 0 && s1 == 1) {                                                                           \
                const float a = x0[0];                                                                                 \
                _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                                                    \
                {                                                                                                      \
                    const float b = x1[i];                                                                             \
                    y[i] = (expression);                                                                               \
                }                                                                                                      \
            } else {                                                                                                   \
                for (int64_t i = 0; i < n; i++) {                                                                      \
                    const float a = x0[i * s0], b = x1[i * s1];                                                        \
                    y[i] = (expression);                                                                               \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
ROWS(rows_add, a + b)
ROWS(rows_sub, a - b)
ROWS(rows_mul, a *b)
ROWS(rows_div, a / b)
ROWS(rows_max, a > b || a != a ? a : b)
ROWS(rows_min, a < b || a != a ? a : b)
ROWS(rows_prelu, a < 0 ? a * b : a)

const element_loops KERNEL(element_loops) = {
    .log = log_row,
    .relu = relu_row,
    .leaky = leaky_row,
    .scale = scale_row,
    .linear = linear_row,
    .clip = clip_row,
    .abs = abs_row,
    .sqrt = sqrt_row,
    .swish = swish_row,
    .gelu = gelu_row,
    .gelu_tanh = gelu_tanh_row,
    .elu = elu_row,
    .softplus = softplus_row,
    .mish = mish_row,
    .hardswish = hardswish_row,
    .reciprocal = reciprocal_row,
    .floor = floor_row,
    .ceil = ceil_row,
    .round = round_row,
    .sign = sign_row,
    .softsign = softsign_row,
    .selu = selu_row,
    .celu = celu_row,
    .threshold = threshold_row,
    .shrink = shrink_row,
    .square = square_row,
    .cube = cube_row,
    .root = root_row,
    .sin = sin_row,
    .cos = cos_row,
    .add = rows_add,
    .sub = rows_sub,
    .mul = rows_mul,
    .div = rows_div,
    .max = rows_max,
    .min = rows_min,
    .prelu = rows_prelu,
};
