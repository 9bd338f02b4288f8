/* Functions of one tensor as loops of our own, over elements as they lie. They are as exact as float allows, near zero
 * and at the ends of the range too, where oneDNN's have an absolute error (its Softplus of -20 is 7.6e-6, not 2e-9; its
 * Elu of -1e-8 and its Mish of -20 are 0); they keep NaN, infinity and the sign of zero as ONNX has them. oneDNN's are
 * left where they are faster: those with an exponential, of tensors that are large enough for the time that a call of
 * its takes. */
#include "region/build.h"
#include "simd/row_set.h"
#include "product/sgemm.h"
#include "simd/vecmath.h"
#include "simd/optional.h"
#include <math.h>

#define FUNCTION(name, expression)                                                                                     \
    KIT_MULTIVERSION static void name(const float *x, float *y, int64_t n, float alpha, float beta)                    \
    {                                                                                                                  \
        (void)alpha, (void)beta;                                                                                       \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                                                            \
        {                                                                                                              \
            const float a = x[i];                                                                                      \
            y[i] = (expression);                                                                                       \
        }                                                                                                              \
    }
/* ln(1 + t) for 0 <= t <= 1: 2 artanh(t / (2 + t)), whose series is short there. */
static inline float log_of_more(float t)
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

/* Those that kernels have. */
#define KERNEL_ROW(name)                                                                                               \
    static void name##_row(const float *x, float *y, int64_t n, float alpha, float beta)                               \
    {                                                                                                                  \
        (void)alpha, (void)beta;                                                                                       \
        KERNEL_BEST(rows)->name(x, y, n);                                                                              \
    }
KERNEL_ROW(exp)
KERNEL_ROW(tanh)
KERNEL_ROW(erf)
KERNEL_ROW(sigmoid)

/* Log is rounded so that log(2) and the like are what everybody else's are: models cut positions into buckets by it,
 * and a result one bit lower is another bucket. */
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
FUNCTION(softplus_row, (a < 0 ? 0 : a) + log_of_more(vm_exp(-vm_abs(a))))
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
FUNCTION(selu_row, a <= 0 ? beta * alpha * vm_expm1(a) : beta * a)
static inline float celu_of(float a, float alpha)
{
    const float low = alpha * vm_expm1(a / alpha);

    return (a < 0 ? 0 : a) + (low > 0 ? 0 : low);
}
FUNCTION(celu_row, celu_of(a, alpha))
FUNCTION(threshold_row, a <= alpha ? 0 : a)
FUNCTION(shrink_row, a<-alpha ? a + beta : a> alpha ? a - beta : a == a ? 0 : a)
FUNCTION(square_row, a *a)
FUNCTION(cube_row, a *a *a)
FUNCTION(root_row, a < -3.40282347e38f ? -a : sqrtf(a) + 0.0f) /* the power 1/2: that of -0 is 0 */

rg_row_fn rg_row_of(const rg_eltwise *f)
{
    switch ((int)f->alg) {
    case DN_ELTWISE_LOG:
        return log_row;
    case DN_ELTWISE_EXP:
        return exp_row;
    case DN_ELTWISE_RELU:
        return f->alpha == 0 ? relu_row : leaky_row;
    case DN_ELTWISE_LINEAR:
        return f->beta == 0 ? scale_row : linear_row; /* -0 + 0 is 0 */
    case DN_ELTWISE_CLIP_V2:
        return clip_row;
    case DN_ELTWISE_ABS:
        return abs_row;
    case DN_ELTWISE_SQRT:
        return sqrt_row;
    case DN_ELTWISE_LOGISTIC:
        return sigmoid_row;
    case DN_ELTWISE_TANH:
        return tanh_row;
    case DN_ELTWISE_SWISH:
        return swish_row;
    case DN_ELTWISE_GELU_ERF:
        return gelu_row;
    case DN_ELTWISE_GELU_TANH:
        return gelu_tanh_row;
    case DN_ELTWISE_ELU:
        return elu_row;
    case DN_ELTWISE_SOFT_RELU:
        return softplus_row;
    case DN_ELTWISE_MISH:
        return mish_row;
    case DN_ELTWISE_HARDSWISH:
        return hardswish_row;
    case RG_ERF:
        return erf_row;
    case RG_RECIPROCAL:
        return reciprocal_row;
    case RG_FLOOR:
        return floor_row;
    case RG_CEIL:
        return ceil_row;
    case RG_ROUND:
        return round_row;
    case RG_SIGN:
        return sign_row;
    case RG_SOFTSIGN:
        return softsign_row;
    case RG_SELU:
        return selu_row;
    case RG_CELU:
        return celu_row;
    case RG_THRESHOLD:
        return threshold_row;
    case RG_SHRINK:
        return shrink_row;
    case RG_SQUARE:
        return square_row;
    case RG_CUBE:
        return cube_row;
    case RG_ROOT:
        return root_row;
    default:
        return NULL;
    }
}

bool rg_is_ours(dn_alg alg)
{
    return (int)alg >= RG_FIRST_FUNCTION || alg == DN_ELTWISE_LOG || alg == DN_ELTWISE_SOFT_RELU ||
           alg == DN_ELTWISE_ELU || alg == DN_ELTWISE_MISH;
}

bool rg_loses_nan(const rg_eltwise *f)
{
    switch ((int)f->alg) {
    case DN_ELTWISE_RELU:
        return f->alpha == 0;
    case DN_ELTWISE_CLIP_V2:
    case DN_ELTWISE_EXP:
    case DN_ELTWISE_LOGISTIC:
    case DN_ELTWISE_GELU_ERF:
    case DN_ELTWISE_GELU_TANH:
        return true;
    default:
        return false;
    }
}

enum { FEW = 2048 }; /* elements that are done before oneDNN has begun */

bool rg_is_gelu(const rg_eltwise *f)
{
    return f->alg == DN_ELTWISE_GELU_ERF || f->alg == DN_ELTWISE_GELU_TANH;
}

bool rg_row_is_best(const rg_state *state, const rg_eltwise *f, int64_t count)
{
    if (rg_is_gelu(f) && !state->bf16) /* ours are as fast, and exact near 0 */
        return true;
    if (state->strict || state->alone) /* whose errors are those of vecmath.h */
        return rg_row_of(f) != NULL;
    switch ((int)f->alg) {
    case DN_ELTWISE_LOGISTIC: /* oneDNN's loops for AVX-512 keep NaN: there is an overflow between */
        return count <= FEW || state->sgemm == NULL || cpu_has(CPU_AVX512);
    case DN_ELTWISE_SWISH:
    case DN_ELTWISE_GELU_ERF:
    case DN_ELTWISE_GELU_TANH:
        return count <= FEW;
    default:
        return rg_row_of(f) != NULL;
    }
}

void rg_apply(const sg_kernel *kernel, const rg_eltwise *f, float *y, int64_t n)
{
    sg_post post = { .fn = SG_GELU };

    if (kernel != NULL && rg_is_gelu(f) && rg_function_of(f, &post))
        kernel->post(&post, y, n, 1, n);
    else
        rg_row_of(f)(y, y, n, f->alpha, f->beta);
}

/* ------------------------------------------------------------------ the step */

typedef struct functions {
    rg_native native;
    rg_eltwise f;
    rg_row_fn row; /* NULL: what products have behind them */
    const sg_kernel *kernel;
    int64_t count;
} functions;

typedef struct functions_call {
    const functions *l;
    const float *x;
    float *y; /* may be x */
} functions_call;

/* What products have behind them, which works in place, by pieces that stay in the first-level cache. */
static void behind_row(const functions_call *c, int64_t begin, int64_t end)
{
    enum { PIECE = 2048 };
    sg_post post = { .fn = SG_GELU };

    (void)rg_function_of(&c->l->f, &post);
    for (int64_t i = begin; i < end; i += PIECE) {
        const int64_t n = end - i < PIECE ? end - i : PIECE;

        if (c->x != c->y)
            memcpy(c->y + i, c->x + i, (size_t)n * sizeof *c->y);
        c->l->kernel->post(&post, c->y + i, n, 1, n);
    }
}

static inlay_status functions_some(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const functions_call *c = user;

    (void)worker;
    if (c->l->row != NULL)
        c->l->row(c->x + begin, c->y + begin, end - begin, c->l->f.alpha, c->l->f.beta);
    else
        behind_row(c, begin, end);
    return INLAY_OK;
}

static inlay_status run_functions(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                                  uint32_t threads)
{
    const functions *l = (const functions *)(const void *)native;
    functions_call c = { l, args[0], args[1] };
    enum { GRAIN = 16384 };

    if (threads <= 1 || l->count <= GRAIN)
        return functions_some(&c, 0, l->count, 0);
    return state->host->parallel_for(state->host->ctx, run, l->count, GRAIN, functions_some, &c);
}

inlay_status rg_emit_function(rg_build *b, const rg_eltwise *f, const rg_place *x, const rg_place *y)
{
    functions l = { .native.run = run_functions,
                    .f = *f,
                    .row = rg_row_of(f),
                    .kernel = b->state->sgemm,
                    .count = (int64_t)(rg_md_bytes(&x->md) / sizeof(float)) };

    if (rg_is_gelu(f) && l.kernel != NULL)
        l.row = NULL;
    return rg_emit_step(b, &l.native, sizeof l, (const rg_place *const[]){ x, y }, 2);
}

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_IF_CALLED(rg_apply);
OPTIONAL_IF_CALLED(rg_emit_function);
OPTIONAL_IF_CALLED(rg_is_gelu);
OPTIONAL_IF_CALLED(rg_is_ours);
OPTIONAL_IF_CALLED(rg_loses_nan);
OPTIONAL_IF_CALLED(rg_row_is_best);
OPTIONAL_IF_CALLED(rg_row_of);
