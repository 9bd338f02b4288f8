/* sentencepiece.c - reads SentencePiece's .model: a protobuf message of pieces, followed by the normalizer. */
#include "prepost/text/tokenizer_parts.h"
#include "inlay/check.h"
#include "kit/wire.h"

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_USER = 4, TYPE_UNUSED = 5, TYPE_BYTE = 6 };

static inlay_status damaged(inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the SentencePiece model is damaged");
}

static inlay_status read_piece(text_tokenizer *tokenizer, wire_span piece, int64_t id, inlay_diag *diag)
{
    uint32_t type = TYPE_NORMAL, bits;
    const char *text = "";
    size_t bytes = 0;
    float score = 0;
    wire_field field;
    struct token *token;

    while (wire_next(&piece, &field)) {
        if (field.number == 1 && field.type == WIRE_BYTES) {
            text = (const char *)field.data.at;
            bytes = field.data.count;
        } else if (field.number == 2 && field.type == WIRE_32) {
            bits = (uint32_t)field.value;
            memcpy(&score, &bits, sizeof score);
        } else if (field.number == 3 && field.type == WIRE_VARINT) {
            type = (uint32_t)field.value;
        }
    }
    if (piece.count > 0 || !vocabulary_set(&tokenizer->model.vocabulary, id, text, bytes, (double)score))
        return damaged(diag);
    INLAY_CHECK(id >= 0 && (size_t)id < tokenizer->model.vocabulary.count);
    token = &tokenizer->model.vocabulary.tokens[id];
    token->special = type == TYPE_CONTROL || type == TYPE_UNKNOWN || type == TYPE_BYTE || type == TYPE_UNUSED;
    if (type == TYPE_UNKNOWN)
        tokenizer->model.unknown_id = id;
    if (type == TYPE_USER &&
        !add_token(tokenizer, &(added_token){ .text = (char *)text, .bytes = bytes, .id = id, .normalized = true }))
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the vocabulary");
    if (type == TYPE_NORMAL && (double)(score - 10) < tokenizer->model.unknown_score)
        tokenizer->model.unknown_score = (double)(score - 10);
    return INLAY_OK;
}

static bool read_trainer(text_tokenizer *tokenizer, wire_span spec, uint32_t *kind)
{
    wire_field field;

    while (wire_next(&spec, &field)) {
        if (field.type != WIRE_VARINT)
            continue;
        if (field.number == 3)
            *kind = (uint32_t)field.value;
        else if (field.number == 35)
            tokenizer->model.byte_fallback = field.value != 0;
        else if (field.number == 43 && (int32_t)field.value >= 0)
            tokenizer->pad_id = (int32_t)field.value;
    }
    return spec.count == 0;
}

/* By default a space is put before the text, runs of spaces are squeezed, and spaces become U+2581. */
static bool read_normalizer_spec(text_tokenizer *tokenizer, wire_span spec)
{
    bool prefix = true, squeeze = true, escape = true;
    wire_field field;

    INLAY_CHECK(tokenizer->normalizer_count == 0);
    while (wire_next(&spec, &field)) {
        if (field.number == 2 && field.type == WIRE_BYTES && tokenizer->normalizer_count == 0) {
            tokenizer->normalizers[tokenizer->normalizer_count] = (struct normalizer){ .kind = NORMALIZE_CHARSMAP };
            if (!normalizer_set_charsmap(&tokenizer->normalizers[tokenizer->normalizer_count++], field.data.at,
                                         field.data.count))
                return false;
        } else if (field.type == WIRE_VARINT) {
            prefix = field.number == 3 ? field.value != 0 : prefix;
            squeeze = field.number == 4 ? field.value != 0 : squeeze;
            escape = field.number == 5 ? field.value != 0 : escape;
        }
    }
    INLAY_CHECK(tokenizer->normalizer_count + 3 <= MAX_STEPS);
    if (squeeze)
        tokenizer->normalizers[tokenizer->normalizer_count++] = (struct normalizer){ .kind = NORMALIZE_SQUEEZE };
    if (prefix)
        tokenizer->normalizers[tokenizer->normalizer_count++] =
            (struct normalizer){ .kind = NORMALIZE_PREPEND, .replacement = copy_text(" ", 1) };
    if (escape)
        tokenizer->normalizers[tokenizer->normalizer_count++] = (struct normalizer){
            .kind = NORMALIZE_REPLACE, .text = copy_text(" ", 1), .replacement = copy_text("\xe2\x96\x81", 3)
        };
    for (size_t i = 0; i < tokenizer->normalizer_count; i++) {
        const struct normalizer *step = &tokenizer->normalizers[i];

        if ((step->kind == NORMALIZE_REPLACE && step->text == NULL) ||
            ((step->kind == NORMALIZE_REPLACE || step->kind == NORMALIZE_PREPEND) && step->replacement == NULL))
            return false; /* no memory */
    }
    return spec.count == 0;
}

/* U+2581 becomes a space, byte tokens their bytes; a space at the start is dropped. */
static bool add_decoders(text_tokenizer *tokenizer)
{
    struct decode_step *steps = tokenizer->decoders;

    INLAY_CHECK(tokenizer->decoder_count == 0);
    tokenizer->decoder_count = 4;
    steps[0] = (struct decode_step){ .kind = DECODE_METASPACE, .text = copy_text("\xe2\x96\x81", 3) };
    steps[1] = (struct decode_step){ .kind = DECODE_BYTE_FALLBACK };
    steps[2] = (struct decode_step){ .kind = DECODE_FUSE };
    steps[3] = (struct decode_step){ .kind = DECODE_STRIP, .text = copy_text(" ", 1), .start = 1 };
    return steps[0].text != NULL && steps[3].text != NULL;
}

inlay_status read_spm(text_tokenizer *tokenizer, const char *file, size_t bytes, inlay_diag *diag)
{
    wire_span rest = { (const uint8_t *)file, bytes }, normalizer = { NULL, 0 };
    wire_field field;
    uint32_t kind = 1;
    int64_t id = 0;

    while (wire_next(&rest, &field)) {
        if (field.type != WIRE_BYTES)
            continue;
        if (field.number == 1) {
            const inlay_status status = read_piece(tokenizer, field.data, id++, diag);

            if (status != INLAY_OK)
                return status;
        } else if (field.number == 2 && !read_trainer(tokenizer, field.data, &kind)) {
            return damaged(diag);
        } else if (field.number == 3) {
            normalizer = field.data;
        }
    }
    if (rest.count > 0 || id == 0 || !read_normalizer_spec(tokenizer, normalizer))
        return damaged(diag);
    if (kind != 1 && kind != 2)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the SentencePiece model is neither Unigram nor BPE (type %u)",
                          kind);
    tokenizer->model.kind = kind == 1 ? MODEL_UNIGRAM : MODEL_BPE;
    tokenizer->model.merge_by_score = kind == 2;
    tokenizer->model.fuse_unknown = true;
    tokenizer->model.single_precision = true;
    model_find_byte_tokens(&tokenizer->model);
    return add_decoders(tokenizer) ? INLAY_OK
                                   : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the SentencePiece model");
}
