/* Tokens of a transcription to text and subtitles. */
#include "base/utf8.h"
#include "texts/speech/speech.h"

/* Adds bytes, of which those that are no UTF-8 become U+FFFD. */
static void add_valid(struct strbuf *to, const char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        uint32_t point;
        const size_t length = utf8_get(text + at, bytes - at, &point);

        if (length > 0)
            strbuf_add(to, text + at, length);
        else
            strbuf_text(to, "\xef\xbf\xbd");
        at += length > 0 ? length : 1;
    }
}

void speech_text(const speech_model *model, const int64_t *tokens, size_t count, struct strbuf *to)
{
    struct strbuf raw = { .data = NULL };

    for (size_t i = 0; i < count; i++) {
        size_t bytes = 0;
        bool special = false;
        const char *piece = tokenizer_bytes(model->tokenizer, tokens[i], &bytes, &special);

        if (piece != NULL && !special)
            strbuf_add(&raw, piece, bytes);
    }
    add_valid(to, raw.data, raw.size);
    to->failed |= raw.failed;
    strbuf_deinit(&raw);
}

/* The same without spaces around it. */
static void add_trimmed(const speech_model *model, const int64_t *tokens, size_t count, struct strbuf *to)
{
    struct strbuf text = { .data = NULL };
    size_t from = 0, end;

    speech_text(model, tokens, count, &text);
    for (end = text.size; end > 0 && text.data[end - 1] == ' '; end--)
        ;
    while (from < end && text.data[from] == ' ')
        from++;
    strbuf_add(to, text.data + from, end - from);
    to->failed |= text.failed;
    strbuf_deinit(&text);
}

void transcription_text(const speech_model *model, const struct transcription *text, struct strbuf *to)
{
    add_trimmed(model, text->tokens, text->token_count, to);
}

/* 01:02:03,456 */
static void add_time(struct strbuf *to, double seconds, char mark)
{
    const unsigned long long ms = (unsigned long long)(seconds * 1000 + 0.5);

    strbuf_format(to, "%02llu:%02llu:%02llu%c%03llu", ms / 3600000, ms / 60000 % 60, ms / 1000 % 60, mark, ms % 1000);
}

void transcription_subtitles(const speech_model *model, const struct transcription *text, subtitle_form form,
                             struct strbuf *to)
{
    const char mark = form == SUBTITLE_SRT ? ',' : '.';

    strbuf_text(to, form == SUBTITLE_SRT ? "" : "WEBVTT\n\n");
    for (size_t i = 0; i < text->segment_count; i++) {
        const speech_segment *segment = &text->segments[i];

        if (form == SUBTITLE_SRT)
            strbuf_format(to, "%zu\n", i + 1);
        add_time(to, segment->begin, mark);
        strbuf_text(to, " --> ");
        add_time(to, segment->end, mark);
        strbuf_text(to, "\n");
        add_trimmed(model, text->tokens + segment->first, segment->count, to);
        strbuf_text(to, "\n\n");
    }
}
