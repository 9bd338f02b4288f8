/* DeformConv: ONNX 19, 22. Like Conv, it multiplies the weights by a matrix of windows (GEMM), but the elements of the
 * windows are interpolated from the input at the positions given by the offsets. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "operators/args.h"
#include "operators/conv.h"
#include "simd/convert.h"
#include "operators/gemm/set.h"
#include "simd/move_set.h"
#include "operators/points.h"
#include "operators/operators.h"
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
    bool has_points; /* the points are computed once, for float only; otherwise each element computes its own */
    uint64_t points; /* offset in the workspace of the points */
    uint64_t turned; /* offset in the workspace of the images with channels last, used for many channels; or 0 */
    int64_t which[]; /* [images * group]: the group, which is the index of the weights in the GEMM */
} deform_plan;

static void release(void *state)
{
    deform_state *deform = state;

    if (deform != NULL)
        kit_pack_free(&deform->pack);
    free(deform);
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

    INLAY_TRY(arg_allocate_state(sizeof *state, (void **)&state, diag));
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

/* A point is a sampling position of one tap, for all channels of an offset group: the indices of its four neighbors and
 * their weights. They are stored as consecutive arrays of [positions]. Index -1: outside the image, value 0. */
enum { CORNERS = 4 };
static int64_t point_bytes(const conv_geometry *geometry)
{
    return (geometry->positions * CORNERS * (int64_t)(sizeof(int32_t) + sizeof(float)) + 63) / 64 * 64;
}

/* Reserves workspace for the images with channels last, if that makes sampling faster. */
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

/* Reserves workspace for the points, if their size is within limits. */
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
    const deform_state *attributes = state;
    int64_t batch, per_position;
    gemm_half_output half;
    conv_geometry geometry;
    deform_plan *deform;
    inlay_status status;

    if (plan->in[0].rank != 4)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the input has rank %u; DeformConv takes 4", plan->in[0].rank);
    INLAY_TRY(conv_resolve(&attributes->attrs, &plan->in[0], &plan->in[1], &geometry, diag));
    INLAY_TRY(conv_check_output(&geometry, &plan->out[0], diag));
    per_position = attributes->offset_group > 0 && geometry.channels % attributes->offset_group == 0
                       ? geometry.images * attributes->offset_group * geometry.taps
                       : -1;
    if (per_position < 0 || plan->in[2].count != per_position * 2 * geometry.positions ||
        (plan->in_count > 4 && plan->in[4].dtype != INLAY_UNDEFINED &&
         plan->in[4].count != per_position * geometry.positions) ||
        (plan->in_count > 3 && plan->in[3].dtype != INLAY_UNDEFINED && plan->in[3].count != geometry.filters))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "offset, mask or bias do not fit %lld images, %lld offset groups, %lld taps, %lld positions",
                          (long long)geometry.images, (long long)attributes->offset_group, (long long)geometry.taps,
                          (long long)geometry.positions);
    if (__builtin_mul_overflow(geometry.images, geometry.group, &batch) || batch > INT32_MAX ||
        (deform = calloc(1, sizeof *deform + (size_t)batch * sizeof(int64_t))) == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of a DeformConv");
    plan->plan = deform;
    for (int64_t matrix = 0; matrix < batch; matrix++)
        deform->which[matrix] = matrix % geometry.group;
    deform->geometry = geometry;
    deform->job = (gemm_job){ .kernel = attributes->kernel,
                              .batch = batch,
                              .m = geometry.filters / geometry.group,
                              .n = geometry.positions,
                              .k = geometry.channels / geometry.group * geometry.taps,
                              .a = attributes->weights };
    deform->job.a.line_stride = deform->job.k;
    deform->job.a.k_stride = 1;
    deform->job.a.matrix_stride = deform->job.m * deform->job.k;
    deform->job.a.which = deform->which;
    deform->job.b.pack = pack_samples;
    gemm_set_output(&deform->job, &half, plan->out[0].dtype, NULL);
    gemm_plan(&deform->job, plan->max_threads);
    if (!gemm_workspace(&deform->job, plan->max_threads, &plan->workspace_bytes))
        status = inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the workspace of this convolution exceeds the address space");
    else
        plan_points(attributes, deform, plan->in[0].dtype, &plan->workspace_bytes);
done:
    return status;
}

typedef struct deform_run {
    const kit_call *call;
    const conv_geometry *geometry;
    int64_t offset_group;
    char *points; /* computed for float only */
    float *turned;
} deform_run;

static double element(const kit_tensor *input, const conv_geometry *geometry, int64_t plane, int64_t row,
                      int64_t column)
{
    return row < 0 || row >= geometry->in[1] || column < 0 || column >= geometry->in[2]
               ? 0
               : convert_get_f64(input->dtype, input->data,
                                 plane * geometry->in_positions + row * geometry->in[2] + column);
}

/* The position in the image of tap `tap` of an offset group for output position `position`; returns false if it is
 * outside. at: index of (image, offset group, tap). */
static bool find_position(const deform_run *run, int64_t at, int64_t tap, int64_t position, double *out_y,
                          double *out_x)
{
    const conv_geometry *geometry = run->geometry;
    const kit_tensor *offset = &run->call->in[2];
    int64_t row = position / geometry->out[2] * geometry->stride[1] - geometry->begin[1] +
                  tap / geometry->kernel[2] * geometry->dilation[1];
    int64_t column = position % geometry->out[2] * geometry->stride[2] - geometry->begin[2] +
                     tap % geometry->kernel[2] * geometry->dilation[2];
    INLAY_CHECK(position >= 0 && position < geometry->positions && tap < geometry->taps);
    double y = (double)row + convert_get_f64(offset->dtype, offset->data, 2 * at * geometry->positions + position);
    double x =
        (double)column + convert_get_f64(offset->dtype, offset->data, (2 * at + 1) * geometry->positions + position);

    *out_y = y;
    *out_x = x;
    return y > -1 && y < (double)geometry->in[1] && x > -1 && x < (double)geometry->in[2]; /* NaN is outside */
}

/* The input value for tap `tap` of channel `channel` at output position `position`. */
static double sample(const deform_run *run, int64_t image, int64_t channel, int64_t tap, int64_t position)
{
    const conv_geometry *geometry = run->geometry;
    const kit_tensor *input = &run->call->in[0];
    int64_t offset_group = channel / (geometry->channels / run->offset_group);
    int64_t at = (image * run->offset_group + offset_group) * geometry->taps + tap;
    double value, fy, fx, y, x;
    int64_t plane = image * geometry->channels + channel, y0, x0;

    if (!find_position(run, at, tap, position, &y, &x))
        return 0;
    y0 = (int64_t)floor(y);
    x0 = (int64_t)floor(x);
    fy = y - (double)y0;
    fx = x - (double)x0;
    value = (1 - fy) * ((1 - fx) * element(input, geometry, plane, y0, x0) +
                        fx * element(input, geometry, plane, y0, x0 + 1)) +
            fy * ((1 - fx) * element(input, geometry, plane, y0 + 1, x0) +
                  fx * element(input, geometry, plane, y0 + 1, x0 + 1));
    if (kit_has_input(run->call, 4))
        value *= convert_get_f64(run->call->in[4].dtype, run->call->in[4].data, at * geometry->positions + position);
    return value;
}

/* Computes the indices and weights of the four corners of the point at (y, x); they are stored `step` apart. */
static inline void find_corners(const conv_geometry *geometry, double y, double x, double mask, int64_t step,
                                int32_t *index, float *weight)
{
    const int64_t height = geometry->in[1], width = geometry->in[2];
    const bool inside = y > -1 && y < (double)height && x > -1 && x < (double)width;                /* NaN is outside */
    const int64_t y0 = inside ? (int64_t)(y + 1) - 1 : -2, x0 = inside ? (int64_t)(x + 1) - 1 : -2; /* floor */
    const double fy = y - (double)y0, fx = x - (double)x0, by_y[2] = { 1 - fy, fy }, by_x[2] = { 1 - fx, fx };

    for (int corner = 0; corner < CORNERS; corner++) {
        const int64_t corner_y = y0 + corner / 2, corner_x = x0 + corner % 2;
        const bool exists = corner_y >= 0 && corner_y < height && corner_x >= 0 && corner_x < width;

        index[corner * step] = exists ? (int32_t)(corner_y * width + corner_x) : -1;
        weight[corner * step] = exists ? (float)(by_y[corner / 2] * by_x[corner % 2] * mask) : 0;
    }
}

/* Computes the points of (image, offset group, tap) units [begin, end). */
static inlay_status find_points(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const deform_run *run = user;
    const conv_geometry *geometry = run->geometry;
    const int64_t positions = geometry->positions;

    (void)worker;
    for (int64_t at = begin; at < end; at++) {
        const int64_t tap = at % geometry->taps;
        const float *rows = (const float *)run->call->in[2].data + 2 * at * positions, *columns = rows + positions;
        const float *masks = kit_has_input(run->call, 4) ? (const float *)run->call->in[4].data + at * positions : NULL;
        int32_t *index = (int32_t *)(void *)(run->points + at * point_bytes(geometry));
        float *weight = (float *)(index + CORNERS * positions);

        for (int64_t row = 0, position = 0; row < geometry->out[1]; row++) {
            const int64_t y =
                row * geometry->stride[1] - geometry->begin[1] + tap / geometry->kernel[2] * geometry->dilation[1];
            int64_t x = tap % geometry->kernel[2] * geometry->dilation[2] - geometry->begin[2];

            for (int64_t column = 0; column < geometry->out[2]; column++, position++, x += geometry->stride[2])
                find_corners(geometry, (double)y + (double)rows[position], (double)x + (double)columns[position],
                             masks != NULL ? (double)masks[position] : 1, positions, index + position,
                             weight + position);
        }
    }
    return INLAY_OK;
}

/* Interpolates `count` points of one plane; their corners are stored `step` apart. */
static void sample_points(const float *input, const int32_t *index, const float *weight, int64_t step, int64_t count,
                          float *restrict out)
{
    const int32_t *index1 = index + step, *index2 = index + 2 * step, *index3 = index + 3 * step;
    const float *weight1 = weight + step, *weight2 = weight + 2 * step, *weight3 = weight + 3 * step;

    for (int64_t i = 0; i < count; i++)
        out[i] = (convert_picked(input, index[i], weight[i]) + convert_picked(input, index1[i], weight1[i])) +
                 (convert_picked(input, index2[i], weight2[i]) + convert_picked(input, index3[i], weight3[i]));
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

    INLAY_CHECK(line <= line_end && k0 <= k1);
    for (int64_t l0 = line; l0 < line_end; l0 += width) {
        const int64_t count = line_end - l0 < width ? line_end - l0 : width;

        for (int64_t k = k0; k < k1; k++, to += width) {
            const int64_t channel = first + k / geometry->taps;
            const int64_t at = (image * run->offset_group + channel / per_offset) * geometry->taps + k % geometry->taps;
            const int32_t *index = (const int32_t *)(const void *)(run->points + at * point_bytes(geometry));
            const float *input =
                (const float *)run->call->in[0].data + (image * geometry->channels + channel) * geometry->in_positions;

            sample_points(input, index + l0, (const float *)(index + CORNERS * geometry->positions) + l0,
                          geometry->positions, count, to);
            for (int64_t i = count; i < width; i++)
                to[i] = 0;
        }
    }
}

/* Packs the rows of tap `tap` in [k0, k1), which are `taps` apart, for `line_count` lines starting at l0. */
static void pack_tap(const deform_run *run, int64_t batch, int64_t tap, int64_t l0, int64_t line_count, int64_t k0,
                     int64_t k1, uint32_t width, float *to)
{
    enum { SAMPLES = 4096 };
    const conv_geometry *geometry = run->geometry;
    const int64_t first = batch % geometry->group * (geometry->channels / geometry->group),
                  image = batch / geometry->group;
    const int64_t per_offset = geometry->channels / run->offset_group, taps = geometry->taps,
                  max_count = line_count < SAMPLES ? SAMPLES / line_count : 1;
    const int64_t end = (k1 - tap + taps - 1) / taps;
    float samples[SAMPLES];
    INLAY_CHECK(line_count > 0 && line_count <= SAMPLES && tap < taps);

    for (int64_t channel = k0 > tap ? (k0 - tap + taps - 1) / taps : 0; channel < end;) {
        const int64_t offset_group = (first + channel) / per_offset,
                      remaining = (offset_group + 1) * per_offset - first - channel;
        const int64_t same_group = end - channel < remaining ? end - channel : remaining,
                      count = same_group < max_count ? same_group : max_count;
        const int32_t *index =
            (const int32_t *)(const void *)(run->points + ((image * run->offset_group + offset_group) * taps + tap) *
                                                              point_bytes(geometry));
        const struct points points = { run->turned + image * points_floats(geometry->channels, geometry->in_positions),
                                       geometry->channels,
                                       geometry->in_positions,
                                       index + l0,
                                       (const float *)(const void *)(index + CORNERS * geometry->positions) + l0,
                                       geometry->positions,
                                       CORNERS };

        points_interpolate(&points, first + channel, count, line_count, samples);
        move_turn(KERNEL_BEST(moves), samples, count, to + (channel * taps + tap - k0) * width, taps * width,
                  line_count, count);
        channel += count;
    }
}

static void pack_turned(const gemm_operand *self, int64_t batch, int64_t line, int64_t line_end, int64_t k0, int64_t k1,
                        uint32_t width, void *out)
{
    enum { LINES = 64 };
    const deform_run *run = self->user;
    float *to = out;

    for (int64_t l0 = line; l0 < line_end; l0 += width, to += (k1 - k0) * width) {
        const int64_t line_count = line_end - l0 < width ? line_end - l0 : width;

        for (int64_t tap = 0; tap < run->geometry->taps; tap++)
            for (int64_t i = 0; i < line_count; i += LINES)
                pack_tap(run, batch, tap, l0 + i, line_count - i < LINES ? line_count - i : LINES, k0, k1, width,
                         to + i);
        for (int64_t k = 0; k < k1 - k0; k++)
            for (int64_t i = line_count; i < width; i++)
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
            for (int64_t column = l0; column < l0 + width; column++, at++) {
                double value = column < line_end ? sample(run, batch / geometry->group, first + k / geometry->taps,
                                                          k % geometry->taps, column)
                                                 : 0;
                if (wide)
                    ((double *)out)[at] = value;
                else
                    ((float *)out)[at] = (float)value;
            }
}

static void fill_bias(void *user, const gemm_tile *tile)
{
    const deform_run *run = user;
    const kit_tensor *bias = &run->call->in[3];
    int64_t per_group = run->geometry->filters / run->geometry->group,
            first = tile->batch % run->geometry->group * per_group;

    for (int64_t i = tile->i0; i < tile->i1; i++) {
        double value = convert_get_f64(bias->dtype, bias->data, first + i);
        int64_t row = (i - tile->i0) * tile->c_stride;
        for (int64_t j = 0; j < tile->j1 - tile->j0; j++) {
            if (bias->dtype == INLAY_DOUBLE)
                ((double *)tile->c)[row + j] = value;
            else
                ((float *)tile->c)[row + j] = (float)value;
        }
    }
}

static inlay_status run(const kit_call *call)
{
    const deform_state *state = call->state;
    const deform_plan *plan = call->plan;
    deform_run deform = { call, &plan->geometry, state->offset_group, (char *)call->workspace + plan->points,
                          (float *)(void *)((char *)call->workspace + plan->turned) };
    inlay_status status = INLAY_OK;
    gemm_job job = plan->job;
    gemm_half_output half;

    if (call->out[0].count == 0)
        return INLAY_OK;
    job.a.data = call->in[1].data;
    job.b.user = &deform;
    if (kit_has_input(call, 3)) {
        job.init = fill_bias;
        job.init_user = &deform;
    }
    gemm_set_output(&job, &half, call->out[0].dtype, call->out[0].data);
    if (plan->has_points)
        INLAY_TRY(kit_parallel(call, plan->geometry.images * state->offset_group * plan->geometry.taps,
                               2048 / (plan->geometry.positions + 1) + 1, find_points, &deform));
    for (int64_t i = 0; plan->turned > 0 && i < plan->geometry.images; i++)
        INLAY_TRY(points_transpose(
            call, (const float *)call->in[0].data + i * plan->geometry.channels * plan->geometry.in_positions,
            plan->geometry.channels, plan->geometry.in_positions,
            deform.turned + i * points_floats(plan->geometry.channels, plan->geometry.in_positions)));
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
const kit_table OPERATOR(operators_deform_conv) = { kernels, KIT_COUNT(kernels) };
