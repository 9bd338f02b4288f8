/* resize.c - ResizeImage and Letterbox: images in another size. */
#include "prepost/prepost.h"
#include "inlay/check.h"
#include "prepost/image/resample.h"
#include <stdlib.h>

static const char *const fits[] = { "stretch", "inside", "cover" };
enum { STRETCH, INSIDE, COVER };
enum { MAX_SIDE = 1 << 20 };

/* Returns a * b / c, rounded, at least 1. */
static int64_t times(int64_t a, int64_t b, int64_t c)
{
    const int64_t rounded = (2 * a * b + c) / (2 * c);

    return rounded < 1 ? 1 : rounded;
}

/* The output size according to the attributes. */
static void target_size(const inlay_node_info *node, int64_t height, int64_t width, int64_t out[2])
{
    const int64_t height_attr = kit_attr_int(node, "height", 0), width_attr = kit_attr_int(node, "width", 0);
    const int64_t multiple = kit_attr_int(node, "multiple", 1);
    const int fit = prepost_word(kit_attr_string(node, "fit", "stretch"), fits, KIT_COUNT(fits));
    bool by_height = width_attr == 0;

    out[0] = height_attr;
    out[1] = width_attr;
    if (height_attr > 0 && width_attr > 0 && fit != STRETCH)
        by_height =
            fit == INSIDE ? height_attr * width <= width_attr * height : height_attr * width >= width_attr * height;
    if (height_attr == 0 || width_attr == 0 || fit != STRETCH) {
        /* Computes the side that is not given or does not decide; "cover" truncates as torchvision does. */
        if (by_height)
            out[1] = fit == COVER ? width * height_attr / height : times(width, height_attr, height);
        else
            out[0] = fit == COVER ? height * width_attr / width : times(height, width_attr, width);
    }
    if (by_height)
        out[0] = height_attr;
    if (kit_attr_int(node, "shrink_only", 0) != 0 && (out[0] > height || out[1] > width)) {
        out[0] = height;
        out[1] = width;
    }
    for (int i = 0; i < 2; i++) {
        out[i] = out[i] < 1 ? 1 : out[i];
        out[i] = (out[i] + multiple - 1) / multiple * multiple;
    }
}

static bool supports_size(const kit_node *node, kit_refusal *why, bool both)
{
    const int64_t height = kit_attr_int(node->info, "height", 0), width = kit_attr_int(node->info, "width", 0);
    const int64_t multiple = kit_attr_int(node->info, "multiple", 1);

    if (height < 0 || width < 0 || height > MAX_SIDE || width > MAX_SIDE ||
        (both ? height == 0 || width == 0 : height == 0 && width == 0))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE,
                          both ? "set height and width" : "set height, width or both, each 1 to 1048576",
                          "height is %lld and width %lld", (long long)height, (long long)width);
    if (multiple < 1 || multiple > 65536)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use 1 to 65536", "multiple is %lld", (long long)multiple);
    return prepost_one_of(node, "filter", "bilinear", resample_filters, RESAMPLE_FILTERS, why) &&
           (both || prepost_one_of(node, "fit", "stretch", fits, KIT_COUNT(fits), why));
}

/* The dims of one image of [H, W, C] or [N, H, W, C]; false: a side is unknown or 0. */
static bool picture_dims(const kit_tensor *input, const int64_t **out_dims, int64_t *out_count)
{
    if (input->count < 0 || (input->rank != 3 && input->rank != 4))
        return false;
    *out_dims = input->dims + (input->rank - 3);
    *out_count = input->rank == 4 ? input->dims[0] : 1;
    return (*out_dims)[0] > 0 && (*out_dims)[1] > 0 && (*out_dims)[0] <= MAX_SIDE && (*out_dims)[1] <= MAX_SIDE;
}

static inlay_status bad_picture(inlay_diag *diag, const char *op)
{
    return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "%s: the image must be [height, width, channels], each side 1 to %d",
                      op, MAX_SIDE);
}

static void cost_resize(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const kit_tensor *input = &shapes->in[0];
    const int64_t *dims;
    int64_t out[2], count;
    double samples = 1e6;
    const bool known = picture_dims(input, &dims, &count);

    if (known) {
        target_size(node->info, dims[0], dims[1], out);
        samples = (double)(dims[0] * (out[1] + dims[1]) + out[0] * out[1]) * (double)dims[2] * (double)count;
    }
    prepost_cost(cost, known, 2000 + 1.5 * samples);
}

static int filter_of(const inlay_node_info *node)
{
    return prepost_word(kit_attr_string(node, "filter", "bilinear"), resample_filters, RESAMPLE_FILTERS);
}

/* Attributes are borrowed, so the state has copies of the attributes that target_size() needs in run and shape. */
typedef struct resize_state {
    inlay_node_info node;
    inlay_attr_info attrs[8];
    int64_t height, width;
    int filter;
    uint8_t fill;
} resize_state;

static inlay_status prepare_resize(const kit_node *node, void **out_state, inlay_diag *diag)
{
    static const char *const names[] = { "height", "width", "multiple", "shrink_only" };
    resize_state *state = calloc(1, sizeof *state);
    const int fit = prepost_word(kit_attr_string(node->info, "fit", "stretch"), fits, KIT_COUNT(fits));

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "ResizeImage");
    for (uint32_t i = 0; i < KIT_COUNT(names); i++)
        state->attrs[i] = (inlay_attr_info){ .name = { names[i], strlen(names[i]) },
                                             .kind = INLAY_ATTR_INT,
                                             .i = kit_attr_int(node->info, names[i], i == 2) };
    state->attrs[4] = (inlay_attr_info){ .name = PREPOST_STR("fit"),
                                         .kind = INLAY_ATTR_STRING,
                                         .s = { fits[fit < 0 ? 0 : fit], strlen(fits[fit < 0 ? 0 : fit]) } };
    state->node = (inlay_node_info){ .attr_count = 5, .attr_stride = sizeof state->attrs[0] };
    state->height = state->attrs[0].i;
    state->width = state->attrs[1].i;
    state->filter = filter_of(node->info);
    state->fill = (uint8_t)kit_attr_int(node->info, "fill", 114);
    *out_state = state;
    return INLAY_OK;
}

static void size_of(const resize_state *state, const int64_t *dims, int64_t out[2])
{
    inlay_node_info node = state->node;

    INLAY_CHECK(dims[0] > 0 && dims[1] > 0);
    node.attrs = state->attrs;
    target_size(&node, dims[0], dims[1], out);
}

static inlay_status infer_resize(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *input = in->inputs[0];
    const int64_t height = kit_attr_int(in->node, "height", 0), width = kit_attr_int(in->node, "width", 0);
    const bool stretch = strcmp(kit_attr_string(in->node, "fit", "stretch"), "stretch") == 0 &&
                         kit_attr_int(in->node, "multiple", 1) == 1 && kit_attr_int(in->node, "shrink_only", 0) == 0;
    inlay_dim dims[4];
    int64_t out[2];
    uint32_t at;
    const inlay_status status =
        prepost_want_rank(in, 0, 3, 4, "[height, width, channels] or [N, height, width, channels]", diag);

    (void)ctx;
    if (status != INLAY_OK || !prepost_knows_rank(input))
        return status;
    at = input->rank - 3;
    memcpy(dims, input->dims, input->rank * sizeof *dims);
    if (dims[at].kind == INLAY_DIM_FIXED && dims[at + 1].kind == INLAY_DIM_FIXED && dims[at].value > 0 &&
        dims[at + 1].value > 0 && dims[at].value <= MAX_SIDE && dims[at + 1].value <= MAX_SIDE && height >= 0 &&
        width >= 0 && height <= MAX_SIDE && width <= MAX_SIDE && kit_attr_int(in->node, "multiple", 1) > 0 &&
        (height > 0 || width > 0)) {
        target_size(in->node, dims[at].value, dims[at + 1].value, out);
        dims[at] = prepost_fixed(out[0]);
        dims[at + 1] = prepost_fixed(out[1]);
    } else {
        dims[at] = stretch && height > 0 ? prepost_fixed(height) : prepost_open();
        dims[at + 1] = stretch && width > 0 ? prepost_fixed(width) : prepost_open();
    }
    return prepost_set(in, 0, input->rank, dims);
}

static bool supports_resize(const kit_node *node, kit_refusal *why)
{
    return supports_size(node, why, false);
}

static inlay_status shape_resize(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *input = &plan->in[0];
    const int64_t *dims;
    int64_t out[2], count;
    struct resample *resample;

    if (!picture_dims(input, &dims, &count))
        return bad_picture(diag, "ResizeImage");
    size_of(state, dims, out);
    resample = resample_create(((const resize_state *)state)->filter, dims[0], dims[1], out[0], out[1], dims[2]);
    if (resample == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "ResizeImage: no memory for the weights");
    plan->workspace_bytes = resample_scratch(resample, input->dtype);
    plan->plan = resample;
    plan->allocates = plan->out[0].count < 0 ? 1 : 0;
    return INLAY_OK;
}

static inlay_status run_resize(const kit_call *call)
{
    const struct resample *resample = call->plan;
    const kit_tensor *input = &call->in[0];
    const int64_t count = input->rank == 4 ? input->dims[0] : 1;
    int64_t dims[4] = { count, resample->vertical.out, resample->horizontal.out, resample->channels };
    const uint64_t in_bytes =
                       kit_bytes(input->dtype, resample->vertical.in * resample->horizontal.in * resample->channels),
                   out_bytes =
                       kit_bytes(input->dtype, resample->vertical.out * resample->horizontal.out * resample->channels);
    inlay_status status;

    status = prepost_output(call, 0, input->rank, input->rank == 4 ? dims : dims + 1);
    for (int64_t i = 0; status == INLAY_OK && i < count; i++)
        status = resample_run(resample, call, input->dtype, (const char *)input->data + (uint64_t)i * in_bytes,
                              (char *)call->out[0].data + (uint64_t)i * out_bytes, resample->horizontal.out,
                              call->workspace);
    return status;
}

static const int64_t four_dims[] = { 1, 4, 1 }, two_dims[] = { 1, 2, 1 }, wide_dims[] = { 1, 8, 1 };
static const uint8_t steps[] = { 0, 100, 200, 40 }, halves[] = { 50, 120 };
static const float ramp[] = { 0, 8 }, ramped[] = { 0, 0, 1, 3, 5, 7, 8, 8 };
static const inlay_tensor_view steps_view[] = { PREPOST_VIEW(steps, four_dims, INLAY_UINT8) };
static const inlay_tensor_view halves_view[] = { PREPOST_VIEW(halves, two_dims, INLAY_UINT8) };
static const inlay_tensor_view ramp_view[] = { PREPOST_VIEW(ramp, two_dims, INLAY_FLOAT) };
static const inlay_tensor_view ramped_view[] = { PREPOST_VIEW(ramped, wide_dims, INLAY_FLOAT) };
static const inlay_attr_info to_half[] = { PREPOST_ATTR_INT("width", 2), PREPOST_ATTR_INT("height", 1),
                                           PREPOST_ATTR_STRING("filter", "box") };
static const inlay_attr_info to_eight[] = { PREPOST_ATTR_INT("width", 8), PREPOST_ATTR_INT("height", 1) };
static const inlay_op_example resize_examples[] = {
    PREPOST_EXAMPLE("means of two pixels", to_half, steps_view, halves_view, 0),
    PREPOST_EXAMPLE("floats between two pixels", to_eight, ramp_view, ramped_view, 1e-6),
};

const prepost_operator prepost_resize_image = {
    .op_type = "ResizeImage",
    .signature = "X:T -> Y:T; T=uint8|float; height:i=0, width:i=0, filter:s='bilinear', fit:s='stretch', "
                 "multiple:i=1, shrink_only:i=0",
    .doc = "Resizes an image, [height, width, channels] or [N, height, width, channels], with Pillow's filters and "
           "antialiasing: nearest, box, bilinear, hamming, bicubic, lanczos. A side of 0 keeps the aspect ratio. fit "
           "is stretch (exactly that size), inside (the largest that fits) or cover (the smallest that covers it); "
           "shrink_only keeps smaller images unchanged; multiple rounds both sides up.",
    .infer = infer_resize,
    PREPOST_EXAMPLES(resize_examples),
    .kernel = { .supports = supports_resize,
                .cost = cost_resize,
                .prepare = prepare_resize,
                .shape = shape_resize,
                .run = run_resize },
};

/* Size and position of the image within the letterbox. */
struct frame {
    int64_t height, width, top, left;
    double scale;
};

static struct frame frame_of(const int64_t *dims, int64_t height, int64_t width)
{
    const double by_height = (double)height / (double)dims[0], by_width = (double)width / (double)dims[1];
    struct frame frame = { .scale = by_height < by_width ? by_height : by_width };

    frame.height = (int64_t)((double)dims[0] * frame.scale + 0.5);
    frame.width = (int64_t)((double)dims[1] * frame.scale + 0.5);
    frame.height = frame.height < 1 ? 1 : frame.height > height ? height : frame.height;
    frame.width = frame.width < 1 ? 1 : frame.width > width ? width : frame.width;
    frame.top = (height - frame.height) / 2;
    frame.left = (width - frame.width) / 2;
    return frame;
}

static inlay_status infer_letterbox(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_dim place = prepost_fixed(5);
    inlay_dim dims[3] = { prepost_fixed(kit_attr_int(in->node, "height", 0)),
                          prepost_fixed(kit_attr_int(in->node, "width", 0)) };
    inlay_status status = prepost_want_rank(in, 0, 3, 3, "[height, width, channels]", diag);

    (void)ctx;
    if (status != INLAY_OK)
        return status;
    if (dims[0].value < 1 || dims[1].value < 1)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "Letterbox: height and width must be 1 or more");
    dims[2] = prepost_knows_rank(in->inputs[0]) ? in->inputs[0]->dims[2] : prepost_open();
    status = prepost_set(in, 0, 3, dims);
    return status != INLAY_OK ? status : prepost_set(in, 1, 1, &place);
}

static bool supports_letterbox(const kit_node *node, kit_refusal *why)
{
    const int64_t fill = kit_attr_int(node->info, "fill", 114);

    if (fill < 0 || fill > 255)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use 0 to 255", "fill is %lld", (long long)fill);
    return supports_size(node, why, true);
}

static inlay_status shape_letterbox(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const resize_state *letterbox = state;
    const int64_t *dims;
    int64_t count;
    struct resample *resample;
    struct frame frame;

    if (!picture_dims(&plan->in[0], &dims, &count))
        return bad_picture(diag, "Letterbox");
    frame = frame_of(dims, letterbox->height, letterbox->width);
    resample = resample_create(letterbox->filter, dims[0], dims[1], frame.height, frame.width, dims[2]);
    if (resample == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "Letterbox: no memory for the weights");
    plan->workspace_bytes = resample_scratch(resample, INLAY_UINT8);
    plan->plan = resample;
    plan->allocates = plan->out[0].count < 0 ? 1 : 0;
    return INLAY_OK;
}

static inlay_status run_letterbox(const kit_call *call)
{
    const resize_state *state = call->state;
    const struct resample *resample = call->plan;
    const kit_tensor *input = &call->in[0];
    const int64_t dims[3] = { state->height, state->width, resample->channels };
    const struct frame frame = frame_of(input->dims, state->height, state->width);
    uint8_t *to;
    const inlay_status status = prepost_output(call, 0, 3, dims);

    if (status != INLAY_OK)
        return status;
    to = call->out[0].data;
    memset(to, state->fill, (size_t)(dims[0] * dims[1] * dims[2]));
    if (kit_has_output(call, 1)) {
        const float place[5] = { (float)frame.scale, (float)frame.left, (float)frame.top, (float)input->dims[1],
                                 (float)input->dims[0] };

        memcpy(call->out[1].data, place, sizeof place);
    }
    return resample_run(resample, call, INLAY_UINT8, input->data,
                        to + (frame.top * state->width + frame.left) * resample->channels, state->width,
                        call->workspace);
}

static const int64_t framed_dims[] = { 2, 2, 1 }, place_dims[] = { 5 }, tall_dims[] = { 4, 2, 1 };
static const uint8_t tall[] = { 10, 10, 10, 10, 30, 30, 30, 30 }, framed[] = { 10, 0, 30, 0 };
static const float placed[] = { 0.5f, 0, 0, 2, 4 };
static const inlay_tensor_view tall_view[] = { PREPOST_VIEW(tall, tall_dims, INLAY_UINT8) };
static const inlay_tensor_view framed_view[] = { PREPOST_VIEW(framed, framed_dims, INLAY_UINT8),
                                                 PREPOST_VIEW(placed, place_dims, INLAY_FLOAT) };
static const inlay_attr_info in_frame[] = { PREPOST_ATTR_INT("width", 2), PREPOST_ATTR_INT("height", 2),
                                            PREPOST_ATTR_INT("fill", 0), PREPOST_ATTR_STRING("filter", "box") };
static const inlay_op_example letterbox_examples[] = {
    PREPOST_EXAMPLE("a tall image in a square", in_frame, tall_view, framed_view, 0),
};

const prepost_operator prepost_letterbox = {
    .op_type = "Letterbox",
    .signature = "X:T -> Y:T, place?:F; T=uint8, F=float; height:i!, width:i!, fill:i=114, filter:s='bilinear'",
    .doc = "Scales an image, [height, width, channels], to the largest size that fits into a frame and centres it; the "
           "rest has the colour fill. place describes the way back: scale, left, top, and the width and height of X.",
    .infer = infer_letterbox,
    PREPOST_EXAMPLES(letterbox_examples),
    .kernel = { .supports = supports_letterbox,
                .cost = cost_resize,
                .prepare = prepare_resize,
                .shape = shape_letterbox,
                .run = run_letterbox },
};
