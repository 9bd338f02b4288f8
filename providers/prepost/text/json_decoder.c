/* json_decoder.c - reads the decoders of a tokenizer.json. */
#include "prepost/text/json_parts.h"
#include "inlay/check.h"

static inlay_status set_text(const struct source *source, char **to, const char *text)
{
    *to = copy_text(text, strlen(text));
    return *to != NULL ? INLAY_OK : fail_no_memory(source);
}

static inlay_status read_strip(const struct source *source, const json_t *step, struct decode_step *made)
{
    const json_int_t start = json_integer_value(json_object_get(step, "start")),
                     stop = json_integer_value(json_object_get(step, "stop"));

    made->kind = DECODE_STRIP;
    made->start = start > 0 ? (size_t)start : 0;
    made->stop = stop > 0 ? (size_t)stop : 0;
    return set_text(source, &made->text, json_text(step, "content"));
}

static inlay_status read_metaspace(const struct source *source, const json_t *step, struct decode_step *made)
{
    const int prepend = metaspace_prepend(step);
    const char *mark = json_text(step, "replacement");

    if (prepend < 0)
        return fail_unsupported(source, "decoder Metaspace with the prepend_scheme", json_text(step, "prepend_scheme"));
    made->kind = DECODE_METASPACE;
    made->drop_first = prepend != PREPEND_NEVER;
    return set_text(source, &made->text, mark[0] != '\0' ? mark : "\xe2\x96\x81");
}

static inlay_status read_ctc(const struct source *source, const json_t *step, struct decode_step *made)
{
    const inlay_status status = set_text(source, &made->text, json_text(step, "pad_token"));

    made->kind = DECODE_CTC;
    made->clean = json_flag(step, "cleanup", true);
    return status == INLAY_OK ? set_text(source, &made->replacement, json_text(step, "word_delimiter_token")) : status;
}

static inlay_status read_step(const struct source *source, const json_t *step, struct decode_step *made)
{
    const char *type = json_text(step, "type");

    if (strcmp(type, "ByteLevel") == 0) {
        made->kind = DECODE_BYTE_LEVEL;
    } else if (strcmp(type, "ByteFallback") == 0) {
        made->kind = DECODE_BYTE_FALLBACK;
    } else if (strcmp(type, "Fuse") == 0) {
        made->kind = DECODE_FUSE;
    } else if (strcmp(type, "WordPiece") == 0) {
        made->kind = DECODE_WORDPIECE;
        made->clean = json_flag(step, "cleanup", true);
        return set_text(source, &made->text, json_text(step, "prefix"));
    } else if (strcmp(type, "Metaspace") == 0) {
        return read_metaspace(source, step, made);
    } else if (strcmp(type, "Replace") == 0) {
        made->kind = DECODE_REPLACE;
        return read_replace(source, &made->normalizer, step);
    } else if (strcmp(type, "Strip") == 0) {
        return read_strip(source, step, made);
    } else if (strcmp(type, "BPEDecoder") == 0) {
        made->kind = DECODE_BPE;
        return set_text(source, &made->text, json_text(step, "suffix"));
    } else if (strcmp(type, "CTC") == 0) {
        return read_ctc(source, step, made);
    } else {
        return fail_unsupported(source, "decoder", type);
    }
    return INLAY_OK;
}

inlay_status read_decoder(const struct source *source, const json_t *step)
{
    text_tokenizer *tokenizer = source->tokenizer;
    inlay_status status = INLAY_OK;
    json_t *item;
    size_t i;

    if (strcmp(json_text(step, "type"), "Sequence") == 0) {
        json_array_foreach(json_object_get(step, "decoders"), i, item) {
            status = read_decoder(source, item);
            if (status != INLAY_OK)
                return status;
        }
        return INLAY_OK;
    }
    INLAY_CHECK(tokenizer->decoder_count <= MAX_STEPS);
    if (tokenizer->decoder_count == MAX_STEPS)
        return fail_unsupported(source, "decoder", "more than 16 steps");
    return read_step(source, step, &tokenizer->decoders[tokenizer->decoder_count++]);
}
