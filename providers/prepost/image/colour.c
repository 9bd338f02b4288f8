/* colour.c - ConvertColor: converts between colour spaces, compatible with Pillow. */
#include "prepost/prepost.h"
#include "inlay/check.h"
#include <math.h>
#include <stdlib.h>

static const char *const spaces[] = { "rgb", "bgr", "rgba", "bgra", "grey", "ycbcr", "hsv" };
enum { RGB, BGR, RGBA, BGRA, GREY, YCBCR, HSV };
static const int64_t channels_of[] = { 3, 3, 4, 4, 1, 3, 3 };

static uint8_t clip(double value)
{
    /* NOLINTNEXTLINE(bugprone-incorrect-roundings): only the double just below 0.5 differs */
    return value <= 0 ? 0 : value >= 255 ? 255 : (uint8_t)(value + 0.5);
}

static void from_ycbcr(const uint8_t *input, uint8_t rgb[3])
{
    const double y = input[0], cb = input[1] - 128.0, cr = input[2] - 128.0;

    rgb[0] = clip(y + 1.402 * cr);
    rgb[1] = clip(y - 0.344136286 * cb - 0.714136286 * cr);
    rgb[2] = clip(y + 1.772 * cb);
}

static void to_ycbcr(const uint8_t rgb[3], uint8_t *output)
{
    const double r = rgb[0], g = rgb[1], b = rgb[2];

    output[0] = clip(0.299 * r + 0.587 * g + 0.114 * b);
    output[1] = clip(-0.168735892 * r - 0.331264108 * g + 0.5 * b + 128);
    output[2] = clip(0.5 * r - 0.418687589 * g - 0.081312411 * b + 128);
}

/* Hue, saturation and value, each 0 to 255. */
static void to_hsv(const uint8_t rgb[3], uint8_t *output)
{
    const int r = rgb[0], g = rgb[1], b = rgb[2];
    const int most = r > g ? (r > b ? r : b) : (g > b ? g : b), least = r < g ? (r < b ? r : b) : (g < b ? g : b);
    const double range = most - least;
    double hue;

    output[2] = (uint8_t)most;
    if (most == least) {
        output[0] = output[1] = 0;
        return;
    }
    if (r == most)
        hue = (g - b) / range;
    else if (g == most)
        hue = 2 + (b - r) / range;
    else
        hue = 4 + (r - g) / range;
    hue = fmod(hue / 6 + 1, 1.0);
    output[0] = (uint8_t)(hue * 255);
    output[1] = (uint8_t)(range / most * 255);
}

static void from_hsv(const uint8_t *input, uint8_t rgb[3])
{
    const double hue = input[0] * 6.0 / 255, s = input[1] / 255.0;
    const int sector = (int)hue;
    const double f = hue - sector;
    const uint8_t v = input[2], p = clip(v * (1 - s)), q = clip(v * (1 - s * f)), t = clip(v * (1 - s * (1 - f)));
    const uint8_t of[6][3] = { { v, t, p }, { q, v, p }, { p, v, t }, { p, q, v }, { t, p, v }, { v, p, q } };

    memcpy(rgb, of[sector % 6], 3);
}

static void read_pixel(int space, const uint8_t *input, uint8_t rgba[4])
{
    INLAY_CHECK(space >= RGB && space <= HSV);
    rgba[3] = 255;
    switch (space) {
    case BGR:
    case BGRA:
        rgba[0] = input[2];
        rgba[1] = input[1];
        rgba[2] = input[0];
        break;
    case GREY:
        rgba[0] = rgba[1] = rgba[2] = input[0];
        break;
    case YCBCR:
        from_ycbcr(input, rgba);
        break;
    case HSV:
        from_hsv(input, rgba);
        break;
    default:
        memcpy(rgba, input, 3);
    }
    if (space == RGBA || space == BGRA)
        rgba[3] = input[3];
}

static void write_pixel(int space, const uint8_t rgba[4], uint8_t *output)
{
    switch (space) {
    case BGR:
    case BGRA:
        output[0] = rgba[2];
        output[1] = rgba[1];
        output[2] = rgba[0];
        break;
    case GREY:
        output[0] = (uint8_t)((rgba[0] * 19595u + rgba[1] * 38470u + rgba[2] * 7471u + 0x8000u) >> 16);
        break;
    case YCBCR:
        to_ycbcr(rgba, output);
        break;
    case HSV:
        to_hsv(rgba, output);
        break;
    default:
        memcpy(output, rgba, 3);
    }
    if (space == RGBA || space == BGRA)
        output[3] = rgba[3];
}

typedef struct colour_state {
    int from, to;
} colour_state;

static int space_of(const inlay_node_info *node, const char *attr)
{
    return prepost_word(kit_attr_string(node, attr, "rgb"), spaces, KIT_COUNT(spaces));
}

static inlay_status infer(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *input = in->inputs[0];
    const int from = space_of(in->node, "from"), to = space_of(in->node, "to");
    inlay_dim dims[4];
    const inlay_status status =
        prepost_want_rank(in, 0, 3, 4, "[height, width, channels] or [N, height, width, channels]", diag);

    (void)ctx;
    if (status != INLAY_OK || !prepost_knows_rank(input) || from < 0 || to < 0)
        return status;
    memcpy(dims, input->dims, input->rank * sizeof *dims);
    if (dims[input->rank - 1].kind == INLAY_DIM_FIXED && dims[input->rank - 1].value != channels_of[from])
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "ConvertColor: %s has %lld channels, but the image has %lld",
                          spaces[from], (long long)channels_of[from], (long long)dims[input->rank - 1].value);
    dims[input->rank - 1] = prepost_fixed(channels_of[to]);
    return prepost_set(in, 0, input->rank, dims);
}

static bool supports(const kit_node *node, kit_refusal *why)
{
    return prepost_one_of(node, "from", "rgb", spaces, KIT_COUNT(spaces), why) &&
           prepost_one_of(node, "to", "rgb", spaces, KIT_COUNT(spaces), why);
}

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    colour_state *state = malloc(sizeof *state);

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "ConvertColor");
    *state = (colour_state){ space_of(node->info, "from"), space_of(node->info, "to") };
    *out_state = state;
    return INLAY_OK;
}

static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    (void)node;
    prepost_cost_elements(cost, shapes, 1000, 2, 1e6);
}

static inlay_status shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *input = &plan->in[0];
    const colour_state *colour = state;

    if (input->count >= 0 && input->dims[input->rank - 1] != channels_of[colour->from])
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "ConvertColor: %s has %lld channels, but the image has %lld",
                          spaces[colour->from], (long long)channels_of[colour->from],
                          (long long)input->dims[input->rank - 1]);
    plan->allocates = plan->out[0].count < 0 ? 1 : 0;
    return INLAY_OK;
}

static inlay_status convert(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const colour_state *state = call->state;
    const uint8_t *input = (const uint8_t *)call->in[0].data + begin * channels_of[state->from];
    uint8_t *output = (uint8_t *)call->out[0].data + begin * channels_of[state->to];

    (void)worker;
    for (int64_t i = begin; i < end; i++, input += channels_of[state->from], output += channels_of[state->to]) {
        uint8_t rgba[4];

        read_pixel(state->from, input, rgba);
        write_pixel(state->to, rgba, output);
    }
    return INLAY_OK;
}

static inlay_status run(const kit_call *call)
{
    const kit_tensor *input = &call->in[0];
    const colour_state *state = call->state;
    int64_t dims[4];
    inlay_status status;

    memcpy(dims, input->dims, input->rank * sizeof *dims);
    dims[input->rank - 1] = channels_of[state->to];
    status = prepost_output(call, 0, input->rank, dims);
    return status != INLAY_OK
               ? status
               : kit_parallel(call, input->count / channels_of[state->from], 4096, convert, (void *)(uintptr_t)call);
}

static const int64_t colour_dims[] = { 1, 3, 3 }, grey_dims[] = { 1, 3, 1 };
static const uint8_t colours[] = { 255, 0, 0, 0, 255, 0, 10, 20, 30 }, greys[] = { 76, 150, 18 };
static const uint8_t luma[] = { 76, 85, 255, 150, 44, 21, 18, 135, 122 };
static const inlay_tensor_view colour_view[] = { PREPOST_VIEW(colours, colour_dims, INLAY_UINT8) };
static const inlay_tensor_view grey_view[] = { PREPOST_VIEW(greys, grey_dims, INLAY_UINT8) };
static const inlay_tensor_view luma_view[] = { PREPOST_VIEW(luma, colour_dims, INLAY_UINT8) };
static const inlay_attr_info to_grey_attrs[] = { PREPOST_ATTR_STRING("to", "grey") };
static const inlay_attr_info to_luma_attrs[] = { PREPOST_ATTR_STRING("to", "ycbcr") };
static const inlay_op_example examples[] = {
    PREPOST_EXAMPLE("red, green and a dark blue as grey", to_grey_attrs, colour_view, grey_view, 0),
    PREPOST_EXAMPLE("the same as luma and chroma", to_luma_attrs, colour_view, luma_view, 1),
};

const prepost_operator prepost_convert_color = {
    .op_type = "ConvertColor",
    .signature = "X:T -> Y:T; T=uint8; from:s='rgb', to:s='rgb'",
    .doc = "Converts an image, [height, width, channels] or [N, height, width, channels], to another colour space: "
           "rgb, bgr, rgba, bgra, grey, ycbcr, hsv.",
    .infer = infer,
    PREPOST_EXAMPLES(examples),
    .kernel = { .supports = supports, .cost = cost, .prepare = prepare, .shape = shape, .run = run },
};
