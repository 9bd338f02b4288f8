/* RoiAlign (ONNX 10, 16, 22) and MaxRoiPool (1, 22): regions of a feature map, all resized to the same size. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/args.h"
#include "simd/convert.h"
#include "operators/operators.h"
#include "operators/work.h"
#include "operators/strided.h"
#include <math.h>

/* A sampling point: four pixels of a plane and their weights as float and as double. */
typedef struct align_tap {
    int32_t at[4];
    float weight[4];
    double wide[4];
} align_tap;

#define WEIGHTS(tap) _Generic((ACC)0, double : (tap)->wide, float : (tap)->weight)
#define BODY "roi_pool.inc"
#include "operators/floats.inc"

/* TAPS: sampling points computed at a time. MAX_GRID: maximum sampling points per axis of a bin. */
enum { TAPS = 1024, MAX_GRID = 8192 };

typedef struct roi_kernels {
    void (*align)(const align_tap *taps, int64_t bins, int64_t count, bool average, const void *plane, void *out);
    void (*max)(const void *plane, int64_t width, const int64_t *box, void *out);
} roi_kernels;
static const roi_kernels by_dtype[INLAY_DTYPE_COUNT] = {
    [INLAY_FLOAT] = { align_bins_f32, max_bin_f32 },
    [INLAY_DOUBLE] = { align_bins_f64, max_bin_f64 },
    [INLAY_FLOAT16] = { align_bins_f16, max_bin_f16 },
    [INLAY_BFLOAT16] = { align_bins_bf16, max_bin_bf16 },
};

typedef struct roi_state {
    int64_t height, width; /* size of the output */
    int64_t sampling;      /* points per bin and axis, 0 = one per pixel */
    double scale;
    bool average;
    bool half_pixel;
} roi_state;

static inlay_status check_state(const roi_state *state, inlay_diag *diag)
{
    if (state->height <= 0 || state->width <= 0 || state->height > INT16_MAX || state->width > INT16_MAX ||
        state->sampling < 0 || state->sampling > 1024 || !(state->scale > 0))
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "pooled size %lld x %lld: each must be within 1 and 32767; sampling_ratio %lld: 0 to 1024; "
                          "spatial_scale %g: above 0",
                          (long long)state->height, (long long)state->width, (long long)state->sampling, state->scale);
    return INLAY_OK;
}

static inlay_status prepare_align(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const char *mode = kit_attr_string(node->info, "mode", "avg");
    const char *transform = kit_attr_string(node->info, "coordinate_transformation_mode", "half_pixel");
    inlay_status status;

    if (strcmp(mode, "avg") != 0 && strcmp(mode, "max") != 0)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "mode '%s' is neither avg nor max", mode);
    if (strcmp(transform, "half_pixel") != 0 && strcmp(transform, "output_half_pixel") != 0)
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "coordinate_transformation_mode '%s' is neither half_pixel nor output_half_pixel", transform);
    status = arg_allocate_state(sizeof(roi_state), out_state, diag);
    if (status == INLAY_OK) {
        *(roi_state *)*out_state = (roi_state){
            .height = kit_attr_int(node->info, "output_height", 1),
            .width = kit_attr_int(node->info, "output_width", 1),
            .sampling = kit_attr_int(node->info, "sampling_ratio", 0),
            .scale = kit_attr_float(node->info, "spatial_scale", 1),
            .average = strcmp(mode, "avg") == 0,
            .half_pixel = kit_since_version(node) >= 16 && strcmp(transform, "half_pixel") == 0,
        };
        status = check_state(*out_state, diag);
    }
    return status;
}

static inlay_status prepare_max(const kit_node *node, void **out_state, inlay_diag *diag)
{
    uint32_t count;
    const int64_t *shape = kit_attr_ints(node->info, "pooled_shape", &count);
    inlay_status status;

    if (count != 2)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "pooled_shape has %u values; it must have 2", count);
    status = arg_allocate_state(sizeof(roi_state), out_state, diag);
    if (status == INLAY_OK) {
        *(roi_state *)*out_state = (roi_state){ .height = shape[0],
                                                .width = shape[1],
                                                .scale = kit_attr_float(node->info, "spatial_scale", 1) };
        status = check_state(*out_state, diag);
    }
    return status;
}

typedef struct roi_job {
    const roi_state *state;
    const kit_tensor *input, *rois, *batches; /* batches: NULL if the batch is the first value of each region */
    char *out;
    roi_kernels kernels;
    uint32_t element;
    align_tap *taps; /* [workers * TAPS] */
} roi_job;

/* Checks the shapes: X [N, C, H, W] and regions [R, values] give an output [R, C, height, width]. */
static inlay_status check_regions(const kit_call *call, int64_t values)
{
    const roi_state *state = call->state;
    const kit_tensor *input = &call->in[0], *rois = &call->in[1];

    if (input->rank != 4 || rois->rank != 2 || rois->dims[1] != values)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "X must be [N, C, H, W] and rois [R, %lld]",
                          (long long)values);
    if (input->dims[2] <= 0 || input->dims[3] <= 0 || input->dims[2] > INT32_MAX / input->dims[3])
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "X is empty or too large");
    return arg_expect_dims(call->diag, &call->out[0], 4,
                           (int64_t[]){ rois->dims[0], input->dims[1], state->height, state->width });
}

/* Returns the tap of point (y, x). A point that is outside by more than a pixel has the value 0; other points outside
 * get the value at the border. */
static align_tap make_tap(double y, double x, int64_t height, int64_t width)
{
    align_tap tap = { { 0 }, { 0 }, { 0 } };
    int64_t y0, x0, y1, x1;

    if (!(y >= -1 && y <= (double)height && x >= -1 && x <= (double)width))
        return tap;
    y = y < 0 ? 0 : y;
    x = x < 0 ? 0 : x;
    y0 = (int64_t)y < height - 1 ? (int64_t)y : height - 1;
    x0 = (int64_t)x < width - 1 ? (int64_t)x : width - 1;
    y1 = y0 + 1 < height ? y0 + 1 : y0;
    x1 = x0 + 1 < width ? x0 + 1 : x0;
    y = y1 > y0 ? y - (double)y0 : 0;
    x = x1 > x0 ? x - (double)x0 : 0;
    tap.at[0] = (int32_t)(y0 * width + x0);
    tap.at[1] = (int32_t)(y0 * width + x1);
    tap.at[2] = (int32_t)(y1 * width + x0);
    tap.at[3] = (int32_t)(y1 * width + x1);
    tap.wide[0] = (1 - y) * (1 - x);
    tap.wide[1] = (1 - y) * x;
    tap.wide[2] = y * (1 - x);
    tap.wide[3] = y * x;
    for (int k = 0; k < 4; k++)
        tap.weight[k] = (float)tap.wide[k];
    return tap;
}

/* A region in the coordinates of the feature map. */
typedef struct align_region {
    double y, x, bin_h, bin_w;
    int64_t grid_h, grid_w; /* sampling points per bin */
} align_region;

static align_region read_region(const roi_job *job, int64_t index)
{
    const roi_state *state = job->state;
    const double offset = state->half_pixel ? 0.5 : 0;
    align_region region;
    double roi[4], height, width;

    convert_to_f64(roi, job->rois->dtype, job->rois->data, index * 4, 4); /* x1, y1, x2, y2 */
    for (int i = 0; i < 4; i++)
        roi[i] = (roi[i] > -1e6 ? roi[i] < 1e6 ? roi[i] : 1e6 : -1e6) * state->scale - offset;
    width = roi[2] - roi[0];
    height = roi[3] - roi[1];
    if (!state->half_pixel) { /* the older mode enlarges malformed regions to 1 x 1 */
        width = width > 1 ? width : 1;
        height = height > 1 ? height : 1;
    }
    region =
        (align_region){ roi[1],          roi[0],         height / (double)state->height, width / (double)state->width,
                        state->sampling, state->sampling };
    if (state->sampling == 0) {
        region.grid_h = (int64_t)ceil(region.bin_h < MAX_GRID ? region.bin_h : MAX_GRID);
        region.grid_w = (int64_t)ceil(region.bin_w < MAX_GRID ? region.bin_w : MAX_GRID);
        region.grid_h = region.grid_h < 0 ? 0 : region.grid_h;
        region.grid_w = region.grid_w < 0 ? 0 : region.grid_w;
    }
    return region;
}

/* Returns the tap of sampling point `point` of bin `bin`. */
static align_tap region_tap(const roi_job *job, const align_region *region, int64_t bin, int64_t point)
{
    INLAY_CHECK(region->grid_h > 0 && region->grid_w > 0);
    const int64_t row = bin / job->state->width, column = bin % job->state->width;
    const double iy = (double)(point / region->grid_w) + 0.5, ix = (double)(point % region->grid_w) + 0.5;

    return make_tap(region->y + (double)row * region->bin_h + iy * region->bin_h / (double)region->grid_h,
                    region->x + (double)column * region->bin_w + ix * region->bin_w / (double)region->grid_w,
                    job->input->dims[2], job->input->dims[3]);
}

/* Finds the range [*first, *end) of a bin's points along one axis that may be inside the image. */
static void points_inside(double begin, double bin, int64_t grid, int64_t size, int64_t *first, int64_t *end)
{
    INLAY_CHECK(grid > 0);
    const double step = bin / (double)grid, low = (-1 - begin) / step - 1.5, high = ((double)size - begin) / step + 1.5;

    *first = low > 0 ? low < (double)grid ? (int64_t)low : grid : 0;
    *end = high < (double)grid ? high > (double)*first ? (int64_t)high : *first : grid;
}

/* Computes one bin with more than TAPS points in several steps. Points outside the image have the value 0, and are
 * counted without being visited, since a region may be far larger than the image. */
static void align_large_bin(const roi_job *job, const align_region *region, int64_t bin, const char *planes, char *out,
                            align_tap *taps)
{
    const int64_t bins = job->state->height * job->state->width;
    const int64_t plane_bytes = job->input->dims[2] * job->input->dims[3] * job->element;
    const double grid = (double)region->grid_h * (double)region->grid_w;
    int64_t top, bottom, left, right, inside_count;

    points_inside(region->y + (double)(bin / job->state->width) * region->bin_h, region->bin_h, region->grid_h,
                  job->input->dims[2], &top, &bottom);
    points_inside(region->x + (double)(bin % job->state->width) * region->bin_w, region->bin_w, region->grid_w,
                  job->input->dims[3], &left, &right);
    inside_count = (bottom - top) * (right - left);
    for (int64_t channel = 0; channel < job->input->dims[1]; channel++) {
        char *to = out + (channel * bins + bin) * job->element;
        double total = 0, best = 0, value;

        for (int64_t first = 0; first < inside_count; first += TAPS) {
            const int64_t count = inside_count - first < TAPS ? inside_count - first : TAPS;

            for (int64_t i = 0; i < count; i++) {
                const int64_t at = first + i;

                taps[i] = region_tap(job, region, bin,
                                     (top + at / (right - left)) * region->grid_w + left + at % (right - left));
            }
            job->kernels.align(taps, 1, count, job->state->average, planes + channel * plane_bytes, to);
            value = convert_get_f64(job->input->dtype, to, 0);
            total += value * (double)count;
            best = (first == 0 && (double)inside_count == grid) || value > best ? value : best;
        }
        value = job->state->average ? total / grid : best;
        convert_from_f64(job->input->dtype, to, 0, 1, &value, 0);
    }
}

/* Processes regions [begin, end). The points of as many bins as fit are computed first, then each channel uses them. */
static inlay_status align_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const roi_job *job = user;
    const int64_t bins = job->state->height * job->state->width, channels = job->input->dims[1];
    const int64_t plane_bytes = job->input->dims[2] * job->input->dims[3] * job->element;
    align_tap *taps = job->taps + worker * TAPS;

    INLAY_CHECK(job->taps != NULL);
    for (int64_t index = begin; index < end; index++) {
        const align_region region = read_region(job, index);
        const int64_t count = region.grid_h * region.grid_w, bins_at_once = count > 0 ? TAPS / count : 0;
        const char *planes =
            (const char *)job->input->data + ((const int64_t *)job->batches->data)[index] * channels * plane_bytes;
        char *out = job->out + index * channels * bins * job->element;

        if (count == 0)
            memset(out, 0, (size_t)(channels * bins * job->element));
        for (int64_t bin = 0; bin < bins && count > 0 && bins_at_once == 0; bin++)
            align_large_bin(job, &region, bin, planes, out, taps);
        for (int64_t bin = 0; bin < bins && bins_at_once > 0; bin += bins_at_once) {
            const int64_t bin_count = bins - bin < bins_at_once ? bins - bin : bins_at_once;

            for (int64_t i = 0; i < bin_count * count; i++)
                taps[i] = region_tap(job, &region, bin + i / count, i % count);
            for (int64_t channel = 0; channel < channels; channel++)
                job->kernels.align(taps, bin_count, count, job->state->average, planes + channel * plane_bytes,
                                   out + (channel * bins + bin) * job->element);
        }
    }
    return INLAY_OK;
}

static inlay_status shape_align(const void *state, kit_plan *plan, inlay_diag *diag)
{
    (void)state;
    (void)diag;
    plan->workspace_bytes = (uint64_t)plan->max_threads * TAPS * sizeof(align_tap);
    return INLAY_OK;
}

static inlay_status run_align(const kit_call *call)
{
    const kit_tensor *input = &call->in[0], *batches = &call->in[2], *output = &call->out[0];
    roi_job job = { .state = call->state,
                    .input = input,
                    .rois = &call->in[1],
                    .batches = batches,
                    .out = output->data,
                    .kernels = by_dtype[input->dtype],
                    .element = strided_element_bytes(input->dtype),
                    .taps = call->workspace };
    inlay_status status = check_regions(call, 4);

    if (status != INLAY_OK || output->count == 0)
        return status;
    if (batches->count != output->dims[0])
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "batch_indices has %lld values for %lld regions",
                          (long long)batches->count, (long long)output->dims[0]);
    for (int64_t region = 0; region < batches->count; region++) {
        const int64_t batch = ((const int64_t *)batches->data)[region];

        if (batch < 0 || batch >= input->dims[0])
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "batch_indices[%lld] is %lld of %lld",
                              (long long)region, (long long)batch, (long long)input->dims[0]);
    }
    return kit_parallel(call, output->dims[0], 1, align_range, &job);
}

static int64_t clamp(double value, int64_t low, int64_t high)
{
    return value < (double)low ? low : value > (double)high ? high : (int64_t)value;
}

/* Processes regions [batch, x1, y1, x2, y2], whose corners are rounded to pixels. */
static inlay_status max_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const roi_job *job = user;
    const roi_state *state = job->state;
    const int64_t channels = job->input->dims[1], height = job->input->dims[2], width = job->input->dims[3];
    const int64_t bins = state->height * state->width;

    (void)worker;
    for (int64_t region = begin; region < end; region++) {
        double roi[5], region_height, region_width;

        convert_to_f64(roi, job->rois->dtype, job->rois->data, region * 5, 5);
        for (int i = 1; i < 5; i++)
            roi[i] = round((roi[i] > -1e6 ? roi[i] < 1e6 ? roi[i] : 1e6 : -1e6) * state->scale);
        region_width = roi[3] - roi[1] + 1 > 1 ? roi[3] - roi[1] + 1 : 1;
        region_height = roi[4] - roi[2] + 1 > 1 ? roi[4] - roi[2] + 1 : 1;
        for (int64_t bin = 0; bin < bins; bin++) {
            const double bin_h = region_height / (double)state->height, bin_w = region_width / (double)state->width;
            const double top = (double)(bin / state->width), left = (double)(bin % state->width);
            const int64_t box[4] = { clamp(floor(top * bin_h) + roi[2], 0, height),
                                     clamp(floor(left * bin_w) + roi[1], 0, width),
                                     clamp(ceil((top + 1) * bin_h) + roi[2], 0, height),
                                     clamp(ceil((left + 1) * bin_w) + roi[1], 0, width) };

            for (int64_t channel = 0; channel < channels; channel++)
                job->kernels.max((const char *)job->input->data +
                                     ((int64_t)roi[0] * channels + channel) * height * width * job->element,
                                 width, box, job->out + ((region * channels + channel) * bins + bin) * job->element);
        }
    }
    return INLAY_OK;
}

static inlay_status run_max(const kit_call *call)
{
    const kit_tensor *input = &call->in[0], *rois = &call->in[1], *output = &call->out[0];
    roi_job job = { .state = call->state,
                    .input = input,
                    .rois = rois,
                    .out = output->data,
                    .kernels = by_dtype[input->dtype],
                    .element = strided_element_bytes(input->dtype) };
    inlay_status status = check_regions(call, 5);

    if (status != INLAY_OK || output->count == 0)
        return status;
    for (int64_t region = 0; region < output->dims[0]; region++) {
        const double batch = convert_get_f64(rois->dtype, rois->data, region * 5);

        if (!(batch >= 0 && batch < (double)input->dims[0]))
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "region %lld has batch %g; there are %lld",
                              (long long)region, batch, (long long)input->dims[0]);
    }
    return kit_parallel(call, output->dims[0], 1, max_range, &job);
}

/* Each element samples sampling_ratio squared points of four pixels; without a ratio, the number depends on the size of
 * the region and is usually four. */
static void cost_align(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    double ratio = (double)kit_attr_int(node->info, "sampling_ratio", 0), elements = work_count(&shapes->out[0]);

    work_cost(shapes, elements * 4 * (ratio > 0 ? ratio * ratio : 4), 0.7, elements, cost);
}

static const kit_kernel kernels[] = {
    { .op_type = "RoiAlign", .prepare = prepare_align, .shape = shape_align, .cost = cost_align, .run = run_align },
    { .op_type = "MaxRoiPool", .prepare = prepare_max, .run = run_max },
};
const kit_table OPERATOR(operators_roi_pool) = { kernels, KIT_COUNT(kernels) };
