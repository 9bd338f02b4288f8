/* Functions of one tensor as loops of our own (element_loops.c), over elements as they lie. They are as exact as float
 * allows, near zero and at the ends of the range too, where oneDNN's have an absolute error (its Softplus of -20
 * is 7.6e-6, not 2e-9; its Elu of -1e-8 and its Mish of -20 are 0); they keep NaN, infinity and the sign of zero as
 * ONNX has them. oneDNN's are left where they are faster: those with an exponential, of tensors that are large enough
 * for the time that a call of its takes. */
#include "elementwise/element_loops.h"
#include "region/build.h"
#include "simd/row_set.h"
#include "matrix/sgemm.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_IF_CALLED(rg_apply);
OPTIONAL_IF_CALLED(rg_emit_function);
OPTIONAL_IF_CALLED(rg_is_gelu);
OPTIONAL_IF_CALLED(rg_is_ours);
OPTIONAL_IF_CALLED(rg_loses_nan);
OPTIONAL_IF_CALLED(rg_row_is_best);
OPTIONAL_IF_CALLED(rg_row_of);

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

rg_row_fn rg_row_of(const rg_eltwise *eltwise)
{
    const element_loops *const loops = KERNEL_BEST(element_loops);

    switch ((int)eltwise->alg) {
    case DN_ELTWISE_LOG:
        return loops->log;
    case DN_ELTWISE_EXP:
        return exp_row;
    case DN_ELTWISE_RELU:
        return eltwise->alpha == 0 ? loops->relu : loops->leaky;
    case DN_ELTWISE_LINEAR:
        return eltwise->beta == 0 ? loops->scale : loops->linear; /* -0 + 0 is 0 */
    case DN_ELTWISE_CLIP_V2:
        return loops->clip;
    case DN_ELTWISE_ABS:
        return loops->abs;
    case DN_ELTWISE_SQRT:
        return loops->sqrt;
    case DN_ELTWISE_LOGISTIC:
        return sigmoid_row;
    case DN_ELTWISE_TANH:
        return tanh_row;
    case DN_ELTWISE_SWISH:
        return loops->swish;
    case DN_ELTWISE_GELU_ERF:
        return loops->gelu;
    case DN_ELTWISE_GELU_TANH:
        return loops->gelu_tanh;
    case DN_ELTWISE_ELU:
        return loops->elu;
    case DN_ELTWISE_SOFT_RELU:
        return loops->softplus;
    case DN_ELTWISE_MISH:
        return loops->mish;
    case DN_ELTWISE_HARDSWISH:
        return loops->hardswish;
    case RG_ERF:
        return erf_row;
    case RG_RECIPROCAL:
        return loops->reciprocal;
    case RG_FLOOR:
        return loops->floor;
    case RG_CEIL:
        return loops->ceil;
    case RG_ROUND:
        return loops->round;
    case RG_SIGN:
        return loops->sign;
    case RG_SOFTSIGN:
        return loops->softsign;
    case RG_SELU:
        return loops->selu;
    case RG_CELU:
        return loops->celu;
    case RG_THRESHOLD:
        return loops->threshold;
    case RG_SHRINK:
        return loops->shrink;
    case RG_SQUARE:
        return loops->square;
    case RG_CUBE:
        return loops->cube;
    case RG_ROOT:
        return loops->root;
    default:
        return NULL;
    }
}

bool rg_is_ours(dn_alg alg)
{
    return (int)alg >= RG_FIRST_FUNCTION || alg == DN_ELTWISE_LOG || alg == DN_ELTWISE_SOFT_RELU ||
           alg == DN_ELTWISE_ELU || alg == DN_ELTWISE_MISH;
}

bool rg_loses_nan(const rg_eltwise *eltwise)
{
    switch ((int)eltwise->alg) {
    case DN_ELTWISE_RELU:
        return eltwise->alpha == 0;
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

bool rg_is_gelu(const rg_eltwise *eltwise)
{
    return eltwise->alg == DN_ELTWISE_GELU_ERF || eltwise->alg == DN_ELTWISE_GELU_TANH;
}

bool rg_row_is_best(const rg_state *state, const rg_eltwise *eltwise, int64_t count)
{
    if (rg_is_gelu(eltwise) && !state->bf16) /* ours are as fast, and exact near 0 */
        return true;
    if (state->strict || state->alone) /* whose errors are those of vecmath.h */
        return rg_row_of(eltwise) != NULL;
    switch ((int)eltwise->alg) {
    case DN_ELTWISE_LOGISTIC: /* oneDNN's loops for AVX-512 keep NaN: there is an overflow between */
        return count <= FEW || state->sgemm == NULL || cpu_has(CPU_AVX512);
    case DN_ELTWISE_SWISH:
    case DN_ELTWISE_GELU_ERF:
    case DN_ELTWISE_GELU_TANH:
        return count <= FEW;
    default:
        return rg_row_of(eltwise) != NULL;
    }
}

void rg_apply(const sg_kernel *kernel, const rg_eltwise *eltwise, float *y, int64_t n)
{
    sg_post post = { .fn = SG_GELU };

    if (kernel != NULL && rg_is_gelu(eltwise) && rg_function_of(eltwise, &post))
        kernel->post(&post, y, n, 1, n);
    else
        rg_row_of(eltwise)(y, y, n, eltwise->alpha, eltwise->beta);
}

/* ------------------------------------------------------------------ the step */

struct functions {
    rg_native native;
    rg_eltwise eltwise;
    rg_row_fn row; /* NULL: what products have behind them */
    const sg_kernel *kernel;
    int64_t count;
};

typedef struct functions_call {
    const struct functions *functions;
    const float *input;
    float *output; /* may be x */
} functions_call;

/* What products have behind them, which works in place, by pieces that stay in the first-level cache. */
static void behind_row(const functions_call *call, int64_t begin, int64_t end)
{
    enum { PIECE = 2048 };
    sg_post post = { .fn = SG_GELU };

    (void)rg_function_of(&call->functions->eltwise, &post);
    for (int64_t i = begin; i < end; i += PIECE) {
        const int64_t n = end - i < PIECE ? end - i : PIECE;

        if (call->input != call->output)
            memcpy(call->output + i, call->input + i, (size_t)n * sizeof *call->output);
        call->functions->kernel->post(&post, call->output + i, n, 1, n);
    }
}

static inlay_status functions_some(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const functions_call *call = user;

    (void)worker;
    if (call->functions->row != NULL)
        call->functions->row(call->input + begin, call->output + begin, end - begin, call->functions->eltwise.alpha,
                             call->functions->eltwise.beta);
    else
        behind_row(call, begin, end);
    return INLAY_OK;
}

static inlay_status run_functions(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                                  uint32_t threads)
{
    const struct functions *functions = (const struct functions *)(const void *)native;
    functions_call call = { functions, args[0], args[1] };
    enum { GRAIN = 16384 };

    if (threads <= 1 || functions->count <= GRAIN)
        return functions_some(&call, 0, functions->count, 0);
    return state->host->parallel_for(state->host->ctx, run, functions->count, GRAIN, functions_some, &call);
}

inlay_status rg_emit_function(rg_build *build, const rg_eltwise *eltwise, const rg_place *x, const rg_place *y)
{
    struct functions functions = { .native.run = run_functions,
                                   .eltwise = *eltwise,
                                   .row = rg_row_of(eltwise),
                                   .kernel = build->state->sgemm,
                                   .count = (int64_t)(rg_md_bytes(&x->md) / sizeof(float)) };

    if (rg_is_gelu(eltwise) && functions.kernel != NULL)
        functions.row = NULL;
    return rg_emit_step(build, &functions.native, sizeof functions, (const rg_place *const[]){ x, y }, 2);
}
