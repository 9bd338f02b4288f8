/* DFT: ONNX 17, 20. STFT: ONNX 17. Each line is gathered, transformed in double, and stored. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/args.h"
#include "simd/convert.h"
#include "common/fft.h"
#include "operators/operators.h"
#include "operators/work.h"
#include <stdlib.h>

typedef struct dft_state {
    bool inverse, onesided, axis_input, short_time;
    int64_t axis;
} dft_state;

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    dft_state *state = NULL;
    inlay_status status = arg_allocate_state(sizeof *state, (void **)&state, diag);

    if (status != INLAY_OK)
        return status;
    state->short_time = strcmp(kit_op_type(node), "STFT") == 0;
    state->inverse = kit_attr_int(node->info, "inverse", 0) != 0;
    state->onesided = kit_attr_int(node->info, "onesided", state->short_time) != 0;
    state->axis_input = kit_since_version(node) >= 20;
    state->axis = kit_attr_int(node->info, "axis", state->axis_input ? -2 : 1);
    *out_state = state;
    return INLAY_OK;
}

typedef struct dft_plan {
    struct fft fft;
    int64_t lines;               /* number of transforms */
    int64_t in_count;            /* input elements that a transform reads; the rest is zero */
    int64_t out_count;           /* output elements that a transform writes */
    int64_t in_parts, out_parts; /* 1: real, 2: complex */
    int64_t inner;               /* DFT: distance of the elements of a line, in complex numbers */
    int64_t in_axis, out_axis, frames, step, signal;
    uint64_t thread_bytes;
    double tables[];
} dft_plan;

/* Creates the plan with tables for transforms of `length` elements, and reserves workspace for each thread. */
static inlay_status make_plan(int64_t length, kit_plan *plan, dft_plan **out, inlay_diag *diag)
{
    INLAY_CHECK(plan->plan == NULL);
    size_t count = fft_table_count(length);
    dft_plan *transform;

    *out = NULL;
    if (count == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "a transform of length %lld: it must be at least 1",
                          (long long)length);
    transform = count > SIZE_MAX / 16 ? NULL : calloc(1, sizeof *transform + count * sizeof(double));
    if (transform == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a transform of length %lld", (long long)length);
    fft_init(&transform->fft, length, transform->tables);
    plan->plan = transform;
    transform->thread_bytes =
        ((2 * (uint64_t)length + fft_scratch_count(&transform->fft)) * sizeof(double) + 63) & ~UINT64_C(63);
    if (__builtin_mul_overflow(transform->thread_bytes, (uint64_t)plan->max_threads, &plan->workspace_bytes))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the workspace of this transform exceeds the address space");
    *out = transform;
    return INLAY_OK;
}

static bool given(const kit_plan *plan, uint32_t input)
{
    return input < plan->in_count && plan->in[input].dtype != INLAY_UNDEFINED;
}

/* Reads a scalar input on which the shape depends; it must be constant when the plan is created. */
static inlay_status read_scalar(const kit_plan *plan, uint32_t input, const char *name, int64_t *out, inlay_diag *diag)
{
    if (plan->in[input].data == NULL || plan->in[input].count < 1)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%s must be known when the shapes are planned", name);
    *out = arg_index(&plan->in[input], 0);
    return INLAY_OK;
}

static inlay_status shape_dft(const dft_state *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *input = &plan->in[0], *output = &plan->out[0];
    int64_t axis = state->axis, length, inner = 1, lines;
    bool to_real = state->inverse && state->onesided;
    dft_plan *transform;
    uint32_t transformed_axis;
    inlay_status status;

    if (input->rank < 2 || output->rank != input->rank || input->dims[input->rank - 1] < 1 ||
        input->dims[input->rank - 1] > 2)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the input has rank %u; its last dim must hold 1 or 2 parts",
                          input->rank);
    if (state->axis_input && given(plan, 2))
        INLAY_TRY(read_scalar(plan, 2, "axis", &axis, diag));
    INLAY_TRY(arg_axis(diag, axis, input->rank, "axis", &transformed_axis));
    if (transformed_axis + 1 == input->rank)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "axis %lld is the axis of real and imaginary parts",
                          (long long)axis);
    length = to_real ? 2 * (input->dims[transformed_axis] - 1) : input->dims[transformed_axis];
    if (given(plan, 1))
        INLAY_TRY(read_scalar(plan, 1, "dft_length", &length, diag));
    for (uint32_t d = transformed_axis + 1; d + 1 < input->rank; d++)
        inner *= input->dims[d];
    lines = input->dims[transformed_axis] > 0
                ? input->count / input->dims[transformed_axis] / input->dims[input->rank - 1]
                : 0;
    INLAY_TRY(make_plan(length, plan, &transform, diag));
    transform->in_parts = input->dims[input->rank - 1];
    transform->out_parts = to_real ? 1 : 2;
    transform->in_axis = input->dims[transformed_axis];
    transform->out_axis = state->onesided && !to_real ? length / 2 + 1 : length;
    transform->in_count = transform->in_axis < length ? transform->in_axis : length;
    if (to_real)
        transform->in_count = transform->in_axis < length / 2 + 1 ? transform->in_axis : length / 2 + 1;
    transform->out_count = transform->out_axis;
    transform->inner = inner;
    transform->lines = lines;
    if (output->count != lines * transform->out_axis * transform->out_parts)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the output has %lld elements, not %lld x %lld x %lld",
                          (long long)output->count, (long long)lines, (long long)transform->out_axis,
                          (long long)transform->out_parts);
done:
    return status;
}

static inlay_status shape_stft(const dft_state *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *input = &plan->in[0], *output = &plan->out[0];
    int64_t length = 0, step = 0, bins, frames;
    dft_plan *transform;
    inlay_status status;

    if (input->rank < 2 || input->rank > 3 || (input->rank == 3 && input->dims[2] != 1 && input->dims[2] != 2) ||
        output->rank != 4)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the signal has rank %u; it must be [batch, length, 1 or 2]",
                          input->rank);
    INLAY_TRY(read_scalar(plan, 1, "frame_step", &step, diag));
    if (given(plan, 3))
        INLAY_TRY(read_scalar(plan, 3, "frame_length", &length, diag));
    else if (given(plan, 2))
        length = plan->in[2].count;
    else
        return inlay_fail(diag, INLAY_INVALID_MODEL, "give STFT a window or a frame_length");
    if (step < 1 || length < 1 || length > input->dims[1])
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "frames of %lld every %lld do not fit a signal of %lld",
                          (long long)length, (long long)step, (long long)input->dims[1]);
    bins = state->onesided ? length / 2 + 1 : length;
    frames = (input->dims[1] - length) / step + 1;
    if (output->dims[0] != input->dims[0] || output->dims[1] != frames || output->dims[2] != bins ||
        output->dims[3] != 2)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the output is not [%lld, %lld, %lld, 2]",
                          (long long)input->dims[0], (long long)frames, (long long)bins);
    INLAY_TRY(make_plan(length, plan, &transform, diag));
    transform->in_parts = input->rank == 3 ? input->dims[2] : 1;
    transform->in_count = given(plan, 2) && plan->in[2].count < length ? plan->in[2].count : length;
    transform->out_count = bins;
    transform->frames = frames;
    transform->step = step;
    transform->signal = input->dims[1];
    transform->lines = input->dims[0] * frames;
done:
    return status;
}

static inlay_status shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const dft_state *dft = state;

    return dft->short_time ? shape_stft(dft, plan, diag) : shape_dft(dft, plan, diag);
}

/* Completes the spectrum of a real signal from its first `known` elements: element count - i is the complex conjugate
 * of element i. */
static void mirror(double *line, int64_t count, int64_t known)
{
    INLAY_CHECK(known >= 0 && known <= count);
    for (int64_t k = known; k < count; k++) {
        int64_t from = count - k;
        line[2 * k] = from < known ? line[2 * from] : 0;
        line[2 * k + 1] = from < known ? -line[2 * from + 1] : 0;
    }
}

static inlay_status run_lines(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const dft_state *state = call->state;
    const dft_plan *plan = call->plan;
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    double *line = (double *)(void *)((char *)call->workspace + worker * plan->thread_bytes),
           *scratch = line + 2 * plan->fft.n;
    const kit_tensor *window = state->short_time && kit_has_input(call, 2) ? &call->in[2] : NULL;

    INLAY_CHECK(plan->in_count <= plan->fft.n && plan->out_count <= plan->fft.n);
    for (int64_t transform = begin; transform < end; transform++) {
        int64_t from, to, in_step, out_step;
        if (state->short_time) {
            from = transform / plan->frames * plan->signal + transform % plan->frames * plan->step;
            to = transform * plan->out_count;
            in_step = out_step = 1;
        } else {
            from = transform / plan->inner * plan->in_axis * plan->inner + transform % plan->inner;
            to = transform / plan->inner * plan->out_axis * plan->inner + transform % plan->inner;
            in_step = out_step = plan->inner;
        }
        memset(line, 0, (size_t)(2 * plan->fft.n) * sizeof(double));
        for (int64_t k = 0; k < plan->in_count; k++) {
            convert_to_f64(line + 2 * k, input->dtype, input->data, (from + k * in_step) * plan->in_parts,
                           plan->in_parts);
            if (window != NULL) {
                double factor = convert_get_f64(window->dtype, window->data, k);
                line[2 * k] *= factor;
                line[2 * k + 1] *= factor;
            }
        }
        if (plan->out_parts == 1)
            mirror(line, plan->fft.n, plan->in_count);
        fft_run(&plan->fft, state->inverse, line, scratch);
        for (int64_t k = 0; k < plan->out_count; k++) {
            int64_t parts = plan->out_parts == 1 ? 1 : 2;
            convert_from_f64(output->dtype, output->data, (to + k * out_step) * parts, parts, line + 2 * k, 0);
        }
    }
    return INLAY_OK;
}

static inlay_status run(const kit_call *call)
{
    const dft_plan *plan = call->plan;

    return kit_parallel(call, plan->lines, 4096 / plan->fft.m + 1, run_lines, (void *)(uintptr_t)call);
}

/* The discarded half is computed as well, and each element is converted. */
static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    const kit_tensor *input = &shapes->in[0], *output = &shapes->out[0];
    const bool short_time = strcmp(kit_op_type(node), "STFT") == 0;
    int64_t axis = kit_attr_int(node->info, "axis", kit_since_version(node) >= 20 ? -2 : 1), length;
    double points = work_count(output) / 2, lines;

    if (shapes->in_count > 2 && !short_time && shapes->in[2].data != NULL && kit_since_version(node) >= 20)
        axis = arg_index(&shapes->in[2], 0);
    axis = short_time ? 2 : axis + (axis < 0 ? (int64_t)output->rank : 0);
    if (points <= 0 || input->rank == 0 || axis < 0 || axis >= (int64_t)output->rank)
        return;
    lines = points / (double)output->dims[axis];
    length = output->dims[axis];
    if (kit_attr_int(node->info, "onesided", short_time) != 0 && kit_attr_int(node->info, "inverse", 0) == 0 &&
        length > 1)
        length = 2 * (length - 1);
    work_cost(shapes, lines, fft_ns(length) + 3 * ((double)length + (double)output->dims[axis]), lines, out);
}

static const kit_kernel kernels[] = {
    { .op_type = "DFT", .since_max = 20, .prepare = prepare, .shape = shape, .cost = cost, .run = run },
    { .op_type = "STFT", .since_max = 17, .prepare = prepare, .shape = shape, .cost = cost, .run = run },
};
const kit_table OPERATOR(operators_dft) = { kernels, KIT_COUNT(kernels) };
