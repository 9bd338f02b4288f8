#include "texts/decode/decoder.h"
#include "inlay/check.h"

static size_t longest(const struct lane *lane)
{
    size_t tokens = 0;

    for (uint32_t i = 0; i < lane->row_count; i++)
        tokens = lane->texts[i]->count > tokens ? lane->texts[i]->count : tokens;
    return tokens;
}

uint64_t decoder_bytes(const struct decoder *decoder, uint64_t rows, uint64_t tokens)
{
    const inlay_rows_info *info = &decoder->model->rows;

    return rows * (tokens * info->token_bytes + info->fixed_bytes);
}

uint64_t decoder_used_bytes(const struct decoder *decoder)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < decoder->lane_count; i++)
        bytes += decoder_bytes(decoder, decoder->lanes[i].row_count, longest(&decoder->lanes[i]));
    return bytes;
}

bool decoder_fits(const struct decoder *decoder, uint64_t tokens)
{
    const uint64_t limit = decoder->model->limits.kv_memory;
    const struct lane *main = decoder->main;
    const uint64_t rows = main != NULL ? main->row_count : 0, most = main != NULL ? longest(main) : 0;

    return limit == 0 || decoder->active == 0 ||
           decoder_used_bytes(decoder) - decoder_bytes(decoder, rows, most) +
                   decoder_bytes(decoder, rows + 1, most > tokens ? most : tokens) <=
               limit;
}

uint64_t decoder_prefix_limit(const struct decoder *decoder)
{
    const decode_limits *limits = &decoder->model->limits;
    const uint64_t used = limits->kv_memory > 0 ? decoder_used_bytes(decoder) : 0;
    const uint64_t left = limits->kv_memory > used ? limits->kv_memory - used : 0;

    return limits->kv_memory > 0 && left < limits->prefix_memory ? left : limits->prefix_memory;
}

bool decoder_drop_prefixes(struct decoder *decoder, inlay_status status)
{
    if ((status != INLAY_OUT_OF_MEMORY && status != INLAY_LIMIT_EXCEEDED) || prefixes_bytes(decoder->prefixes) == 0)
        return false;
    prefixes_trim(decoder->prefixes, 0, false);
    decoder->drops++;
    return true;
}

void decoder_add(struct decoder *decoder, decoding_text *text)
{
    if (decoder->last != NULL)
        decoder->last->next = text;
    else
        decoder->first = text;
    text->next = NULL;
    decoder->last = text;
    decoder->waiting++;
}

static decoding_text *take_first(struct decoder *decoder)
{
    decoding_text *text = decoder->first;

    INLAY_CHECK(text != NULL && decoder->waiting > 0);
    decoder->first = text->next;
    if (decoder->first == NULL)
        decoder->last = NULL;
    decoder->waiting--;
    text->next = NULL;
    return text;
}

decoding_text *decoder_begin_first(struct decoder *decoder)
{
    decoding_text *text = take_first(decoder);

    text->order = ++decoder->began;
    text->read = text->reused = text->kept = 0;
    decoder->active++;
    return text;
}

void decoder_wait_again(struct decoder *decoder, decoding_text *text)
{
    hidden_deinit(&text->hidden);
    text->read = 0;
    text->like = NULL; /* it has generated tokens, so it equals no prompt */
    text->next = decoder->first;
    decoder->first = text;
    if (decoder->last == NULL)
        decoder->last = text;
    decoder->waiting++;
    decoder->active--;
}

void decoder_end_text(struct decoder *decoder, decoding_text *text, const inlay_diag *failure)
{
    INLAY_CHECK(decoder->active > 0);
    decoder->active--;
    (void)atomic_fetch_sub(&decoder->model->texts, 1);
    hidden_deinit(&text->hidden);
    text->end(text, failure);
}

bool decoder_is_over(const decoding_text *text, inlay_diag *diag)
{
    *diag = (inlay_diag)INLAY_DIAG_INIT;
    return text->is_over != NULL && text->is_over(text, diag);
}

void decoder_drop_waiting(struct decoder *decoder)
{
    uint32_t count = decoder->waiting;
    inlay_diag diag;

    for (uint32_t i = 0; i < count; i++) {
        decoding_text *text = take_first(decoder);

        if (!decoder_is_over(text, &diag)) {
            decoder_add(decoder, text);
        } else {
            decoder->active++;
            decoder_end_text(decoder, text, &diag);
        }
    }
}
