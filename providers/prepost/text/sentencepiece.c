/* sentencepiece.c - reads SentencePiece's .model: a protobuf message of pieces, followed by the normalizer. */
#include "prepost/text/tokenizer_parts.h"
#include "inlay/check.h"

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_USER = 4, TYPE_UNUSED = 5, TYPE_BYTE = 6 };

/* One field of a protobuf message. */
struct field {
    uint32_t number, wire;
    uint64_t value;
    const uint8_t *data; /* wire type 2: [count] bytes in the file */
    size_t count;
};

struct message {
    const uint8_t *at, *end;
};

static bool read_varint(struct message *message, uint64_t *out)
{
    *out = 0;
    for (uint32_t shift = 0; message->at < message->end && shift < 64; shift += 7) {
        const uint8_t byte = *message->at++;

        *out |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return false;
}

/* Reads the next field. False at the end of the message; also if the message is damaged, and then *bad is true. */
static bool next_field(struct message *message, struct field *field, bool *bad)
{
    uint64_t key, bytes;

    INLAY_CHECK(message->at <= message->end);
    if (message->at == message->end)
        return false;
    *bad = true;
    *field = (struct field){ 0 };
    if (!read_varint(message, &key))
        return false;
    field->number = (uint32_t)(key >> 3);
    field->wire = key & 7;
    if (field->wire == 0) {
        *bad = !read_varint(message, &field->value);
        return !*bad;
    }
    bytes = field->wire == 1 ? 8 : 4;
    if ((field->wire != 1 && field->wire != 2 && field->wire != 5) ||
        (field->wire == 2 && !read_varint(message, &bytes)) || bytes > (uint64_t)(message->end - message->at))
        return false;
    field->data = message->at;
    field->count = (size_t)bytes;
    if (field->wire != 2)
        memcpy(&field->value, field->data, field->count);
    message->at += bytes;
    *bad = false;
    return true;
}

static inlay_status damaged(inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the SentencePiece model is damaged");
}

static inlay_status read_piece(text_tokenizer *tokenizer, const struct field *piece, int64_t id, inlay_diag *diag)
{
    struct message message = { piece->data, piece->data + piece->count };
    uint32_t type = TYPE_NORMAL, bits;
    const char *text = "";
    size_t bytes = 0;
    float score = 0;
    bool bad = false;
    struct field field;
    struct token *token;

    while (next_field(&message, &field, &bad)) {
        if (field.number == 1 && field.wire == 2) {
            text = (const char *)field.data;
            bytes = field.count;
        } else if (field.number == 2 && field.wire == 5) {
            bits = (uint32_t)field.value;
            memcpy(&score, &bits, sizeof score);
        } else if (field.number == 3 && field.wire == 0) {
            type = (uint32_t)field.value;
        }
    }
    if (bad || !vocabulary_set(&tokenizer->model.vocabulary, id, text, bytes, (double)score))
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

static bool read_trainer(text_tokenizer *tokenizer, const struct field *spec, uint32_t *kind)
{
    struct message message = { spec->data, spec->data + spec->count };
    bool bad = false;
    struct field field;

    while (next_field(&message, &field, &bad)) {
        if (field.number == 3 && field.wire == 0)
            *kind = (uint32_t)field.value;
        else if (field.number == 35 && field.wire == 0)
            tokenizer->model.byte_fallback = field.value != 0;
        else if (field.number == 43 && field.wire == 0 && (int32_t)field.value >= 0)
            tokenizer->pad_id = (int32_t)field.value;
    }
    return !bad;
}

/* By default a space is put before the text, runs of spaces are squeezed, and spaces become U+2581. */
static bool read_normalizer_spec(text_tokenizer *tokenizer, const struct field *spec)
{
    struct message message = { spec != NULL ? spec->data : NULL, spec != NULL ? spec->data + spec->count : NULL };
    bool bad = false, prefix = true, squeeze = true, escape = true;
    struct field field;

    INLAY_CHECK(tokenizer->normalizer_count == 0);
    while (spec != NULL && next_field(&message, &field, &bad)) {
        if (field.number == 2 && field.wire == 2 && tokenizer->normalizer_count == 0) {
            tokenizer->normalizers[tokenizer->normalizer_count] = (struct normalizer){ .kind = NORMALIZE_CHARSMAP };
            if (!normalizer_set_charsmap(&tokenizer->normalizers[tokenizer->normalizer_count++], field.data,
                                         field.count))
                return false;
        } else if (field.wire == 0) {
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
    return !bad;
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
    struct message message = { (const uint8_t *)file, (const uint8_t *)file + bytes };
    struct field field, normalizer = { 0 };
    bool bad = false, has_normalizer = false;
    uint32_t kind = 1;
    int64_t id = 0;

    while (next_field(&message, &field, &bad)) {
        if (field.wire != 2)
            continue;
        if (field.number == 1) {
            const inlay_status status = read_piece(tokenizer, &field, id++, diag);

            if (status != INLAY_OK)
                return status;
        } else if (field.number == 2 && !read_trainer(tokenizer, &field, &kind)) {
            return damaged(diag);
        } else if (field.number == 3) {
            normalizer = field;
            has_normalizer = true;
        }
    }
    if (bad || id == 0 || !read_normalizer_spec(tokenizer, has_normalizer ? &normalizer : NULL))
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
