/* tokenizer.c - text to tokens and back, step by step. */
#include "parts.h"
#include <stdio.h>

/* ------------------------------------------------------------------ added tokens */

bool add_token(text_tokenizer *t, const struct added *a)
{
    struct added *more = realloc(t->added, (t->added_count + 1) * sizeof *more);

    if (more == NULL)
        return false;
    t->added = more;
    more[t->added_count++] = *a;
    return true;
}

static int by_length(const void *pa, const void *pb)
{
    const struct added *a = pa, *b = pb;

    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : a->id < b->id ? -1 : a->id > b->id;
}

void sort_added(text_tokenizer *t)
{
    if (t->added_count > 0)
        qsort(t->added, t->added_count, sizeof *t->added, by_length);
}

/* Is a token that counts as a word of its own within another here? */
static bool within_word(const char *text, size_t bytes, size_t at, size_t n)
{
    size_t before = at, size;

    if (at + n < bytes && is_word(char_at(text + at + n, &size)))
        return true;
    while (before > 0 && ((unsigned char)text[--before] & 0xc0) == 0x80)
        ;
    return at > 0 && is_word(char_at(text + before, &size));
}

static const struct added *added_at(const text_tokenizer *t, bool normalized, const char *text, size_t bytes, size_t at)
{
    for (size_t i = 0; i < t->added_count; i++) {
        const struct added *a = &t->added[i];

        if (a->normalized == normalized && a->bytes > 0 && a->bytes <= bytes - at &&
            memcmp(text + at, a->text, a->bytes) == 0 && !(a->single && within_word(text, bytes, at, a->bytes)))
            return a;
    }
    return NULL;
}

/* ------------------------------------------------------------------ encoding */

struct encoder {
    const text_tokenizer *t;
    text_ids *out;
    const char *why; /* what failed */
};

static bool encode_word(struct encoder *e, const char *text, size_t bytes)
{
    const struct model *m = &e->t->model;
    const bool ok = m->kind == MODEL_BPE         ? bpe_encode(m, text, bytes, e->out)
                    : m->kind == MODEL_WORDPIECE ? wordpiece_encode(m, text, bytes, e->out)
                                                 : unigram_encode(m, text, bytes, e->out);

    if (!ok)
        e->why = "no memory for the tokens";
    return ok;
}

/* A text without added tokens: words, then tokens. */
static bool encode_plain(struct encoder *e, const char *text, size_t bytes, bool first)
{
    text_spans now = { 0 };
    bool ok = true;

    buf_put(&now.text, text, bytes);
    spans_add(&now, 0, bytes);
    for (size_t i = 0; i < e->t->cut_count && !now.text.failed; i++) {
        text_spans next = { 0 };

        cut_apply(&e->t->cuts[i], &now, &next, first);
        spans_free(&now);
        now = next;
    }
    if (now.text.failed) {
        e->why = "no memory for the words";
        ok = false;
    }
    for (size_t i = 0; ok && i < now.count; i++)
        ok = encode_word(e, now.text.data + now.list[i].at, now.list[i].count);
    spans_free(&now);
    return ok;
}

typedef bool (*piece_fn)(struct encoder *e, const char *text, size_t bytes, bool first);

/* Added tokens as they are, and what lies between them through fn. */
static bool at_added(struct encoder *e, bool normalized, const char *text, size_t bytes, bool first, piece_fn fn)
{
    size_t from = 0, at = 0, size;
    bool ok = true;

    while (ok && at < bytes) {
        const struct added *a = added_at(e->t, normalized, text, bytes, at);
        size_t end = at;

        if (a == NULL) {
            (void)char_at(text + at, &size);
            at += size;
            continue;
        }
        while (a->left && end > from && (unsigned char)text[end - 1] <= ' ' && is_space((unsigned char)text[end - 1]))
            end--;
        ok = (end == from || fn(e, text + from, end - from, first && from == 0)) && ids_push(e->out, a->id);
        at += a->bytes;
        while (a->right && at < bytes && is_space(char_at(text + at, &size)))
            at += size;
        from = at;
    }
    return ok && (from == bytes || fn(e, text + from, bytes - from, first && from == 0));
}

static bool encode_normalized(struct encoder *e, const char *text, size_t bytes, bool first)
{
    text_buf now = { 0 };
    bool ok;

    buf_put(&now, text, bytes);
    for (size_t i = 0; i < e->t->norm_count && e->why == NULL && !now.failed; i++) {
        text_buf next = { 0 };

        e->why = norm_apply(&e->t->norms[i], now.data, now.count, &next);
        free(now.data);
        now = next;
    }
    if (now.failed && e->why == NULL)
        e->why = "no memory to normalize the text";
    ok = e->why == NULL && at_added(e, true, now.data, now.count, first, encode_plain);
    free(now.data);
    return ok;
}

inlay_status text_encode(const text_tokenizer *t, const char *text, size_t bytes, bool special, text_ids *out,
                         inlay_diag *diag)
{
    struct encoder e = { .t = t, .out = out };
    text_buf clean = { 0 };
    bool ok = true;

    buf_clean(&clean, text, bytes);
    for (size_t i = 0; special && ok && i < t->before_count; i++)
        ok = ids_push(out, t->before[i]);
    ok = ok && !clean.failed && at_added(&e, false, clean.data, clean.count, true, encode_normalized);
    for (size_t i = 0; special && ok && i < t->after_count; i++)
        ok = ids_push(out, t->after[i]);
    free(clean.data);
    return ok ? INLAY_OK
              : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s", e.why != NULL ? e.why : "no memory for the tokens");
}

/* ------------------------------------------------------------------ decoding */

/* "<0x0A>" of a vocabulary that falls back to bytes; -1: it is none. */
static int byte_token(const struct model *m, int64_t id)
{
    for (int b = 0; m->byte_fallback && b < 256; b++)
        if (m->bytes[b] == id)
            return b;
    return -1;
}

static void put_spelled(const struct word *w, text_buf *out)
{
    size_t size;

    for (size_t at = 0; at < w->bytes; at += size) {
        const uint32_t c = char_at(w->text + at, &size);
        const int byte = byte_of_char(c);
        const char raw = (char)byte;

        if (byte >= 0)
            buf_put(out, &raw, 1);
        else
            buf_char(out, c);
    }
}

static void put_marked(const struct word *w, text_buf *out)
{
    static const char mark[] = "\xe2\x96\x81";

    for (size_t at = 0; at < w->bytes;) {
        const bool is_mark_here = w->bytes - at >= 3 && memcmp(w->text + at, mark, 3) == 0;

        buf_put(out, is_mark_here ? " " : w->text + at, 1);
        at += is_mark_here ? 3 : 1;
    }
}

static void put_token(const text_tokenizer *t, int64_t id, bool first, text_buf *out)
{
    const struct word *w = &t->model.words.words[id];
    const size_t prefix = strlen(t->model.prefix);
    const int byte = byte_token(&t->model, id);
    const char raw = (char)byte;

    if (byte >= 0) {
        buf_put(out, &raw, 1);
    } else if (t->decoder == DECODE_BYTES && !w->special) {
        put_spelled(w, out);
    } else if (t->decoder == DECODE_METASPACE) {
        put_marked(w, out);
    } else if (t->decoder == DECODE_WORDPIECE) {
        const bool continues = prefix > 0 && w->bytes > prefix && memcmp(w->text, t->model.prefix, prefix) == 0;

        if (!first && !continues)
            buf_put(out, " ", 1);
        buf_put(out, w->text + (continues ? prefix : 0), w->bytes - (continues ? prefix : 0));
    } else {
        buf_put(out, w->text, w->bytes);
    }
}

inlay_status text_decode(const text_tokenizer *t, const int64_t *ids, size_t count, bool skip, char **out,
                         size_t *out_bytes, inlay_diag *diag)
{
    text_buf made = { 0 };
    bool first = true;

    for (size_t i = 0; i < count; i++) {
        if (ids[i] < 0 || (size_t)ids[i] >= t->model.words.count || !t->model.words.words[ids[i]].present ||
            (skip && t->model.words.words[ids[i]].special && byte_token(&t->model, ids[i]) < 0))
            continue;
        put_token(t, ids[i], first, &made);
        first = false;
    }
    buf_put(&made, "", 1);
    if (made.failed) {
        free(made.data);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the text of %llu tokens",
                          (unsigned long long)count);
    }
    *out_bytes = made.count - 1;
    if (t->strip_first && *out_bytes > 0 && made.data[0] == ' ')
        memmove(made.data, made.data + 1, (*out_bytes)--);
    *out = made.data;
    return INLAY_OK;
}

inlay_status text_piece(const text_tokenizer *t, int64_t id, char **out, size_t *out_bytes, bool *special,
                        inlay_diag *diag)
{
    const bool is_there = id >= 0 && (size_t)id < t->model.words.count && t->model.words.words[id].present;
    text_buf made = { 0 };

    *special = is_there && t->model.words.words[id].special && byte_token(&t->model, id) < 0;
    if (is_there)
        put_token(t, id, false, &made);
    if (made.failed) {
        free(made.data);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the text of a token");
    }
    *out = made.data;
    *out_bytes = made.count;
    return INLAY_OK;
}

size_t text_count(const text_tokenizer *t)
{
    return t->model.words.count;
}

/* ------------------------------------------------------------------ life */

static inlay_status create(text_tokenizer **out, inlay_diag *diag)
{
    text_tokenizer *t = calloc(1, sizeof *t);

    *out = t;
    if (t == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a tokenizer");
    t->model.unknown = t->pad = -1;
    memset(t->model.bytes, 0xff, sizeof t->model.bytes);
    t->model.most_chars = 100;
    t->model.prefix = copy_text("", 0);
    t->model.suffix = copy_text("", 0);
    return t->model.prefix != NULL && t->model.suffix != NULL ? INLAY_OK
                                                              : inlay_fail(diag, INLAY_OUT_OF_MEMORY,
                                                                           "no memory for a "
                                                                           "tokenizer");
}

void text_close(text_tokenizer *t)
{
    if (t == NULL)
        return;
    model_free(&t->model);
    for (size_t i = 0; i < t->norm_count; i++)
        norm_free(&t->norms[i]);
    for (size_t i = 0; i < t->cut_count; i++)
        free(t->cuts[i].text);
    free(t->added);
    free(t);
}

int64_t text_id(const text_tokenizer *t, const char *token)
{
    return vocabulary_find(&t->model.words, token, strlen(token));
}

int64_t text_pad(const text_tokenizer *t)
{
    return t->pad >= 0 ? t->pad : 0;
}

/* The words of vocab.txt, a line each. */
static bool read_lines(struct vocabulary *v, const char *text, size_t bytes)
{
    int64_t id = 0;

    for (size_t at = 0; at < bytes; id++) {
        const char *end = memchr(text + at, '\n', bytes - at);
        const size_t n = (end != NULL ? (size_t)(end - text) : bytes) - at;

        if (!vocabulary_set(v, id, text + at, n > 0 && text[at + n - 1] == '\r' ? n - 1 : n, 0))
            return false;
        at += n + 1;
    }
    return true;
}

inlay_status text_open_bert(const char *vocab, size_t bytes, const text_bert *how, text_tokenizer **out,
                            inlay_diag *diag)
{
    const char *const special[] = { how->unknown, how->begin, how->end, how->pad, "[MASK]" };
    text_tokenizer *t;
    inlay_status status;

    INLAY_TRY(create(&t, diag));
    t->model.kind = MODEL_WORDPIECE;
    free(t->model.prefix);
    t->model.prefix = copy_text("##", 2);
    if (t->model.prefix == NULL || !read_lines(&t->model.words, vocab, bytes)) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the vocabulary");
        goto done;
    }
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
        const int64_t id = text_id(t, special[i]);

        if (id >= 0) {
            t->model.words.words[id].special = 1;
            if (!add_token(t, &(struct added){ .text = t->model.words.words[id].text,
                                               .bytes = t->model.words.words[id].bytes,
                                               .id = id,
                                               .special = true })) {
                status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the vocabulary");
                goto done;
            }
        } else if (i < 3) {
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the vocabulary has no '%.60s' among its %llu lines",
                                special[i], (unsigned long long)t->model.words.count);
            goto done;
        }
    }
    sort_added(t);
    t->model.unknown = text_id(t, how->unknown);
    t->before[t->before_count++] = text_id(t, how->begin);
    t->after[t->after_count++] = text_id(t, how->end);
    t->pad = text_id(t, how->pad);
    t->norms[t->norm_count++] =
        (struct norm){ .kind = NORM_BERT,
                       .clean = how->clean,
                       .chinese = how->chinese,
                       .lower = how->lower,
                       .accents = how->strip_accents < 0 ? how->lower : how->strip_accents != 0 };
    t->cuts[t->cut_count++] = (struct cut){ .kind = CUT_BERT };
    t->decoder = DECODE_WORDPIECE;
done:
    if (status != INLAY_OK) {
        text_close(t);
        t = NULL;
    }
    *out = t;
    return status;
}

/* Does the file begin as SentencePiece's do: field 1, a message of a piece with its text? */
static bool is_spm(const unsigned char *file, size_t bytes)
{
    return bytes > 4 && file[0] == 0x0a && file[2] == 0x0a;
}

inlay_status text_open(const char *file, size_t bytes, text_tokenizer **out, inlay_diag *diag)
{
    static const text_bert bert = { true, true, true, -1, "[UNK]", "[CLS]", "[SEP]", "[PAD]" };
    text_tokenizer *t = NULL;
    size_t at = 0;
    inlay_status status;

    *out = NULL;
    while (at < bytes && is_space((unsigned char)file[at]))
        at++;
    if (at == bytes)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the file of the tokenizer is empty");
    if (file[at] != '{' && !is_spm((const unsigned char *)file, bytes))
        return text_open_bert(file, bytes, &bert, out, diag);
    status = create(&t, diag);
    if (status == INLAY_OK)
        status = file[at] == '{' ? read_json(t, file, bytes, diag) : read_spm(t, file, bytes, diag);
    if (status == INLAY_OK) {
        sort_added(t);
        *out = t;
        return status;
    }
    text_close(t);
    return status;
}

inlay_status text_open_bpe(const char *vocab, size_t vocab_bytes, const char *merges, size_t merges_bytes,
                           text_tokenizer **out, inlay_diag *diag)
{
    text_tokenizer *t = NULL;
    inlay_status status = create(&t, diag);

    *out = NULL;
    if (status == INLAY_OK)
        status = read_bpe(t, vocab, vocab_bytes, merges, merges_bytes, diag);
    if (status == INLAY_OK) {
        *out = t;
        return status;
    }
    text_close(t);
    return status;
}
