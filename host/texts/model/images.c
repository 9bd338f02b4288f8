#include "texts/model/images.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "inlay/text.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROW_BITS = 20,       /* of the number in the place of a row: its number in the image */
    KEPT_BYTES = 1 << 28 /* of the files and rows of images that no prompt has */
};

struct encoded_image {
    struct encoded_image *next;
    uint64_t number, used; /* of the images so far; of the uses so far */
    uint32_t references;
    void *file; /* [file_bytes] owned, like rows */
    size_t file_bytes, count;
    float *rows;    /* [count, width] */
    size_t columns; /* of the grid that the rows are of; 0: none */
};

struct image_encoder {
    inlay_context *context;
    uint32_t grid; /* output, rows and columns; INLAY_NONE: the rows of an image have positions as tokens have */
    int64_t width;
    const char *begin, *end; /* texts of the tokens around an image, borrowed from the session; "": none */
    bool whole;              /* one run must read all rows of an image */
    pthread_mutex_t turn;    /* held while the context runs; taken before `lock` */
    pthread_mutex_t lock;    /* of the following, held briefly: the server's network threads free prompts */
    struct encoded_image *first;
    uint64_t images, uses;
};

/* The output of that name; INLAY_NONE: there is none. */
static uint32_t find_grid(const inlay_session *session)
{
    inlay_io_info info = { .struct_size = sizeof info };

    return inlay_session_output_count(session) == 2 && inlay_session_output(session, 1, &info) == INLAY_OK &&
                   strcmp(info.name, "image_grid") == 0 && info.dtype == INLAY_INT64 && info.rank == 1 &&
                   info.dims[0] == 2
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

static bool sees_whole_images(const inlay_session *session)
{
    return strcmp(property(session, "image_rows"), "whole") == 0;
}

inlay_status image_encoder_create(inlay_session *session, const decode_model *model, image_encoder **out_encoder,
                                  inlay_diag *diag)
{
    inlay_io_info in = { .struct_size = sizeof in }, out = { .struct_size = sizeof out };
    const uint32_t grid = find_grid(session);
    image_encoder *encoder;
    inlay_status status;

    *out_encoder = NULL;
    if (inlay_session_input_count(session) != 1 ||
        inlay_session_output_count(session) != (grid != INLAY_NONE ? 2u : 1u) ||
        inlay_session_input(session, 0, &in) != INLAY_OK || inlay_session_output(session, 0, &out) != INLAY_OK ||
        in.dtype != INLAY_UINT8 || in.rank != 1 || out.dtype != INLAY_FLOAT || out.rank != 2)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "it is no vision part: it needs one input, the bytes of an image, and one output, "
                          "[rows, width], before image_grid");
    if (model->image_rows == INLAY_NONE || !model->rows.in_parts)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the language model takes no rows of images");
    if (out.dims[1] != model->image_width)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "it is the vision part of another model: its rows have %lld numbers, those of the language "
                          "model %lld",
                          (long long)out.dims[1], (long long)model->image_width);
    if (sees_whole_images(session) != sees_whole_images(model->session))
        return inlay_fail(
            diag, INLAY_INVALID_ARGUMENT,
            "it is the vision part of another kind of model: one of the two lets the rows of an image see "
            "each other, and the other one does not");
    if ((grid == INLAY_NONE) != (model->image_shifts == INLAY_NONE))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "it is the vision part of another kind of model: one of the two gives the rows of an image "
                          "positions with a row and a column, and the other one does not");
    encoder = calloc(1, sizeof *encoder);
    if (encoder == NULL)
        return no_memory(diag, "for the encoder of images");
    encoder->width = model->image_width;
    encoder->grid = grid;
    encoder->begin = property(session, "image_begin");
    encoder->end = property(session, "image_end");
    encoder->whole = sees_whole_images(session);
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

/* Runs the encoder on the image's file. */
static inlay_status encode(image_encoder *encoder, struct encoded_image *image, inlay_diag *diag)
{
    const int64_t bytes = (int64_t)image->file_bytes;
    inlay_value *file = NULL, *rows;
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status = inlay_value_borrow(INLAY_UINT8, 1, &bytes, image->file, image->file_bytes, &file, &why);

    if (status == INLAY_OK)
        status = inlay_context_set_input(encoder->context, 0, file, &why);
    if (status == INLAY_OK)
        status = inlay_context_run(encoder->context, NULL, &why);
    inlay_value_unref(file);
    if (status != INLAY_OK)
        return inlay_fail(diag, status, "the image: %s", why.text);
    rows = inlay_context_output(encoder->context, 0);
    image->count = (size_t)inlay_value_dims(rows)[0];
    INLAY_CHECK(inlay_value_dims(rows)[1] == encoder->width);
    if (image->count < 1 || image->count >= 1 << ROW_BITS)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the image has %zu rows", image->count);
    if (encoder->whole && image->count > IMAGE_TOKENS)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the image has %zu rows that see each other; the most are %d",
                          image->count, IMAGE_TOKENS);
    if (encoder->grid != INLAY_NONE) {
        const int64_t *grid = inlay_value_data(inlay_context_output(encoder->context, encoder->grid));

        if (grid[1] <= 0 || image->count % (size_t)grid[1] != 0 ||
            grid[0] != (int64_t)(image->count / (size_t)grid[1]))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "the vision part says that the %zu rows of an image are a grid of %lld rows and %lld "
                              "columns",
                              image->count, (long long)grid[0], (long long)grid[1]);
        image->columns = (size_t)grid[1];
    }
    image->rows = malloc(inlay_value_bytes(rows));
    if (image->rows == NULL)
        return no_memory(diag, "for the rows of an image");
    memcpy(image->rows, inlay_value_data(rows), inlay_value_bytes(rows));
    (void)inlay_context_set_input(encoder->context, 0, NULL, NULL); /* the file may be freed before the next run */
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

/* Adds the rows of an image to the prompt. */
static inlay_status add_image(image_prompt *prompt, const image_file *file, inlay_diag *diag)
{
    struct encoded_image *image;
    int64_t *more;
    inlay_status status = acquire(prompt->encoder, file, &image, diag);

    if (status != INLAY_OK)
        return status;
    prompt->images[prompt->image_count] = image;
    prompt->spans[prompt->image_count++] =
        (image_span){ prompt->count, image->count, image->rows, prompt->encoder->whole, image->columns };
    more = realloc(prompt->tokens, (prompt->count + image->count) * sizeof *more);
    if (more == NULL)
        return no_memory(diag, "for the tokens of the prompt");
    prompt->tokens = more;
    for (size_t i = 0; i < image->count; i++)
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
    out_prompt->spans = calloc((size_t)count + 1, sizeof *out_prompt->spans);
    out_prompt->images = calloc((size_t)count + 1, sizeof *out_prompt->images);
    if (out_prompt->spans == NULL || out_prompt->images == NULL)
        return no_memory(diag, "for the images");
    for (uint32_t i = 0; i <= count && status == INLAY_OK; i++) {
        const char *mark = i < count ? strstr(text, INLAY_TEXT_IMAGE_MARK) : text + strlen(text);

        status = add_text(out_prompt, tokenizer, text, (size_t)(mark - text), diag);
        if (status == INLAY_OK && i < count)
            status = add_text(out_prompt, tokenizer, encoder->begin, strlen(encoder->begin), diag);
        if (status == INLAY_OK && i < count)
            status = add_image(out_prompt, &files[i], diag);
        if (status == INLAY_OK && i < count)
            status = add_text(out_prompt, tokenizer, encoder->end, strlen(encoder->end), diag);
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
