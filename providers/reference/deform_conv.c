/* DeformConv: ONNX 19, 22. The product of Conv, except that each column of windows is sampled between the input's
 * elements, at the place that the offsets say. */
#include "instance.h"
#include "args.h"
#include "conv.h"
#include "simd/convert.h"
#include "gemm/set.h"
#include "simd/move_set.h"
#include "points.h"
#include "reference.h"
#include <math.h>
#include <stdlib.h>

typedef struct deform_state {
    conv_attrs attrs;
    int64_t offset_group;
    const gemm_kernel *kernel;
    gemm_operand weights;
    kit_pack pack;
} deform_state;

typedef struct deform_plan {
    conv_geometry geometry;
    gemm_job job;
    bool has_points; /* of floats; otherwise each is looked up for itself */
    uint64_t points; /* bytes of the workspace before them */
    uint64_t turned; /* and before the images with channels last, which there are where channels are many; or 0 */
    int64_t which[]; /* [images * group] group */
} deform_plan;

static void release(void *state)
{
    deform_state *s = state;

    if (s != NULL)
        kit_pack_free(&s->pack);
    free(s);
}

static bool supports(const kit_node *node, kit_refusal *why)
{
    const inlay_value_info *input = kit_input(node, 0);

    if (input != NULL && input->rank != INLAY_RANK_UNKNOWN && input->rank != 4)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "use two spatial dims", "the input has rank %u; DeformConv takes 4",
                          input->rank);
    return true;
}

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_dtype dtype = kit_input_dtype(node, 0);
    uint32_t type = gemm_type_of(dtype);
    deform_state *state = NULL;
    inlay_status status;

    INLAY_TRY(arg_state(sizeof *state, (void **)&state, diag));
    INLAY_TRY(conv_read_attrs(node, &state->attrs, diag));
    state->offset_group = kit_attr_int(node->info, "offset_group", 1);
    state->kernel = gemm_kernel_best(type);
    state->weights.pack = gemm_strided_pack(type, dtype);
    INLAY_TRY(conv_pack_weights(node, 1, &state->attrs, state->kernel, &state->weights, &state->pack, diag));
    *out_state = state;
    state = NULL;
done:
    release(state);
    return status;
}

static void pack_samples(const gemm_operand *self, int64_t batch, int64_t line, int64_t line_end, int64_t k0,
                         int64_t k1, uint32_t width, void *out);
static void pack_points(const gemm_operand *self, int64_t batch, int64_t line, int64_t line_end, int64_t k0, int64_t k1,
                        uint32_t width, void *out);
static void pack_turned(const gemm_operand *self, int64_t batch, int64_t line, int64_t line_end, int64_t k0, int64_t k1,
                        uint32_t width, void *out);

/* Where all channels of an offset group are sampled for a tap: the four neighbours of each position and their weights,
 * arrays of [positions] one behind the other. An index of -1: outside the image, which counts as 0. */
enum { CORNERS = 4 };
static int64_t point_bytes(const conv_geometry *geometry)
{
    return (geometry->positions * CORNERS * (int64_t)(sizeof(int32_t) + sizeof(float)) + 63) / 64 * 64;
}

/* Adds the images with their channels last. */
static void plan_turned(deform_plan *plan, uint64_t *workspace)
{
    const uint64_t at = gemm_align(*workspace);
    const int64_t floats =
        plan->geometry.channels < POINTS_FEW ? 0 : points_floats(plan->geometry.channels, plan->geometry.in_positions);
    uint64_t bytes;

    if (floats <= 0 ||
        __builtin_mul_overflow((uint64_t)floats * sizeof(float), (uint64_t)plan->geometry.images, &bytes) ||
        __builtin_add_overflow(at, bytes, &bytes))
        return;
    plan->turned = at;
    plan->job.b.pack = pack_turned;
    *workspace = bytes;
}

/* Adds the points to the workspace where they fit. */
static void plan_points(const deform_state *state, deform_plan *plan, inlay_dtype dtype, uint64_t *workspace)
{
    uint64_t units, bytes, at = gemm_align(*workspace);

    if (dtype != INLAY_FLOAT || plan->geometry.in_positions > INT32_MAX || plan->geometry.positions > INT32_MAX / 64 ||
        __builtin_mul_overflow((uint64_t)(plan->geometry.images * state->offset_group), (uint64_t)plan->geometry.taps,
                               &units) ||
        __builtin_mul_overflow(units, (uint64_t)point_bytes(&plan->geometry), &bytes) ||
        __builtin_add_overflow(at, bytes, &bytes))
        return;
    plan->has_points = true;
    plan->points = at;
    plan->job.b.pack = pack_points;
    *workspace = bytes;
    plan_turned(plan, workspace);
}

static inlay_status shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const deform_state *s = state;
    int64_t batch, per_position;
    gemm_half_output half;
    conv_geometry geometry;
    deform_plan *p;
    inlay_status status;

    if (plan->in[0].rank != 4)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the input has rank %u; DeformConv takes 4", plan->in[0].rank);
    INLAY_TRY(conv_resolve(&s->attrs, &plan->in[0], &plan->in[1], &geometry, diag));
    INLAY_TRY(conv_check_output(&geometry, &plan->out[0], diag));
    per_position = s->offset_group > 0 && geometry.channels % s->offset_group == 0
                       ? geometry.images * s->offset_group * geometry.taps
                       : -1;
    if (per_position < 0 || plan->in[2].count != per_position * 2 * geometry.positions ||
        (plan->in_count > 4 && plan->in[4].dtype != INLAY_UNDEFINED &&
         plan->in[4].count != per_position * geometry.positions) ||
        (plan->in_count > 3 && plan->in[3].dtype != INLAY_UNDEFINED && plan->in[3].count != geometry.filters))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "offset, mask or bias do not fit %lld images, %lld offset groups, %lld taps, %lld positions",
                          (long long)geometry.images, (long long)s->offset_group, (long long)geometry.taps,
                          (long long)geometry.positions);
    if (__builtin_mul_overflow(geometry.images, geometry.group, &batch) || batch > INT32_MAX ||
        (p = calloc(1, sizeof *p + (size_t)batch * sizeof(int64_t))) == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of a DeformConv");
    plan->plan = p;
    for (int64_t b = 0; b < batch; b++)
        p->which[b] = b % geometry.group;
    p->geometry = geometry;
    p->job = (gemm_job){ .kernel = s->kernel,
                         .batch = batch,
                         .m = geometry.filters / geometry.group,
                         .n = geometry.positions,
                         .k = geometry.channels / geometry.group * geometry.taps,
                         .a = s->weights };
    p->job.a.line_stride = p->job.k;
    p->job.a.k_stride = 1;
    p->job.a.matrix_stride = p->job.m * p->job.k;
    p->job.a.which = p->which;
    p->job.b.pack = pack_samples;
    gemm_set_output(&p->job, &half, plan->out[0].dtype, NULL);
    gemm_plan(&p->job, plan->max_threads);
    if (!gemm_workspace(&p->job, plan->max_threads, &plan->workspace_bytes))
        status = inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the workspace of this convolution exceeds the address space");
    else
        plan_points(s, p, plan->in[0].dtype, &plan->workspace_bytes);
done:
    return status;
}

/* ------------------------------------------------------------------ run */

typedef struct deform_run {
    const kit_call *call;
    const conv_geometry *geometry;
    int64_t offset_group;
    char *points; /* of floats */
    float *turned;
} deform_run;

static double element(const kit_tensor *input, const conv_geometry *geometry, int64_t plane, int64_t y, int64_t w)
{
    return y < 0 || y >= geometry->in[1] || w < 0 || w >= geometry->in[2]
               ? 0
               : convert_get_f64(input->dtype, input->data, plane * geometry->in_positions + y * geometry->in[2] + w);
}

/* The place in the image that tap `tap` of an offset group looks at for output position j; false when it is outside.
 * at: (image, offset group, tap). */
static bool place(const deform_run *run, int64_t at, int64_t tap, int64_t j, double *out_y, double *out_z)
{
    const conv_geometry *geometry = run->geometry;
    const kit_tensor *offset = &run->call->in[2];
    int64_t h = j / geometry->out[2] * geometry->stride[1] - geometry->begin[1] +
                tap / geometry->kernel[2] * geometry->dilation[1];
    int64_t w = j % geometry->out[2] * geometry->stride[2] - geometry->begin[2] +
                tap % geometry->kernel[2] * geometry->dilation[2];
    double y = (double)h + convert_get_f64(offset->dtype, offset->data, 2 * at * geometry->positions + j);
    double z = (double)w + convert_get_f64(offset->dtype, offset->data, (2 * at + 1) * geometry->positions + j);

    *out_y = y;
    *out_z = z;
    return y > -1 && y < (double)geometry->in[1] && z > -1 && z < (double)geometry->in[2]; /* NaN is nowhere */
}

/* What tap k of channel c (of the group) meets at output position j. */
static double sample(const deform_run *run, int64_t image, int64_t channel, int64_t tap, int64_t j)
{
    const conv_geometry *geometry = run->geometry;
    const kit_tensor *input = &run->call->in[0];
    int64_t own = channel / (geometry->channels / run->offset_group);
    int64_t at = (image * run->offset_group + own) * geometry->taps + tap;
    double value, fy, fz, y, z;
    int64_t plane = image * geometry->channels + channel, y0, z0;

    if (!place(run, at, tap, j, &y, &z))
        return 0;
    y0 = (int64_t)floor(y);
    z0 = (int64_t)floor(z);
    fy = y - (double)y0;
    fz = z - (double)z0;
    value = (1 - fy) * ((1 - fz) * element(input, geometry, plane, y0, z0) +
                        fz * element(input, geometry, plane, y0, z0 + 1)) +
            fy * ((1 - fz) * element(input, geometry, plane, y0 + 1, z0) +
                  fz * element(input, geometry, plane, y0 + 1, z0 + 1));
    if (kit_has_input(run->call, 4))
        value *= convert_get_f64(run->call->in[4].dtype, run->call->in[4].data, at * geometry->positions + j);
    return value;
}

/* The corners of the point at (y, z), `step` apart. */
static inline void find_corners(const conv_geometry *geometry, double y, double z, double mask, int64_t step,
                                int32_t *index, float *weight)
{
    const int64_t height = geometry->in[1], width = geometry->in[2];
    const bool inside = y > -1 && y < (double)height && z > -1 && z < (double)width;                /* NaN is nowhere */
    const int64_t y0 = inside ? (int64_t)(y + 1) - 1 : -2, z0 = inside ? (int64_t)(z + 1) - 1 : -2; /* floors */
    const double fy = y - (double)y0, fz = z - (double)z0, by[2] = { 1 - fy, fy }, bz[2] = { 1 - fz, fz };

    for (int c = 0; c < CORNERS; c++) {
        const int64_t cy = y0 + c / 2, cz = z0 + c % 2;
        const bool there = cy >= 0 && cy < height && cz >= 0 && cz < width;

        index[c * step] = there ? (int32_t)(cy * width + cz) : -1;
        weight[c * step] = there ? (float)(by[c / 2] * bz[c % 2] * mask) : 0;
    }
}

/* Fills the points of (image, offset group, tap) units [begin, end). */
static inlay_status find_points(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const deform_run *run = user;
    const conv_geometry *geometry = run->geometry;
    const int64_t n = geometry->positions;

    (void)worker;
    for (int64_t at = begin; at < end; at++) {
        const int64_t tap = at % geometry->taps;
        const float *rows = (const float *)run->call->in[2].data + 2 * at * n, *columns = rows + n;
        const float *masks = kit_has_input(run->call, 4) ? (const float *)run->call->in[4].data + at * n : NULL;
        int32_t *index = (int32_t *)(void *)(run->points + at * point_bytes(geometry));
        float *weight = (float *)(index + CORNERS * n);

        for (int64_t h = 0, j = 0; h < geometry->out[1]; h++) {
            const int64_t y =
                h * geometry->stride[1] - geometry->begin[1] + tap / geometry->kernel[2] * geometry->dilation[1];
            int64_t z = tap % geometry->kernel[2] * geometry->dilation[2] - geometry->begin[2];

            for (int64_t w = 0; w < geometry->out[2]; w++, j++, z += geometry->stride[2])
                find_corners(geometry, (double)y + (double)rows[j], (double)z + (double)columns[j],
                             masks != NULL ? (double)masks[j] : 1, n, index + j, weight + j);
        }
    }
    return INLAY_OK;
}

/* n points of a plane input; their corners lie `step` apart. */
static void sample_points(const float *input, const int32_t *index, const float *weight, int64_t step, int64_t n,
                          float *restrict out)
{
    const int32_t *a = index, *b = index + step, *c = index + 2 * step, *d = index + 3 * step;
    const float *u = weight, *v = weight + step, *weights = weight + 2 * step, *z = weight + 3 * step;

    for (int64_t i = 0; i < n; i++)
        out[i] = (convert_picked(input, a[i], u[i]) + convert_picked(input, b[i], v[i])) +
                 (convert_picked(input, c[i], weights[i]) + convert_picked(input, d[i], z[i]));
}

static void pack_points(const gemm_operand *self, int64_t batch, int64_t line, int64_t line_end, int64_t k0, int64_t k1,
                        uint32_t width, void *out)
{
    const deform_run *run = self->user;
    const conv_geometry *geometry = run->geometry;
    const int64_t channels = geometry->channels / geometry->group, first = batch % geometry->group * channels,
                  image = batch / geometry->group;
    const int64_t per_offset = geometry->channels / run->offset_group;
    float *to = out;

    for (int64_t l0 = line; l0 < line_end; l0 += width) {
        const int64_t n = line_end - l0 < width ? line_end - l0 : width;

        for (int64_t k = k0; k < k1; k++, to += width) {
            const int64_t channel = first + k / geometry->taps;
            const int64_t at = (image * run->offset_group + channel / per_offset) * geometry->taps + k % geometry->taps;
            const int32_t *index = (const int32_t *)(const void *)(run->points + at * point_bytes(geometry));
            const float *input =
                (const float *)run->call->in[0].data + (image * geometry->channels + channel) * geometry->in_positions;

            sample_points(input, index + l0, (const float *)(index + CORNERS * geometry->positions) + l0,
                          geometry->positions, n, to);
            for (int64_t i = n; i < width; i++)
                to[i] = 0;
        }
    }
}

/* The rows of tap `tap` among k0 to k1, which are `taps` apart, for n lines from l0 on. */
static void pack_tap(const deform_run *run, int64_t batch, int64_t tap, int64_t l0, int64_t n, int64_t k0, int64_t k1,
                     uint32_t width, float *to)
{
    enum { ROOM = 4096 };
    const conv_geometry *geometry = run->geometry;
    const int64_t first = batch % geometry->group * (geometry->channels / geometry->group),
                  image = batch / geometry->group;
    const int64_t per_offset = geometry->channels / run->offset_group, taps = geometry->taps,
                  most = n < ROOM ? ROOM / n : 1;
    const int64_t end = (k1 - tap + taps - 1) / taps;
    float room[ROOM];

    for (int64_t c = k0 > tap ? (k0 - tap + taps - 1) / taps : 0; c < end;) {
        const int64_t own = (first + c) / per_offset, left = (own + 1) * per_offset - first - c;
        const int64_t some = end - c < left ? end - c : left, count = some < most ? some : most;
        const int32_t *index =
            (const int32_t *)(const void *)(run->points +
                                            ((image * run->offset_group + own) * taps + tap) * point_bytes(geometry));
        const struct points points = { run->turned + image * points_floats(geometry->channels, geometry->in_positions),
                                       geometry->channels,
                                       geometry->in_positions,
                                       index + l0,
                                       (const float *)(const void *)(index + CORNERS * geometry->positions) + l0,
                                       geometry->positions,
                                       CORNERS };

        points_mix(&points, first + c, count, n, room);
        KERNEL_BEST(moves)->turn(room, count, to + (c * taps + tap - k0) * width, taps * width, n, count);
        c += count;
    }
}

static void pack_turned(const gemm_operand *self, int64_t batch, int64_t line, int64_t line_end, int64_t k0, int64_t k1,
                        uint32_t width, void *out)
{
    enum { LINES = 64 };
    const deform_run *run = self->user;
    float *to = out;

    for (int64_t l0 = line; l0 < line_end; l0 += width, to += (k1 - k0) * width) {
        const int64_t n = line_end - l0 < width ? line_end - l0 : width;

        for (int64_t tap = 0; tap < run->geometry->taps; tap++)
            for (int64_t i = 0; i < n; i += LINES)
                pack_tap(run, batch, tap, l0 + i, n - i < LINES ? n - i : LINES, k0, k1, width, to + i);
        for (int64_t k = 0; k < k1 - k0; k++)
            for (int64_t i = n; i < width; i++)
                to[k * width + i] = 0;
    }
}

static void pack_samples(const gemm_operand *self, int64_t batch, int64_t line, int64_t line_end, int64_t k0,
                         int64_t k1, uint32_t width, void *out)
{
    const deform_run *run = self->user;
    const conv_geometry *geometry = run->geometry;
    int64_t channels = geometry->channels / geometry->group, first = batch % geometry->group * channels, at = 0;
    bool wide = run->call->in[0].dtype == INLAY_DOUBLE;

    for (int64_t l0 = line; l0 < line_end; l0 += width)
        for (int64_t k = k0; k < k1; k++)
            for (int64_t l = l0; l < l0 + width; l++, at++) {
                double v = l < line_end
                               ? sample(run, batch / geometry->group, first + k / geometry->taps, k % geometry->taps, l)
                               : 0;
                if (wide)
                    ((double *)out)[at] = v;
                else
                    ((float *)out)[at] = (float)v;
            }
}

static void fill_bias(void *user, const gemm_tile *tile)
{
    const deform_run *run = user;
    const kit_tensor *bias = &run->call->in[3];
    int64_t per_group = run->geometry->filters / run->geometry->group,
            first = tile->batch % run->geometry->group * per_group;

    for (int64_t i = tile->i0; i < tile->i1; i++) {
        double v = convert_get_f64(bias->dtype, bias->data, first + i);
        int64_t row = (i - tile->i0) * tile->c_stride;
        for (int64_t j = 0; j < tile->j1 - tile->j0; j++) {
            if (bias->dtype == INLAY_DOUBLE)
                ((double *)tile->c)[row + j] = v;
            else
                ((float *)tile->c)[row + j] = (float)v;
        }
    }
}

static inlay_status run(const kit_call *call)
{
    const deform_state *state = call->state;
    const deform_plan *plan = call->plan;
    deform_run r = { call, &plan->geometry, state->offset_group, (char *)call->workspace + plan->points,
                     (float *)(void *)((char *)call->workspace + plan->turned) };
    inlay_status status = INLAY_OK;
    gemm_job job = plan->job;
    gemm_half_output half;

    if (call->out[0].count == 0)
        return INLAY_OK;
    job.a.data = call->in[1].data;
    job.b.user = &r;
    if (kit_has_input(call, 3)) {
        job.init = fill_bias;
        job.init_user = &r;
    }
    gemm_set_output(&job, &half, call->out[0].dtype, call->out[0].data);
    if (plan->has_points)
        INLAY_TRY(kit_parallel(call, plan->geometry.images * state->offset_group * plan->geometry.taps,
                               2048 / (plan->geometry.positions + 1) + 1, find_points, &r));
    for (int64_t i = 0; plan->turned > 0 && i < plan->geometry.images; i++)
        INLAY_TRY(points_turn(
            call, (const float *)call->in[0].data + i * plan->geometry.channels * plan->geometry.in_positions,
            plan->geometry.channels, plan->geometry.in_positions,
            r.turned + i * points_floats(plan->geometry.channels, plan->geometry.in_positions)));
    status = gemm_run(call, &job, call->workspace);
done:
    return status;
}

static const kit_kernel kernels[] = {
    { .op_type = "DeformConv",
      .since_max = 22,
      .supports = supports,
      .prepare = prepare,
      .release = release,
      .shape = shape,
      .run = run },
};
const kit_table OPERATOR(reference_deform_conv) = { kernels, KIT_COUNT(kernels) };
