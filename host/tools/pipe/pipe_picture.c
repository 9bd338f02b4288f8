/* pipe_picture.c - the steps for pictures. */
#include "pipe/pipe_parts.h"
#include <stdlib.h>
#include <string.h>

/* A chain that has not begun takes pixels: [height, width, 3]. */
static inlay_status want_picture(pipe_chain *c)
{
    static const int64_t dims[3] = { -1, -1, 3 };
    static const char *const names[3] = { "image_height", "image_width", NULL };
    inlay_status status;

    if (c->kind == PIPE_PICTURE)
        return INLAY_OK;
    if (c->kind != PIPE_NOTHING)
        return pipe_fail(c, "it takes a picture: put decode before it, and normalise behind it");
    status = pipe_input(c, "image", INLAY_UINT8, 3, dims, names);
    c->kind = PIPE_PICTURE;
    return status;
}

static inlay_status decode(pipe_chain *c)
{
    static const int64_t dims[1] = { -1 };
    static const char *const names[1] = { "file_bytes" };
    const char *order = pipe_word(c);
    graph_node *n;
    inlay_status status;

    if (c->kind != PIPE_NOTHING)
        return pipe_fail(c, "it is the first step");
    if (order != NULL && strcmp(order, "rgb") != 0 && strcmp(order, "bgr") != 0 && strcmp(order, "grey") != 0)
        return pipe_fail(c, "'%s' is none of rgb, bgr, grey", order);
    INLAY_TRY(pipe_input(c, "file", INLAY_UINT8, 1, dims, names));
    INLAY_TRY(pipe_node(c, PIPE_EXTENSIONS, "DecodeImage", &n));
    INLAY_TRY(graph_set_attr_string(c->g, n, "color_space", order != NULL ? order : "rgb"));
    c->kind = PIPE_PICTURE;
done:
    return status;
}

/* The sides of the model's input, where they are declared; 0 otherwise. */
static void target_sides(const pipe_chain *c, int64_t out[2])
{
    const uint32_t rank = pipe_target_rank(c);
    const uint32_t at = rank == INLAY_RANK_UNKNOWN || rank < 3 ? 0 : rank - (pipe_target_is_nhwc(c) ? 3 : 2);

    for (uint32_t i = 0; i < 2; i++) {
        const int64_t side = rank == INLAY_RANK_UNKNOWN || rank < 3 ? -1 : pipe_target_size(c, at + i);

        out[i] = side > 0 ? side : 0;
    }
}

/* The size that a step names, or else that of the model's input. both: neither side may be open. */
static inlay_status size_of(pipe_chain *c, const char *word, bool both, int64_t out[2])
{
    if (word != NULL) {
        const inlay_status status = pipe_size(c, word, out);

        if (both && status == INLAY_OK && out[1] == 0)
            out[1] = out[0];
        return status;
    }
    target_sides(c, out);
    if (both ? out[0] == 0 || out[1] == 0 : out[0] == 0 && out[1] == 0)
        return pipe_fail(c, "the model does not say the size of its input: name it, as in %s:224x224", c->words[0]);
    return INLAY_OK;
}

static inlay_status set_size(pipe_chain *c, graph_node *n, const int64_t size[2])
{
    const inlay_status status = graph_set_attr_int(c->g, n, "height", size[0]);

    return status == INLAY_OK ? graph_set_attr_int(c->g, n, "width", size[1]) : status;
}

static inlay_status set_filter(pipe_chain *c, graph_node *n)
{
    static const char *const filters[] = { "nearest", "box", "bilinear", "hamming", "bicubic", "lanczos" };
    const char *filter = pipe_option(c, "filter");

    for (size_t i = 0; filter != NULL && i < sizeof filters / sizeof filters[0]; i++)
        if (strcmp(filter, filters[i]) == 0)
            return graph_set_attr_string(c->g, n, "filter", filter);
    return filter == NULL
               ? INLAY_OK
               : pipe_fail(c, "filter=%s is none of nearest, box, bilinear, hamming, bicubic, lanczos", filter);
}

static inlay_status resize(pipe_chain *c)
{
    const char *inside = pipe_option(c, "inside"), *cover = pipe_option(c, "cover");
    const char *word = inside != NULL ? inside : cover;
    int64_t size[2], multiple;
    graph_node *n;
    const bool shrink = pipe_flag(c, "shrink");
    inlay_status status;

    if (inside != NULL && cover != NULL)
        return pipe_fail(c, "inside and cover exclude each other");
    INLAY_TRY(want_picture(c));
    INLAY_TRY(size_of(c, word != NULL ? word : pipe_word(c), word != NULL, size));
    INLAY_TRY(pipe_int(c, "multiple", 1, 1, 65536, &multiple));
    INLAY_TRY(pipe_node(c, PIPE_DOMAIN, "ResizeImage", &n));
    INLAY_TRY(set_size(c, n, size));
    if (word != NULL)
        INLAY_TRY(graph_set_attr_string(c->g, n, "fit", inside != NULL ? "inside" : "cover"));
    if (multiple > 1)
        INLAY_TRY(graph_set_attr_int(c->g, n, "multiple", multiple));
    if (shrink)
        INLAY_TRY(graph_set_attr_int(c->g, n, "shrink_only", 1));
    INLAY_TRY(set_filter(c, n));
done:
    return status;
}

static inlay_status letterbox(pipe_chain *c)
{
    int64_t size[2], fill;
    uint32_t *outputs;
    graph_node *n;
    inlay_status status;

    INLAY_TRY(want_picture(c));
    INLAY_TRY(size_of(c, pipe_word(c), true, size));
    INLAY_TRY(pipe_int(c, "fill", 114, 0, 255, &fill));
    INLAY_TRY(pipe_node(c, PIPE_DOMAIN, "Letterbox", &n));
    INLAY_TRY(set_size(c, n, size));
    INLAY_TRY(graph_set_attr_int(c->g, n, "fill", fill));
    INLAY_TRY(set_filter(c, n));
    c->place = pipe_value(c, "letterbox_place");
    outputs = arena_array(&c->model->arena, 2, sizeof *outputs);
    if (c->place == INLAY_NONE || outputs == NULL)
        return no_memory(c->diag, "for the steps");
    outputs[0] = c->value;
    outputs[1] = c->place;
    n->info.outputs = outputs;
    n->info.output_count = 2;
done:
    return status;
}

static inlay_status crop(pipe_chain *c)
{
    int64_t size[2];
    graph_node *n;
    inlay_status status;

    INLAY_TRY(want_picture(c));
    INLAY_TRY(size_of(c, pipe_word(c), true, size));
    INLAY_TRY(pipe_node(c, PIPE_DOMAIN, "CropImage", &n));
    INLAY_TRY(set_size(c, n, size));
done:
    return status;
}

static inlay_status color(pipe_chain *c)
{
    static const char *const spaces[] = { "rgb", "bgr", "grey", "ycbcr", "hsv" };
    const char *to = pipe_word(c), *from = pipe_option(c, "from");
    bool known[2] = { from == NULL, false };
    graph_node *n;
    inlay_status status;

    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        known[0] |= from != NULL && strcmp(from, spaces[i]) == 0;
        known[1] |= to != NULL && strcmp(to, spaces[i]) == 0;
    }
    if (!known[0] || !known[1])
        return pipe_fail(c, "name a colour space: rgb, bgr, grey, ycbcr, hsv; from=SPACE where it is not rgb");
    INLAY_TRY(want_picture(c));
    INLAY_TRY(pipe_node(c, PIPE_DOMAIN, "ConvertColor", &n));
    INLAY_TRY(graph_set_attr_string(c->g, n, "from", from != NULL ? from : "rgb"));
    INLAY_TRY(graph_set_attr_string(c->g, n, "to", to));
done:
    return status;
}

/* ------------------------------------------------------------------ numbers */

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

/* "0.485/0.456/0.406"; 0 after a failure. */
static uint32_t parse_list(const char *text, float out[3])
{
    uint32_t n = 0;
    char *end = NULL;

    for (;; text = end + 1) {
        out[n++] = strtof(text, &end);
        if (end == text || (*end != '\0' && (*end != '/' || n == 3)))
            return 0;
        if (*end == '\0')
            return n;
    }
}

static inlay_status set_floats(pipe_chain *c, graph_node *n, const char *name, const float *list, uint32_t count)
{
    const inlay_attr_info a = { .name = { name, strlen(name) },
                                .kind = INLAY_ATTR_FLOATS,
                                .count = count,
                                .floats = arena_copy(&c->model->arena, list, count * sizeof *list) };

    return a.floats == NULL ? no_memory(c->diag, "for the steps") : graph_set_attr(c->g, n, &a);
}

/* mean, std and scale of a step, as attributes. */
static inlay_status set_preset(pipe_chain *c, graph_node *n)
{
    const char *word = pipe_word(c), *mean = pipe_option(c, "mean"), *deviation = pipe_option(c, "std");
    struct preset p = presets[0];
    uint32_t counts[2];
    double scale;
    inlay_status status;

    for (size_t i = 0; word != NULL && i <= sizeof presets / sizeof presets[0]; i++) {
        if (i == sizeof presets / sizeof presets[0])
            return pipe_fail(c, "'%s' is none of half, unit, imagenet, raw", word);
        if (strcmp(word, presets[i].name) == 0) {
            p = presets[i];
            break;
        }
    }
    counts[0] = counts[1] = p.count;
    if ((mean != NULL && (counts[0] = parse_list(mean, p.mean)) == 0) ||
        (deviation != NULL && (counts[1] = parse_list(deviation, p.deviation)) == 0))
        return pipe_fail(c, "mean and std are one number or three, as in mean=0.485/0.456/0.406");
    for (uint32_t i = 0; i < counts[1]; i++)
        if (p.deviation[i] == 0)
            return pipe_fail(c, "std has a 0");
    if (counts[0] != counts[1] && counts[0] != 1 && counts[1] != 1)
        return pipe_fail(c, "mean and std are one number or three each");
    INLAY_TRY(pipe_float(c, "scale", (double)p.scale, &scale));
    INLAY_TRY(set_floats(c, n, "mean", p.mean, counts[0]));
    INLAY_TRY(set_floats(c, n, "std", p.deviation, counts[1]));
    INLAY_TRY(graph_set_attr_float(c->g, n, "scale", scale));
done:
    return status;
}

static inlay_status normalise(pipe_chain *c)
{
    graph_node *n;
    inlay_status status;

    INLAY_TRY(want_picture(c));
    INLAY_TRY(pipe_node(c, PIPE_DOMAIN, "NormalizeImage", &n));
    INLAY_TRY(set_preset(c, n));
    INLAY_TRY(graph_set_attr_string(c->g, n, "layout", pipe_target_is_nhwc(c) ? "nhwc" : "nchw"));
    if (pipe_target_rank(c) == 3)
        INLAY_TRY(graph_set_attr_int(c->g, n, "batch", 0));
    c->kind = PIPE_NUMBERS;
done:
    return status;
}

static inlay_status image(pipe_chain *c)
{
    graph_node *n;
    inlay_status status;

    if (c->kind != PIPE_NUMBERS)
        return pipe_fail(c, "it takes planes of numbers");
    INLAY_TRY(pipe_node(c, PIPE_DOMAIN, "ImageFromPlanes", &n));
    INLAY_TRY(set_preset(c, n));
    INLAY_TRY(graph_set_attr_string(c->g, n, "layout", pipe_target_is_nhwc(c) ? "nhwc" : "nchw"));
    c->kind = PIPE_PICTURE;
done:
    return status;
}

static inlay_status encode(pipe_chain *c)
{
    static const char *const formats[] = { "png", "jpg", "webp", "bmp", "ppm" };
    const char *format = pipe_word(c);
    bool known = format == NULL;
    graph_node *n;
    inlay_status status;

    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        known |= format != NULL && strcmp(format, formats[i]) == 0;
    if (!known)
        return pipe_fail(c, "'%s' is none of png, jpg, webp, bmp, ppm", format);
    if (c->kind != PIPE_PICTURE)
        return pipe_fail(c, "it takes a picture: put image before it");
    INLAY_TRY(pipe_node(c, PIPE_EXTENSIONS, "EncodeImage", &n));
    INLAY_TRY(graph_set_attr_string(c->g, n, "format", format != NULL ? format : "png"));
    INLAY_TRY(graph_set_attr_string(c->g, n, "color_space", "rgb"));
    INLAY_TRY(pipe_output(c, c->value, INLAY_UINT8, 1));
    c->kind = PIPE_DONE;
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
