/* GridSample: ONNX 16, 20, 22, in any number of dimensions. The contributing pixels of a point and their weights are
 * computed once; the result in every channel is their weighted sum. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/args.h"
#include "simd/convert.h"
#include "simd/move_set.h"
#include "operators/points.h"
#include "operators/operators.h"
#include "operators/strided.h"
#include "operators/work.h"
#include <math.h>

enum { MODE_LINEAR, MODE_NEAREST, MODE_CUBIC };
enum { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION };
enum { MAX_TAPS = 256 }; /* 2 or 4 to the power of the dimensions */

typedef struct sample_taps {
    uint32_t count;
    int64_t offset[MAX_TAPS]; /* elements from the start of a channel */
    double weight[MAX_TAPS];
} sample_taps;

typedef struct sample_job sample_job;
typedef void (*sample_fn)(const sample_job *job, const sample_taps *taps, const void *in, void *out);
struct sample_job {
    const kit_tensor *input, *grid, *output;
    sample_fn sample; /* NULL: mode nearest, which copies elements */
    uint32_t mode, padding, spatial, element;
    bool corners;
    int64_t channels, pixels, points; /* pixels and points per channel */
    const float *turned;              /* the current image with channels last, or NULL */
    int64_t first_unit;               /* first point of the current image */
};

#define BODY "grid_sample.inc"
#include "operators/floats.inc"

#define ACC double
#define LOAD(x) (x)
#define STORE(x) ((T) _Generic((T)0, uint64_t : f64_to_u64, default : f64_to_i64)(x))
#define BODY "grid_sample.inc"
#include "operators/integers.inc"
#undef STORE

#define NAME(what) what##_bool
#define T uint8_t
#define STORE(x) ((uint8_t)((x) != 0))
#include "operators/grid_sample.inc"

static const sample_fn by_dtype[INLAY_DTYPE_COUNT] = {
    [INLAY_FLOAT] = sample_f32,     [INLAY_DOUBLE] = sample_f64, [INLAY_FLOAT16] = sample_f16,
    [INLAY_BFLOAT16] = sample_bf16, [INLAY_INT8] = sample_i8,    [INLAY_INT16] = sample_i16,
    [INLAY_INT32] = sample_i32,     [INLAY_INT64] = sample_i64,  [INLAY_UINT8] = sample_u8,
    [INLAY_UINT16] = sample_u16,    [INLAY_UINT32] = sample_u32, [INLAY_UINT64] = sample_u64,
    [INLAY_BOOL] = sample_bool,
};

typedef struct sample_state {
    uint32_t mode, padding;
    bool corners;
} sample_state;

static bool read_state(const kit_node *node, sample_state *state)
{
    static const struct {
        const char *name;
        uint32_t value;
    } modes[] = { { "linear", MODE_LINEAR },
                  { "bilinear", MODE_LINEAR },
                  { "nearest", MODE_NEAREST },
                  { "cubic", MODE_CUBIC },
                  { "bicubic", MODE_CUBIC } },
      paddings[] = { { "zeros", PAD_ZEROS }, { "border", PAD_BORDER }, { "reflection", PAD_REFLECTION } };
    const char *mode = kit_attr_string(node->info, "mode", "linear");
    const char *padding = kit_attr_string(node->info, "padding_mode", "zeros");
    uint32_t mode_index = 0, padding_index = 0;

    while (mode_index < KIT_COUNT(modes) && strcmp(mode, modes[mode_index].name) != 0)
        mode_index++;
    while (padding_index < KIT_COUNT(paddings) && strcmp(padding, paddings[padding_index].name) != 0)
        padding_index++;
    if (mode_index == KIT_COUNT(modes) || padding_index == KIT_COUNT(paddings))
        return false;
    *state = (sample_state){ modes[mode_index].value, paddings[padding_index].value,
                             kit_attr_int(node->info, "align_corners", 0) != 0 };
    return true;
}

static bool supports_sample(const kit_node *node, kit_refusal *why)
{
    const inlay_dtype dtype = kit_input_dtype(node, 0);
    sample_state state;

    if (!read_state(node, &state))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use linear, nearest or cubic; zeros, border or reflection",
                          "mode '%s' with padding_mode '%s' is unknown", kit_attr_string(node->info, "mode", ""),
                          kit_attr_string(node->info, "padding_mode", ""));
    if (state.mode != MODE_NEAREST && dtype > 0 && dtype < INLAY_DTYPE_COUNT && by_dtype[dtype] == NULL)
        return kit_refuse(why, INLAY_REFUSE_DTYPE, "use mode nearest", "elements of type %s cannot be interpolated",
                          inlay_dtype_name(dtype));
    return true;
}

static inlay_status prepare_sample(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_status status = arg_allocate_state(sizeof(sample_state), out_state, diag);

    if (status == INLAY_OK && !read_state(node, *out_state))
        status = inlay_fail(diag, INLAY_INVALID_MODEL, "mode '%.40s' with padding_mode '%.40s' is unknown",
                            kit_attr_string(node->info, "mode", ""), kit_attr_string(node->info, "padding_mode", ""));
    return status;
}

#define P float
#define AXIS(what) what##_f32
#define MATH(name) name##f
#include "operators/grid_sample_axis.inc"

#define P double
#define AXIS(what) what##_f64
#define MATH(name) name
#include "operators/grid_sample_axis.inc"

/* Computes the taps of a point: all combinations of the taps of the axes, except those in the padding. The grid
 * contains the coordinate of the last axis (x) first. */
static void point_taps(const sample_job *job, int64_t point, sample_taps *taps)
{
    const double *exact =
        job->grid->dtype == INLAY_DOUBLE ? (const double *)job->grid->data + point * job->spatial : NULL;
    float coordinates[INLAY_MAX_RANK];

    INLAY_CHECK(job->spatial + 2 <= INLAY_MAX_RANK);
    if (exact == NULL)
        convert_to_f32(coordinates, job->grid->dtype, job->grid->data, point * job->spatial, job->spatial);
    taps->count = 1;
    taps->offset[0] = 0;
    taps->weight[0] = 1;
    for (uint32_t axis = 0; axis < job->spatial; axis++) {
        const int64_t size = job->input->dims[2 + axis];
        int64_t pixel[4];
        double weight[4];
        const uint32_t coordinate = job->spatial - 1 - axis;
        const uint32_t tap_count =
            exact != NULL ? axis_taps_f64(job, locate_f64(job, exact[coordinate], size), size, pixel, weight)
                          : axis_taps_f32(job, locate_f32(job, coordinates[coordinate], size), size, pixel, weight);
        const uint32_t before = taps->count;
        uint32_t count = 0;
        int64_t offset[MAX_TAPS];
        double product[MAX_TAPS];

        for (uint32_t i = 0; i < before; i++) {
            for (uint32_t j = 0; j < tap_count; j++) {
                if (pixel[j] < 0)
                    continue;
                offset[count] = taps->offset[i] * size + pixel[j];
                product[count++] = taps->weight[i] * weight[j];
            }
        }
        INLAY_CHECK(count <= MAX_TAPS);
        memcpy(taps->offset, offset, count * sizeof *offset);
        memcpy(taps->weight, product, count * sizeof *product);
        taps->count = count;
    }
}

enum { BLOCK = 64 };

/* The pixels of up to BLOCK points: 1, 4 or 16 for each point, row by row. -1: the value is 0. */
typedef struct sample_block {
    int32_t offset[16][BLOCK];
    float weight[16][BLOCK];
} sample_block;

static void block_taps(const sample_job *job, int64_t point, int64_t count, sample_block *block)
{
    const float *grid = (const float *)job->grid->data + 2 * point;
    const int64_t height = job->input->dims[2], width = job->input->dims[3];

    INLAY_CHECK(count <= BLOCK);
    for (int64_t i = 0; i < count; i++) {
        int64_t pixel_x[4], pixel_y[4];
        double weight_x[4], weight_y[4];
        const uint32_t axis_tap_count =
            axis_taps_f32(job, locate_f32(job, grid[2 * i], width), width, pixel_x, weight_x);

        (void)axis_taps_f32(job, locate_f32(job, grid[2 * i + 1], height), height, pixel_y, weight_y);
        for (uint32_t tap = 0; tap < axis_tap_count * axis_tap_count; tap++) {
            block->offset[tap][i] =
                pixel_x[tap % axis_tap_count] < 0 || pixel_y[tap / axis_tap_count] < 0
                    ? -1
                    : (int32_t)(pixel_y[tap / axis_tap_count] * width + pixel_x[tap % axis_tap_count]);
            block->weight[tap][i] = (float)(weight_y[tap / axis_tap_count] * weight_x[tap % axis_tap_count]);
        }
    }
}

/* Interpolates one channel of a block. With one tap (nearest) the pixel is copied. */
static void sample_channel(const sample_block *block, uint32_t taps, const float *input, float *restrict output,
                           int64_t count)
{
    INLAY_CHECK(taps == 1 || taps % 4 == 0);
    if (taps == 1) {
        for (int64_t i = 0; i < count; i++)
            output[i] = convert_picked(input, block->offset[0][i], 1);
        return;
    }
    for (uint32_t tap = 0; tap < taps; tap += 4) {
        const int32_t *at[4] = { block->offset[tap], block->offset[tap + 1], block->offset[tap + 2],
                                 block->offset[tap + 3] };
        const float *weight[4] = { block->weight[tap], block->weight[tap + 1], block->weight[tap + 2],
                                   block->weight[tap + 3] };

        for (int64_t i = 0; i < count; i++) {
            const float sum =
                (convert_picked(input, at[0][i], weight[0][i]) + convert_picked(input, at[1][i], weight[1][i])) +
                (convert_picked(input, at[2][i], weight[2][i]) + convert_picked(input, at[3][i], weight[3][i]));
            output[i] = tap == 0 ? sum : output[i] + sum;
        }
    }
}

/* Interpolates points [begin, end) of one image in blocks, so that each channel is computed by vector operations. */
static void sample_blocks(const sample_job *job, int64_t begin, int64_t end, const float *in, float *out)
{
    const uint32_t taps = job->mode == MODE_NEAREST ? 1 : job->mode == MODE_LINEAR ? 4 : 16;
    sample_block block;

    for (int64_t first = begin; first < end; first += BLOCK) {
        const int64_t count = end - first < BLOCK ? end - first : BLOCK;

        block_taps(job, first, count, &block);
        for (int64_t channel = 0; channel < job->channels; channel++)
            sample_channel(&block, taps, in + channel * job->pixels, out + channel * job->points + first % job->points,
                           count);
    }
}

/* Like sample_blocks, for a transposed image: computes blocks [points, channels] in a buffer that fits in the cache,
 * and transposes them back. */
static void sample_turned(const sample_job *job, int64_t begin, int64_t end, float *out)
{
    enum { BUFFER_FLOATS = 4096 };
    const int64_t max_channels = BUFFER_FLOATS / BLOCK;
    float buffer[BUFFER_FLOATS];
    sample_block block;
    const struct points points = { job->turned,
                                   job->channels,
                                   job->pixels,
                                   block.offset[0],
                                   block.weight[0],
                                   BLOCK,
                                   job->mode == MODE_LINEAR ? 4 : 16 };

    INLAY_CHECK(job->turned != NULL && job->mode != MODE_NEAREST);
    for (int64_t first = begin; first < end; first += BLOCK) {
        const int64_t count = end - first < BLOCK ? end - first : BLOCK;

        block_taps(job, first, count, &block);
        for (int64_t channel = 0; channel < job->channels; channel += max_channels) {
            const int64_t channel_count =
                job->channels - channel < max_channels ? job->channels - channel : max_channels;

            points_interpolate(&points, channel, channel_count, count, buffer);
            move_turn(KERNEL_BEST(moves), buffer, channel_count, out + channel * job->points + first % job->points,
                      job->points, count, channel_count);
        }
    }
}

/* Returns whether the job is a two-dimensional float image with a float grid. */
static bool is_plain(const sample_job *job)
{
    return job->spatial == 2 && job->input->dtype == INLAY_FLOAT && job->grid->dtype == INLAY_FLOAT &&
           job->pixels <= INT32_MAX;
}

/* Processes points [begin, end) of all images. */
static inlay_status block_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const sample_job *job = user;

    (void)worker;
    INLAY_CHECK(job->points > 0);
    begin += job->first_unit;
    end += job->first_unit;
    while (begin < end) {
        const int64_t batch = begin / job->points, past = (batch + 1) * job->points;
        const int64_t stop = end < past ? end : past, image = batch * job->channels;

        if (job->turned != NULL)
            sample_turned(job, begin, stop, (float *)job->output->data + image * job->points);
        else
            sample_blocks(job, begin, stop, (const float *)job->input->data + image * job->pixels,
                          (float *)job->output->data + image * job->points);
        begin = stop;
    }
    return INLAY_OK;
}

/* Processes points [begin, end) of all images. */
static inlay_status sample_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const sample_job *job = user;
    sample_taps taps;

    (void)worker;
    INLAY_CHECK(job->points > 0);
    for (int64_t point = begin; point < end; point++) {
        const int64_t batch = point / job->points;
        const char *in = (const char *)job->input->data + batch * job->channels * job->pixels * job->element;
        char *out =
            (char *)job->output->data + (batch * job->channels * job->points + point % job->points) * job->element;

        point_taps(job, point, &taps);
        if (job->sample != NULL) {
            job->sample(job, &taps, in, out);
            continue;
        }
        for (int64_t channel = 0; channel < job->channels; channel++) {
            char *to = out + channel * job->points * job->element;

            if (taps.count > 0)
                memcpy(to, in + (channel * job->pixels + taps.offset[0]) * job->element, job->element);
            else
                memset(to, 0, job->element);
        }
    }
    return INLAY_OK;
}

/* Returns the number of floats of a transposed image; 0 if the image has too few channels or points to be
 * transposed. */
static int64_t turned_floats(const sample_state *state, const kit_tensor *input, const kit_tensor *grid)
{
    const int64_t channels = input->rank == 4 ? input->dims[1] : 0;

    if (channels < POINTS_FEW || state->mode == MODE_NEAREST || input->dtype != INLAY_FLOAT ||
        grid->dtype != INLAY_FLOAT || input->count <= 0 || input->count / input->dims[0] / channels > INT32_MAX ||
        grid->count < input->count / channels)
        return 0;
    return points_floats(channels, input->count / input->dims[0] / channels);
}

static inlay_status shape_sample(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const int64_t floats = turned_floats(state, &plan->in[0], &plan->in[1]);

    (void)diag;
    plan->workspace_bytes = floats > 0 ? (uint64_t)floats * sizeof(float) : 0;
    return INLAY_OK;
}

/* Processes one image at a time, after transposing it. */
static inlay_status run_turned(const kit_call *call, sample_job *job)
{
    inlay_status status = INLAY_OK;

    INLAY_CHECK(call->workspace != NULL);
    job->turned = call->workspace;
    for (int64_t image = 0; image < job->input->dims[0] && status == INLAY_OK; image++) {
        job->first_unit = image * job->points;
        status = points_transpose(call, (const float *)job->input->data + image * job->channels * job->pixels,
                                  job->channels, job->pixels, call->workspace);
        if (status == INLAY_OK)
            status = kit_parallel(call, job->points, 16384 / job->channels + 1, block_range, job);
    }
    return status;
}

static inlay_status run_sample(const kit_call *call)
{
    const sample_state *state = call->state;
    const kit_tensor *input = &call->in[0], *grid = &call->in[1], *output = &call->out[0];
    sample_job job = { .input = input,
                       .grid = grid,
                       .output = output,
                       .mode = state->mode,
                       .padding = state->padding,
                       .corners = state->corners,
                       .element = strided_element_bytes(input->dtype) };
    int64_t dims[INLAY_MAX_RANK];
    uint32_t max_taps = 1;
    inlay_status status;

    if (input->rank < 3 || grid->rank != input->rank || grid->dims[0] != input->dims[0] ||
        grid->dims[grid->rank - 1] != (int64_t)input->rank - 2)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "X must be [N, C, ...] of rank %u and grid [N, ..., %d]",
                          grid->rank, (int)grid->rank - 2);
    job.spatial = input->rank - 2;
    for (uint32_t d = 0; d < job.spatial && max_taps <= MAX_TAPS; d++)
        max_taps *= state->mode == MODE_CUBIC ? 4 : state->mode == MODE_LINEAR ? 2 : 1;
    if (max_taps > MAX_TAPS)
        return inlay_fail(call->diag, INLAY_LIMIT_EXCEEDED, "interpolation in %u dimensions", job.spatial);
    dims[0] = input->dims[0];
    dims[1] = input->dims[1];
    memcpy(dims + 2, grid->dims + 1, job.spatial * sizeof *dims);
    status = arg_expect_dims(call->diag, output, input->rank, dims);
    if (status != INLAY_OK || output->count == 0)
        return status;
    job.channels = input->dims[1];
    job.pixels = strided_product(input->dims, 2, input->rank);
    job.points = strided_product(output->dims, 2, output->rank);
    job.sample = state->mode == MODE_NEAREST ? NULL : by_dtype[input->dtype];
    if (job.pixels == 0 || (state->mode != MODE_NEAREST && job.sample == NULL))
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "an image of type %s is empty or cannot be interpolated",
                          inlay_dtype_name(input->dtype));
    if (is_plain(&job) && turned_floats(state, input, grid) > 0)
        return run_turned(call, &job);
    return kit_parallel(call, input->dims[0] * job.points, 4096 / (job.channels * max_taps) + 1,
                        is_plain(&job) ? block_range : sample_range, &job);
}

/* An output element needs two or four pixels along each axis, or one pixel for mode nearest. The places and weights of
 * a point are computed once for all channels. */
static void cost_sample(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const kit_tensor *output = &shapes->out[0];
    const char *mode = kit_attr_string(node->info, "mode", "linear");
    const double channels = output->rank > 1 && output->dims[1] > 0 ? (double)output->dims[1] : 1;
    double taps = 1;

    for (uint32_t d = 2; d < output->rank && strcmp(mode, "nearest") != 0; d++)
        taps *= strstr(mode, "cubic") != NULL ? 4 : 2;
    work_cost(shapes, work_count(output), 19 / channels + 0.19 + 0.056 * taps, work_count(output), cost);
}

static const kit_kernel kernels[] = {
    { .op_type = "GridSample",
      .supports = supports_sample,
      .prepare = prepare_sample,
      .shape = shape_sample,
      .cost = cost_sample,
      .run = run_sample },
};
const kit_table OPERATOR(operators_grid_sample) = { kernels, KIT_COUNT(kernels) };
