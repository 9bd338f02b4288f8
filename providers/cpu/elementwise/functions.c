/* Unary functions by built-in loops (element_loops.c), over elements in any contiguous layout. They are as exact as
 * float allows, also near zero and at the ends of the range, and treat NaN, infinity and the sign of zero as ONNX
 * specifies. */
#include "cpu/elementwise/element_loops.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/region/build.h"
#include "simd/row_set.h"
#include "cpu/matrix/sgemm.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_IF_CALLED(cpu_apply);
OPTIONAL_IF_CALLED(cpu_emit_function);
OPTIONAL_IF_CALLED(cpu_is_gelu);
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

cpu_row_fn cpu_row_of(const cpu_unary *unary)
{
    const element_loops *const loops = KERNEL_BEST(element_loops);

    switch ((int)unary->function) {
    case FUNCTION_LOG:
        return loops->log;
    case FUNCTION_EXP:
        return exp_row;
    case FUNCTION_RELU:
        return unary->alpha == 0 ? loops->relu : loops->leaky;
    case FUNCTION_LINEAR:
        return unary->beta == 0 ? loops->scale : loops->linear; /* -0 + 0 is 0 */
    case FUNCTION_CLIP:
        return loops->clip;
    case FUNCTION_ABS:
        return loops->abs;
    case FUNCTION_SQRT:
        return loops->sqrt;
    case FUNCTION_SIGMOID:
        return sigmoid_row;
    case FUNCTION_TANH:
        return tanh_row;
    case FUNCTION_SWISH:
        return loops->swish;
    case FUNCTION_GELU:
        return loops->gelu;
    case FUNCTION_GELU_TANH:
        return loops->gelu_tanh;
    case FUNCTION_ELU:
        return loops->elu;
    case FUNCTION_SOFTPLUS:
        return loops->softplus;
    case FUNCTION_MISH:
        return loops->mish;
    case FUNCTION_HARDSWISH:
        return loops->hardswish;
    case FUNCTION_ERF:
        return erf_row;
    case FUNCTION_RECIPROCAL:
        return loops->reciprocal;
    case FUNCTION_FLOOR:
        return loops->floor;
    case FUNCTION_CEIL:
        return loops->ceil;
    case FUNCTION_ROUND:
        return loops->round;
    case FUNCTION_SIGN:
        return loops->sign;
    case FUNCTION_SOFTSIGN:
        return loops->softsign;
    case FUNCTION_SELU:
        return loops->selu;
    case FUNCTION_CELU:
        return loops->celu;
    case FUNCTION_THRESHOLD:
        return loops->threshold;
    case FUNCTION_SHRINK:
        return loops->shrink;
    case FUNCTION_SQUARE:
        return loops->square;
    case FUNCTION_CUBE:
        return loops->cube;
    case FUNCTION_ROOT:
        return loops->root;
    case FUNCTION_SIN:
        return loops->sin;
    case FUNCTION_COS:
        return loops->cos;
    default:
        return NULL;
    }
}

bool cpu_is_gelu(const cpu_unary *unary)
{
    return unary->function == FUNCTION_GELU || unary->function == FUNCTION_GELU_TANH;
}

bool cpu_function_of(const cpu_unary *unary, sgemm_post *out)
{
    static const struct {
        element_function function;
        sgemm_fn fn;
    } known[] = {
        { FUNCTION_RELU, SGEMM_RELU },           { FUNCTION_GELU, SGEMM_GELU },
        { FUNCTION_GELU_TANH, SGEMM_GELU_TANH }, { FUNCTION_SIGMOID, SGEMM_SIGMOID },
        { FUNCTION_TANH, SGEMM_TANH },           { FUNCTION_SWISH, SGEMM_SWISH },
        { FUNCTION_HARDSWISH, SGEMM_HARDSWISH }, { FUNCTION_LINEAR, SGEMM_LINEAR },
        { FUNCTION_CLIP, SGEMM_CLIP },
    };

    for (uint32_t i = 0; i < KIT_COUNT(known); i++) {
        if (known[i].function == unary->function) {
            *out = (sgemm_post){ .fn = known[i].fn, .alpha = unary->alpha, .beta = unary->beta };
            return true;
        }
    }
    return false;
}

void cpu_apply(const sgemm_kernel *kernel, const cpu_unary *unary, float *output, int64_t n)
{
    sgemm_post post = { .fn = SGEMM_GELU };

    if (kernel != NULL && cpu_is_gelu(unary) && cpu_function_of(unary, &post))
        kernel->post(&post, output, n, 1, n);
    else
        cpu_row_of(unary)(output, output, n, unary->alpha, unary->beta);
}

struct functions {
    cpu_native native;
    cpu_unary unary;
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

    (void)cpu_function_of(&call->functions->unary, &post);
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
        call->functions->row(call->input + begin, call->output + begin, end - begin, call->functions->unary.alpha,
                             call->functions->unary.beta);
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

inlay_status cpu_emit_function(cpu_build *build, const cpu_unary *unary, const cpu_place *input,
                               const cpu_place *output)
{
    struct functions functions = { .native.run = run_functions,
                                   .unary = *unary,
                                   .row = cpu_row_of(unary),
                                   .kernel = build->state->sgemm,
                                   .count = (int64_t)(layout_bytes(&input->layout) / sizeof(float)) };

    if (cpu_is_gelu(unary) && functions.kernel != NULL)
        functions.row = NULL;
    INLAY_CHECK(functions.row != NULL || functions.kernel != NULL);
    return cpu_emit_step(build, &functions.native, sizeof functions, (const cpu_place *const[]){ input, output }, 2);
}
