/* Col2Im: ONNX 18. The inverse of im2col: elements that come from the same pixel are added. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "operators/args.h"
#include "simd/convert.h"
#include "operators/operators.h"
#include "operators/strided.h"

typedef struct col2im_job {
    int64_t image[INLAY_MAX_RANK], block[INLAY_MAX_RANK], counts[INLAY_MAX_RANK]; /* counts: block positions per axis */
    int64_t block_step[INLAY_MAX_RANK]; /* strides of an index in the block, row-major */
    int64_t dilations[INLAY_MAX_RANK], pads[INLAY_MAX_RANK], strides[INLAY_MAX_RANK];
    uint32_t rank, lanes; /* lanes: numbers per element, 2 for complex types */
    int64_t pixels, block_count, positions;
    const char *in;
    char *out, *accumulators;
    uint32_t element;
    uint32_t reserved;
    void (*plane)(const struct col2im_job *job, const void *columns, void *accumulator, void *image);
} col2im_job;

/* Finds the range [*out_first, *out_end) of block positions along an axis for which an element of the block, at
 * `offset` in the block at position 0, is inside the image. */
static void col2im_inside(int64_t offset, int64_t stride, int64_t count, int64_t image, int64_t *out_first,
                          int64_t *out_end)
{
    const int64_t first = offset < 0 ? (-offset + stride - 1) / stride : 0;
    const int64_t end = offset < image ? (image - offset + stride - 1) / stride : 0;

    INLAY_CHECK(stride > 0 && count >= 0);
    *out_first = first;
    *out_end = end < count ? end : count;
}

#define BODY "col2im.inc"
#include "operators/floats.inc"

#define ACC T
#define LOAD(x) (x)
#define STORE(x) (x)
#define ONLY_UNSIGNED
#define BODY "col2im.inc"
#include "operators/integers.inc"
#undef ACC
#undef STORE

#define NAME(what) what##_bool
#define T uint8_t
#define ACC uint32_t
#define STORE(x) ((uint8_t)((x) != 0))
#include "operators/col2im.inc"

typedef void (*plane_fn)(const col2im_job *job, const void *columns, void *accumulator, void *image);
static const plane_fn by_dtype[INLAY_DTYPE_COUNT] = {
    [INLAY_FLOAT] = plane_f32,      [INLAY_DOUBLE] = plane_f64,  [INLAY_COMPLEX64] = plane_f32,
    [INLAY_COMPLEX128] = plane_f64, [INLAY_FLOAT16] = plane_f16, [INLAY_BFLOAT16] = plane_bf16,
    [INLAY_INT8] = plane_u8,        [INLAY_UINT8] = plane_u8,    [INLAY_INT16] = plane_u16,
    [INLAY_UINT16] = plane_u16,     [INLAY_INT32] = plane_u32,   [INLAY_UINT32] = plane_u32,
    [INLAY_INT64] = plane_u64,      [INLAY_UINT64] = plane_u64,  [INLAY_BOOL] = plane_bool,
};

typedef struct col2im_state {
    int64_t dilations[INLAY_MAX_RANK], pads[2 * INLAY_MAX_RANK], strides[INLAY_MAX_RANK];
    int32_t dilation_count, pad_count, stride_count;
} col2im_state;

static bool supports_col2im(const kit_node *node, kit_refusal *why)
{
    const inlay_dtype dtype = kit_input_dtype(node, 0);

    if (dtype > 0 && dtype < INLAY_DTYPE_COUNT && by_dtype[dtype] == NULL)
        return kit_refuse(why, INLAY_REFUSE_DTYPE, "use a number type", "elements of type %s cannot be added",
                          inlay_dtype_name(dtype));
    return true;
}

static inlay_status prepare_col2im(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_status status = arg_allocate_state(sizeof(col2im_state), out_state, diag);

    if (status == INLAY_OK) {
        col2im_state *state = *out_state;

        INLAY_TRY(arg_ints(node, "dilations", state->dilations, INLAY_MAX_RANK, &state->dilation_count, diag));
        INLAY_TRY(arg_ints(node, "pads", state->pads, 2 * INLAY_MAX_RANK, &state->pad_count, diag));
        INLAY_TRY(arg_ints(node, "strides", state->strides, INLAY_MAX_RANK, &state->stride_count, diag));
    }
done:
    return status;
}

/* The workspace has an accumulator per worker, with 8 bytes per number. */
static inlay_status shape_col2im(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *output = &plan->out[0];
    uint64_t numbers;

    (void)state;
    if (output->count < 0 || output->rank < 3)
        return INLAY_OK; /* run reports the error */
    numbers = (uint64_t)strided_product(output->dims, 2, output->rank) * (uint64_t)plan->max_threads;
    if (__builtin_mul_overflow(numbers,
                               output->dtype == INLAY_COMPLEX64 || output->dtype == INLAY_COMPLEX128 ? 16u : 8u,
                               &plan->workspace_bytes))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the image is too large");
    return INLAY_OK;
}

/* Fills the job from attributes and inputs; checks that block positions and columns match. */
static inlay_status read_job(const kit_call *call, col2im_job *job)
{
    const col2im_state *state = call->state;
    const kit_tensor *input = &call->in[0], *image = &call->in[1], *block = &call->in[2];
    const int64_t rank = image->count;
    int64_t step = 1, dims[INLAY_MAX_RANK];

    if (input->rank != 3 || rank < 1 || rank > INLAY_MAX_RANK - 2 || block->count != rank ||
        (state->dilation_count >= 0 && state->dilation_count != rank) ||
        (state->stride_count >= 0 && state->stride_count != rank) ||
        (state->pad_count >= 0 && state->pad_count != 2 * rank))
        return inlay_fail(
            call->diag, INLAY_INVALID_ARGUMENT,
            "input must be [N, C * block, L] and image_shape, block_shape, dilations, pads, strides must match it");
    job->rank = (uint32_t)rank;
    job->pixels = job->block_count = job->positions = 1;
    for (uint32_t d = job->rank; d-- > 0;) {
        const int64_t pad_end = state->pad_count >= 0 ? state->pads[d + job->rank] : 0;
        int64_t span;

        job->image[d] = ((const int64_t *)image->data)[d];
        job->block[d] = ((const int64_t *)block->data)[d];
        job->dilations[d] = state->dilation_count >= 0 ? state->dilations[d] : 1;
        job->strides[d] = state->stride_count >= 0 ? state->strides[d] : 1;
        job->pads[d] = state->pad_count >= 0 ? state->pads[d] : 0;
        if (job->image[d] <= 0 || job->block[d] <= 0 || job->dilations[d] <= 0 || job->strides[d] <= 0 ||
            job->pads[d] < 0 || pad_end < 0 || job->image[d] > INT32_MAX || job->block[d] > INT32_MAX ||
            job->dilations[d] > INT32_MAX || job->strides[d] > INT32_MAX || job->pads[d] > INT32_MAX ||
            pad_end > INT32_MAX)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT,
                              "axis %u has a size, stride, dilation or pad that is "
                              "not positive or too large",
                              d);
        span = job->image[d] + job->pads[d] + pad_end - job->dilations[d] * (job->block[d] - 1) - 1;
        job->counts[d] = span < 0 ? 0 : span / job->strides[d] + 1;
        job->block_step[d] = step;
        if (__builtin_mul_overflow(step, job->block[d], &step) ||
            __builtin_mul_overflow(job->positions, job->counts[d], &job->positions))
            return inlay_fail(call->diag, INLAY_LIMIT_EXCEEDED, "axis %u makes more than 2^63 blocks", d);
    }
    job->block_count = step;
    if (input->dims[1] % step != 0 || input->dims[2] != job->positions)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "the input is [%lld, %lld, %lld]; blocks of %lld elements at "
                          "%lld positions are required",
                          (long long)input->dims[0], (long long)input->dims[1], (long long)input->dims[2],
                          (long long)step, (long long)job->positions);
    dims[0] = input->dims[0];
    dims[1] = input->dims[1] / step;
    memcpy(dims + 2, job->image, job->rank * sizeof *dims);
    return arg_expect_dims(call->diag, &call->out[0], job->rank + 2, dims);
}

/* A unit of work is one channel of one image. */
static inlay_status col2im_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const col2im_job *job = user;

    INLAY_CHECK(job->plane != NULL && job->accumulators != NULL);
    for (int64_t unit = begin; unit < end; unit++)
        job->plane(job, job->in + unit * job->block_count * job->positions * job->element,
                   job->accumulators + worker * job->pixels * job->lanes * 8,
                   job->out + unit * job->pixels * job->element);
    return INLAY_OK;
}

static inlay_status run_col2im(const kit_call *call)
{
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    const bool complex = input->dtype == INLAY_COMPLEX64 || input->dtype == INLAY_COMPLEX128;
    col2im_job job = {
        .in = input->data, .out = output->data, .accumulators = call->workspace, .lanes = complex ? 2 : 1
    };
    inlay_status status = read_job(call, &job);

    if (status != INLAY_OK || output->count == 0)
        return status;
    job.plane = by_dtype[input->dtype];
    if (job.plane == NULL)
        return inlay_fail(call->diag, INLAY_UNSUPPORTED, "elements of type %s", inlay_dtype_name(input->dtype));
    job.element = strided_element_bytes(input->dtype);
    job.pixels = strided_product(job.image, 0, job.rank);
    return kit_parallel(call, output->dims[0] * output->dims[1], 16384 / (job.block_count * job.positions + 1) + 1,
                        col2im_range, &job);
}

static const kit_kernel kernels[] = {
    { .op_type = "Col2Im",
      .supports = supports_col2im,
      .prepare = prepare_col2im,
      .shape = shape_col2im,
      .run = run_col2im },
};
const kit_table OPERATOR(operators_col2im) = { kernels, KIT_COUNT(kernels) };
