/* spm.c - SentencePiece's .model: a protobuf of pieces, with the normalizer behind them. */
#include "parts.h"

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_USER = 4, TYPE_UNUSED = 5, TYPE_BYTE = 6 };

/* One field of a message. */
struct field {
    uint32_t number, wire;
    uint64_t value;
    const uint8_t *data; /* wire 2: [count] */
    size_t count;
};

struct message {
    const uint8_t *at, *end;
};

static bool varint(struct message *message, uint64_t *out)
{
    *out = 0;
    for (uint32_t shift = 0; message->at < message->end && shift < 64; shift += 7) {
        const uint8_t b = *message->at++;

        *out |= (uint64_t)(b & 127) << shift;
        if (b < 128)
            return true;
    }
    return false;
}

/* The next field; false: the end, or (*bad) damage. */
static bool next(struct message *message, struct field *field, bool *bad)
{
    uint64_t key, bytes;

    if (message->at == message->end)
        return false;
    *bad = true;
    *field = (struct field){ 0 };
    if (!varint(message, &key))
        return false;
    field->number = (uint32_t)(key >> 3);
    field->wire = key & 7;
    if (field->wire == 0) {
        *bad = !varint(message, &field->value);
        return !*bad;
    }
    bytes = field->wire == 1 ? 8 : 4;
    if ((field->wire != 1 && field->wire != 2 && field->wire != 5) || (field->wire == 2 && !varint(message, &bytes)) ||
        bytes > (uint64_t)(message->end - message->at))
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
    struct word *word;

    while (next(&message, &field, &bad)) {
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
    if (bad || !vocabulary_set(&tokenizer->model.words, id, text, bytes, (double)score))
        return damaged(diag);
    word = &tokenizer->model.words.words[id];
    word->special = type == TYPE_CONTROL || type == TYPE_UNKNOWN || type == TYPE_BYTE || type == TYPE_UNUSED;
    if (type == TYPE_UNKNOWN)
        tokenizer->model.unknown = id;
    if (type == TYPE_USER &&
        !add_token(tokenizer,
                   &(struct added){ .text = word->text, .bytes = word->bytes, .id = id, .normalized = true }))
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the vocabulary");
    if (type == TYPE_NORMAL && (double)(score - 10) < tokenizer->model.least_score)
        tokenizer->model.least_score = (double)(score - 10);
    return INLAY_OK;
}

static bool read_trainer(text_tokenizer *tokenizer, const struct field *spec, uint32_t *kind)
{
    struct message message = { spec->data, spec->data + spec->count };
    bool bad = false;
    struct field field;

    while (next(&message, &field, &bad)) {
        if (field.number == 3 && field.wire == 0)
            *kind = (uint32_t)field.value;
        else if (field.number == 35 && field.wire == 0)
            tokenizer->model.byte_fallback = field.value != 0;
        else if (field.number == 43 && field.wire == 0 && (int32_t)field.value >= 0)
            tokenizer->pad = (int32_t)field.value;
    }
    return !bad;
}

/* Spaces become U+2581, and one stands before the text. */
static bool read_normalizer(text_tokenizer *tokenizer, const struct field *spec)
{
    struct message message = { spec != NULL ? spec->data : NULL, spec != NULL ? spec->data + spec->count : NULL };
    bool bad = false, prefix = true, squeeze = true, escape = true;
    struct field field;

    while (spec != NULL && next(&message, &field, &bad)) {
        if (field.number == 2 && field.wire == 2 && tokenizer->norm_count == 0) {
            tokenizer->norms[tokenizer->norm_count] = (struct norm){ .kind = NORM_CHARSMAP };
            if (!norm_set_map(&tokenizer->norms[tokenizer->norm_count++], field.data, field.count))
                return false;
        } else if (field.wire == 0) {
            prefix = field.number == 3 ? field.value != 0 : prefix;
            squeeze = field.number == 4 ? field.value != 0 : squeeze;
            escape = field.number == 5 ? field.value != 0 : escape;
        }
    }
    if (squeeze)
        tokenizer->norms[tokenizer->norm_count++] = (struct norm){ .kind = NORM_SQUEEZE };
    if (prefix)
        tokenizer->norms[tokenizer->norm_count++] = (struct norm){ .kind = NORM_PREPEND, .to = copy_text(" ", 1) };
    if (escape)
        tokenizer->norms[tokenizer->norm_count++] = (struct norm){
            .kind = NORM_REPLACE, .least = 1, .from = copy_text(" ", 1), .to = copy_text("\xe2\x96\x81", 3)
        };
    for (size_t i = 0; i < tokenizer->norm_count; i++)
        if (tokenizer->norms[i].kind == NORM_REPLACE &&
            (tokenizer->norms[i].from == NULL || tokenizer->norms[i].to == NULL))
            return false;
    return !bad;
}

inlay_status read_spm(text_tokenizer *tokenizer, const char *file, size_t bytes, inlay_diag *diag)
{
    struct message message = { (const uint8_t *)file, (const uint8_t *)file + bytes };
    struct field field, normalizer = { 0 };
    bool bad = false, has_normalizer = false;
    uint32_t kind = 1;
    int64_t id = 0;

    while (next(&message, &field, &bad)) {
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
    if (bad || id == 0 || !read_normalizer(tokenizer, has_normalizer ? &normalizer : NULL))
        return damaged(diag);
    if (kind != 1 && kind != 2)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the SentencePiece model is neither Unigram nor BPE (type %u)",
                          kind);
    tokenizer->model.kind = kind == 1 ? MODEL_UNIGRAM : MODEL_BPE;
    tokenizer->model.by_score = kind == 2;
    tokenizer->model.fuse_unknown = true;
    tokenizer->model.single = true;
    model_find_bytes(&tokenizer->model);
    tokenizer->decoder = DECODE_METASPACE;
    tokenizer->strip_first = true;
    return INLAY_OK;
}
