/* tokenizer.c - text to tokens and back, step by step. */
#include "parts.h"
#include <stdio.h>

/* ------------------------------------------------------------------ added tokens */

bool add_token(text_tokenizer *tokenizer, const struct added *added)
{
    struct added *more = realloc(tokenizer->added, (tokenizer->added_count + 1) * sizeof *more);

    if (more == NULL)
        return false;
    tokenizer->added = more;
    more[tokenizer->added_count++] = *added;
    return true;
}

static int by_length(const void *pa, const void *pb)
{
    const struct added *a = pa, *b = pb;

    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : a->id < b->id ? -1 : a->id > b->id;
}

void sort_added(text_tokenizer *tokenizer)
{
    if (tokenizer->added_count > 0)
        qsort(tokenizer->added, tokenizer->added_count, sizeof *tokenizer->added, by_length);
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

static const struct added *added_at(const text_tokenizer *tokenizer, bool normalized, const char *text, size_t bytes,
                                    size_t at)
{
    for (size_t i = 0; i < tokenizer->added_count; i++) {
        const struct added *added = &tokenizer->added[i];

        if (added->normalized == normalized && added->bytes > 0 && added->bytes <= bytes - at &&
            memcmp(text + at, added->text, added->bytes) == 0 &&
            !(added->single && within_word(text, bytes, at, added->bytes)))
            return added;
    }
    return NULL;
}

/* ------------------------------------------------------------------ encoding */

struct encoder {
    const text_tokenizer *tokenizer;
    text_ids *out;
    const char *why; /* what failed */
};

static bool encode_word(struct encoder *encoder, const char *text, size_t bytes)
{
    const struct model *model = &encoder->tokenizer->model;
    const bool ok = model->kind == MODEL_BPE         ? bpe_encode(model, text, bytes, encoder->out)
                    : model->kind == MODEL_WORDPIECE ? wordpiece_encode(model, text, bytes, encoder->out)
                                                     : unigram_encode(model, text, bytes, encoder->out);

    if (!ok)
        encoder->why = "no memory for the tokens";
    return ok;
}

/* A text without added tokens: words, then tokens. */
static bool encode_plain(struct encoder *encoder, const char *text, size_t bytes, bool first)
{
    text_spans now = { 0 };
    bool ok = true;

    buf_put(&now.text, text, bytes);
    spans_add(&now, 0, bytes);
    for (size_t i = 0; i < encoder->tokenizer->cut_count && !now.text.failed; i++) {
        text_spans next = { 0 };

        cut_apply(&encoder->tokenizer->cuts[i], &now, &next, first);
        spans_free(&now);
        now = next;
    }
    if (now.text.failed) {
        encoder->why = "no memory for the words";
        ok = false;
    }
    for (size_t i = 0; ok && i < now.count; i++)
        ok = encode_word(encoder, now.text.data + now.list[i].at, now.list[i].count);
    spans_free(&now);
    return ok;
}

typedef bool (*piece_fn)(struct encoder *encoder, const char *text, size_t bytes, bool first);

/* Added tokens as they are, and what lies between them through fn. */
static bool at_added(struct encoder *encoder, bool normalized, const char *text, size_t bytes, bool first, piece_fn fn)
{
    size_t from = 0, at = 0, size;
    bool ok = true;

    while (ok && at < bytes) {
        const struct added *added = added_at(encoder->tokenizer, normalized, text, bytes, at);
        size_t end = at;

        if (added == NULL) {
            (void)char_at(text + at, &size);
            at += size;
            continue;
        }
        while (added->left && end > from && (unsigned char)text[end - 1] <= ' ' &&
               is_space((unsigned char)text[end - 1]))
            end--;
        ok = (end == from || fn(encoder, text + from, end - from, first && from == 0)) &&
             ids_push(encoder->out, added->id);
        at += added->bytes;
        while (added->right && at < bytes && is_space(char_at(text + at, &size)))
            at += size;
        from = at;
    }
    return ok && (from == bytes || fn(encoder, text + from, bytes - from, first && from == 0));
}

static bool encode_normalized(struct encoder *encoder, const char *text, size_t bytes, bool first)
{
    text_buf now = { 0 };
    bool ok;

    buf_put(&now, text, bytes);
    for (size_t i = 0; i < encoder->tokenizer->norm_count && encoder->why == NULL && !now.failed; i++) {
        text_buf next = { 0 };

        encoder->why = norm_apply(&encoder->tokenizer->norms[i], now.data, now.count, &next);
        free(now.data);
        now = next;
    }
    if (now.failed && encoder->why == NULL)
        encoder->why = "no memory to normalize the text";
    ok = encoder->why == NULL && at_added(encoder, true, now.data, now.count, first, encode_plain);
    free(now.data);
    return ok;
}

inlay_status text_encode(const text_tokenizer *tokenizer, const char *text, size_t bytes, bool special, text_ids *out,
                         inlay_diag *diag)
{
    struct encoder encoder = { .tokenizer = tokenizer, .out = out };
    text_buf clean = { 0 };
    bool ok = true;

    buf_clean(&clean, text, bytes);
    for (size_t i = 0; special && ok && i < tokenizer->before_count; i++)
        ok = ids_push(out, tokenizer->before[i]);
    ok = ok && !clean.failed && at_added(&encoder, false, clean.data, clean.count, true, encode_normalized);
    for (size_t i = 0; special && ok && i < tokenizer->after_count; i++)
        ok = ids_push(out, tokenizer->after[i]);
    free(clean.data);
    return ok ? INLAY_OK
              : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s",
                           encoder.why != NULL ? encoder.why : "no memory for the tokens");
}

/* ------------------------------------------------------------------ decoding */

/* "<0x0A>" of a vocabulary that falls back to bytes; -1: it is none. */
static int byte_token(const struct model *model, int64_t id)
{
    for (int byte = 0; model->byte_fallback && byte < 256; byte++)
        if (model->bytes[byte] == id)
            return byte;
    return -1;
}

static void put_spelled(const struct word *word, text_buf *out)
{
    size_t size;

    for (size_t at = 0; at < word->bytes; at += size) {
        const uint32_t c = char_at(word->text + at, &size);
        const int byte = byte_of_char(c);
        const char raw = (char)byte;

        if (byte >= 0)
            buf_put(out, &raw, 1);
        else
            buf_char(out, c);
    }
}

static void put_marked(const struct word *word, text_buf *out)
{
    static const char mark[] = "\xe2\x96\x81";

    for (size_t at = 0; at < word->bytes;) {
        const bool is_mark_here = word->bytes - at >= 3 && memcmp(word->text + at, mark, 3) == 0;

        buf_put(out, is_mark_here ? " " : word->text + at, 1);
        at += is_mark_here ? 3 : 1;
    }
}

static void put_token(const text_tokenizer *tokenizer, int64_t id, bool first, text_buf *out)
{
    const struct word *word = &tokenizer->model.words.words[id];
    const size_t prefix = strlen(tokenizer->model.prefix);
    const int byte = byte_token(&tokenizer->model, id);
    const char raw = (char)byte;

    if (byte >= 0) {
        buf_put(out, &raw, 1);
    } else if (tokenizer->decoder == DECODE_BYTES && !word->special) {
        put_spelled(word, out);
    } else if (tokenizer->decoder == DECODE_METASPACE) {
        put_marked(word, out);
    } else if (tokenizer->decoder == DECODE_WORDPIECE) {
        const bool continues =
            prefix > 0 && word->bytes > prefix && memcmp(word->text, tokenizer->model.prefix, prefix) == 0;

        if (!first && !continues)
            buf_put(out, " ", 1);
        buf_put(out, word->text + (continues ? prefix : 0), word->bytes - (continues ? prefix : 0));
    } else {
        buf_put(out, word->text, word->bytes);
    }
}

inlay_status text_decode(const text_tokenizer *tokenizer, const int64_t *ids, size_t count, bool skip, char **out,
                         size_t *out_bytes, inlay_diag *diag)
{
    text_buf made = { 0 };
    bool first = true;

    for (size_t i = 0; i < count; i++) {
        if (ids[i] < 0 || (size_t)ids[i] >= tokenizer->model.words.count ||
            !tokenizer->model.words.words[ids[i]].present ||
            (skip && tokenizer->model.words.words[ids[i]].special && byte_token(&tokenizer->model, ids[i]) < 0))
            continue;
        put_token(tokenizer, ids[i], first, &made);
        first = false;
    }
    buf_put(&made, "", 1);
    if (made.failed) {
        free(made.data);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the text of %llu tokens",
                          (unsigned long long)count);
    }
    *out_bytes = made.count - 1;
    if (tokenizer->strip_first && *out_bytes > 0 && made.data[0] == ' ')
        memmove(made.data, made.data + 1, (*out_bytes)--);
    *out = made.data;
    return INLAY_OK;
}

inlay_status text_piece(const text_tokenizer *tokenizer, int64_t id, char **out, size_t *out_bytes, bool *special,
                        inlay_diag *diag)
{
    const bool is_there =
        id >= 0 && (size_t)id < tokenizer->model.words.count && tokenizer->model.words.words[id].present;
    text_buf made = { 0 };

    *special = is_there && tokenizer->model.words.words[id].special && byte_token(&tokenizer->model, id) < 0;
    if (is_there)
        put_token(tokenizer, id, false, &made);
    if (made.failed) {
        free(made.data);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the text of a token");
    }
    *out = made.data;
    *out_bytes = made.count;
    return INLAY_OK;
}

size_t text_count(const text_tokenizer *tokenizer)
{
    return tokenizer->model.words.count;
}

/* ------------------------------------------------------------------ life */

static inlay_status create(text_tokenizer **out, inlay_diag *diag)
{
    text_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);

    *out = tokenizer;
    if (tokenizer == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a tokenizer");
    tokenizer->model.unknown = tokenizer->pad = -1;
    memset(tokenizer->model.bytes, 0xff, sizeof tokenizer->model.bytes);
    tokenizer->model.most_chars = 100;
    tokenizer->model.prefix = copy_text("", 0);
    tokenizer->model.suffix = copy_text("", 0);
    return tokenizer->model.prefix != NULL && tokenizer->model.suffix != NULL ? INLAY_OK
                                                                              : inlay_fail(diag, INLAY_OUT_OF_MEMORY,
                                                                                           "no memory for a "
                                                                                           "tokenizer");
}

void text_close(text_tokenizer *tokenizer)
{
    if (tokenizer == NULL)
        return;
    model_free(&tokenizer->model);
    for (size_t i = 0; i < tokenizer->norm_count; i++)
        norm_free(&tokenizer->norms[i]);
    for (size_t i = 0; i < tokenizer->cut_count; i++)
        free(tokenizer->cuts[i].text);
    free(tokenizer->added);
    free(tokenizer);
}

int64_t text_id(const text_tokenizer *tokenizer, const char *token)
{
    return vocabulary_find(&tokenizer->model.words, token, strlen(token));
}

int64_t text_pad(const text_tokenizer *tokenizer)
{
    return tokenizer->pad >= 0 ? tokenizer->pad : 0;
}

/* The words of vocab.txt, a line each. */
static bool read_lines(struct vocabulary *vocabulary, const char *text, size_t bytes)
{
    int64_t id = 0;

    for (size_t at = 0; at < bytes; id++) {
        const char *end = memchr(text + at, '\n', bytes - at);
        const size_t n = (end != NULL ? (size_t)(end - text) : bytes) - at;

        if (!vocabulary_set(vocabulary, id, text + at, n > 0 && text[at + n - 1] == '\r' ? n - 1 : n, 0))
            return false;
        at += n + 1;
    }
    return true;
}

inlay_status text_open_bert(const char *vocab, size_t bytes, const text_bert *how, text_tokenizer **out,
                            inlay_diag *diag)
{
    const char *const special[] = { how->unknown, how->begin, how->end, how->pad, "[MASK]" };
    text_tokenizer *tokenizer;
    inlay_status status;

    INLAY_TRY(create(&tokenizer, diag));
    tokenizer->model.kind = MODEL_WORDPIECE;
    free(tokenizer->model.prefix);
    tokenizer->model.prefix = copy_text("##", 2);
    if (tokenizer->model.prefix == NULL || !read_lines(&tokenizer->model.words, vocab, bytes)) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the vocabulary");
        goto done;
    }
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
        const int64_t id = text_id(tokenizer, special[i]);

        if (id >= 0) {
            tokenizer->model.words.words[id].special = 1;
            if (!add_token(tokenizer, &(struct added){ .text = tokenizer->model.words.words[id].text,
                                                       .bytes = tokenizer->model.words.words[id].bytes,
                                                       .id = id,
                                                       .special = true })) {
                status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the vocabulary");
                goto done;
            }
        } else if (i < 3) {
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the vocabulary has no '%.60s' among its %llu lines",
                                special[i], (unsigned long long)tokenizer->model.words.count);
            goto done;
        }
    }
    sort_added(tokenizer);
    tokenizer->model.unknown = text_id(tokenizer, how->unknown);
    tokenizer->before[tokenizer->before_count++] = text_id(tokenizer, how->begin);
    tokenizer->after[tokenizer->after_count++] = text_id(tokenizer, how->end);
    tokenizer->pad = text_id(tokenizer, how->pad);
    tokenizer->norms[tokenizer->norm_count++] =
        (struct norm){ .kind = NORM_BERT,
                       .clean = how->clean,
                       .chinese = how->chinese,
                       .lower = how->lower,
                       .accents = how->strip_accents < 0 ? how->lower : how->strip_accents != 0 };
    tokenizer->cuts[tokenizer->cut_count++] = (struct cut){ .kind = CUT_BERT };
    tokenizer->decoder = DECODE_WORDPIECE;
done:
    if (status != INLAY_OK) {
        text_close(tokenizer);
        tokenizer = NULL;
    }
    *out = tokenizer;
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
    text_tokenizer *tokenizer = NULL;
    size_t at = 0;
    inlay_status status;

    *out = NULL;
    while (at < bytes && is_space((unsigned char)file[at]))
        at++;
    if (at == bytes)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the file of the tokenizer is empty");
    if (file[at] != '{' && !is_spm((const unsigned char *)file, bytes))
        return text_open_bert(file, bytes, &bert, out, diag);
    status = create(&tokenizer, diag);
    if (status == INLAY_OK)
        status = file[at] == '{' ? read_json(tokenizer, file, bytes, diag) : read_spm(tokenizer, file, bytes, diag);
    if (status == INLAY_OK) {
        sort_added(tokenizer);
        *out = tokenizer;
        return status;
    }
    text_close(tokenizer);
    return status;
}

inlay_status text_open_bpe(const char *vocab, size_t vocab_bytes, const char *merges, size_t merges_bytes,
                           text_tokenizer **out, inlay_diag *diag)
{
    text_tokenizer *tokenizer = NULL;
    inlay_status status = create(&tokenizer, diag);

    *out = NULL;
    if (status == INLAY_OK)
        status = read_bpe(tokenizer, vocab, vocab_bytes, merges, merges_bytes, diag);
    if (status == INLAY_OK) {
        *out = tokenizer;
        return status;
    }
    text_close(tokenizer);
    return status;
}
