/* Resize (ONNX 10, 11, 13, 18, 19) and Upsample (1, 7, 9): any number of axes, all modes.
 *
 * Nearest copies elements of any type. Linear and cubic are weighted sums, separable by axis. Integers are computed in
 * floating point, truncated and clamped to their range. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "inlay/graph_view.h"
#include "inlay/kit_node.h"
#include "simd/convert.h"
#include "common/resize_rows.h"
#include <math.h>
#include <stdlib.h>

enum { RESIZE_GRAIN = 1 << 14 };

typedef struct resize_state {
    resize_rule rule;
    uint32_t scales_input, sizes_input; /* input indices; INLAY_NONE: the operator does not have the input */
    bool has_roi;
    double extrapolation;
    uint32_t axis_count;
    bool has_axes;
    int64_t axes[INLAY_MAX_RANK];
    uint32_t scale_count; /* number of scales given by attributes: Upsample-1, 7 */
    double scales[INLAY_MAX_RANK];
} resize_state;

static bool supports_resize(const kit_node *node, kit_refusal *why)
{
    resize_rule rule;

    return resize_rule_read(node->info, kit_input_dtype(node, 0) == INLAY_STRING, &rule, why);
}

static inlay_status prepare_resize(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const inlay_node_info *info = node->info;
    bool upsample = info->op_type.data[0] == 'U', old = upsample || info->since_version < 11;
    const inlay_attr_info *scales = kit_attr(info, "scales");
    const int64_t *axes;
    resize_state *state = calloc(1, sizeof *state);
    kit_refusal why;

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the attributes of a Resize");
    if (!resize_rule_read(info, kit_input_dtype(node, 0) == INLAY_STRING, &state->rule, &why)) {
        free(state);
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%s", why.text);
    }
    state->extrapolation = kit_attr_float(info, "extrapolation_value", 0);
    state->scales_input = upsample && info->since_version < 9 ? INLAY_NONE : old ? 1 : 2;
    state->sizes_input = old ? INLAY_NONE : 3;
    state->has_roi = !old && state->rule.coordinates == RESIZE_TF_CROP_AND_RESIZE;
    axes = kit_attr_ints(info, "axes", &state->axis_count);
    state->has_axes = axes != NULL;
    if (state->axis_count > INLAY_MAX_RANK || (scales != NULL && scales->count > INLAY_MAX_RANK)) {
        free(state);
        return inlay_fail(diag, INLAY_INVALID_MODEL, "axes or scales have more entries than the maximum rank");
    }
    if (state->axis_count > 0)
        memcpy(state->axes, axes, state->axis_count * sizeof *axes);
    if (scales != NULL && scales->kind == INLAY_ATTR_FLOATS) { /* Upsample-7 */
        state->scale_count = scales->count;
        for (uint32_t i = 0; i < scales->count; i++)
            state->scales[i] = (double)scales->floats[i];
    } else if (upsample && info->since_version == 1) { /* [N, C, H, W] */
        state->scale_count = 4;
        state->scales[0] = state->scales[1] = 1;
        state->scales[2] = kit_attr_float(info, "height_scale", 1);
        state->scales[3] = kit_attr_float(info, "width_scale", 1);
    }
    *out_state = state;
    return INLAY_OK;
}

static const kit_tensor *resize_input(const kit_tensor *in, uint32_t count, uint32_t index)
{
    return index < count && in[index].dtype != INLAY_UNDEFINED && in[index].count > 0 ? &in[index] : NULL;
}

/* Computes the scales of the axes of X; `in` and `out` of the axes are set. */
static inlay_status resize_scales(const resize_state *state, const kit_plan *plan, const uint32_t *which,
                                  uint32_t axis_count, resize_axis *axes, inlay_diag *diag)
{
    const kit_tensor *scales = resize_input(plan->in, plan->in_count, state->scales_input);
    const kit_tensor *sizes = resize_input(plan->in, plan->in_count, state->sizes_input);
    double common = 0;

    if (sizes != NULL) {
        for (uint32_t i = 0; i < axis_count && sizes->data != NULL; i++) {
            double scale = (double)((const int64_t *)sizes->data)[i] / (double)axes[which[i]].in;
            if (i == 0 || (state->rule.policy == RESIZE_NOT_LARGER ? scale < common : scale > common))
                common = scale;
        }
        if (state->rule.policy == RESIZE_STRETCH)
            return INLAY_OK;
        if (sizes->data == NULL || sizes->count != axis_count)
            return inlay_fail(diag, INLAY_UNSUPPORTED,
                              "sizes must be known before the node runs, with one entry per axis");
    } else if (state->scale_count == 0 && (scales == NULL || scales->data == NULL)) {
        return inlay_fail(diag, INLAY_INVALID_MODEL, "neither sizes nor scales are known before the node runs");
    } else if (axis_count != (state->scale_count > 0 ? state->scale_count : (uint64_t)scales->count)) {
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "scales must have one entry for each of %u axes", axis_count);
    }
    for (uint32_t i = 0; i < axis_count; i++) {
        resize_axis *axis = &axes[which[i]];
        axis->scale = sizes != NULL            ? common
                      : state->scale_count > 0 ? state->scales[i]
                                               : (double)((const float *)scales->data)[i];
        axis->exact = axis->scale == 1 && axis->in == axis->out;
        if (!(axis->scale > 0) || !isfinite(axis->scale))
            return inlay_fail(diag, INLAY_INVALID_MODEL, "scales[%u] is %g; it must be positive", i, axis->scale);
    }
    return INLAY_OK;
}

/* tf_crop_and_resize: reads the region of the input that is resized, in coordinates relative to the input's size.
 * Without roi, or with an empty one, this is the whole input, as in ONNX Runtime. */
static inlay_status resize_roi(const kit_tensor *roi, const uint32_t *which, uint32_t axis_count, resize_axis *axes,
                               inlay_diag *diag)
{
    if (roi == NULL || roi->count == 0)
        return INLAY_OK;
    if (roi->count != 2 * (int64_t)axis_count)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "roi must have two entries for each of %u axes", axis_count);
    for (uint32_t i = 0; i < axis_count; i++) {
        axes[which[i]].roi_begin = convert_get_f64(roi->dtype, roi->data, i);
        axes[which[i]].roi_end = convert_get_f64(roi->dtype, roi->data, axis_count + i);
    }
    return INLAY_OK;
}

/* Lists the axes of the attribute axes, or all axes if it is missing. */
static inlay_status resize_which(const resize_state *state, uint32_t rank, uint32_t *which, uint32_t *out_count,
                                 inlay_diag *diag)
{
    *out_count = state->has_axes ? state->axis_count : rank;
    INLAY_CHECK(*out_count <= INLAY_MAX_RANK);
    for (uint32_t i = 0; i < *out_count; i++) {
        int64_t axis = state->has_axes ? state->axes[i] : i;
        axis = axis < 0 ? axis + rank : axis;
        if (axis < 0 || axis >= rank)
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "axes[%u] is %lld, outside X's rank %u", i,
                              (long long)state->axes[i], rank);
        which[i] = (uint32_t)axis;
    }
    return INLAY_OK;
}

/* Returns how many numbers an element consists of; each of them is resized independently. */
static int64_t resize_inner(inlay_dtype dtype)
{
    return dtype == INLAY_COMPLEX64 || dtype == INLAY_COMPLEX128 ? 2 : 1;
}

static inlay_status shape_resize(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const resize_state *attributes = state;
    const kit_tensor *input = &plan->in[0], *output = &plan->out[0];
    const kit_tensor *roi = attributes->has_roi ? resize_input(plan->in, plan->in_count, 1) : NULL;
    resize_axis axes[INLAY_MAX_RANK];
    uint32_t which[INLAY_MAX_RANK], axis_count;
    resize_plan resize = { .extrapolation = attributes->extrapolation, .has_outside_elements = attributes->has_roi };
    resize_plan *stored;
    inlay_status status;

    resize.wide = resize_wide(input->dtype);
    INLAY_TRY(resize_which(attributes, input->rank, which, &axis_count, diag));
    if (output->count < 0 || output->rank != input->rank)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the size of the output is unknown or does not have X's rank %u",
                          input->rank);
    for (uint32_t axis = 0; axis < input->rank; axis++) {
        axes[axis] = (resize_axis){ .in = input->dims[axis], .out = output->dims[axis], .exact = true, .roi_end = 1 };
        axes[axis].scale = (double)output->dims[axis] / (double)input->dims[axis];
        if (input->dims[axis] > INT32_MAX || output->dims[axis] > INT32_MAX)
            return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "axis %u has more than 2^31 - 1 elements", axis);
    }
    if (input->count > 0 && output->count > 0) {
        INLAY_TRY(resize_scales(attributes, plan, which, axis_count, axes, diag));
        if (attributes->has_roi && roi != NULL && roi->data == NULL) {
            resize.tables_at_run = true;
            for (uint32_t axis = 0; axis < input->rank; axis++)
                axes[axis].roi_begin = NAN; /* the region is unknown, so no axis can be skipped */
        } else if (attributes->has_roi) {
            INLAY_TRY(resize_roi(roi, which, axis_count, axes, diag));
        }
        resize_plan_axes(&resize, &attributes->rule, axes, input->rank,
                         attributes->rule.mode == RESIZE_NEAREST ? 1 : resize_inner(input->dtype));
    }
    if (!resize_plan_count(&resize, &attributes->rule))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the filter of a Resize is too large");
    stored = malloc(sizeof resize + (resize.tables_at_run ? 0 : resize.table_bytes));
    if (stored == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the tables of a Resize");
    plan->workspace_bytes = resize.scratch_bytes * plan->max_threads;
    if (resize.tables_at_run)
        plan->workspace_bytes += sizeof resize + 64 + resize.table_bytes;
    *stored = resize;
    if (!resize.tables_at_run)
        resize_plan_fill(stored, &attributes->rule, (char *)(stored + 1));
    plan->plan = stored;
done:
    return status;
}

typedef struct resize_job {
    const kit_call *call;
    const resize_state *state;
    const resize_plan *plan;
    char *scratch;
    _Alignas(double) char fill[16]; /* an element of the extrapolation value */
} resize_job;

static inlay_status resize_items(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const resize_job *job = user;
    const kit_tensor *input = &job->call->in[0];

    if (job->state->rule.mode == RESIZE_NEAREST)
        resize_copy_rows(job->plan, inlay_dtype_bits(input->dtype) / 8, input->data, job->call->out[0].data, job->fill,
                         begin, end);
    else
        resize_rows_of(input->dtype)(job->plan, input->data, job->call->out[0].data, begin, end,
                                     job->scratch + worker * job->plan->scratch_bytes);
    return INLAY_OK;
}

/* Computes the tables for the region (roi) of this run, in the workspace. The axes of X are those of the plan starting
 * at `kept`. */
static inlay_status resize_at_run(const kit_call *call, const resize_state *state, const resize_plan **plan,
                                  char **scratch)
{
    const kit_tensor *input = &call->in[0];
    resize_plan *run_plan = (resize_plan *)(void *)*scratch;
    resize_axis axes[INLAY_MAX_RANK];
    uint32_t which[INLAY_MAX_RANK], axis_count, kept = (*plan)->rank - input->rank;
    inlay_status status;

    INLAY_CHECK((*plan)->tables_at_run && (*plan)->rank >= input->rank);
    *run_plan = **plan;
    memset(axes, 0, sizeof axes);
    for (uint32_t axis = 0; axis < input->rank; axis++) {
        axes[axis] = run_plan->axes[kept + axis];
        axes[axis].roi_begin = 0;
    }
    status = resize_which(state, input->rank, which, &axis_count, call->diag);
    if (status == INLAY_OK)
        status = resize_roi(resize_input(call->in, call->in_count, 1), which, axis_count, axes, call->diag);
    if (status != INLAY_OK)
        return status;
    memcpy(run_plan->axes + kept, axes, input->rank * sizeof axes[0]);
    resize_plan_fill(run_plan, &state->rule, *scratch + (sizeof *run_plan + 7) / 8 * 8);
    *plan = run_plan;
    *scratch += (sizeof *run_plan + 64 + run_plan->table_bytes) / 64 * 64;
    return INLAY_OK;
}

static inlay_status run_resize(const kit_call *call)
{
    const resize_state *state = call->state;
    const resize_plan *plan = call->plan;
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    resize_job job = { .call = call, .state = state, .scratch = call->workspace };
    inlay_status status = INLAY_OK;

    if (output->count == 0)
        return INLAY_OK;
    if (input->count == 0)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "X is empty, but the output is not");
    if (plan->rank == 0) { /* also correct for strings: an inlay_str is a reference */
        memcpy(output->data, input->data, kit_bytes(input->dtype, input->count));
        return INLAY_OK;
    }
    if (plan->tables_at_run)
        status = resize_at_run(call, state, &plan, &job.scratch);
    if (status != INLAY_OK)
        return status;
    job.plan = plan;
    if (input->dtype == INLAY_COMPLEX64)
        memcpy(job.fill, &(float){ (float)state->extrapolation }, sizeof(float));
    else if (input->dtype == INLAY_COMPLEX128)
        memcpy(job.fill, &state->extrapolation, sizeof(double));
    else if (input->dtype == INLAY_STRING)
        memcpy(job.fill, &(inlay_str){ "", 0 }, sizeof(inlay_str));
    else
        convert_from_f64(input->dtype, job.fill, 0, 1, &state->extrapolation, 0);
    return kit_parallel(call, plan->rows, RESIZE_GRAIN / (output->count / plan->rows + 1) + 1, resize_items, &job);
}

#define RESIZE_KERNEL(name)                                                                                            \
    {                                                                                                                  \
        .op_type = name, .supports = supports_resize, .prepare = prepare_resize, .shape = shape_resize,                \
        .run = run_resize                                                                                              \
    }

static const kit_kernel kernels[] = {
    RESIZE_KERNEL("Resize"),
    RESIZE_KERNEL("Upsample"),
};
const kit_table OPERATOR(operators_resize) = { kernels, KIT_COUNT(kernels) };
