/* Unary functions by built-in loops (element_loops.c), over elements in any contiguous layout. They are as exact as
 * float allows, also near zero and at the ends of the range, where oneDNN's have an absolute error (its Softplus of -20
 * is 7.6e-6 instead of 2e-9; its Elu of -1e-8 and its Mish of -20 are 0). They treat NaN, infinity and the sign of zero
 * as ONNX specifies. oneDNN's kernels are used where they are faster: functions with an exponential, for tensors large
 * enough to amortise its call. */
#include "cpu/elementwise/element_loops.h"
#include "inlay/check.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/region/build.h"
#include "simd/row_set.h"
#include "cpu/matrix/sgemm.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_IF_CALLED(cpu_apply);
OPTIONAL_IF_CALLED(cpu_emit_function);
OPTIONAL_IF_CALLED(cpu_is_gelu);
OPTIONAL_IF_CALLED(cpu_needs_builtin_loop);
OPTIONAL_IF_CALLED(cpu_loses_nan);
OPTIONAL_IF_CALLED(cpu_row_is_best);
OPTIONAL_IF_CALLED(cpu_row_of);

/* Functions that the kernel set `rows` provides (simd/row_set.h). */
#define KERNEL_ROW(name)                                                                                               \
    static void name##_row(const float *input, float *output, int64_t n, float alpha, float beta)                      \
    {                                                                                                                  \
        (void)alpha, (void)beta;                                                                                       \
        KERNEL_BEST(rows)->name(input, output, n);                                                                     \
    }
KERNEL_ROW(exp)
KERNEL_ROW(tanh)
KERNEL_ROW(erf)
KERNEL_ROW(sigmoid)

cpu_row_fn cpu_row_of(const cpu_eltwise *eltwise)
{
    const element_loops *const loops = KERNEL_BEST(element_loops);

    switch ((int)eltwise->alg) {
    case LIBRARY_ELTWISE_LOG:
        return loops->log;
    case LIBRARY_ELTWISE_EXP:
        return exp_row;
    case LIBRARY_ELTWISE_RELU:
        return eltwise->alpha == 0 ? loops->relu : loops->leaky;
    case LIBRARY_ELTWISE_LINEAR:
        return eltwise->beta == 0 ? loops->scale : loops->linear; /* -0 + 0 is 0 */
    case LIBRARY_ELTWISE_CLIP_V2:
        return loops->clip;
    case LIBRARY_ELTWISE_ABS:
        return loops->abs;
    case LIBRARY_ELTWISE_SQRT:
        return loops->sqrt;
    case LIBRARY_ELTWISE_LOGISTIC:
        return sigmoid_row;
    case LIBRARY_ELTWISE_TANH:
        return tanh_row;
    case LIBRARY_ELTWISE_SWISH:
        return loops->swish;
    case LIBRARY_ELTWISE_GELU_ERF:
        return loops->gelu;
    case LIBRARY_ELTWISE_GELU_TANH:
        return loops->gelu_tanh;
    case LIBRARY_ELTWISE_ELU:
        return loops->elu;
    case LIBRARY_ELTWISE_SOFT_RELU:
        return loops->softplus;
    case LIBRARY_ELTWISE_MISH:
        return loops->mish;
    case LIBRARY_ELTWISE_HARDSWISH:
        return loops->hardswish;
    case CPU_ERF:
        return erf_row;
    case CPU_RECIPROCAL:
        return loops->reciprocal;
    case CPU_FLOOR:
        return loops->floor;
    case CPU_CEIL:
        return loops->ceil;
    case CPU_ROUND:
        return loops->round;
    case CPU_SIGN:
        return loops->sign;
    case CPU_SOFTSIGN:
        return loops->softsign;
    case CPU_SELU:
        return loops->selu;
    case CPU_CELU:
        return loops->celu;
    case CPU_THRESHOLD:
        return loops->threshold;
    case CPU_SHRINK:
        return loops->shrink;
    case CPU_SQUARE:
        return loops->square;
    case CPU_CUBE:
        return loops->cube;
    case CPU_ROOT:
        return loops->root;
    case CPU_SIN:
        return loops->sin;
    case CPU_COS:
        return loops->cos;
    default:
        return NULL;
    }
}

bool cpu_needs_builtin_loop(library_alg alg)
{
    return (int)alg >= CPU_FIRST_FUNCTION || alg == LIBRARY_ELTWISE_LOG || alg == LIBRARY_ELTWISE_SOFT_RELU ||
           alg == LIBRARY_ELTWISE_ELU || alg == LIBRARY_ELTWISE_MISH;
}

bool cpu_loses_nan(const cpu_eltwise *eltwise)
{
    switch ((int)eltwise->alg) {
    case LIBRARY_ELTWISE_RELU:
        return eltwise->alpha == 0;
    case LIBRARY_ELTWISE_CLIP_V2:
    case LIBRARY_ELTWISE_EXP:
    case LIBRARY_ELTWISE_LOGISTIC:
    case LIBRARY_ELTWISE_GELU_ERF:
    case LIBRARY_ELTWISE_GELU_TANH:
        return true;
    default:
        return false;
    }
}

enum { FEW = 2048 }; /* elements below which the built-in loop is faster than the overhead of a call of oneDNN */

bool cpu_is_gelu(const cpu_eltwise *eltwise)
{
    return eltwise->alg == LIBRARY_ELTWISE_GELU_ERF || eltwise->alg == LIBRARY_ELTWISE_GELU_TANH;
}

bool cpu_row_is_best(const cpu_state *state, const cpu_eltwise *eltwise, int64_t count)
{
    if (cpu_is_gelu(eltwise) && !state->bf16) /* the built-in loops are as fast, and exact near 0 */
        return true;
    if (state->strict || state->alone) /* the loops have the error bounds of vecmath.h */
        return cpu_row_of(eltwise) != NULL;
    switch ((int)eltwise->alg) {
    case LIBRARY_ELTWISE_LOGISTIC: /* oneDNN's loops for AVX-512 make NaN of intermediate overflows */
        return count <= FEW || state->sgemm == NULL || cpu_has(CPU_AVX512);
    case LIBRARY_ELTWISE_SWISH:
    case LIBRARY_ELTWISE_GELU_ERF:
    case LIBRARY_ELTWISE_GELU_TANH:
        return count <= FEW;
    default:
        return cpu_row_of(eltwise) != NULL;
    }
}

bool cpu_function_of(const cpu_eltwise *eltwise, sgemm_post *out)
{
    static const struct {
        library_alg alg;
        sgemm_fn fn;
    } known[] = {
        { LIBRARY_ELTWISE_RELU, SGEMM_RELU },           { LIBRARY_ELTWISE_GELU_ERF, SGEMM_GELU },
        { LIBRARY_ELTWISE_GELU_TANH, SGEMM_GELU_TANH }, { LIBRARY_ELTWISE_LOGISTIC, SGEMM_SIGMOID },
        { LIBRARY_ELTWISE_TANH, SGEMM_TANH },           { LIBRARY_ELTWISE_SWISH, SGEMM_SWISH },
        { LIBRARY_ELTWISE_HARDSWISH, SGEMM_HARDSWISH }, { LIBRARY_ELTWISE_LINEAR, SGEMM_LINEAR },
        { LIBRARY_ELTWISE_CLIP_V2, SGEMM_CLIP },
    };

    for (uint32_t i = 0; i < KIT_COUNT(known); i++) {
        if (known[i].alg == eltwise->alg) {
            *out = (sgemm_post){ .fn = known[i].fn, .alpha = eltwise->alpha, .beta = eltwise->beta };
            return true;
        }
    }
    return false;
}

void cpu_apply(const sgemm_kernel *kernel, const cpu_eltwise *eltwise, float *output, int64_t n)
{
    sgemm_post post = { .fn = SGEMM_GELU };

    if (kernel != NULL && cpu_is_gelu(eltwise) && cpu_function_of(eltwise, &post))
        kernel->post(&post, output, n, 1, n);
    else
        cpu_row_of(eltwise)(output, output, n, eltwise->alpha, eltwise->beta);
}

/* ------------------------------------------------------------------ the step */

struct functions {
    cpu_native native;
    cpu_eltwise eltwise;
    cpu_row_fn row; /* NULL: the epilogue function of the GEMM kernel */
    const sgemm_kernel *kernel;
    int64_t count;
};

typedef struct functions_call {
    const struct functions *functions;
    const float *input;
    float *output; /* may be input */
} functions_call;

/* Applies the GEMM kernel's epilogue function, which works in place, to pieces that stay in the first-level cache. */
static void apply_epilogue(const functions_call *call, int64_t begin, int64_t end)
{
    enum { PIECE = 2048 };
    sgemm_post post = { .fn = SGEMM_GELU };

    (void)cpu_function_of(&call->functions->eltwise, &post);
    INLAY_CHECK(call->functions->kernel != NULL && begin <= end && end <= call->functions->count);
    for (int64_t i = begin; i < end; i += PIECE) {
        const int64_t n = end - i < PIECE ? end - i : PIECE;

        if (call->input != call->output)
            memcpy(call->output + i, call->input + i, (size_t)n * sizeof *call->output);
        call->functions->kernel->post(&post, call->output + i, n, 1, n);
    }
}

static inlay_status functions_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const functions_call *call = user;

    (void)worker;
    if (call->functions->row != NULL)
        call->functions->row(call->input + begin, call->output + begin, end - begin, call->functions->eltwise.alpha,
                             call->functions->eltwise.beta);
    else
        apply_epilogue(call, begin, end);
    return INLAY_OK;
}

static inlay_status run_functions(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                                  uint32_t threads)
{
    const struct functions *functions = (const struct functions *)(const void *)native;
    functions_call call = { functions, args[0], args[1] };
    enum { GRAIN = 16384 };

    if (threads <= 1 || functions->count <= GRAIN)
        return functions_range(&call, 0, functions->count, 0);
    return state->host->parallel_for(state->host->ctx, run, functions->count, GRAIN, functions_range, &call);
}

inlay_status cpu_emit_function(cpu_build *build, const cpu_eltwise *eltwise, const cpu_place *input,
                               const cpu_place *output)
{
    struct functions functions = { .native.run = run_functions,
                                   .eltwise = *eltwise,
                                   .row = cpu_row_of(eltwise),
                                   .kernel = build->state->sgemm,
                                   .count = (int64_t)(memory_desc_bytes(&input->md) / sizeof(float)) };

    if (cpu_is_gelu(eltwise) && functions.kernel != NULL)
        functions.row = NULL;
    INLAY_CHECK(functions.row != NULL || functions.kernel != NULL);
    return cpu_emit_step(build, &functions.native, sizeof functions, (const cpu_place *const[]){ input, output }, 2);
}
