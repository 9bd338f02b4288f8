/* Resize (ONNX 10, 11, 13, 18, 19) and Upsample (1, 7, 9): any number of axes, all modes.
 *
 * Nearest copies elements of any type. Linear and cubic are sums with weights, separable by axis; integers are
 * computed in floating point, cut towards zero and held within their range. */
#include "instance.h"
#include "simd/convert.h"
#include "resize_rows.h"
#include <math.h>
#include <stdlib.h>

enum { RESIZE_GRAIN = 1 << 14 };

typedef struct resize_state {
    resize_rule rule;
    uint32_t scales_input, sizes_input; /* INLAY_NONE: the operator has none */
    bool has_roi;
    double extrapolation;
    uint32_t axis_count;
    bool has_axes;
    int64_t axes[INLAY_MAX_RANK];
    uint32_t scale_count; /* scales as attributes: Upsample-1, 7 */
    double scales[INLAY_MAX_RANK];
} resize_state;

/* ------------------------------------------------------------------ attributes */

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
    resize_state *s = calloc(1, sizeof *s);
    kit_refusal why;

    if (s == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the attributes of a Resize");
    if (!resize_rule_read(info, kit_input_dtype(node, 0) == INLAY_STRING, &s->rule, &why)) {
        free(s);
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%s", why.text);
    }
    s->extrapolation = kit_attr_float(info, "extrapolation_value", 0);
    s->scales_input = upsample && info->since_version < 9 ? INLAY_NONE : old ? 1 : 2;
    s->sizes_input = old ? INLAY_NONE : 3;
    s->has_roi = !old && s->rule.coordinates == RESIZE_TF_CROP_AND_RESIZE;
    axes = kit_attr_ints(info, "axes", &s->axis_count);
    s->has_axes = axes != NULL;
    if (s->axis_count > INLAY_MAX_RANK || (scales != NULL && scales->count > INLAY_MAX_RANK)) {
        free(s);
        return inlay_fail(diag, INLAY_INVALID_MODEL, "axes or scales have more entries than any tensor has axes");
    }
    if (s->axis_count > 0)
        memcpy(s->axes, axes, s->axis_count * sizeof *axes);
    if (scales != NULL && scales->kind == INLAY_ATTR_FLOATS) { /* Upsample-7 */
        s->scale_count = scales->count;
        for (uint32_t i = 0; i < scales->count; i++)
            s->scales[i] = (double)scales->floats[i];
    } else if (upsample && info->since_version == 1) { /* [N, C, H, W] */
        s->scale_count = 4;
        s->scales[0] = s->scales[1] = 1;
        s->scales[2] = kit_attr_float(info, "height_scale", 1);
        s->scales[3] = kit_attr_float(info, "width_scale", 1);
    }
    *out_state = s;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ shapes */

static const kit_tensor *resize_input(const kit_tensor *in, uint32_t count, uint32_t i)
{
    return i < count && in[i].dtype != INLAY_UNDEFINED && in[i].count > 0 ? &in[i] : NULL;
}

/* Scales and sizes by axis of X; in and out are set. */
static inlay_status resize_scales(const resize_state *s, const kit_plan *plan, const uint32_t *which, uint32_t n,
                                  resize_axis *axes, inlay_diag *diag)
{
    const kit_tensor *scales = resize_input(plan->in, plan->in_count, s->scales_input);
    const kit_tensor *sizes = resize_input(plan->in, plan->in_count, s->sizes_input);
    double common = 0;

    if (sizes != NULL) {
        for (uint32_t i = 0; i < n && sizes->data != NULL; i++) {
            double scale = (double)((const int64_t *)sizes->data)[i] / (double)axes[which[i]].in;
            if (i == 0 || (s->rule.policy == RESIZE_NOT_LARGER ? scale < common : scale > common))
                common = scale;
        }
        if (s->rule.policy == RESIZE_STRETCH)
            return INLAY_OK;
        if (sizes->data == NULL || sizes->count != n)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "sizes must be known before the node runs, one an axis");
    } else if (s->scale_count == 0 && (scales == NULL || scales->data == NULL)) {
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "neither sizes nor scales are there, or they are not known in time");
    } else if (n != (s->scale_count > 0 ? s->scale_count : (uint64_t)scales->count)) {
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "scales must have one entry for each of %u axes", n);
    }
    for (uint32_t i = 0; i < n; i++) {
        resize_axis *a = &axes[which[i]];
        a->scale = sizes != NULL        ? common
                   : s->scale_count > 0 ? s->scales[i]
                                        : (double)((const float *)scales->data)[i];
        a->exact = a->scale == 1 && a->in == a->out;
        if (!(a->scale > 0) || !isfinite(a->scale))
            return inlay_fail(diag, INLAY_INVALID_MODEL, "scales[%u] is %g; it must be positive", i, a->scale);
    }
    return INLAY_OK;
}

/* tf_crop_and_resize: the region, relative to the input. */
static inlay_status resize_roi(const kit_tensor *roi, const uint32_t *which, uint32_t n, resize_axis *axes,
                               inlay_diag *diag)
{
    if (roi == NULL || roi->count != 2 * (int64_t)n)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "roi must have two entries for each of %u axes", n);
    for (uint32_t i = 0; i < n; i++) {
        axes[which[i]].roi_begin = convert_get_f64(roi->dtype, roi->data, i);
        axes[which[i]].roi_end = convert_get_f64(roi->dtype, roi->data, n + i);
    }
    return INLAY_OK;
}

/* The axes that attribute axes names, or all. */
static inlay_status resize_which(const resize_state *s, uint32_t rank, uint32_t *which, uint32_t *out_n,
                                 inlay_diag *diag)
{
    *out_n = s->has_axes ? s->axis_count : rank;
    for (uint32_t i = 0; i < *out_n; i++) {
        int64_t axis = s->has_axes ? s->axes[i] : i;
        axis = axis < 0 ? axis + rank : axis;
        if (axis < 0 || axis >= rank)
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "axes[%u] is %lld, outside X's rank %u", i,
                              (long long)s->axes[i], rank);
        which[i] = (uint32_t)axis;
    }
    return INLAY_OK;
}

/* Elements that go together in any case. */
static int64_t resize_inner(inlay_dtype dtype)
{
    return dtype == INLAY_COMPLEX64 || dtype == INLAY_COMPLEX128 ? 2 : 1;
}

static inlay_status shape_resize(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const resize_state *s = state;
    const kit_tensor *x = &plan->in[0], *y = &plan->out[0];
    const kit_tensor *roi = s->has_roi ? resize_input(plan->in, plan->in_count, 1) : NULL;
    resize_axis axes[INLAY_MAX_RANK];
    uint32_t which[INLAY_MAX_RANK], n;
    resize_plan p = { .extrapolation = s->extrapolation, .can_leave = s->has_roi };
    resize_plan *kept;
    inlay_status status;

    p.wide = resize_wide(x->dtype);
    INLAY_TRY(resize_which(s, x->rank, which, &n, diag));
    if (y->count < 0 || y->rank != x->rank)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the size of the output is not known, or not of X's rank %u",
                          x->rank);
    for (uint32_t d = 0; d < x->rank; d++) {
        axes[d] = (resize_axis){ .in = x->dims[d], .out = y->dims[d], .exact = true, .roi_end = 1 };
        axes[d].scale = (double)y->dims[d] / (double)x->dims[d];
        if (x->dims[d] > INT32_MAX || y->dims[d] > INT32_MAX)
            return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "axis %u has more than 2^31 - 1 elements", d);
    }
    if (x->count > 0 && y->count > 0) {
        INLAY_TRY(resize_scales(s, plan, which, n, axes, diag));
        if (s->has_roi && roi != NULL && roi->data == NULL) {
            p.tables_at_run = true;
            for (uint32_t d = 0; d < x->rank; d++)
                axes[d].roi_begin = NAN; /* none stays as it is */
        } else if (s->has_roi) {
            INLAY_TRY(resize_roi(roi, which, n, axes, diag));
        }
        resize_plan_axes(&p, &s->rule, axes, x->rank, s->rule.mode == RESIZE_NEAREST ? 1 : resize_inner(x->dtype));
    }
    if (!resize_plan_count(&p, &s->rule))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the filter of a Resize is too large");
    kept = malloc(sizeof p + (p.tables_at_run ? 0 : p.table_bytes));
    if (kept == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the tables of a Resize");
    plan->workspace_bytes = p.scratch_bytes * plan->max_threads;
    if (p.tables_at_run)
        plan->workspace_bytes += sizeof p + 64 + p.table_bytes;
    *kept = p;
    if (!p.tables_at_run)
        resize_plan_fill(kept, &s->rule, (char *)(kept + 1));
    plan->plan = kept;
done:
    return status;
}

/* ------------------------------------------------------------------ run */

typedef struct resize_job {
    const kit_call *call;
    const resize_state *s;
    const resize_plan *p;
    char *scratch;
    _Alignas(double) char fill[16]; /* an element of the extrapolation value */
} resize_job;

static inlay_status resize_items(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const resize_job *job = user;
    const kit_tensor *x = &job->call->in[0];

    if (job->s->rule.mode == RESIZE_NEAREST)
        resize_copy_rows(job->p, inlay_dtype_bits(x->dtype) / 8, x->data, job->call->out[0].data, job->fill, begin,
                         end);
    else
        resize_rows_of(x->dtype)(job->p, x->data, job->call->out[0].data, begin, end,
                                 job->scratch + worker * job->p->scratch_bytes);
    return INLAY_OK;
}

/* Tables for this run's roi, in its workspace. The axes of the plan from `kept` on are axes of X. */
static inlay_status resize_at_run(const kit_call *call, const resize_state *s, const resize_plan **plan, char **scratch)
{
    const kit_tensor *x = &call->in[0];
    resize_plan *mine = (resize_plan *)(void *)*scratch;
    resize_axis axes[INLAY_MAX_RANK];
    uint32_t which[INLAY_MAX_RANK], n, kept = (*plan)->rank - x->rank;
    inlay_status status;

    *mine = **plan;
    memset(axes, 0, sizeof axes);
    for (uint32_t d = 0; d < x->rank; d++) {
        axes[d] = mine->axes[kept + d];
        axes[d].roi_begin = 0;
    }
    status = resize_which(s, x->rank, which, &n, call->diag);
    if (status == INLAY_OK)
        status = resize_roi(resize_input(call->in, call->in_count, 1), which, n, axes, call->diag);
    if (status != INLAY_OK)
        return status;
    memcpy(mine->axes + kept, axes, x->rank * sizeof axes[0]);
    resize_plan_fill(mine, &s->rule, *scratch + (sizeof *mine + 7) / 8 * 8);
    *plan = mine;
    *scratch += (sizeof *mine + 64 + mine->table_bytes) / 64 * 64;
    return INLAY_OK;
}

static inlay_status run_resize(const kit_call *call)
{
    const resize_state *s = call->state;
    const resize_plan *p = call->plan;
    const kit_tensor *x = &call->in[0], *y = &call->out[0];
    resize_job job = { .call = call, .s = s, .scratch = call->workspace };
    inlay_status status = INLAY_OK;

    if (y->count == 0)
        return INLAY_OK;
    if (x->count == 0)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "X has no elements to make an output from");
    if (p->rank == 0) { /* strings too: a reference is enough */
        memcpy(y->data, x->data, kit_bytes(x->dtype, x->count));
        return INLAY_OK;
    }
    if (p->tables_at_run)
        status = resize_at_run(call, s, &p, &job.scratch);
    if (status != INLAY_OK)
        return status;
    job.p = p;
    if (x->dtype == INLAY_COMPLEX64)
        memcpy(job.fill, &(float){ (float)s->extrapolation }, sizeof(float));
    else if (x->dtype == INLAY_COMPLEX128)
        memcpy(job.fill, &s->extrapolation, sizeof(double));
    else if (x->dtype == INLAY_STRING)
        memcpy(job.fill, &(inlay_str){ "", 0 }, sizeof(inlay_str));
    else
        convert_from_f64(x->dtype, job.fill, 0, 1, &s->extrapolation, 0);
    return kit_parallel(call, p->rows, RESIZE_GRAIN / (y->count / p->rows + 1) + 1, resize_items, &job);
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
const kit_table OPERATOR(reference_resize) = { kernels, KIT_COUNT(kernels) };
