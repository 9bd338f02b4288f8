#include "texts/model/pixels.h"
#include "base/json_text.h"
#include "base/memory.h"
#include "prepost/image/resample.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SIDE = 4096, MOST_TILES = 256, MOST_PIXELS = 1 << 25, MOST_RATIO = 200, PARTS = 16 };

static const char FILE_NAME[] = "preprocessor_config.json";

static inlay_status refuse(inlay_diag *diag, const char *name, const char *why)
{
    return inlay_fail(diag, INLAY_UNSUPPORTED, "%s: %.80s %s", FILE_NAME, name, why);
}

/* A side of an image: a number, or a member of an object. 0: there is none. */
static inlay_status read_side(const json_t *value, const char *name, int64_t *out, inlay_diag *diag)
{
    *out = 0;
    if (value == NULL || json_is_null(value))
        return INLAY_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > MOST_SIDE)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: %s is not a whole number from 1 to %d", FILE_NAME, name,
                          MOST_SIDE);
    *out = json_integer_value(value);
    return INLAY_OK;
}

/* The kinds of image processors. */
typedef enum processor { PROCESSOR_CLIP, PROCESSOR_SQUARE, PROCESSOR_TILES, PROCESSOR_GRID } processor;

static inlay_status find_processor(const json_t *config, processor *out, inlay_diag *diag)
{
    static const struct {
        const char *name;
        processor kind;
    } rows[] = { { "CLIPImageProcessor", PROCESSOR_CLIP },     { "CLIPFeatureExtractor", PROCESSOR_CLIP },
                 { "SiglipImageProcessor", PROCESSOR_SQUARE }, { "LlavaOnevisionImageProcessor", PROCESSOR_SQUARE },
                 { "Gemma3ImageProcessor", PROCESSOR_SQUARE }, { "Idefics3ImageProcessor", PROCESSOR_TILES },
                 { "SmolVLMImageProcessor", PROCESSOR_TILES }, { "Qwen2VLImageProcessor", PROCESSOR_GRID } };
    const char *name = json_text_of(config, "image_processor_type");
    size_t bytes;

    if (name[0] == '\0')
        name = json_text_of(config, "feature_extractor_type");
    bytes = strlen(name);
    if (bytes > 4 && strcmp(name + bytes - 4, "Fast") == 0)
        bytes -= 4;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strlen(rows[i].name) == bytes && memcmp(rows[i].name, name, bytes) == 0) {
            *out = rows[i].kind;
            return INLAY_OK;
        }
    return inlay_fail(diag, INLAY_UNSUPPORTED,
                      "%s: image_processor_type '%.60s' is not supported; those of CLIP, SigLIP, LLaVA-OneVision, "
                      "Gemma 3, Idefics3, SmolVLM and Qwen2-VL are",
                      FILE_NAME, name);
}

static bool is_on(const json_t *config, const char *name, bool otherwise)
{
    const json_t *value = json_object_get(config, name);

    return value == NULL || json_is_null(value) ? otherwise : json_is_true(value);
}

/* A member, or another name of it: a whole number from 1 to `most`. otherwise: if there is none. */
static inlay_status read_count(const json_t *value, const char *name, int64_t otherwise, int64_t most, int64_t *out,
                               inlay_diag *diag)
{
    *out = value == NULL || json_is_null(value) ? otherwise : json_integer_value(value);
    if (*out >= 1 && *out <= most)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: %s is not a whole number from 1 to %lld", FILE_NAME, name,
                      (long long)most);
}

/* The sizes of Qwen2-VL: `size` has pixels of the whole image, or min_pixels and max_pixels. */
static inlay_status read_grid(const json_t *config, pixel_form *form, inlay_diag *diag)
{
    const json_t *size = json_object_get(config, "size"), *least = json_object_get(config, "min_pixels"),
                 *most = json_object_get(config, "max_pixels");
    inlay_status status;

    least = json_is_integer(least) ? least : json_object_get(size, "shortest_edge");
    most = json_is_integer(most) ? most : json_object_get(size, "longest_edge");
    INLAY_TRY(
        read_count(json_object_get(config, "patch_size"), "patch_size", 14, MOST_SIDE / PARTS, &form->patch, diag));
    INLAY_TRY(read_count(json_object_get(config, "merge_size"), "merge_size", 2, PARTS, &form->merged, diag));
    INLAY_TRY(read_count(json_object_get(config, "temporal_patch_size"), "temporal_patch_size", 2, PARTS, &form->frames,
                         diag));
    INLAY_TRY(read_count(least, "min_pixels", 56 * 56, MOST_PIXELS, &form->least, diag));
    INLAY_TRY(read_count(most, "max_pixels", 28 * 28 * 1280, MOST_PIXELS, &form->most, diag));
    if (form->least > form->most)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: min_pixels is larger than max_pixels", FILE_NAME);
done:
    return status;
}

static inlay_status read_sizes(const json_t *config, processor kind, pixel_form *form, inlay_diag *diag)
{
    const json_t *size = json_object_get(config, "size"), *crop = json_object_get(config, "crop_size");
    const bool is_number = json_is_integer(size), crops = is_on(config, "do_center_crop", kind == PROCESSOR_CLIP);
    const json_t *square = json_object_get(json_object_get(config, "max_image_size"), "longest_edge");
    inlay_status status;

    if (kind == PROCESSOR_GRID)
        return read_grid(config, form, diag);
    if (kind == PROCESSOR_TILES) {
        INLAY_TRY(read_side(json_object_get(size, "longest_edge"), "size.longest_edge", &form->edge, diag));
        INLAY_TRY(read_side(square, "max_image_size.longest_edge", &form->height, diag));
        form->width = form->height;
        if (form->edge == 0 || form->height == 0)
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                                "%s: it lacks size.longest_edge or max_image_size.longest_edge", FILE_NAME);
        else if (crops)
            status = refuse(diag, "do_center_crop", "is not supported with tiles");
        goto done;
    }
    INLAY_TRY(
        read_side(is_number ? size : json_object_get(size, "shortest_edge"), "size.shortest_edge", &form->edge, diag));
    INLAY_TRY(read_side(json_object_get(size, "height"), "size.height", &form->height, diag));
    INLAY_TRY(read_side(json_object_get(size, "width"), "size.width", &form->width, diag));
    if (form->edge == 0 && (form->height == 0 || form->width == 0))
        status = refuse(diag, "size", "has neither shortest_edge nor height and width, which are supported");
    if (status != INLAY_OK || !crops)
        goto done;
    INLAY_TRY(read_side(json_is_integer(crop) ? crop : json_object_get(crop, "height"), "crop_size.height",
                        &form->crop_height, diag));
    INLAY_TRY(read_side(json_is_integer(crop) ? crop : json_object_get(crop, "width"), "crop_size.width",
                        &form->crop_width, diag));
    if (form->crop_height == 0 || form->crop_width == 0)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: do_center_crop needs crop_size", FILE_NAME);
    else if (form->edge > 0 ? form->crop_height > form->edge || form->crop_width > form->edge
                            : form->crop_height > form->height || form->crop_width > form->width)
        status = refuse(diag, "crop_size", "is larger than size, which is not supported");
done:
    return status;
}

/* Three numbers, or one for all colours. */
static inlay_status read_colours(const json_t *value, const char *name, bool positive, float out[3], inlay_diag *diag)
{
    for (size_t i = 0; i < 3; i++) {
        const json_t *one = json_is_array(value) ? json_array_get(value, i) : value;

        out[i] = (float)json_number_value(one);
        if (!json_is_number(one) || (json_is_array(value) && json_array_size(value) != 3) || !isfinite(out[i]) ||
            (positive && out[i] <= 0))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: %s has no number for each of the three colours%s",
                              FILE_NAME, name, positive ? ", above 0" : "");
    }
    return INLAY_OK;
}

static inlay_status read_numbers(const json_t *config, pixel_form *form, inlay_diag *diag)
{
    const json_t *scale = json_object_get(config, "rescale_factor");
    inlay_status status = INLAY_OK;

    form->scale = 1;
    if (is_on(config, "do_rescale", true))
        form->scale = scale == NULL ? 1.0F / 255 : (float)json_number_value(scale);
    if (!(form->scale > 0 && form->scale <= 1))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: rescale_factor is not a number from 0 to 1", FILE_NAME);
    for (size_t i = 0; i < 3; i++)
        form->deviation[i] = 1;
    if (!is_on(config, "do_normalize", true))
        return INLAY_OK;
    INLAY_TRY(read_colours(json_object_get(config, "image_mean"), "image_mean", false, form->mean, diag));
    INLAY_TRY(read_colours(json_object_get(config, "image_std"), "image_std", true, form->deviation, diag));
done:
    return status;
}

/* Steps that are not known would change the image. LLaVA-OneVision pads, and Idefics3, for tiles of several images. */
static inlay_status check_steps(const json_t *config, processor kind, inlay_diag *diag)
{
    static const char *const known[] = { "do_resize",      "do_rescale",     "do_normalize",
                                         "do_center_crop", "do_convert_rgb", "do_image_splitting" };
    const char *name;
    const json_t *value;

    json_object_foreach((json_t *)(uintptr_t)config, name, value) {
        bool is_known = strncmp(name, "do_", 3) != 0 || !json_is_true(value) ||
                        (strcmp(name, "do_pad") == 0 && kind != PROCESSOR_CLIP && kind != PROCESSOR_GRID);

        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            is_known |= strcmp(name, known[i]) == 0;
        if (!is_known)
            return refuse(diag, name, "is not supported; remove it if the image stays the same without it");
    }
    return INLAY_OK;
}

/* The filter, by its number in Pillow. */
static inlay_status find_filter(const json_t *config, processor kind, int *out, inlay_diag *diag)
{
    static const int filters[] = { RESAMPLE_NEAREST, RESAMPLE_LANCZOS, RESAMPLE_BILINEAR,
                                   RESAMPLE_BICUBIC, RESAMPLE_BOX,     RESAMPLE_HAMMING };
    const json_t *value = json_object_get(config, "resample");
    const json_int_t number = value != NULL             ? json_integer_value(value)
                              : kind == PROCESSOR_TILES ? 1 /* Lanczos */
                                                        : 3 /* bicubic */;

    if ((value != NULL && !json_is_integer(value)) || number < 0 || number >= (json_int_t)KIT_COUNT(filters))
        return refuse(diag, "resample", "is not a filter of Pillow, 0 to 5");
    *out = filters[number];
    return INLAY_OK;
}

inlay_status pixel_form_read(const char *folder, pixel_form *out_form, inlay_diag *diag)
{
    char path[PATH_MAX];
    processor kind = PROCESSOR_CLIP;
    json_t *config;
    inlay_status status;

    *out_form = (pixel_form){ .filter = 0 };
    (void)snprintf(path, sizeof path, "%.4000s/%s", folder, FILE_NAME);
    config = json_load_file(path, 0, NULL);
    if (!json_is_object(config)) {
        json_decref(config);
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "it has no %s, or a damaged one", FILE_NAME);
    }
    INLAY_TRY(find_processor(config, &kind, diag));
    INLAY_TRY(check_steps(config, kind, diag));
    INLAY_TRY(find_filter(config, kind, &out_form->filter, diag));
    INLAY_TRY(read_sizes(config, kind, out_form, diag));
    INLAY_TRY(read_numbers(config, out_form, diag));
    out_form->resizes = is_on(config, "do_resize", true);
    out_form->tiles = kind == PROCESSOR_TILES;
    out_form->splits = out_form->tiles && is_on(config, "do_image_splitting", true);
    if (!out_form->resizes && !out_form->tiles)
        status = refuse(diag, "do_resize", "is false, which is not supported");
done:
    json_decref(config);
    return status;
}

/* An image of bytes, [height, width, 3]. */
struct picture {
    uint8_t *pixels; /* owned */
    int64_t height, width;
};

static inlay_status resize(const pixel_form *form, const struct picture *from, int64_t height, int64_t width,
                           struct picture *out, inlay_diag *diag)
{
    const kit_call call = { .diag = diag };
    struct resample *resample = resample_create(form->filter, from->height, from->width, height, width, 3);
    void *scratch = resample != NULL ? malloc(resample_scratch(resample, INLAY_UINT8) + 1) : NULL;
    inlay_status status = INLAY_OK;

    *out = (struct picture){ malloc((size_t)(height * width * 3)), height, width };
    if (scratch == NULL || out->pixels == NULL)
        status = no_memory(diag, "to resize an image");
    else
        status = resample_run(resample, &call, INLAY_UINT8, from->pixels, out->pixels, width, scratch);
    free(scratch);
    free(resample);
    return status;
}

/* One side of an image whose other one is a given length; sides are cut as Python's int() does. */
static int64_t keep_ratio(int64_t length, int64_t of, int64_t other)
{
    const int64_t side = (int64_t)((double)length * (double)of / (double)other);

    return side > 0 ? side : 1;
}

/* The size of the resized image. */
static void find_size(const pixel_form *form, const struct picture *image, int64_t *height, int64_t *width)
{
    const bool is_wide = image->width >= image->height;

    if (form->tiles) { /* the longer side; the other one becomes even */
        const double ratio = (double)image->width / (double)image->height;
        const double other = is_wide ? (double)form->edge / ratio : (double)form->edge * ratio;
        int64_t side = (int64_t)other;

        side += side % 2;
        side = side > 0 ? side : 1;
        *height = is_wide ? side : form->edge;
        *width = is_wide ? form->edge : side;
    } else if (form->edge > 0) {
        *height = is_wide ? form->edge : keep_ratio(form->edge, image->height, image->width);
        *width = is_wide ? keep_ratio(form->edge, image->width, image->height) : form->edge;
    } else {
        *height = form->height;
        *width = form->width;
    }
}

/* The sides of a grid: multiples of a square, by Qwen2-VL's rules, with their rounding to even numbers. */
static inlay_status find_grid_size(const pixel_form *form, const struct picture *image, int64_t *height, int64_t *width,
                                   inlay_diag *diag)
{
    const double step = (double)(form->patch * form->merged), tall = (double)image->height, wide = (double)image->width;
    double h = nearbyint(tall / step) * step, w = nearbyint(wide / step) * step;

    if (fmax(tall, wide) / fmin(tall, wide) > MOST_RATIO)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "one of its sides has more than %d times the length of the other",
                          MOST_RATIO);
    if (h * w > (double)form->most) {
        const double shrink = sqrt(tall * wide / (double)form->most);

        h = fmax(step, floor(tall / shrink / step) * step);
        w = fmax(step, floor(wide / shrink / step) * step);
    } else if (h * w < (double)form->least) {
        const double grow = sqrt((double)form->least / (tall * wide));

        h = ceil(tall * grow / step) * step;
        w = ceil(wide * grow / step) * step;
    }
    *height = (int64_t)h;
    *width = (int64_t)w;
    return INLAY_OK;
}

static int64_t round_up(int64_t value, int64_t step)
{
    return (value + step - 1) / step * step;
}

/* The size of the image that squares are cut from: multiples of their side. */
static void find_tiled_size(const pixel_form *form, const struct picture *image, int64_t *height, int64_t *width)
{
    const int64_t side = form->height;
    const double ratio = (double)image->width / (double)image->height;

    if (image->width >= image->height) {
        *width = round_up(image->width, side);
        *height = round_up((int64_t)((double)*width / ratio), side);
    } else {
        *height = round_up(image->height, side);
        *width = round_up((int64_t)((double)*height * ratio), side);
    }
}

/* Adds a part of an image as normalized planes, those of index `at`. */
static void add_planes(const pixel_form *form, const struct picture *image, int64_t top, int64_t left, int64_t at,
                       pixel_planes *planes)
{
    const int64_t height = planes->height, width = planes->width;
    float *out = planes->data + at * 3 * height * width;

    for (int64_t colour = 0; colour < 3; colour++)
        for (int64_t y = 0; y < height; y++) {
            const uint8_t *row = image->pixels + ((top + y) * image->width + left) * 3 + colour;

            for (int64_t x = 0; x < width; x++)
                *out++ = ((float)row[3 * x] * form->scale - form->mean[colour]) / form->deviation[colour];
        }
}

static inlay_status allocate(pixel_planes *planes, inlay_diag *diag)
{
    planes->data = malloc((size_t)(planes->count * 3 * planes->height * planes->width) * sizeof *planes->data);
    return planes->data != NULL ? INLAY_OK : no_memory(diag, "for an image");
}

/* Squares of the image, in the order of their rows, and the whole of it in one. */
static inlay_status prepare_tiles(const pixel_form *form, const struct picture *image, pixel_planes *planes,
                                  inlay_diag *diag)
{
    const int64_t side = form->height;
    struct picture large = { NULL, 0, 0 }, whole = { NULL, 0, 0 };
    const struct picture *source = image;
    int64_t height, width;
    inlay_status status;

    if (form->splits) {
        find_tiled_size(form, image, &height, &width);
        if (height / side * (width / side) > MOST_TILES)
            return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "it has more than %d squares", MOST_TILES);
        INLAY_TRY(resize(form, image, height, width, &large, diag));
        source = &large;
        if (height > side || width > side) {
            planes->rows = height / side;
            planes->columns = width / side;
        }
    }
    planes->count = planes->rows * planes->columns + 1;
    planes->height = planes->width = side;
    INLAY_TRY(allocate(planes, diag));
    for (int64_t i = 0; i + 1 < planes->count; i++)
        add_planes(form, source, i / planes->columns * side, i % planes->columns * side, i, planes);
    INLAY_TRY(resize(form, source, side, side, &whole, diag));
    add_planes(form, &whole, 0, 0, planes->count - 1, planes);
done:
    free(large.pixels);
    free(whole.pixels);
    return status;
}

/* A row for each patch, the patches of a square together: its colours, their frames, which are equal, and pixels. */
static inlay_status prepare_grid(const pixel_form *form, const struct picture *image, pixel_planes *planes,
                                 inlay_diag *diag)
{
    const int64_t patch = form->patch, merged = form->merged, squares = image->width / (patch * merged);
    inlay_status status;

    planes->rows = image->height / patch;
    planes->columns = image->width / patch;
    planes->count = planes->rows * planes->columns;
    planes->width = 3 * form->frames * patch * patch;
    planes->data = malloc((size_t)(planes->count * planes->width) * sizeof *planes->data);
    status = planes->data != NULL ? INLAY_OK : no_memory(diag, "for an image");
    for (int64_t i = 0; status == INLAY_OK && i < planes->count; i++) {
        const int64_t square = i / (merged * merged), place = i % (merged * merged);
        const int64_t top = (square / squares * merged + place / merged) * patch,
                      left = (square % squares * merged + place % merged) * patch;
        float *out = planes->data + i * planes->width;

        for (int64_t colour = 0; colour < 3; colour++)
            for (int64_t frame = 0; frame < form->frames; frame++)
                for (int64_t k = 0; k < patch * patch; k++)
                    *out++ = ((float)image->pixels[((top + k / patch) * image->width + left + k % patch) * 3 + colour] *
                                  form->scale -
                              form->mean[colour]) /
                             form->deviation[colour];
    }
    return status;
}

inlay_status pixels_prepare(const pixel_form *form, const uint8_t *pixels, int64_t height, int64_t width,
                            pixel_planes *out_planes, inlay_diag *diag)
{
    const struct picture given = { (uint8_t *)(uintptr_t)pixels, height, width };
    struct picture resized = { NULL, 0, 0 };
    int64_t new_height = 0, new_width = 0;
    inlay_status status = INLAY_OK;

    *out_planes = (pixel_planes){ .data = NULL };
    if (form->patch > 0) {
        INLAY_TRY(find_grid_size(form, &given, &new_height, &new_width, diag));
        INLAY_TRY(resize(form, &given, new_height, new_width, &resized, diag));
        status = prepare_grid(form, &resized, out_planes, diag);
        goto done;
    }
    if (form->resizes) {
        find_size(form, &given, &new_height, &new_width);
        if (new_height > MOST_SIDE * 16 || new_width > MOST_SIDE * 16)
            return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "one of its sides is too long for the other one");
        INLAY_TRY(resize(form, &given, new_height, new_width, &resized, diag));
    }
    if (form->tiles) {
        status = prepare_tiles(form, form->resizes ? &resized : &given, out_planes, diag);
        goto done;
    }
    out_planes->count = 1;
    out_planes->height = form->crop_height > 0 ? form->crop_height : resized.height;
    out_planes->width = form->crop_width > 0 ? form->crop_width : resized.width;
    INLAY_TRY(allocate(out_planes, diag));
    add_planes(form, &resized, (resized.height - out_planes->height) / 2, (resized.width - out_planes->width) / 2, 0,
               out_planes);
done:
    free(resized.pixels);
    return status;
}

/* A value of the graph, of bytes with an open size of `rank` axes. */
static void write_value(struct wire *out, uint32_t field, const char *name, int rank)
{
    const wire_mark value = wire_begin(out, field);
    wire_mark type, tensor, shape;

    wire_text(out, 1, name);
    type = wire_begin(out, 2);
    tensor = wire_begin(out, 1);
    wire_int(out, 1, INLAY_UINT8);
    shape = wire_begin(out, 2);
    for (int i = 0; i < rank; i++)
        wire_end(out, wire_begin(out, 1));
    wire_end(out, shape);
    wire_end(out, tensor);
    wire_end(out, type);
    wire_end(out, value);
}

inlay_status pixel_decoder_open(pixel_decoder *decoder, const inlay_options *options, inlay_diag *diag)
{
    enum { FORMAT = 10, OPSET = 20, INPUT = 11, OUTPUT = 12 };
    struct wire *model = &decoder->model;
    wire_mark graph, part;
    inlay_status status;

    *decoder = (pixel_decoder){ .session = NULL };
    wire_int(model, 1, FORMAT);
    part = wire_begin(model, 8);
    wire_text(model, 1, "");
    wire_int(model, 2, OPSET);
    wire_end(model, part);
    graph = wire_begin(model, 7);
    part = wire_begin(model, 1);
    wire_text(model, 1, "file");
    wire_text(model, 2, "pixels");
    wire_text(model, 4, "ImageDecoder");
    wire_end(model, part);
    wire_text(model, 2, "image");
    write_value(model, INPUT, "file", 1);
    write_value(model, OUTPUT, "pixels", 3);
    wire_end(model, graph);
    if (model->failed)
        return no_memory(diag, "for the decoder of images");
    status = inlay_session_create_from_bytes(model->bytes, model->count, options, &decoder->session, diag);
    return status == INLAY_OK ? inlay_context_create(decoder->session, &decoder->context, diag) : status;
}

void pixel_decoder_close(pixel_decoder *decoder)
{
    inlay_context_destroy(decoder->context);
    inlay_session_destroy(decoder->session);
    wire_deinit(&decoder->model);
}
