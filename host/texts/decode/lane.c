#include "texts/decode/lane.h"
#include "inlay/check.h"
#include "texts/tokens/lookup.h"
#include <string.h>

enum {
    FIRST_TOKENS = 64, /* initial capacity of states that grow; it doubles */
    SCORED_TOKENS = 32 /* most tokens of a run that returns the logits of each: they take much memory */
};

void lane_fail(struct lane *lane, const inlay_diag *failure)
{
    for (uint32_t i = 0; i < lane->row_count; i++)
        decoder_end_text(lane->decoder, lane->texts[i], failure);
    lane->row_count = 0;
}

void lane_join(struct lane *lane, const inlay_row *rows)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;

    do {
        status = inlay_context_set_rows(lane->step.context, rows, lane->row_count, &diag);
    } while (decoder_drop_prefixes(lane->decoder, status));
    if (status != INLAY_OK)
        lane_fail(lane, &diag);
}

/* Makes the row of the text that begins in the lane: it has the tokens that an earlier text has, too. */
static inlay_status begin_row(struct lane *lane, inlay_diag *diag)
{
    struct decoder *decoder = lane->decoder;
    decoding_text *text = lane->texts[0];
    inlay_status status;
    inlay_row row = { .context = NULL };

    do {
        if (text->score == NULL) /* otherwise all of its tokens are read */
            text->read = text->reused =
                prefixes_find(decoder->prefixes, text->adapter, text->tokens, text->count, &row);
        prefixes_trim(decoder->prefixes, decoder_prefix_limit(decoder), text->reused > 0);
        status = inlay_context_set_rows(lane->step.context, &row, 1, diag);
    } while (decoder_drop_prefixes(decoder, status));
    return status;
}

inlay_status lane_begin(struct lane *lane, inlay_diag *diag)
{
    const decode_model *model = lane->decoder->model;
    inlay_status status = INLAY_OK;

    if (lane->step.context == NULL) {
        lane->kept = 0;
        status = model->program->open(&lane->step, diag);
        if (status == INLAY_OK)
            status = inlay_context_keep_rows(lane->step.context, &model->rows, FIRST_TOKENS, diag);
        if (status != INLAY_OK)
            model->program->close(&lane->step);
    }
    return status == INLAY_OK ? begin_row(lane, diag) : status;
}

/* The most guesses, up to `most`, that the lane's next run may read. */
static size_t most_guesses(const struct lane *lane, size_t most)
{
    const struct decoder *decoder = lane->decoder;
    const decode_model *model = decoder->model;
    const uint64_t limit = model->limits.kv_memory;
    const decoding_text *text = lane->texts[0];

    if (lane->plain || lane->reads || lane->row_count > 1 || text->count - text->read != 1 || decoder->last_only ||
        !model->rows.in_parts || model->rows.fixed_bytes > 0)
        return 0;
    if (model->context > 0 && text->count + most > model->context)
        most = text->count < model->context ? model->context - text->count : 0;
    return limit == 0 || decoder_used_bytes(decoder) + most * model->rows.token_bytes <= limit ? most : 0;
}

/* Guesses the next tokens of the lane's only text by its own tokens. Sets lane->ahead to the number of guesses
 * that the lane's next run reads. */
static void lane_guess(struct lane *lane)
{
    struct decoder *decoder = lane->decoder;
    decoding_text *text = lane->texts[0];
    const size_t most = most_guesses(lane, decoder->model->limits.lookup_tokens);
    size_t found;

    lane->ahead = 0;
    lane->is_drafted = false;
    if (most == 0)
        return;
    found = lookup_next(text->tokens, text->count, most, lane->guesses);
    for (size_t i = 0; i < found; i++)
        if (lane->guesses[i] < 0) /* a row of an image */
            found = i;
    lane->ahead = ahead_best(&decoder->ahead, &text->ahead, (uint32_t)found, 0);
}

/* Begins guesses of the draft model for the lane's only text, if no other text is generated. */
static bool lane_draft(struct lane *lane)
{
    struct decoder *decoder = lane->decoder;
    decoding_text *text = lane->texts[0];
    size_t most;

    if (decoder->drafter == NULL || lane->ahead > 0 || decoder->active > 1 || text->image_count > 0 ||
        !drafter_is_free(decoder->drafter))
        return false;
    most = most_guesses(lane, decoder->model->limits.draft_tokens);
    most = drafter_most(decoder->drafter, text, (uint32_t)most);
    most = ahead_best(&decoder->ahead, &text->drafted, (uint32_t)most, drafter_ns(decoder->drafter));
    return most > 0 && drafter_begin(decoder->drafter, text, (uint32_t)most);
}

/* How many of the text's next `most` tokens are all tokens, or all rows of one image, which is *out (NULL: tokens). */
static size_t alike(const decoding_text *text, size_t most, const image_span **out)
{
    *out = NULL;
    for (uint32_t i = 0; i < text->image_count; i++) {
        const image_span *image = &text->images[i];
        const size_t end = image->first + image->count;
        size_t count;

        if (text->read >= end)
            continue;
        *out = text->read >= image->first ? image : NULL;
        count = *out != NULL ? end - text->read : image->first - text->read;
        if (*out != NULL && count > IMAGE_TOKENS)
            count = IMAGE_TOKENS;
        return count < most || (*out != NULL && image->whole) ? count : most;
    }
    return most;
}

/* Tokens of each text that the lane's next run reads, and the guesses after them. *out_image: the image whose rows they
 * are; NULL: none. */
static size_t step_tokens(const struct lane *lane, const image_span **out_image)
{
    const decoding_text *text = lane->texts[0];
    const size_t left = text->count - text->read + lane->ahead;
    const size_t most = lane->scores && lane->most > SCORED_TOKENS ? SCORED_TOKENS : lane->most;

    *out_image = NULL;
    if (!lane->reads || !lane->decoder->model->rows.in_parts)
        return left;
    return alike(text, left > most ? most : left, out_image);
}

/* Binds the rows of the image that the lane's next run reads; image NULL: none. */
static inlay_status bind_image(struct lane *lane, const image_span *image, inlay_diag *diag)
{
    const decode_model *model = lane->decoder->model;
    const int64_t dims[2] = { (int64_t)lane->columns, model->image_width };
    inlay_value *value = NULL;
    inlay_status status = INLAY_OK;

    if (image == NULL && !lane->has_image)
        return INLAY_OK;
    if (image != NULL) {
        const float *rows = image->rows + (lane->texts[0]->read - image->first) * (size_t)model->image_width;

        INLAY_CHECK(model->image_rows != INLAY_NONE && lane->row_count == 1);
        status = inlay_value_borrow(INLAY_FLOAT, 2, dims, (void *)(uintptr_t)rows,
                                    lane->columns * (size_t)model->image_width * sizeof *rows, &value, diag);
    }
    if (status == INLAY_OK)
        status = inlay_context_set_input(lane->step.context, model->image_rows, value, diag);
    inlay_value_unref(value);
    lane->has_image = status == INLAY_OK && image != NULL;
    return status;
}

void decoding_shifts(const decoding_text *text, size_t i, int64_t out[IMAGE_AXES])
{
    int64_t shift = 0;

    for (uint32_t k = 0; k < text->image_count; k++) {
        const image_span *image = &text->images[k];
        const size_t rows = image->columns > 0 ? image->count / image->columns : 0, at = i - image->first;

        if (i < image->first || image->columns == 0)
            break;
        if (at < image->count) {
            out[0] = shift - (int64_t)at;
            out[1] = out[0] + (int64_t)(at / image->columns);
            out[2] = out[0] + (int64_t)(at % image->columns);
            return;
        }
        shift += (int64_t)(rows > image->columns ? rows : image->columns) - (int64_t)image->count;
    }
    out[0] = out[1] = out[2] = shift;
}

/* Binds what the positions of the lane's next run differ by from the numbers of its tokens. */
static inlay_status bind_shifts(struct lane *lane, const image_span *image, inlay_diag *diag)
{
    const uint32_t count = image != NULL ? (uint32_t)lane->columns : lane->row_count;
    const int64_t dims[2] = { count, IMAGE_AXES };
    inlay_value *value = NULL;
    inlay_status status = INLAY_OK;
    bool differs = false;

    for (uint32_t i = 0; i < count && lane->shifts != NULL; i++) {
        const decoding_text *text = lane->texts[image != NULL ? 0 : i];

        decoding_shifts(text, text->read + (image != NULL ? i : 0), lane->shifts + (size_t)i * IMAGE_AXES);
        differs |= text->image_count > 0;
    }
    if (!differs && !lane->has_shifts)
        return INLAY_OK;
    if (differs)
        status = inlay_value_borrow(INLAY_INT64, 2, dims, lane->shifts, count * IMAGE_AXES * sizeof *lane->shifts,
                                    &value, diag);
    if (status == INLAY_OK)
        status = inlay_context_set_input(lane->step.context, lane->decoder->model->image_shifts, value, diag);
    inlay_value_unref(value);
    lane->has_shifts = status == INLAY_OK && differs;
    return status;
}

/* Binds the adapters of the lane's texts, if the model has some. */
static inlay_status bind_adapters(struct lane *lane, inlay_diag *diag)
{
    const decode_model *model = lane->decoder->model;
    const int64_t rows = lane->row_count;
    inlay_status status = INLAY_OK;

    if (model->adapter == INLAY_NONE || model->adapter_count == 0)
        return INLAY_OK;
    for (uint32_t r = 0; r < lane->row_count; r++)
        lane->adapters[r] = lane->texts[r]->adapter;
    if (lane->adapter_rows != lane->row_count) {
        inlay_value_unref(lane->adapter_input);
        lane->adapter_input = NULL;
        lane->adapter_rows = 0;
        status = inlay_value_borrow(INLAY_INT64, 1, &rows, lane->adapters, lane->row_count * sizeof *lane->adapters,
                                    &lane->adapter_input, diag);
        if (status == INLAY_OK)
            lane->adapter_rows = lane->row_count;
    }
    return status == INLAY_OK ? inlay_context_set_input(lane->step.context, model->adapter, lane->adapter_input, diag)
                              : status;
}

/* The runs return the logits of the last token of each text, and of the guesses after it, or of all tokens. */
static inlay_status keep_logits(struct lane *lane, inlay_diag *diag)
{
    const int64_t kept = lane->scores ? (int64_t)lane->columns : 1 + (int64_t)lane->ahead;
    inlay_status status = INLAY_OK;

    if (lane->kept != kept)
        status = decode_model_keep_logits(lane->decoder->model, lane->step.context, kept, diag);
    if (status == INLAY_OK)
        lane->kept = kept;
    return status;
}

inlay_status lane_prepare(struct lane *lane, inlay_diag *diag)
{
    const uint32_t rows = lane->row_count;
    const int64_t *tokens = lane->texts[0]->tokens + lane->texts[0]->read;
    inlay_status status = bind_adapters(lane, diag);
    const image_span *image;
    size_t columns;

    lane->scores = lane->reads && lane->texts[0]->score != NULL;
    lane->columns = columns = step_tokens(lane, &image);
    if (status == INLAY_OK)
        status = bind_image(lane, image, diag);
    if (status == INLAY_OK)
        status = bind_shifts(lane, image, diag);
    if (image != NULL)
        tokens = lane->decoder->image_tokens;
    if (status == INLAY_OK)
        status = keep_logits(lane, diag);
    if (status != INLAY_OK)
        return status;
    if (lane->ahead > 0) {
        lane->decoder->tokens[0] = *tokens;
        memcpy(lane->decoder->tokens + 1, lane->guesses, lane->ahead * sizeof *lane->guesses);
        tokens = lane->decoder->tokens;
    }
    for (uint32_t r = 0; r < rows; r++) {
        const decoding_text *text = lane->texts[r];

        INLAY_CHECK(text->read + columns <= text->count + lane->ahead);
        if (rows > 1) {
            INLAY_CHECK(columns == 1); /* prompts are read alone */
            lane->decoder->tokens[r] = text->tokens[text->read];
            tokens = lane->decoder->tokens;
        }
    }
    lane->step.rows = rows;
    lane->step.bytes = rows * columns * sizeof *tokens;
    return inlay_context_set_tokens(lane->step.context, tokens, (int64_t)columns, diag);
}

void lane_queue(struct lane *lane, struct lane **queue)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    if (lane->row_count == 0 || lane->runs)
        return;
    lane_guess(lane);
    lane->drafts = lane_draft(lane);
    if (!lane->drafts && lane_prepare(lane, &diag) != INLAY_OK) {
        lane_fail(lane, &diag);
        return;
    }
    lane->runs = true;
    lane->drops = lane->decoder->drops;
    lane->queue = *queue;
    *queue = lane;
}
