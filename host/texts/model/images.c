#include "texts/model/images.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "inlay/text.h"
#include "texts/model/image_folder.h"
#include "texts/model/pixels.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROW_BITS = 20,        /* of the number in the place of a row: its number in the image */
    KEPT_BYTES = 1 << 28, /* of the files and rows of images that no prompt has */
    MOST_TILES = 1 << 10  /* of a side */
};

/* Tokens around the tiles of an image. */
#define TILE_EDGE "<fake_token_around_image>"
#define TILE_WHOLE "<global-img>"

struct encoded_image {
    struct encoded_image *next;
    uint64_t number, used; /* of the images so far; of the uses so far */
    uint32_t references;
    void *file; /* [file_bytes] owned, like rows */
    size_t file_bytes, count;
    float *rows;                    /* [count, width] */
    size_t columns;                 /* of the grid that the rows are of; 0: none */
    size_t tile_rows, tile_columns; /* of the squares whose rows come before those of the whole image; 0: none */
};

/* How the encoder of a published folder is run: on planes of an image instead of its file. */
struct plane_reader {
    pixel_form form;
    pixel_decoder decoder;
    uint32_t pixels, mask, grid, features; /* inputs and the output; mask, grid: INLAY_NONE: it has none */
    uint32_t rank;                         /* of pixels */
};

struct image_encoder {
    inlay_context *context;
    struct plane_reader *planes; /* owned; NULL: the context reads the file of an image */
    uint32_t grid;  /* output, rows and columns; INLAY_NONE: the rows of an image have positions as tokens have */
    uint32_t tiles; /* output, rows and columns; INLAY_NONE: there are none, or as planes say */
    int64_t width;
    const char *begin, *end; /* texts of the tokens around an image, borrowed from the session; "": none */
    bool whole;              /* one run must read all rows of an image */
    bool has_tiles;          /* images have texts around each tile */
    pthread_mutex_t turn;    /* held while the context runs; taken before `lock` */
    pthread_mutex_t lock;    /* of the following, held briefly: the server's network threads free prompts */
    struct encoded_image *first;
    uint64_t images, uses;
};

/* The second output, two whole numbers, if it has that name; INLAY_NONE: it has not. */
static uint32_t find_pair(const inlay_session *session, const char *name)
{
    inlay_io_info info = { .struct_size = sizeof info };

    return inlay_session_output_count(session) == 2 && inlay_session_output(session, 1, &info) == INLAY_OK &&
                   strcmp(info.name, name) == 0 && info.dtype == INLAY_INT64 && info.rank == 1 && info.dims[0] == 2
               ? 1
               : INLAY_NONE;
}

/* A property of the session's model; "": it has none. */
static const char *property(const inlay_session *session, const char *name)
{
    const char *key, *value;

    for (uint32_t i = 0; inlay_session_metadata(session, i, &key, &value) == INLAY_OK; i++)
        if (strcmp(key, name) == 0)
            return value;
    return "";
}

/* Whether the model takes rows of images of this width. */
static inlay_status check_width(const decode_model *model, int64_t width, inlay_diag *diag)
{
    if (model->image_rows == INLAY_NONE || !model->rows.in_parts)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the language model takes no rows of images");
    if (width != model->image_width)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "it is the vision part of another model: its rows have %lld numbers, those of the language "
                          "model %lld",
                          (long long)width, (long long)model->image_width);
    return INLAY_OK;
}

/* Makes an encoder that runs the session. */
static inlay_status create(inlay_session *session, const decode_model *model, image_encoder **out_encoder,
                           inlay_diag *diag)
{
    image_encoder *encoder = calloc(1, sizeof *encoder);
    inlay_status status;

    if (encoder == NULL)
        return no_memory(diag, "for the encoder of images");
    encoder->width = model->image_width;
    encoder->grid = encoder->tiles = INLAY_NONE;
    encoder->begin = encoder->end = "";
    (void)pthread_mutex_init(&encoder->turn, NULL);
    (void)pthread_mutex_init(&encoder->lock, NULL);
    status = inlay_context_create(session, &encoder->context, diag);
    if (status == INLAY_OK) {
        *out_encoder = encoder;
        return INLAY_OK;
    }
    image_encoder_destroy(encoder);
    return status;
}

static bool sees_whole_images(const inlay_session *session)
{
    return strcmp(property(session, "image_rows"), "whole") == 0;
}

inlay_status image_encoder_create(inlay_session *session, const decode_model *model, image_encoder **out_encoder,
                                  inlay_diag *diag)
{
    inlay_io_info in = { .struct_size = sizeof in }, out = { .struct_size = sizeof out };
    const uint32_t grid = find_pair(session, "image_grid"), tiles = find_pair(session, "image_tiles");
    inlay_status status;

    *out_encoder = NULL;
    if (inlay_session_input_count(session) != 1 ||
        inlay_session_output_count(session) != (grid != INLAY_NONE || tiles != INLAY_NONE ? 2u : 1u) ||
        inlay_session_input(session, 0, &in) != INLAY_OK || inlay_session_output(session, 0, &out) != INLAY_OK ||
        in.dtype != INLAY_UINT8 || in.rank != 1 || out.dtype != INLAY_FLOAT || out.rank != 2)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "it is no vision part: it needs one input, the bytes of an image, and one output, "
                          "[rows, width], before image_grid or image_tiles");
    status = check_width(model, out.dims[1], diag);
    if (status != INLAY_OK)
        return status;
    if (sees_whole_images(session) != sees_whole_images(model->session))
        return inlay_fail(
            diag, INLAY_INVALID_ARGUMENT,
            "it is the vision part of another kind of model: one of the two lets the rows of an image see "
            "each other, and the other one does not");
    if ((grid == INLAY_NONE) != (model->image_shifts == INLAY_NONE))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "it is the vision part of another kind of model: one of the two gives the rows of an image "
                          "positions with a row and a column, and the other one does not");
    status = create(session, model, out_encoder, diag);
    if (status != INLAY_OK)
        return status;
    (*out_encoder)->grid = grid;
    (*out_encoder)->tiles = tiles;
    (*out_encoder)->has_tiles = tiles != INLAY_NONE;
    (*out_encoder)->begin = property(session, "image_begin");
    (*out_encoder)->end = property(session, "image_end");
    (*out_encoder)->whole = sees_whole_images(session);
    return INLAY_OK;
}

/* Finds the inputs and the output of the encoder of a published folder, and the width of its rows. */
static inlay_status find_planes(inlay_session *session, bool has_grid, struct plane_reader *planes, int64_t *out_width,
                                inlay_diag *diag)
{
    inlay_io_info info = { .struct_size = sizeof info };

    planes->pixels = inlay_session_find_input(session, "pixel_values");
    planes->mask = inlay_session_find_input(session, "pixel_attention_mask");
    planes->grid = inlay_session_find_input(session, "image_grid_thw");
    if (planes->grid == INLAY_NONE)
        planes->grid = inlay_session_find_input(session, "grid_thw");
    planes->features = inlay_session_find_output(session, "image_features");
    for (uint32_t i = 0; inlay_session_input(session, i, &info) == INLAY_OK; i++) {
        const bool is_mask = i == planes->mask && info.dtype == INLAY_BOOL && info.rank == 4;
        const bool is_grid = i == planes->grid && has_grid && info.dtype == INLAY_INT64 && info.rank == 2;

        if (i == planes->pixels && info.dtype == INLAY_FLOAT &&
            (has_grid ? info.rank == 2 : info.rank == 4 || info.rank == 5))
            planes->rank = info.rank;
        else if (!is_mask && !is_grid && info.optional == 0)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "input '%.100s' is not supplied, or not with its type",
                              info.name);
    }
    if (planes->rank == 0 || planes->features == INLAY_NONE ||
        inlay_session_output(session, planes->features, &info) != INLAY_OK || info.dtype != INLAY_FLOAT ||
        info.rank < 2)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "it needs an input pixel_values and an output image_features, both of float32");
    *out_width = info.dims[info.rank - 1];
    return INLAY_OK;
}

/* The texts around tiles are single tokens. */
static inlay_status check_tile_tokens(const struct tokenizer *tokenizer, inlay_diag *diag)
{
    static const char *const names[] = { TILE_EDGE, TILE_WHOLE };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (tokenizer_id(tokenizer, names[i]) < 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "tokenizer.json: it lacks the token %s", names[i]);
    return INLAY_OK;
}

/* The processor and the decoder are those of a model with or without a grid. */
static inlay_status check_grid(const image_kind *kind, const pixel_form *form, const decode_model *model,
                               inlay_diag *diag)
{
    if (kind->has_grid != (form->patch > 0))
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "preprocessor_config.json: its image_processor_type is not supported for model_type '%s'",
                          kind->name);
    if (kind->has_grid != (model->image_shifts != INLAY_NONE))
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "the decoder's input position_ids has not the axes that model_type '%s' needs", kind->name);
    return INLAY_OK;
}

inlay_status image_encoder_create_published(inlay_session *session, const image_source *source,
                                            const decode_model *model, image_encoder **out_encoder, inlay_diag *diag)
{
    struct plane_reader *planes = calloc(1, sizeof *planes);
    const image_kind *kind;
    int64_t width = 0;
    inlay_status status;

    *out_encoder = NULL;
    if (planes == NULL)
        return no_memory(diag, "for the encoder of images");
    INLAY_TRY(image_folder_check(source->folder, &kind, diag));
    INLAY_TRY(find_planes(session, kind->has_grid, planes, &width, diag));
    INLAY_TRY(check_width(model, width < 0 ? model->image_width : width, diag)); /* each run checks an open width */
    INLAY_TRY(pixel_form_read(source->folder, &planes->form, diag));
    INLAY_TRY(check_grid(kind, &planes->form, model, diag));
    if (planes->form.tiles)
        INLAY_TRY(check_tile_tokens(source->tokenizer, diag));
    INLAY_TRY(pixel_decoder_open(&planes->decoder, source->options, diag));
    INLAY_TRY(create(session, model, out_encoder, diag));
    (*out_encoder)->planes = planes;
    (*out_encoder)->has_tiles = planes->form.tiles;
    (*out_encoder)->begin = kind->begin;
    (*out_encoder)->end = kind->end;
    return INLAY_OK;
done:
    pixel_decoder_close(&planes->decoder);
    free(planes);
    return status;
}

static void free_image(struct encoded_image *image)
{
    free(image->file);
    free(image->rows);
    free(image);
}

void image_encoder_destroy(image_encoder *encoder)
{
    if (encoder == NULL)
        return;
    for (struct encoded_image *image = encoder->first, *next; image != NULL; image = next) {
        INLAY_CHECK(image->references == 0);
        next = image->next;
        free_image(image);
    }
    inlay_context_destroy(encoder->context);
    if (encoder->planes != NULL)
        pixel_decoder_close(&encoder->planes->decoder);
    free(encoder->planes);
    (void)pthread_mutex_destroy(&encoder->turn);
    (void)pthread_mutex_destroy(&encoder->lock);
    free(encoder);
}

/* Frees images that no prompt has until the others have KEPT_BYTES, the least recently used first. */
static void trim(image_encoder *encoder)
{
    for (;;) {
        struct encoded_image **oldest = NULL, *image;
        size_t bytes = 0;

        for (struct encoded_image **at = &encoder->first; *at != NULL; at = &(*at)->next) {
            bytes += (*at)->file_bytes + (*at)->count * (size_t)encoder->width * sizeof(float);
            if ((*at)->references == 0 && (oldest == NULL || (*at)->used < (*oldest)->used))
                oldest = at;
        }
        if (bytes <= KEPT_BYTES || oldest == NULL)
            return;
        image = *oldest;
        *oldest = image->next;
        free_image(image);
    }
}

/* Sets the input and runs the context; the input's data may be freed afterwards. */
static inlay_status run_file(inlay_context *context, const struct encoded_image *image, inlay_diag *diag)
{
    const int64_t bytes = (int64_t)image->file_bytes;
    inlay_value *file = NULL;
    inlay_status status = inlay_value_borrow(INLAY_UINT8, 1, &bytes, image->file, image->file_bytes, &file, diag);

    if (status == INLAY_OK)
        status = inlay_context_set_input(context, 0, file, diag);
    if (status == INLAY_OK)
        status = inlay_context_run(context, NULL, diag);
    inlay_value_unref(file);
    (void)inlay_context_set_input(context, 0, NULL, NULL);
    return status;
}

static inlay_status set_planes(inlay_context *context, uint32_t input, inlay_dtype dtype, uint32_t rank,
                               const int64_t *dims, void *data, inlay_diag *diag)
{
    uint64_t bytes = inlay_dtype_bits(dtype) / 8;
    inlay_value *value = NULL;
    inlay_status status;

    for (uint32_t i = 0; i < rank; i++)
        bytes *= (uint64_t)dims[i];
    status = inlay_value_borrow(dtype, rank, dims, data, bytes, &value, diag);
    if (status == INLAY_OK)
        status = inlay_context_set_input(context, input, value, diag);
    inlay_value_unref(value);
    return status;
}

/* Decodes the image's file, and runs the encoder on its planes. */
static inlay_status run_planes(image_encoder *encoder, struct encoded_image *image, inlay_diag *diag)
{
    const struct plane_reader *reader = encoder->planes;
    pixel_planes planes = { .data = NULL };
    uint8_t *seen = NULL;
    int64_t dims[5] = { 1 }, grid[3] = { 1 };
    const inlay_value *pixels;
    inlay_status status;

    INLAY_TRY(run_file(reader->decoder.context, image, diag));
    pixels = inlay_context_output(reader->decoder.context, 0);
    INLAY_TRY(pixels_prepare(&reader->form, inlay_value_data(pixels), inlay_value_dims(pixels)[0],
                             inlay_value_dims(pixels)[1], &planes, diag));
    if (reader->form.patch > 0) {
        grid[1] = planes.rows;
        grid[2] = planes.columns;
        image->columns = (size_t)(planes.columns / reader->form.merged);
        memcpy(dims + 3, (int64_t[]){ planes.count, planes.width }, 2 * sizeof *dims);
    } else {
        image->tile_rows = (size_t)planes.rows;
        image->tile_columns = (size_t)planes.columns;
        memcpy(dims + 1, (int64_t[]){ planes.count, 3, planes.height, planes.width }, 4 * sizeof *dims);
    }
    INLAY_TRY(set_planes(encoder->context, reader->pixels, INLAY_FLOAT, reader->rank, dims + 5 - reader->rank,
                         planes.data, diag));
    if (reader->form.patch > 0 && reader->grid != INLAY_NONE)
        INLAY_TRY(set_planes(encoder->context, reader->grid, INLAY_INT64, 2, (int64_t[]){ 1, 3 }, grid, diag));
    if (reader->mask != INLAY_NONE) { /* no pixel is one of padding */
        seen = malloc((size_t)(planes.count * planes.height * planes.width));
        if (seen == NULL) {
            status = no_memory(diag, "for an image");
            goto done;
        }
        memset(seen, 1, (size_t)(planes.count * planes.height * planes.width));
        memcpy(dims + 1, (int64_t[]){ planes.count, planes.height, planes.width }, 3 * sizeof *dims);
        INLAY_TRY(set_planes(encoder->context, reader->mask, INLAY_BOOL, 4, dims, seen, diag));
    }
    status = inlay_context_run(encoder->context, NULL, diag);
done:
    (void)inlay_context_set_input(encoder->context, reader->pixels, NULL, NULL);
    if (reader->grid != INLAY_NONE)
        (void)inlay_context_set_input(encoder->context, reader->grid, NULL, NULL);
    if (reader->mask != INLAY_NONE)
        (void)inlay_context_set_input(encoder->context, reader->mask, NULL, NULL);
    free(planes.data);
    free(seen);
    return status;
}

/* Runs the encoder on the image. */
static inlay_status encode(image_encoder *encoder, struct encoded_image *image, inlay_diag *diag)
{
    inlay_value *rows;
    size_t tiles;
    inlay_diag why = INLAY_DIAG_INIT;
    const inlay_status status =
        encoder->planes != NULL ? run_planes(encoder, image, &why) : run_file(encoder->context, image, &why);

    if (status != INLAY_OK)
        return inlay_fail(diag, status, "the image: %s", why.text);
    rows = inlay_context_output(encoder->context, encoder->planes != NULL ? encoder->planes->features : 0);
    image->count = (size_t)(inlay_value_count(rows) / encoder->width);
    if (encoder->tiles != INLAY_NONE) {
        const int64_t *sides = inlay_value_data(inlay_context_output(encoder->context, encoder->tiles));

        image->tile_rows = sides[0] > 0 && sides[0] < MOST_TILES ? (size_t)sides[0] : 0;
        image->tile_columns = sides[1] > 0 && sides[1] < MOST_TILES ? (size_t)sides[1] : 0;
    }
    tiles = image->tile_rows * image->tile_columns + 1;
    if (inlay_value_dims(rows)[inlay_value_rank(rows) - 1] != encoder->width || image->count % tiles != 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "the vision part made rows of %lld numbers, %zu for %zu squares, for a language model that "
                          "reads rows of %lld",
                          (long long)inlay_value_dims(rows)[inlay_value_rank(rows) - 1], image->count, tiles,
                          (long long)encoder->width);
    if (image->count < 1 || image->count >= 1 << ROW_BITS)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the image has %zu rows", image->count);
    if (encoder->whole && image->count > IMAGE_TOKENS)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the image has %zu rows that see each other; the most are %d",
                          image->count, IMAGE_TOKENS);
    if (encoder->grid != INLAY_NONE) {
        const int64_t *grid = inlay_value_data(inlay_context_output(encoder->context, encoder->grid));

        if (grid[1] <= 0 || grid[0] != (int64_t)(image->count / (size_t)grid[1]))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "the vision part says that the %zu rows of an image are a grid of %lld rows and %lld "
                              "columns",
                              image->count, (long long)grid[0], (long long)grid[1]);
        image->columns = (size_t)grid[1];
    }
    if (image->columns > 0 && image->count % image->columns != 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the vision part made %zu rows, for a grid of %zu columns",
                          image->count, image->columns);
    image->rows = malloc(inlay_value_bytes(rows));
    if (image->rows == NULL)
        return no_memory(diag, "for the rows of an image");
    memcpy(image->rows, inlay_value_data(rows), inlay_value_bytes(rows));
    return INLAY_OK;
}

/* An image that was encoded earlier, with a reference; NULL: there is none. */
static struct encoded_image *find(image_encoder *encoder, const image_file *file)
{
    struct encoded_image *image;

    (void)pthread_mutex_lock(&encoder->lock);
    for (image = encoder->first; image != NULL; image = image->next)
        if (image->file_bytes == file->bytes && memcmp(image->file, file->data, file->bytes) == 0)
            break;
    if (image != NULL) {
        image->references++;
        image->used = ++encoder->uses;
    }
    (void)pthread_mutex_unlock(&encoder->lock);
    return image;
}

/* Encodes an image, with a reference. The caller has the turn. */
static inlay_status add_encoded(image_encoder *encoder, const image_file *file, struct encoded_image **out,
                                inlay_diag *diag)
{
    struct encoded_image *image = calloc(1, sizeof *image);
    inlay_status status;

    if (image != NULL)
        image->file = malloc(file->bytes > 0 ? file->bytes : 1);
    if (image == NULL || image->file == NULL) {
        free(image);
        return no_memory(diag, "for an image");
    }
    if (file->bytes > 0)
        memcpy(image->file, file->data, file->bytes);
    image->file_bytes = file->bytes;
    status = encode(encoder, image, diag);
    if (status != INLAY_OK) {
        free_image(image);
        return status;
    }
    (void)pthread_mutex_lock(&encoder->lock);
    image->number = encoder->images++;
    image->next = encoder->first;
    encoder->first = image;
    image->references = 1;
    image->used = ++encoder->uses;
    trim(encoder);
    (void)pthread_mutex_unlock(&encoder->lock);
    *out = image;
    return INLAY_OK;
}

/* The image of a file, encoded now or earlier, with a reference. */
static inlay_status acquire(image_encoder *encoder, const image_file *file, struct encoded_image **out,
                            inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    *out = find(encoder, file);
    if (*out != NULL)
        return INLAY_OK;
    (void)pthread_mutex_lock(&encoder->turn);
    *out = find(encoder, file); /* it may have been encoded meanwhile */
    if (*out == NULL)
        status = add_encoded(encoder, file, out, diag);
    (void)pthread_mutex_unlock(&encoder->turn);
    return status;
}

/* Adds rows [first, first + count) of an image to the prompt. */
static inlay_status add_rows(image_prompt *prompt, const struct encoded_image *image, size_t first, size_t count,
                             inlay_diag *diag)
{
    const image_encoder *encoder = prompt->encoder;
    int64_t *more;

    if (!LIST_GROW(prompt->spans, prompt->span_count))
        return no_memory(diag, "for the images");
    prompt->spans[prompt->span_count++] =
        (image_span){ prompt->count, count, image->rows + first * (size_t)encoder->width, encoder->whole,
                      image->columns };
    more = realloc(prompt->tokens, (prompt->count + count) * sizeof *more);
    if (more == NULL)
        return no_memory(diag, "for the tokens of the prompt");
    prompt->tokens = more;
    for (size_t i = first; i < first + count; i++)
        more[prompt->count++] = -1 - (int64_t)(image->number << ROW_BITS | i);
    return INLAY_OK;
}

static inlay_status add_text(image_prompt *prompt, const struct tokenizer *tokenizer, const char *text, size_t bytes,
                             inlay_diag *diag)
{
    char *part = bytes > 0 ? strndup(text, bytes) : NULL;
    const bool good =
        bytes == 0 || (part != NULL && tokenizer_encode(tokenizer, part, false, &prompt->tokens, &prompt->count));

    free(part);
    return good ? INLAY_OK : no_memory(diag, "for the tokens of the prompt");
}

/* Adds the rows of the squares of an image and of its whole, with the texts that Idefics3 has around them. */
static inlay_status add_tiles(image_prompt *prompt, const struct tokenizer *tokenizer,
                              const struct encoded_image *image, inlay_diag *diag)
{
    const size_t tiles = image->tile_rows * image->tile_columns, rows = image->count / (tiles + 1);
    inlay_status status = INLAY_OK;
    char text[120];

    for (size_t i = 0; i < tiles && status == INLAY_OK; i++) {
        (void)snprintf(text, sizeof text, "%s" TILE_EDGE "<row_%zu_col_%zu>",
                       i > 0 && i % image->tile_columns == 0 ? "\n" : "", i / image->tile_columns + 1,
                       i % image->tile_columns + 1);
        status = add_text(prompt, tokenizer, text, strlen(text), diag);
        if (status == INLAY_OK)
            status = add_rows(prompt, image, i * rows, rows, diag);
    }
    (void)snprintf(text, sizeof text, "%s" TILE_EDGE TILE_WHOLE, tiles > 0 ? "\n\n" : "");
    if (status == INLAY_OK)
        status = add_text(prompt, tokenizer, text, strlen(text), diag);
    if (status == INLAY_OK)
        status = add_rows(prompt, image, tiles * rows, rows, diag);
    return status == INLAY_OK ? add_text(prompt, tokenizer, TILE_EDGE, strlen(TILE_EDGE), diag) : status;
}

/* Adds an image to the prompt: its rows, and the texts around them. */
static inlay_status add_image(image_prompt *prompt, const struct tokenizer *tokenizer, const image_file *file,
                              inlay_diag *diag)
{
    const image_encoder *encoder = prompt->encoder;
    struct encoded_image *image;
    inlay_status status = acquire(prompt->encoder, file, &image, diag);

    if (status != INLAY_OK)
        return status;
    prompt->images[prompt->image_count++] = image;
    if (encoder->has_tiles)
        return add_tiles(prompt, tokenizer, image, diag);
    status = add_text(prompt, tokenizer, encoder->begin, strlen(encoder->begin), diag);
    if (status == INLAY_OK)
        status = add_rows(prompt, image, 0, image->count, diag);
    return status == INLAY_OK ? add_text(prompt, tokenizer, encoder->end, strlen(encoder->end), diag) : status;
}

inlay_status image_prompt_read(image_encoder *encoder, const struct tokenizer *tokenizer, const char *text,
                               const image_file *files, uint32_t count, image_prompt *out_prompt, inlay_diag *diag)
{
    const size_t mark_bytes = strlen(INLAY_TEXT_IMAGE_MARK);
    uint32_t marks = 0;
    inlay_status status = INLAY_OK;

    *out_prompt = (image_prompt){ .encoder = encoder };
    for (const char *at = text; (at = strstr(at, INLAY_TEXT_IMAGE_MARK)) != NULL; at += mark_bytes)
        marks++;
    if (marks != count)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "the prompt has %u times the text '%s' for %u images; a text of a message may not have it, "
                          "and the chat template must print the content of messages",
                          marks, INLAY_TEXT_IMAGE_MARK, count);
    out_prompt->images = calloc((size_t)count + 1, sizeof *out_prompt->images);
    if (out_prompt->images == NULL)
        return no_memory(diag, "for the images");
    for (uint32_t i = 0; i <= count && status == INLAY_OK; i++) {
        const char *mark = i < count ? strstr(text, INLAY_TEXT_IMAGE_MARK) : text + strlen(text);

        status = add_text(out_prompt, tokenizer, text, (size_t)(mark - text), diag);
        if (status == INLAY_OK && i < count)
            status = add_image(out_prompt, tokenizer, &files[i], diag);
        text = i < count ? mark + mark_bytes : mark;
    }
    return status;
}

void image_prompt_deinit(image_prompt *prompt)
{
    if (prompt->image_count > 0) {
        (void)pthread_mutex_lock(&prompt->encoder->lock);
        for (uint32_t i = 0; i < prompt->image_count; i++)
            prompt->images[i]->references--;
        trim(prompt->encoder);
        (void)pthread_mutex_unlock(&prompt->encoder->lock);
    }
    free(prompt->tokens);
    free(prompt->spans);
    free((void *)prompt->images);
    *prompt = (image_prompt){ .encoder = NULL };
}
