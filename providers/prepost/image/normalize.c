/* normalize.c - NormalizeImage, ImageFromPlanes and CropImage: pixels to model inputs and back. */
#include "prepost/prepost.h"
#include "inlay/check.h"
#include <math.h>
#include <stdlib.h>

static const char *const layouts[] = { "nchw", "nhwc" };
enum { MAX_CHANNELS = 16 };

/* The attributes of NormalizeImage. table holds the result for each of the 256 values of a byte. */
typedef struct normalize_state {
    bool planes, batch;
    uint32_t channels; /* channels of mean and std; 1 = the same for all */
    float table[MAX_CHANNELS][256];
    float mean[MAX_CHANNELS], deviation[MAX_CHANNELS], scale;
} normalize_state;

static uint32_t floats_of(const inlay_node_info *node, const char *name, const float **out)
{
    const inlay_attr_info *attribute = kit_attr(node, name);
    const bool has = attribute != NULL && attribute->kind == INLAY_ATTR_FLOATS;

    *out = has ? attribute->floats : NULL;
    return has ? attribute->count : 0;
}

static inlay_status infer_normalize(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *input = in->inputs[0];
    const bool planes = strcmp(kit_attr_string(in->node, "layout", "nchw"), "nchw") == 0;
    const uint32_t batch = kit_attr_int(in->node, "batch", 1) != 0;
    inlay_dim dims[4] = { prepost_fixed(1), prepost_open(), prepost_open(), prepost_open() };
    const inlay_status status = prepost_want_rank(in, 0, 3, 3, "[height, width, channels]", diag);

    (void)ctx;
    if (status != INLAY_OK)
        return status;
    if (prepost_knows_rank(input)) {
        dims[1] = input->dims[planes ? 2 : 0];
        dims[2] = input->dims[planes ? 0 : 1];
        dims[3] = input->dims[planes ? 1 : 2];
    }
    return prepost_set(in, 0, 3 + batch, dims + 1 - batch);
}

static bool supports_normalize(const kit_node *node, kit_refusal *why)
{
    const float *mean, *deviation;
    const uint32_t mean_count = floats_of(node->info, "mean", &mean),
                   deviation_count = floats_of(node->info, "std", &deviation);

    if (mean_count > MAX_CHANNELS || deviation_count > MAX_CHANNELS ||
        (mean_count > 1 && deviation_count > 1 && mean_count != deviation_count))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "give one number for each channel, or one for all",
                          "mean has %u numbers and std %u", mean_count, deviation_count);
    for (uint32_t i = 0; i < deviation_count; i++)
        if (!(fabsf(deviation[i]) > 0))
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use numbers other than 0", "std has a 0");
    return prepost_one_of(node, "layout", "nchw", layouts, 2, why);
}

static inlay_status prepare_normalize(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const float *mean, *deviation, scale = (float)kit_attr_float(node->info, "scale", 1.0 / 255);
    const uint32_t mean_count = floats_of(node->info, "mean", &mean),
                   deviation_count = floats_of(node->info, "std", &deviation);
    normalize_state *state = calloc(1, sizeof *state);

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "NormalizeImage");
    state->planes = strcmp(kit_attr_string(node->info, "layout", "nchw"), "nchw") == 0;
    state->batch = kit_attr_int(node->info, "batch", 1) != 0;
    state->channels = mean_count > deviation_count ? mean_count : deviation_count > 0 ? deviation_count : 1;
    state->scale = scale;
    for (uint32_t channel = 0; channel < state->channels; channel++) {
        state->mean[channel] = mean_count == 0 ? 0 : mean[mean_count > 1 ? channel : 0];
        state->deviation[channel] = deviation_count == 0 ? 1 : deviation[deviation_count > 1 ? channel : 0];
        for (int value = 0; value < 256; value++)
            state->table[channel][value] = ((float)value * scale - state->mean[channel]) / state->deviation[channel];
    }
    *out_state = state;
    return INLAY_OK;
}

static void cost_normalize(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    (void)node;
    prepost_cost_elements(cost, shapes, 500, 0.7, 3e5);
}

static inlay_status shape_normalize(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const normalize_state *normalize = state;
    const kit_tensor *input = &plan->in[0];

    if (input->count >= 0 && input->rank == 3 && normalize->channels > 1 && input->dims[2] != normalize->channels)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "NormalizeImage: mean and std have %u channels, but the image has %lld", normalize->channels,
                          (long long)input->dims[2]);
    plan->allocates = plan->out[0].count < 0 ? 1 : 0;
    return INLAY_OK;
}

static float normal(const normalize_state *state, const kit_tensor *input, int64_t i, uint32_t channel)
{
    return input->dtype == INLAY_UINT8
               ? state->table[channel][((const uint8_t *)input->data)[i]]
               : (((const float *)input->data)[i] * state->scale - state->mean[channel]) / state->deviation[channel];
}

static inlay_status normalize_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const normalize_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    const int64_t width = input->dims[1], channels = input->dims[2], plane = input->dims[0] * width;
    float *output = call->out[0].data;

    INLAY_CHECK(state->channels <= 1 || state->channels == channels);
    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        for (int64_t channel = 0; channel < channels; channel++) {
            const uint32_t which = state->channels > 1 ? (uint32_t)channel : 0;
            const int64_t from = row * width * channels + channel;
            float *to = state->planes ? output + channel * plane + row * width : output + from;
            const int64_t step = state->planes ? 1 : channels;

            for (int64_t i = 0; i < width; i++)
                to[i * step] = normal(state, input, from + i * channels, which);
        }
    }
    return INLAY_OK;
}

static inlay_status run_normalize(const kit_call *call)
{
    const normalize_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    const int64_t dims[4] = { 1, state->planes ? input->dims[2] : input->dims[0],
                              state->planes ? input->dims[0] : input->dims[1],
                              state->planes ? input->dims[1] : input->dims[2] };
    inlay_status status;

    if (state->channels > 1 && input->dims[2] != state->channels)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "NormalizeImage: mean and std have %u channels, but the image has %lld", state->channels,
                          (long long)input->dims[2]);
    status = prepost_output(call, 0, state->batch ? 4 : 3, state->batch ? dims : dims + 1);
    return status != INLAY_OK ? status
                              : kit_parallel(call, input->dims[0], 16, normalize_rows, (void *)(uintptr_t)call);
}

static const int64_t pixel_dims[] = { 1, 2, 3 }, planes_dims[] = { 1, 3, 1, 2 };
static const uint8_t pixels[] = { 0, 51, 255, 255, 102, 0 };
static const float planes_out[] = { -1, 1, -0.6f, -0.2f, 1, -1 };
static const float half[] = { 0.5f };
static const inlay_tensor_view pixel_view[] = { PREPOST_VIEW(pixels, pixel_dims, INLAY_UINT8) };
static const inlay_tensor_view planes_view[] = { PREPOST_VIEW(planes_out, planes_dims, INLAY_FLOAT) };
#define HALF(title)                                                                                                    \
    {                                                                                                                  \
        .name = PREPOST_STR(title), .kind = INLAY_ATTR_FLOATS, .floats = half, .count = 1                              \
    }
static const inlay_attr_info halves[] = { HALF("mean"), HALF("std") };
static const inlay_op_example normalize_examples[] = {
    PREPOST_EXAMPLE("bytes as -1 to 1, in planes", halves, pixel_view, planes_view, 1e-6),
};

const prepost_operator prepost_normalize_image = {
    .op_type = "NormalizeImage",
    .signature = "X:T -> Y:F; T=uint8|float, F=float; mean:fs, std:fs, scale:f=0.003921568859368563, layout:s='nchw', "
                 "batch:i=1",
    .doc = "Computes (X * scale - mean) / std of an image [height, width, channels], as [1, channels, height, width] "
           "(layout nchw) or [1, height, width, channels] (nhwc); batch 0 omits the leading 1. mean and std have one "
           "number for each channel, one for all, or none (0 and 1).",
    .infer = infer_normalize,
    PREPOST_EXAMPLES(normalize_examples),
    .kernel = { .supports = supports_normalize,
                .cost = cost_normalize,
                .prepare = prepare_normalize,
                .shape = shape_normalize,
                .run = run_normalize },
};

static inlay_status infer_planes(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *input = in->inputs[0];
    const bool planes = strcmp(kit_attr_string(in->node, "layout", "nchw"), "nchw") == 0;
    inlay_dim dims[3] = { prepost_open(), prepost_open(), prepost_open() };
    const inlay_status status = prepost_want_rank(in, 0, 3, 4, "[1, channels, height, width], or without the 1", diag);

    (void)ctx;
    if (status != INLAY_OK)
        return status;
    if (prepost_knows_rank(input)) {
        const inlay_dim *dim = input->dims + (input->rank - 3);

        dims[0] = dim[planes ? 1 : 0];
        dims[1] = dim[planes ? 2 : 1];
        dims[2] = dim[planes ? 0 : 2];
    }
    return prepost_set(in, 0, 3, dims);
}

static bool supports_planes(const kit_node *node, kit_refusal *why)
{
    return prepost_one_of(node, "layout", "nchw", layouts, 2, why);
}

static inlay_status shape_planes(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *input = &plan->in[0];

    (void)state;
    if (input->count >= 0 && input->rank == 4 && input->dims[0] != 1)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "ImageFromPlanes: a batch of %lld; only one image is supported",
                          (long long)input->dims[0]);
    plan->allocates = plan->out[0].count < 0 ? 1 : 0;
    return INLAY_OK;
}

static inlay_status run_planes(const kit_call *call)
{
    const normalize_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    const int64_t *in_dims = input->dims + (input->rank - 3);
    const int64_t dims[3] = { in_dims[state->planes ? 1 : 0], in_dims[state->planes ? 2 : 1],
                              in_dims[state->planes ? 0 : 2] };
    const int64_t plane = dims[0] * dims[1];
    const float *from = input->data;
    uint8_t *to;
    const inlay_status status = prepost_output(call, 0, 3, dims);

    if (status != INLAY_OK)
        return status;
    to = call->out[0].data;
    for (int64_t i = 0; i < plane; i++) {
        for (int64_t channel = 0; channel < dims[2]; channel++) {
            const uint32_t which = state->channels > 1 && channel < state->channels ? (uint32_t)channel : 0;
            const float value =
                (from[state->planes ? channel * plane + i : i * dims[2] + channel] * state->deviation[which] +
                 state->mean[which]) /
                state->scale;

            *to++ = value > 0 ? (value < 255 ? (uint8_t)lrintf(value) : 255) : 0;
        }
    }
    return INLAY_OK;
}

static const inlay_op_example planes_examples[] = {
    PREPOST_EXAMPLE("-1 to 1, in planes, as bytes", halves, planes_view, pixel_view, 0),
};

const prepost_operator prepost_image_from_planes = {
    .op_type = "ImageFromPlanes",
    .signature = "X:F -> Y:B; F=float, B=uint8; mean:fs, std:fs, scale:f=0.003921568859368563, layout:s='nchw'",
    .doc = "The inverse of NormalizeImage with the same attributes: an image [height, width, channels]; values are "
           "clipped to 0 .. 255.",
    .infer = infer_planes,
    PREPOST_EXAMPLES(planes_examples),
    .kernel = { .supports = supports_planes,
                .cost = cost_normalize,
                .prepare = prepare_normalize,
                .shape = shape_planes,
                .run = run_planes },
};

static inlay_status infer_crop(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    inlay_dim dims[3] = { prepost_fixed(kit_attr_int(in->node, "height", 0)),
                          prepost_fixed(kit_attr_int(in->node, "width", 0)) };
    const inlay_status status = prepost_want_rank(in, 0, 3, 3, "[height, width, channels]", diag);

    (void)ctx;
    if (status != INLAY_OK)
        return status;
    if (dims[0].value < 1 || dims[1].value < 1)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "CropImage: height and width must be 1 or more");
    dims[2] = prepost_knows_rank(in->inputs[0]) ? in->inputs[0]->dims[2] : prepost_open();
    return prepost_set(in, 0, 3, dims);
}

static inlay_status prepare_crop(const kit_node *node, void **out_state, inlay_diag *diag)
{
    int64_t *size = malloc(2 * sizeof *size);

    if (size == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "CropImage");
    size[0] = kit_attr_int(node->info, "height", 0);
    size[1] = kit_attr_int(node->info, "width", 0);
    *out_state = size;
    return INLAY_OK;
}

static inlay_status shape_crop(const void *state, kit_plan *plan, inlay_diag *diag)
{
    (void)state;
    (void)diag;
    plan->allocates = plan->out[0].count < 0 ? 1 : 0;
    return INLAY_OK;
}

/* The offset of the crop along an axis, rounded to even as in torchvision; negative if the image is smaller. */
static int64_t offset_of(int64_t in, int64_t out)
{
    return (int64_t)lrint((double)(in - out) / 2);
}

static inlay_status run_crop(const kit_call *call)
{
    const int64_t *size = call->state;
    const kit_tensor *input = &call->in[0];
    const int64_t channels = input->dims[2], dims[3] = { size[0], size[1], channels };
    const int64_t top = offset_of(input->dims[0], size[0]), left = offset_of(input->dims[1], size[1]);
    const int64_t from = left < 0 ? 0 : left, end = left + size[1] < input->dims[1] ? left + size[1] : input->dims[1];
    uint8_t *to;
    const inlay_status status = prepost_output(call, 0, 3, dims);

    if (status != INLAY_OK)
        return status;
    to = call->out[0].data;
    memset(to, 0, (size_t)(size[0] * size[1] * channels));
    for (int64_t y = 0; y < size[0]; y++)
        if (y + top >= 0 && y + top < input->dims[0] && end > from)
            memcpy(to + (y * size[1] + from - left) * channels,
                   (const uint8_t *)input->data + ((y + top) * input->dims[1] + from) * channels,
                   (size_t)((end - from) * channels));
    return INLAY_OK;
}

static const int64_t wide_dims[] = { 1, 4, 1 }, middle_dims[] = { 3, 2, 1 };
static const uint8_t wide[] = { 1, 2, 3, 4 }, middle[] = { 0, 0, 2, 3, 0, 0 };
static const inlay_tensor_view wide_view[] = { PREPOST_VIEW(wide, wide_dims, INLAY_UINT8) };
static const inlay_tensor_view middle_view[] = { PREPOST_VIEW(middle, middle_dims, INLAY_UINT8) };
static const inlay_attr_info to_middle[] = { PREPOST_ATTR_INT("height", 3), PREPOST_ATTR_INT("width", 2) };
static const inlay_op_example crop_examples[] = {
    PREPOST_EXAMPLE("the centre of a row, with a row of zeros above and below", to_middle, wide_view, middle_view, 0),
};

const prepost_operator prepost_crop_image = {
    .op_type = "CropImage",
    .signature = "X:B -> Y:B; B=uint8; height:i!, width:i!",
    .doc = "Crops the centre of an image [height, width, channels] to that size; pixels outside the image are 0.",
    .infer = infer_crop,
    PREPOST_EXAMPLES(crop_examples),
    .kernel = { .prepare = prepare_crop, .shape = shape_crop, .run = run_crop },
};
