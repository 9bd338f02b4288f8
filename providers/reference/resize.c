/* Resize (ONNX 10, 11, 13, 18, 19) and Upsample (1, 7, 9): any number of axes, all modes.
 *
 * Nearest copies elements of any type. Linear and cubic are sums with weights, separable by axis; integers are
 * computed in floating point, cut towards zero and held within their range. */
#include "convert.h"
#include "resize_rows.h"
#include <math.h>
#include <stdlib.h>

enum { RESIZE_GRAIN = 1 << 14 };

typedef struct resize_state {
    resize_rule rule;
    uint32_t scales_input, sizes_input; /* INLAY_NONE: the operator has none */
    bool has_roi;
    uint32_t policy; /* POLICY_* */
    double extrapolation;
    uint32_t axis_count;
    bool has_axes;
    int64_t axes[INLAY_MAX_RANK];
    uint32_t scale_count; /* scales as attributes: Upsample-1, 7 */
    double scales[INLAY_MAX_RANK];
} resize_state;
enum { POLICY_STRETCH, POLICY_NOT_LARGER, POLICY_NOT_SMALLER };

/* ------------------------------------------------------------------ attributes */

typedef struct resize_word {
    const char *text;
    uint32_t value;
} resize_word;

static const resize_word resize_modes[] = {
    { "nearest", RESIZE_NEAREST },
    { "linear", RESIZE_LINEAR },
    { "bilinear", RESIZE_LINEAR },
    { "cubic", RESIZE_CUBIC },
};
static const resize_word resize_coordinates[] = {
    { "half_pixel", RESIZE_HALF_PIXEL },
    { "half_pixel_symmetric", RESIZE_HALF_PIXEL_SYMMETRIC },
    { "pytorch_half_pixel", RESIZE_PYTORCH_HALF_PIXEL },
    { "align_corners", RESIZE_ALIGN_CORNERS },
    { "asymmetric", RESIZE_ASYMMETRIC },
    { "tf_half_pixel_for_nn", RESIZE_TF_HALF_PIXEL_FOR_NN },
    { "tf_crop_and_resize", RESIZE_TF_CROP_AND_RESIZE },
};
static const resize_word resize_roundings[] = {
    { "round_prefer_floor", RESIZE_ROUND_PREFER_FLOOR },
    { "round_prefer_ceil", RESIZE_ROUND_PREFER_CEIL },
    { "floor", RESIZE_FLOOR },
    { "ceil", RESIZE_CEIL },
};
static const resize_word resize_policies[] = {
    { "stretch", POLICY_STRETCH },
    { "not_larger", POLICY_NOT_LARGER },
    { "not_smaller", POLICY_NOT_SMALLER },
};

static bool resize_word_find(const kit_node *node, const char *name, const char *otherwise, const resize_word *words,
                             uint32_t count, uint32_t *out_value, kit_refusal *why)
{
    const char *text = kit_attr_string(node->info, name, otherwise);

    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(text, words[i].text) == 0) {
            *out_value = words[i].value;
            return true;
        }
    }
    return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "a value that ONNX defines",
                      "%s is '%.40s', which is not known here", name, text);
}

#define WORDS(name, otherwise, words, out) resize_word_find(node, name, otherwise, words, KIT_COUNT(words), out, why)

/* Reads the words among the attributes, or refuses. */
static bool resize_words(const kit_node *node, resize_state *s, kit_refusal *why)
{
    bool old = node->info->op_type.data[0] == 'U' || node->info->since_version < 11;

    if (!WORDS("mode", "nearest", resize_modes, &s->rule.mode) ||
        !WORDS("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel", resize_coordinates,
               &s->rule.coordinates) ||
        !WORDS("nearest_mode", old ? "floor" : "round_prefer_floor", resize_roundings, &s->rule.rounding) ||
        !WORDS("keep_aspect_ratio_policy", "stretch", resize_policies, &s->policy))
        return false;
    if (old && node->info->op_type.data[0] == 'R')
        s->rule.rounding = RESIZE_SIMPLE;
    if (s->rule.mode != RESIZE_NEAREST && kit_input_dtype(node, 0) == INLAY_STRING)
        return kit_refuse(why, INLAY_REFUSE_DTYPE, "mode nearest", "strings have no weighted sum");
    return true;
}

static bool supports_resize(const kit_node *node, kit_refusal *why)
{
    resize_state s;
    return resize_words(node, &s, why);
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
    if (!resize_words(node, s, &why)) {
        free(s);
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%s", why.text);
    }
    s->rule.antialias = kit_attr_int(info, "antialias", 0) != 0;
    s->rule.exclude_outside = kit_attr_int(info, "exclude_outside", 0) != 0;
    s->rule.cubic_a = kit_attr_float(info, "cubic_coeff_a", -0.75);
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
            if (i == 0 || (s->policy == POLICY_NOT_LARGER ? scale < common : scale > common))
                common = scale;
        }
        if (s->policy == POLICY_STRETCH)
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

/* Lays the tables of all axes into memory, and fills them. */
static void resize_fill(const resize_state *s, resize_plan *p, char *memory)
{
    for (uint32_t d = 0; d < p->rank; d++) {
        resize_table *t = &p->tables[d];
        uint64_t entries = (uint64_t)(t->taps * p->axes[d].out);
        if (s->rule.mode != RESIZE_NEAREST) {
            t->weight = (double *)(void *)memory;
            memory += entries * sizeof(double);
        }
        t->index = (int32_t *)(void *)memory;
        memory += (entries * sizeof(int32_t) + 7) / 8 * 8;
        if (t->taps > 0)
            resize_table_fill(&s->rule, &p->axes[d], t);
        p->weights = t->weight;
        if (d + 1 == p->rank && t->weight != NULL && !p->wide) {
            p->weights = memory;
            for (uint64_t i = 0; i < entries; i++)
                ((float *)p->weights)[i] = (float)t->weight[i];
        }
    }
}

/* From the axes of X to those of the plan: what is not resized at either end is merged. crops: with unknown roi no
 * axis is known to stay. */
static void resize_layout(const resize_state *s, const kit_tensor *x, const resize_axis *axes, resize_plan *p)
{
    uint32_t first = x->rank, last = 0;
    int64_t stride = 1, outer = 1;
    uint32_t kept = 0;

    for (uint32_t d = 0; d < x->rank; d++) {
        const resize_axis *a = &axes[d];
        bool stays = a->in == a->out && a->exact && a->roi_begin == 0 && a->roi_end == 1;
        if (stays)
            continue;
        first = d < first ? d : first;
        last = d;
    }
    p->inner = x->dtype == INLAY_COMPLEX64 || x->dtype == INLAY_COMPLEX128 ? 2 : 1;
    if (s->rule.mode == RESIZE_NEAREST)
        p->inner = 1;
    p->rows = 1;
    if (first == x->rank)
        return;
    for (uint32_t d = 0; d < first; d++)
        outer *= axes[d].in;
    if (outer > 1) {
        p->axes[0] = (resize_axis){ .in = outer, .out = outer, .scale = 1, .exact = true };
        kept = 1;
    }
    for (uint32_t d = last + 1; d < x->rank; d++)
        p->inner *= axes[d].in;
    p->rank = kept + last + 1 - first;
    stride = p->inner;
    for (uint32_t d = p->rank; d-- > 0;) {
        resize_axis *a = &p->axes[d];
        if (d >= kept) {
            *a = axes[first + d - kept];
            p->tables[d].taps = resize_taps(&s->rule, a);
            if (a->in == a->out && a->exact && a->roi_begin == 0 && a->roi_end == 1 && d + 1 < p->rank)
                p->tables[d].taps = 0;
        }
        p->strides[d] = stride;
        stride *= a->in;
        if (d + 1 < p->rank)
            p->rows *= a->out;
    }
}

/* Bytes of a worker's rows: one as the input's, one as the output's, and those that are kept. Decides what is kept. */
static uint64_t resize_scratch(resize_plan *p)
{
    const resize_axis *last = &p->axes[p->rank - 1];
    int64_t rows_in = 1, taps = 1;
    uint64_t elements;

    for (uint32_t d = 0; d + 1 < p->rank; d++) {
        rows_in *= p->axes[d].in;
        taps *= p->tables[d].taps > 0 && taps <= RESIZE_SLOTS ? p->tables[d].taps : 1;
    }
    p->grows = p->rows >= rows_in && taps <= RESIZE_SLOTS;
    elements = (uint64_t)(last->in * p->inner) + (uint64_t)(last->out * p->inner) * (p->grows ? RESIZE_SLOTS + 1 : 1);
    return (elements * sizeof(double) + 63) / 64 * 64;
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
        resize_layout(s, x, axes, &p);
    }
    for (uint32_t d = 0; d < p.rank; d++) { /* bounded: taps < 2^32, out < 2^31 */
        uint64_t entries = (uint64_t)p.tables[d].taps * (uint64_t)p.axes[d].out;
        if (entries > UINT64_MAX / 64 / INLAY_MAX_RANK)
            return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the filter of a Resize is too large");
        p.table_bytes += entries * (2 * sizeof(double)) + (entries * sizeof(int32_t) + 7) / 8 * 8;
    }
    kept = malloc(sizeof p + (p.tables_at_run ? 0 : p.table_bytes));
    if (kept == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the tables of a Resize");
    if (s->rule.mode != RESIZE_NEAREST && p.rank > 0)
        p.scratch_bytes = resize_scratch(&p);
    plan->workspace_bytes = p.scratch_bytes * plan->max_threads;
    if (p.tables_at_run)
        plan->workspace_bytes += sizeof p + 64 + p.table_bytes;
    *kept = p;
    if (!p.tables_at_run)
        resize_fill(s, kept, (char *)(kept + 1));
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
    char fill[16]; /* an element of the extrapolation value */
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
    resize_fill(s, mine, *scratch + (sizeof *mine + 7) / 8 * 8);
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
const kit_table reference_resize = { kernels, KIT_COUNT(kernels) };
