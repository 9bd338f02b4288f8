/* pipe_picture.c - the steps for pictures. */
#include "pipe/pipe_parts.h"
#include <stdlib.h>
#include <string.h>

/* An empty chain begins with pixels: [height, width, 3]. */
static inlay_status want_picture(pipe_chain *chain)
{
    static const int64_t dims[3] = { -1, -1, 3 };
    static const char *const names[3] = { "image_height", "image_width", NULL };
    inlay_status status;

    if (chain->kind == PIPE_PICTURE)
        return INLAY_OK;
    if (chain->kind != PIPE_NOTHING)
        return pipe_fail(chain, "it needs a picture: put decode before it, and normalise after it");
    status = pipe_input(chain, "image", INLAY_UINT8, 3, dims, names);
    chain->kind = PIPE_PICTURE;
    return status;
}

static inlay_status decode(pipe_chain *chain)
{
    static const int64_t dims[1] = { -1 };
    static const char *const names[1] = { "file_bytes" };
    const char *order = pipe_word(chain);
    graph_node *node;
    inlay_status status;

    if (chain->kind != PIPE_NOTHING)
        return pipe_fail(chain, "it must be the first step");
    if (order != NULL && strcmp(order, "rgb") != 0 && strcmp(order, "bgr") != 0 && strcmp(order, "grey") != 0)
        return pipe_fail(chain, "'%s' is not rgb, bgr or grey", order);
    INLAY_TRY(pipe_input(chain, "file", INLAY_UINT8, 1, dims, names));
    INLAY_TRY(pipe_node(chain, PIPE_EXTENSIONS, "DecodeImage", &node));
    INLAY_TRY(graph_set_attr_string(chain->graph, node, "color_space", order != NULL ? order : "rgb"));
    chain->kind = PIPE_PICTURE;
done:
    return status;
}

/* The size in a step's word, or else that of the model's input. both: both sides are required. */
static inlay_status size_of(pipe_chain *chain, const char *word, bool both, int64_t out[2])
{
    if (word != NULL) {
        const inlay_status status = pipe_size(chain, word, out);

        if (both && status == INLAY_OK && out[1] == 0)
            out[1] = out[0];
        return status;
    }
    pipe_target_sides(chain, out);
    if (both ? out[0] == 0 || out[1] == 0 : out[0] == 0 && out[1] == 0)
        return pipe_fail(chain, "the model does not declare the size of its input: add it, as in %s:224x224",
                         chain->words[0]);
    return INLAY_OK;
}

static inlay_status set_size(pipe_chain *chain, graph_node *node, const int64_t size[2])
{
    const inlay_status status = graph_set_attr_int(chain->graph, node, "height", size[0]);

    return status == INLAY_OK ? graph_set_attr_int(chain->graph, node, "width", size[1]) : status;
}

static inlay_status set_filter(pipe_chain *chain, graph_node *node)
{
    static const char *const filters[] = { "nearest", "box", "bilinear", "hamming", "bicubic", "lanczos" };
    const char *filter = pipe_option(chain, "filter");

    for (size_t i = 0; filter != NULL && i < sizeof filters / sizeof filters[0]; i++)
        if (strcmp(filter, filters[i]) == 0)
            return graph_set_attr_string(chain->graph, node, "filter", filter);
    return filter == NULL
               ? INLAY_OK
               : pipe_fail(chain, "filter=%s is not nearest, box, bilinear, hamming, bicubic or lanczos", filter);
}

static inlay_status resize(pipe_chain *chain)
{
    const char *inside = pipe_option(chain, "inside"), *cover = pipe_option(chain, "cover");
    const char *word = inside != NULL ? inside : cover;
    int64_t size[2], multiple;
    graph_node *node;
    const bool shrink = pipe_flag(chain, "shrink");
    inlay_status status;

    if (inside != NULL && cover != NULL)
        return pipe_fail(chain, "inside and cover cannot be combined");
    INLAY_TRY(want_picture(chain));
    INLAY_TRY(size_of(chain, word != NULL ? word : pipe_word(chain), word != NULL, size));
    INLAY_TRY(pipe_int(chain, "multiple", 1, 1, 65536, &multiple));
    INLAY_TRY(pipe_node(chain, PIPE_DOMAIN, "ResizeImage", &node));
    INLAY_TRY(set_size(chain, node, size));
    if (word != NULL)
        INLAY_TRY(graph_set_attr_string(chain->graph, node, "fit", inside != NULL ? "inside" : "cover"));
    if (multiple > 1)
        INLAY_TRY(graph_set_attr_int(chain->graph, node, "multiple", multiple));
    if (shrink)
        INLAY_TRY(graph_set_attr_int(chain->graph, node, "shrink_only", 1));
    INLAY_TRY(set_filter(chain, node));
    memset(chain->sides, 0, sizeof chain->sides);
    if (word == NULL && !shrink && multiple == 1) /* with one side only, the other one depends on the picture */
        memcpy(chain->sides, size, sizeof chain->sides);
done:
    return status;
}

static inlay_status letterbox(pipe_chain *chain)
{
    int64_t size[2], fill;
    uint32_t *outputs;
    graph_node *node;
    inlay_status status;

    INLAY_TRY(want_picture(chain));
    INLAY_TRY(size_of(chain, pipe_word(chain), true, size));
    INLAY_TRY(pipe_int(chain, "fill", 114, 0, 255, &fill));
    INLAY_TRY(pipe_node(chain, PIPE_DOMAIN, "Letterbox", &node));
    INLAY_TRY(set_size(chain, node, size));
    INLAY_TRY(graph_set_attr_int(chain->graph, node, "fill", fill));
    INLAY_TRY(set_filter(chain, node));
    memcpy(chain->sides, size, sizeof chain->sides);
    chain->place = pipe_value(chain, "letterbox_place");
    outputs = arena_array(&chain->model->arena, 2, sizeof *outputs);
    if (chain->place == INLAY_NONE || outputs == NULL)
        return no_memory(chain->diag, "for the steps");
    outputs[0] = chain->value;
    outputs[1] = chain->place;
    node->info.outputs = outputs;
    node->info.output_count = 2;
done:
    return status;
}

static inlay_status crop(pipe_chain *chain)
{
    int64_t size[2];
    graph_node *node;
    inlay_status status;

    INLAY_TRY(want_picture(chain));
    INLAY_TRY(size_of(chain, pipe_word(chain), true, size));
    INLAY_TRY(pipe_node(chain, PIPE_DOMAIN, "CropImage", &node));
    INLAY_TRY(set_size(chain, node, size));
    memcpy(chain->sides, size, sizeof chain->sides);
done:
    return status;
}

static inlay_status color(pipe_chain *chain)
{
    static const char *const spaces[] = { "rgb", "bgr", "grey", "ycbcr", "hsv" };
    const char *to = pipe_word(chain), *from = pipe_option(chain, "from");
    bool known[2] = { from == NULL, false };
    graph_node *node;
    inlay_status status;

    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        known[0] |= from != NULL && strcmp(from, spaces[i]) == 0;
        known[1] |= to != NULL && strcmp(to, spaces[i]) == 0;
    }
    if (!known[0] || !known[1])
        return pipe_fail(chain,
                         "expected a colour space: rgb, bgr, grey, ycbcr or hsv; from=SPACE if the source is not rgb");
    INLAY_TRY(want_picture(chain));
    INLAY_TRY(pipe_node(chain, PIPE_DOMAIN, "ConvertColor", &node));
    INLAY_TRY(graph_set_attr_string(chain->graph, node, "from", from != NULL ? from : "rgb"));
    INLAY_TRY(graph_set_attr_string(chain->graph, node, "to", to));
done:
    return status;
}

struct preset {
    const char *name;
    float mean[3], deviation[3];
    uint32_t count;
    float scale;
};
static const struct preset presets[] = {
    { "half", { 0.5f }, { 0.5f }, 1, 1.0f / 255 },
    { "unit", { 0 }, { 1 }, 1, 1.0f / 255 },
    { "imagenet", { 0.485f, 0.456f, 0.406f }, { 0.229f, 0.224f, 0.225f }, 3, 1.0f / 255 },
    { "raw", { 0 }, { 1 }, 1, 1 },
};

/* Parses "0.485/0.456/0.406"; returns the count, 0 after a failure. */
static uint32_t parse_list(const char *text, float out[3])
{
    uint32_t count = 0;
    char *end = NULL;

    for (;; text = end + 1) {
        out[count++] = strtof(text, &end);
        if (end == text || (*end != '\0' && (*end != '/' || count == 3)))
            return 0;
        if (*end == '\0')
            return count;
    }
}

static inlay_status set_floats(pipe_chain *chain, graph_node *node, const char *name, const float *list, uint32_t count)
{
    const inlay_attr_info attribute = { .name = { name, strlen(name) },
                                        .kind = INLAY_ATTR_FLOATS,
                                        .count = count,
                                        .floats = arena_copy(&chain->model->arena, list, count * sizeof *list) };

    return attribute.floats == NULL ? no_memory(chain->diag, "for the steps")
                                    : graph_set_attr(chain->graph, node, &attribute);
}

/* Sets mean, std and scale of a step as attributes. */
static inlay_status set_preset(pipe_chain *chain, graph_node *node)
{
    const char *word = pipe_word(chain), *mean = pipe_option(chain, "mean"), *deviation = pipe_option(chain, "std");
    struct preset preset = presets[0];
    uint32_t counts[2];
    double scale;
    inlay_status status;

    for (size_t i = 0; word != NULL && i <= sizeof presets / sizeof presets[0]; i++) {
        if (i == sizeof presets / sizeof presets[0])
            return pipe_fail(chain, "'%s' is not half, unit, imagenet or raw", word);
        if (strcmp(word, presets[i].name) == 0) {
            preset = presets[i];
            break;
        }
    }
    counts[0] = counts[1] = preset.count;
    if ((mean != NULL && (counts[0] = parse_list(mean, preset.mean)) == 0) ||
        (deviation != NULL && (counts[1] = parse_list(deviation, preset.deviation)) == 0))
        return pipe_fail(chain, "mean and std must be one number or three, as in mean=0.485/0.456/0.406");
    for (uint32_t i = 0; i < counts[1]; i++)
        if (preset.deviation[i] == 0)
            return pipe_fail(chain, "std must not be 0");
    if (counts[0] != counts[1] && counts[0] != 1 && counts[1] != 1)
        return pipe_fail(chain, "mean and std must have the same count, or one number");
    INLAY_TRY(pipe_float(chain, "scale", (double)preset.scale, &scale));
    INLAY_TRY(set_floats(chain, node, "mean", preset.mean, counts[0]));
    INLAY_TRY(set_floats(chain, node, "std", preset.deviation, counts[1]));
    INLAY_TRY(graph_set_attr_float(chain->graph, node, "scale", scale));
done:
    return status;
}

static inlay_status normalise(pipe_chain *chain)
{
    graph_node *node;
    inlay_status status;

    INLAY_TRY(want_picture(chain));
    INLAY_TRY(pipe_node(chain, PIPE_DOMAIN, "NormalizeImage", &node));
    INLAY_TRY(set_preset(chain, node));
    INLAY_TRY(graph_set_attr_string(chain->graph, node, "layout", pipe_target_is_nhwc(chain) ? "nhwc" : "nchw"));
    if (pipe_target_rank(chain) == 3)
        INLAY_TRY(graph_set_attr_int(chain->graph, node, "batch", 0));
    chain->kind = PIPE_NUMBERS;
done:
    return status;
}

static inlay_status image(pipe_chain *chain)
{
    graph_node *node;
    inlay_status status;

    if (chain->kind != PIPE_NUMBERS)
        return pipe_fail(chain, "it needs planes of numbers");
    INLAY_TRY(pipe_node(chain, PIPE_DOMAIN, "ImageFromPlanes", &node));
    INLAY_TRY(set_preset(chain, node));
    INLAY_TRY(graph_set_attr_string(chain->graph, node, "layout", pipe_target_is_nhwc(chain) ? "nhwc" : "nchw"));
    chain->kind = PIPE_PICTURE;
done:
    return status;
}

static inlay_status encode(pipe_chain *chain)
{
    static const char *const formats[] = { "png", "jpg", "webp", "bmp", "ppm" };
    const char *format = pipe_word(chain);
    bool known = format == NULL;
    graph_node *node;
    inlay_status status;

    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        known |= format != NULL && strcmp(format, formats[i]) == 0;
    if (!known)
        return pipe_fail(chain, "'%s' is not png, jpg, webp, bmp or ppm", format);
    if (chain->kind != PIPE_PICTURE)
        return pipe_fail(chain, "it needs a picture: put image before it");
    INLAY_TRY(pipe_node(chain, PIPE_EXTENSIONS, "EncodeImage", &node));
    INLAY_TRY(graph_set_attr_string(chain->graph, node, "format", format != NULL ? format : "png"));
    INLAY_TRY(graph_set_attr_string(chain->graph, node, "color_space", "rgb"));
    INLAY_TRY(pipe_output(chain, chain->value, INLAY_UINT8, 1));
    chain->kind = PIPE_DONE;
done:
    return status;
}

const pipe_step pipe_picture_steps[] = {
    { "decode", "pixels", true, false, decode },
    { "resize", "resized", true, true, resize },
    { "letterbox", "framed", true, false, letterbox },
    { "crop", "cropped", true, true, crop },
    { "color", "coloured", true, true, color },
    { "normalise", "normalised", true, false, normalise },
    { "image", "picture", false, true, image },
    { "encode", "encoded", false, true, encode },
    { 0 },
};
