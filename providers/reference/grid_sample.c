/* GridSample: ONNX 16, 20, 22, in any number of dimensions. Per point the pixels that take part and their weights are
 * worked out once, then every channel is their weighted sum. */
#include "instance.h"
#include "args.h"
#include "simd/convert.h"
#include "simd/move_set.h"
#include "points.h"
#include "reference.h"
#include "strided.h"
#include "work.h"
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
    sample_fn sample; /* NULL: nearest, which copies elements */
    uint32_t mode, padding, spatial, element;
    bool corners;
    int64_t channels, pixels, points; /* pixels and points of one channel */
    const float *turned;              /* the image at hand with its channels last, or NULL */
    int64_t first_unit;               /* its first point */
};

#define PLAIN(x) (x)
#define TRUTH(x) ((uint8_t)((x) != 0))
#define TO_I8(x) ((int8_t)f64_to_i64(x))
#define TO_I16(x) ((int16_t)f64_to_i64(x))
#define TO_I32(x) ((int32_t)f64_to_i64(x))
#define TO_U8(x) ((uint8_t)f64_to_i64(x))
#define TO_U16(x) ((uint16_t)f64_to_i64(x))
#define TO_U32(x) ((uint32_t)f64_to_i64(x))
#define T float
#define ACC float
#define LOAD PLAIN
#define STORE PLAIN
#define NAME(x) x##_f32
#include "grid_sample.inc"
#define T double
#define ACC double
#define LOAD PLAIN
#define STORE PLAIN
#define NAME(x) x##_f64
#include "grid_sample.inc"
#define T uint16_t
#define ACC float
#define LOAD f16_to_f32
#define STORE f32_to_f16
#define NAME(x) x##_f16
#include "grid_sample.inc"
#define T uint16_t
#define ACC float
#define LOAD bf16_to_f32
#define STORE f32_to_bf16
#define NAME(x) x##_bf16
#include "grid_sample.inc"
#define T int8_t
#define ACC double
#define LOAD PLAIN
#define STORE TO_I8
#define NAME(x) x##_i8
#include "grid_sample.inc"
#define T int16_t
#define ACC double
#define LOAD PLAIN
#define STORE TO_I16
#define NAME(x) x##_i16
#include "grid_sample.inc"
#define T int32_t
#define ACC double
#define LOAD PLAIN
#define STORE TO_I32
#define NAME(x) x##_i32
#include "grid_sample.inc"
#define T int64_t
#define ACC double
#define LOAD PLAIN
#define STORE f64_to_i64
#define NAME(x) x##_i64
#include "grid_sample.inc"
#define T uint8_t
#define ACC double
#define LOAD PLAIN
#define STORE TO_U8
#define NAME(x) x##_u8
#include "grid_sample.inc"
#define T uint16_t
#define ACC double
#define LOAD PLAIN
#define STORE TO_U16
#define NAME(x) x##_u16
#include "grid_sample.inc"
#define T uint32_t
#define ACC double
#define LOAD PLAIN
#define STORE TO_U32
#define NAME(x) x##_u32
#include "grid_sample.inc"
#define T uint64_t
#define ACC double
#define LOAD PLAIN
#define STORE f64_to_u64
#define NAME(x) x##_u64
#include "grid_sample.inc"
#define T uint8_t
#define ACC double
#define LOAD PLAIN
#define STORE TRUTH
#define NAME(x) x##_bool
#include "grid_sample.inc"

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
    uint32_t m = 0, padding_index = 0;

    while (m < KIT_COUNT(modes) && strcmp(mode, modes[m].name) != 0)
        m++;
    while (padding_index < KIT_COUNT(paddings) && strcmp(padding, paddings[padding_index].name) != 0)
        padding_index++;
    if (m == KIT_COUNT(modes) || padding_index == KIT_COUNT(paddings))
        return false;
    *state = (sample_state){ modes[m].value, paddings[padding_index].value,
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
    inlay_status status = arg_state(sizeof(sample_state), out_state, diag);

    if (status == INLAY_OK && !read_state(node, *out_state))
        status = inlay_fail(diag, INLAY_INVALID_MODEL, "mode or padding_mode is unknown");
    return status;
}

/* Folds x back into [low, high] as often as it takes. */
static float reflect(float x, float low, float high)
{
    const float range = high - low;
    float past, turns, rest;
    const bool below = x < low;

    if (x >= low && x <= high)
        return x;
    if (!(range > 0))
        return low;
    past = below ? low - x : x - high;
    turns = floorf(past / range);
    rest = past - turns * range;
    return (fmodf(turns, 2) == 0) == below ? low + rest : high - rest;
}

/* The place that a grid value in [-1, 1] names on an axis of n pixels, moved into the image as the padding asks. */
static float locate(const sample_job *job, float value, int64_t n)
{
    const float size = (float)n, low = job->corners ? 0.0f : -0.5f, high = job->corners ? size - 1 : size - 0.5f;
    float x = job->corners ? (value + 1) / 2 * (size - 1) : ((value + 1) * size - 1) / 2;

    if (!(x > -1e9f)) /* NaN too */
        x = -1e9f;
    if (x > 1e9f)
        x = 1e9f;
    if (job->mode == MODE_NEAREST)
        x = nearbyintf(x);
    if (x >= low && x <= high)
        return x;
    if (job->padding == PAD_BORDER) /* a cubic weighs pixels by where the point is; they alone are held at the border */
        return job->mode == MODE_CUBIC ? x : x < 0 ? 0 : size - 1;
    return job->padding == PAD_REFLECTION ? reflect(x, low, high) : x;
}

/* The pixel that stands for place i of an axis, -1 for a zero. */
static int64_t find_pixel(const sample_job *job, int64_t i, int64_t n)
{
    if (i >= 0 && i < n)
        return i;
    if (job->padding == PAD_ZEROS)
        return -1;
    if (job->padding == PAD_REFLECTION) {
        const float size = (float)n;

        i = (int64_t)reflect((float)i, job->corners ? 0.0f : -0.5f, job->corners ? size - 1 : size - 0.5f);
    }
    return i < 0 ? 0 : i >= n ? n - 1 : i;
}

/* The pixels of one axis and their weights; returns how many. */
static uint32_t axis_taps(const sample_job *job, float x, int64_t n, int64_t *pixel, double *weight)
{
    const float a = -0.75f;
    const int64_t base = (int64_t)floorf(x);
    const float t = x - (float)base;

    switch (job->mode) {
    case MODE_NEAREST:
        pixel[0] = find_pixel(job, (int64_t)x, n);
        weight[0] = 1;
        return 1;
    case MODE_LINEAR:
        pixel[0] = find_pixel(job, base, n);
        pixel[1] = find_pixel(job, base + 1, n);
        weight[0] = (double)(1 - t);
        weight[1] = (double)t;
        return 2;
    default:
        for (int k = 0; k < 4; k++)
            pixel[k] = find_pixel(job, base - 1 + k, n);
        weight[0] = (double)(((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a);
        weight[1] = (double)(((a + 2) * t - (a + 3)) * t * t + 1);
        weight[2] = (double)(((a + 2) * (1 - t) - (a + 3)) * (1 - t) * (1 - t) + 1);
        weight[3] = (double)(((a * (2 - t) - 5 * a) * (2 - t) + 8 * a) * (2 - t) - 4 * a);
        return 4;
    }
}

/* All combinations of the axes' taps that are not zero. grid points to the coordinates, x (the last axis) first. */
static void point_taps(const sample_job *job, int64_t point, sample_taps *taps)
{
    float place[INLAY_MAX_RANK];

    convert_to_f32(place, job->grid->dtype, job->grid->data, point * job->spatial, job->spatial);
    taps->count = 1;
    taps->offset[0] = 0;
    taps->weight[0] = 1;
    for (uint32_t d = 0; d < job->spatial; d++) {
        const int64_t n = job->input->dims[2 + d];
        int64_t pixel[4];
        double weight[4];
        const uint32_t k = axis_taps(job, locate(job, place[job->spatial - 1 - d], n), n, pixel, weight);
        const uint32_t before = taps->count;
        uint32_t count = 0;
        int64_t offset[MAX_TAPS];
        double product[MAX_TAPS];

        for (uint32_t i = 0; i < before; i++) {
            for (uint32_t j = 0; j < k; j++) {
                if (pixel[j] < 0)
                    continue;
                offset[count] = taps->offset[i] * n + pixel[j];
                product[count++] = taps->weight[i] * weight[j];
            }
        }
        memcpy(taps->offset, offset, count * sizeof *offset);
        memcpy(taps->weight, product, count * sizeof *product);
        taps->count = count;
    }
}

/* ------------------------------------------------------------------ images of floats */

enum { BLOCK = 64 };

/* The pixels of each of up to BLOCK points, -1 for a zero: 1, 4 or 16, y by y. */
typedef struct sample_block {
    int32_t offset[16][BLOCK];
    float weight[16][BLOCK];
} sample_block;

static void block_taps(const sample_job *job, int64_t point, int64_t count, sample_block *block)
{
    const float *grid = (const float *)job->grid->data + 2 * point;
    const int64_t height = job->input->dims[2], width = job->input->dims[3];

    for (int64_t i = 0; i < count; i++) {
        int64_t x[4], y[4];
        double wx[4], wy[4];
        const uint32_t n = axis_taps(job, locate(job, grid[2 * i], width), width, x, wx);

        (void)axis_taps(job, locate(job, grid[2 * i + 1], height), height, y, wy);
        for (uint32_t k = 0; k < n * n; k++) {
            block->offset[k][i] = x[k % n] < 0 || y[k / n] < 0 ? -1 : (int32_t)(y[k / n] * width + x[k % n]);
            block->weight[k][i] = (float)(wy[k / n] * wx[k % n]);
        }
    }
}

/* One channel of a block. The nearest pixel is taken as it is. */
static void sample_channel(const sample_block *block, uint32_t taps, const float *input, float *restrict output,
                           int64_t count)
{
    if (taps == 1) {
        for (int64_t i = 0; i < count; i++)
            output[i] = convert_picked(input, block->offset[0][i], 1);
        return;
    }
    for (uint32_t k = 0; k < taps; k += 4) {
        const int32_t *at[4] = { block->offset[k], block->offset[k + 1], block->offset[k + 2], block->offset[k + 3] };
        const float *w[4] = { block->weight[k], block->weight[k + 1], block->weight[k + 2], block->weight[k + 3] };

        for (int64_t i = 0; i < count; i++) {
            const float sum = (convert_picked(input, at[0][i], w[0][i]) + convert_picked(input, at[1][i], w[1][i])) +
                              (convert_picked(input, at[2][i], w[2][i]) + convert_picked(input, at[3][i], w[3][i]));
            output[i] = k == 0 ? sum : output[i] + sum;
        }
    }
}

/* One image of a batch: points are taken in blocks, so that channels are sums of vectors. */
static void sample_blocks(const sample_job *job, int64_t begin, int64_t end, const float *in, float *out)
{
    const uint32_t taps = job->mode == MODE_NEAREST ? 1 : job->mode == MODE_LINEAR ? 4 : 16;
    sample_block block;

    for (int64_t first = begin; first < end; first += BLOCK) {
        const int64_t count = end - first < BLOCK ? end - first : BLOCK;

        block_taps(job, first, count, &block);
        for (int64_t c = 0; c < job->channels; c++)
            sample_channel(&block, taps, in + c * job->pixels, out + c * job->points + first % job->points, count);
    }
}

/* The same of an image that was turned: points by channels are made in parts that fit near the core, and turned back.
 */
static void sample_turned(const sample_job *job, int64_t begin, int64_t end, float *out)
{
    enum { ROOM = 4096 };
    const int64_t most = ROOM / BLOCK;
    float room[ROOM];
    sample_block block;
    const struct points points = { job->turned,
                                   job->channels,
                                   job->pixels,
                                   block.offset[0],
                                   block.weight[0],
                                   BLOCK,
                                   job->mode == MODE_LINEAR ? 4 : 16 };

    for (int64_t first = begin; first < end; first += BLOCK) {
        const int64_t count = end - first < BLOCK ? end - first : BLOCK;

        block_taps(job, first, count, &block);
        for (int64_t c = 0; c < job->channels; c += most) {
            const int64_t some = job->channels - c < most ? job->channels - c : most;

            points_mix(&points, c, some, count, room);
            KERNEL_BEST(moves)->turn(room, some, out + c * job->points + first % job->points, job->points, count, some);
        }
    }
}

static bool is_plain(const sample_job *job)
{
    return job->spatial == 2 && job->input->dtype == INLAY_FLOAT && job->grid->dtype == INLAY_FLOAT &&
           job->pixels <= INT32_MAX;
}

/* Units are points of all images. */
static inlay_status block_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const sample_job *job = user;

    (void)worker;
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

/* ------------------------------------------------------------------ anything */

/* Units are (batch, point) pairs. */
static inlay_status sample_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const sample_job *job = user;
    sample_taps taps;

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t batch = i / job->points;
        const char *in = (const char *)job->input->data + batch * job->channels * job->pixels * job->element;
        char *out = (char *)job->output->data + (batch * job->channels * job->points + i % job->points) * job->element;

        point_taps(job, i, &taps);
        if (job->sample != NULL) {
            job->sample(job, &taps, in, out);
            continue;
        }
        for (int64_t c = 0; c < job->channels; c++) {
            char *to = out + c * job->points * job->element;

            if (taps.count > 0)
                memcpy(to, in + (c * job->pixels + taps.offset[0]) * job->element, job->element);
            else
                memset(to, 0, job->element);
        }
    }
    return INLAY_OK;
}

/* Room for an image that is turned, where there is enough to do for it. */
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

/* Images one after the other, each turned first. */
static inlay_status run_turned(const kit_call *call, sample_job *job)
{
    inlay_status status = INLAY_OK;

    job->turned = call->workspace;
    for (int64_t n = 0; n < job->input->dims[0] && status == INLAY_OK; n++) {
        job->first_unit = n * job->points;
        status = points_turn(call, (const float *)job->input->data + n * job->channels * job->pixels, job->channels,
                             job->pixels, call->workspace);
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
    uint32_t most = 1;
    inlay_status status;

    if (input->rank < 3 || grid->rank != input->rank || grid->dims[0] != input->dims[0] ||
        grid->dims[grid->rank - 1] != (int64_t)input->rank - 2)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "X must be [N, C, ...] of rank %u and grid [N, ..., %d]",
                          grid->rank, (int)grid->rank - 2);
    job.spatial = input->rank - 2;
    for (uint32_t d = 0; d < job.spatial && most <= MAX_TAPS; d++)
        most *= state->mode == MODE_CUBIC ? 4 : state->mode == MODE_LINEAR ? 2 : 1;
    if (most > MAX_TAPS)
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
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "an image of type %s without pixels, or not to be mixed",
                          inlay_dtype_name(input->dtype));
    if (is_plain(&job) && turned_floats(state, input, grid) > 0)
        return run_turned(call, &job);
    return kit_parallel(call, input->dims[0] * job.points, 4096 / (job.channels * most) + 1,
                        is_plain(&job) ? block_range : sample_range, &job);
}

/* Two or four pixels along each axis for an element, one for the nearest. */
static void cost_sample(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const kit_tensor *output = &shapes->out[0];
    const char *mode = kit_attr_string(node->info, "mode", "linear");
    double taps = 1;

    for (uint32_t d = 2; d < output->rank && strcmp(mode, "nearest") != 0; d++)
        taps *= strstr(mode, "cubic") != NULL ? 4 : 2;
    work_cost(shapes, work_count(output) * taps, 1, work_count(output), cost);
}

static const kit_kernel kernels[] = {
    { .op_type = "GridSample",
      .supports = supports_sample,
      .prepare = prepare_sample,
      .shape = shape_sample,
      .cost = cost_sample,
      .run = run_sample },
};
const kit_table OPERATOR(reference_grid_sample) = { kernels, KIT_COUNT(kernels) };
