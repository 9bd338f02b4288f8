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

static bool varint(struct message *m, uint64_t *out)
{
    *out = 0;
    for (uint32_t shift = 0; m->at < m->end && shift < 64; shift += 7) {
        const uint8_t b = *m->at++;

        *out |= (uint64_t)(b & 127) << shift;
        if (b < 128)
            return true;
    }
    return false;
}

/* The next field; false: the end, or (*bad) damage. */
static bool next(struct message *m, struct field *f, bool *bad)
{
    uint64_t key, bytes;

    if (m->at == m->end)
        return false;
    *bad = true;
    *f = (struct field){ 0 };
    if (!varint(m, &key))
        return false;
    f->number = (uint32_t)(key >> 3);
    f->wire = key & 7;
    if (f->wire == 0) {
        *bad = !varint(m, &f->value);
        return !*bad;
    }
    bytes = f->wire == 1 ? 8 : 4;
    if ((f->wire != 1 && f->wire != 2 && f->wire != 5) || (f->wire == 2 && !varint(m, &bytes)) ||
        bytes > (uint64_t)(m->end - m->at))
        return false;
    f->data = m->at;
    f->count = (size_t)bytes;
    if (f->wire != 2)
        memcpy(&f->value, f->data, f->count);
    m->at += bytes;
    *bad = false;
    return true;
}

static inlay_status damaged(inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the SentencePiece model is damaged");
}

static inlay_status read_piece(text_tokenizer *t, const struct field *piece, int64_t id, inlay_diag *diag)
{
    struct message m = { piece->data, piece->data + piece->count };
    uint32_t type = TYPE_NORMAL, bits;
    const char *text = "";
    size_t bytes = 0;
    float score = 0;
    bool bad = false;
    struct field f;
    struct word *w;

    while (next(&m, &f, &bad)) {
        if (f.number == 1 && f.wire == 2) {
            text = (const char *)f.data;
            bytes = f.count;
        } else if (f.number == 2 && f.wire == 5) {
            bits = (uint32_t)f.value;
            memcpy(&score, &bits, sizeof score);
        } else if (f.number == 3 && f.wire == 0) {
            type = (uint32_t)f.value;
        }
    }
    if (bad || !vocabulary_set(&t->model.words, id, text, bytes, (double)score))
        return damaged(diag);
    w = &t->model.words.words[id];
    w->special = type == TYPE_CONTROL || type == TYPE_UNKNOWN || type == TYPE_BYTE || type == TYPE_UNUSED;
    if (type == TYPE_UNKNOWN)
        t->model.unknown = id;
    if (type == TYPE_USER &&
        !add_token(t, &(struct added){ .text = w->text, .bytes = w->bytes, .id = id, .normalized = true }))
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the vocabulary");
    if (type == TYPE_NORMAL && (double)(score - 10) < t->model.least_score)
        t->model.least_score = (double)(score - 10);
    return INLAY_OK;
}

static bool read_trainer(text_tokenizer *t, const struct field *spec, uint32_t *kind)
{
    struct message m = { spec->data, spec->data + spec->count };
    bool bad = false;
    struct field f;

    while (next(&m, &f, &bad)) {
        if (f.number == 3 && f.wire == 0)
            *kind = (uint32_t)f.value;
        else if (f.number == 35 && f.wire == 0)
            t->model.byte_fallback = f.value != 0;
        else if (f.number == 43 && f.wire == 0 && (int32_t)f.value >= 0)
            t->pad = (int32_t)f.value;
    }
    return !bad;
}

/* Spaces become U+2581, and one stands before the text. */
static bool read_normalizer(text_tokenizer *t, const struct field *spec)
{
    struct message m = { spec != NULL ? spec->data : NULL, spec != NULL ? spec->data + spec->count : NULL };
    bool bad = false, prefix = true, squeeze = true, escape = true;
    struct field f;

    while (spec != NULL && next(&m, &f, &bad)) {
        if (f.number == 2 && f.wire == 2 && t->norm_count == 0) {
            t->norms[t->norm_count] = (struct norm){ .kind = NORM_CHARSMAP };
            if (!norm_set_map(&t->norms[t->norm_count++], f.data, f.count))
                return false;
        } else if (f.wire == 0) {
            prefix = f.number == 3 ? f.value != 0 : prefix;
            squeeze = f.number == 4 ? f.value != 0 : squeeze;
            escape = f.number == 5 ? f.value != 0 : escape;
        }
    }
    if (squeeze)
        t->norms[t->norm_count++] = (struct norm){ .kind = NORM_SQUEEZE };
    if (prefix)
        t->norms[t->norm_count++] = (struct norm){ .kind = NORM_PREPEND, .to = copy_text(" ", 1) };
    if (escape)
        t->norms[t->norm_count++] = (struct norm){
            .kind = NORM_REPLACE, .least = 1, .from = copy_text(" ", 1), .to = copy_text("\xe2\x96\x81", 3)
        };
    for (size_t i = 0; i < t->norm_count; i++)
        if (t->norms[i].kind == NORM_REPLACE && (t->norms[i].from == NULL || t->norms[i].to == NULL))
            return false;
    return !bad;
}

inlay_status read_spm(text_tokenizer *t, const char *file, size_t bytes, inlay_diag *diag)
{
    struct message m = { (const uint8_t *)file, (const uint8_t *)file + bytes };
    struct field f, normalizer = { 0 };
    bool bad = false, has_normalizer = false;
    uint32_t kind = 1;
    int64_t id = 0;

    while (next(&m, &f, &bad)) {
        if (f.wire != 2)
            continue;
        if (f.number == 1) {
            const inlay_status status = read_piece(t, &f, id++, diag);

            if (status != INLAY_OK)
                return status;
        } else if (f.number == 2 && !read_trainer(t, &f, &kind)) {
            return damaged(diag);
        } else if (f.number == 3) {
            normalizer = f;
            has_normalizer = true;
        }
    }
    if (bad || id == 0 || !read_normalizer(t, has_normalizer ? &normalizer : NULL))
        return damaged(diag);
    if (kind != 1 && kind != 2)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the SentencePiece model is neither Unigram nor BPE (type %u)",
                          kind);
    t->model.kind = kind == 1 ? MODEL_UNIGRAM : MODEL_BPE;
    t->model.by_score = kind == 2;
    t->model.fuse_unknown = true;
    t->model.single = true;
    model_find_bytes(&t->model);
    t->decoder = DECODE_METASPACE;
    t->strip_first = true;
    return INLAY_OK;
}
