/* DFT: ONNX 17, 20. STFT: ONNX 17. Lines are gathered, transformed in double, and stored. */
#include "instance.h"
#include "args.h"
#include "simd/convert.h"
#include "fft.h"
#include "reference.h"
#include "work.h"
#include <stdlib.h>

typedef struct dft_state {
    bool inverse, onesided, axis_input, short_time;
    int64_t axis;
} dft_state;

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    dft_state *state = NULL;
    inlay_status status = arg_state(sizeof *state, (void **)&state, diag);

    if (status != INLAY_OK)
        return status;
    state->short_time = strcmp(node->info->op_type.data, "STFT") == 0;
    state->inverse = kit_attr_int(node->info, "inverse", 0) != 0;
    state->onesided = kit_attr_int(node->info, "onesided", state->short_time) != 0;
    state->axis_input = node->info->since_version >= 20;
    state->axis = kit_attr_int(node->info, "axis", state->axis_input ? -2 : 1);
    *out_state = state;
    return INLAY_OK;
}

typedef struct dft_plan {
    struct fft fft;
    int64_t lines;               /* transforms */
    int64_t in_count;            /* elements of the input that a transform reads, the rest being zero */
    int64_t out_count;           /* elements of the output that it writes */
    int64_t in_parts, out_parts; /* 1: real, 2: complex */
    int64_t inner;               /* DFT: elements from one of a line to the next, in complex numbers */
    int64_t in_axis, out_axis, frames, step, signal;
    uint64_t thread_bytes;
    double tables[];
} dft_plan;

/* The plan with tables for transforms of n, and room for each thread. */
static inlay_status make_plan(int64_t n, kit_plan *plan, dft_plan **out, inlay_diag *diag)
{
    size_t count = fft_table_count(n);
    dft_plan *p;

    *out = NULL;
    if (count == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "a transform of length %lld: it must be at least 1",
                          (long long)n);
    p = count > SIZE_MAX / 16 ? NULL : calloc(1, sizeof *p + count * sizeof(double));
    if (p == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a transform of length %lld", (long long)n);
    fft_init(&p->fft, n, p->tables);
    plan->plan = p;
    p->thread_bytes = ((2 * (uint64_t)n + fft_scratch_count(&p->fft)) * sizeof(double) + 63) & ~UINT64_C(63);
    if (__builtin_mul_overflow(p->thread_bytes, (uint64_t)plan->max_threads, &plan->workspace_bytes))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the workspace of this transform exceeds the address space");
    *out = p;
    return INLAY_OK;
}

static bool given(const kit_plan *plan, uint32_t i)
{
    return i < plan->in_count && plan->in[i].dtype != INLAY_UNDEFINED;
}

/* A scalar input that the shape depends on; it is known by the time a plan is made. */
static inlay_status read_scalar(const kit_plan *plan, uint32_t i, const char *name, int64_t *out, inlay_diag *diag)
{
    if (plan->in[i].data == NULL || plan->in[i].count < 1)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%s must be known when the shapes are planned", name);
    *out = arg_index(&plan->in[i], 0);
    return INLAY_OK;
}

static inlay_status shape_dft(const dft_state *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *input = &plan->in[0], *output = &plan->out[0];
    int64_t axis = state->axis, n, inner = 1, lines;
    bool to_real = state->inverse && state->onesided;
    dft_plan *p;
    uint32_t at;
    inlay_status status;

    if (input->rank < 2 || output->rank != input->rank || input->dims[input->rank - 1] < 1 ||
        input->dims[input->rank - 1] > 2)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the input has rank %u; its last dim must hold 1 or 2 parts",
                          input->rank);
    if (state->axis_input && given(plan, 2))
        INLAY_TRY(read_scalar(plan, 2, "axis", &axis, diag));
    INLAY_TRY(arg_axis(diag, axis, input->rank, "axis", &at));
    if (at + 1 == input->rank)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "axis %lld is that of real and imaginary parts",
                          (long long)axis);
    n = to_real ? 2 * (input->dims[at] - 1) : input->dims[at];
    if (given(plan, 1))
        INLAY_TRY(read_scalar(plan, 1, "dft_length", &n, diag));
    for (uint32_t d = at + 1; d + 1 < input->rank; d++)
        inner *= input->dims[d];
    lines = input->dims[at] > 0 ? input->count / input->dims[at] / input->dims[input->rank - 1] : 0;
    INLAY_TRY(make_plan(n, plan, &p, diag));
    p->in_parts = input->dims[input->rank - 1];
    p->out_parts = to_real ? 1 : 2;
    p->in_axis = input->dims[at];
    p->out_axis = state->onesided && !to_real ? n / 2 + 1 : n;
    p->in_count = p->in_axis < n ? p->in_axis : n;
    if (to_real)
        p->in_count = p->in_axis < n / 2 + 1 ? p->in_axis : n / 2 + 1;
    p->out_count = p->out_axis;
    p->inner = inner;
    p->lines = lines;
    if (output->count != lines * p->out_axis * p->out_parts)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the output has %lld elements, not %lld x %lld x %lld",
                          (long long)output->count, (long long)lines, (long long)p->out_axis, (long long)p->out_parts);
done:
    return status;
}

static inlay_status shape_stft(const dft_state *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *input = &plan->in[0], *output = &plan->out[0];
    int64_t length = 0, step = 0, bins, frames;
    dft_plan *p;
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
    INLAY_TRY(make_plan(length, plan, &p, diag));
    p->in_parts = input->rank == 3 ? input->dims[2] : 1;
    p->in_count = given(plan, 2) && plan->in[2].count < length ? plan->in[2].count : length;
    p->out_count = bins;
    p->frames = frames;
    p->step = step;
    p->signal = input->dims[1];
    p->lines = input->dims[0] * frames;
done:
    return status;
}

static inlay_status shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const dft_state *s = state;

    return s->short_time ? shape_stft(s, plan, diag) : shape_dft(s, plan, diag);
}

/* The second half of a spectrum of a real signal mirrors the first. */
static void mirror(double *line, int64_t n, int64_t have)
{
    for (int64_t k = have; k < n; k++) {
        int64_t from = n - k;
        line[2 * k] = from < have ? line[2 * from] : 0;
        line[2 * k + 1] = from < have ? -line[2 * from + 1] : 0;
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

    for (int64_t l = begin; l < end; l++) {
        int64_t from, to, in_step, out_step;
        if (state->short_time) {
            from = l / plan->frames * plan->signal + l % plan->frames * plan->step;
            to = l * plan->out_count;
            in_step = out_step = 1;
        } else {
            from = l / plan->inner * plan->in_axis * plan->inner + l % plan->inner;
            to = l / plan->inner * plan->out_axis * plan->inner + l % plan->inner;
            in_step = out_step = plan->inner;
        }
        memset(line, 0, (size_t)(2 * plan->fft.n) * sizeof(double));
        for (int64_t k = 0; k < plan->in_count; k++) {
            convert_to_f64(line + 2 * k, input->dtype, input->data, (from + k * in_step) * plan->in_parts,
                           plan->in_parts);
            if (window != NULL) {
                double w = convert_get_f64(window->dtype, window->data, k);
                line[2 * k] *= w;
                line[2 * k + 1] *= w;
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

/* Transforms of n take some n log n steps each, whatever n is (fft.h); what is beyond the kept half is computed too. */
static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    const kit_tensor *input = &shapes->in[0], *output = &shapes->out[0];
    const bool short_time = strcmp(node->info->op_type.data, "STFT") == 0;
    int64_t axis = kit_attr_int(node->info, "axis", node->info->since_version >= 20 ? -2 : 1);
    double points = work_count(output) / 2, n;

    if (shapes->in_count > 2 && !short_time && shapes->in[2].data != NULL && node->info->since_version >= 20)
        axis = arg_index(&shapes->in[2], 0);
    axis = short_time ? 2 : axis + (axis < 0 ? (int64_t)output->rank : 0);
    if (points <= 0 || input->rank == 0 || axis < 0 || axis >= (int64_t)output->rank)
        return;
    n = (double)output->dims[axis] * (kit_attr_int(node->info, "onesided", short_time) != 0 ? 2 : 1);
    points /= (double)output->dims[axis];
    work_cost(shapes, points * work_sort(n > 2 ? n : 2), 2, points, out);
}

static const kit_kernel kernels[] = {
    { .op_type = "DFT", .since_max = 20, .prepare = prepare, .shape = shape, .cost = cost, .run = run },
    { .op_type = "STFT", .since_max = 17, .prepare = prepare, .shape = shape, .cost = cost, .run = run },
};
const kit_table OPERATOR(reference_dft) = { kernels, KIT_COUNT(kernels) };
