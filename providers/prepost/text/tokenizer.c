/* tokenizer.c - converts text to tokens and back: added tokens, normalizers, pre-tokenizers, model, decoder. */
#include "prepost/text/tokenizer_parts.h"
#include "inlay/check.h"
#include <stdio.h>

bool add_token(text_tokenizer *tokenizer, const added_token *added)
{
    added_token *more = realloc(tokenizer->added, (tokenizer->added_count + 1) * sizeof *more);

    INLAY_CHECK(added->text != NULL && added->id >= 0 && (size_t)added->id < tokenizer->model.vocabulary.count);
    if (more == NULL)
        return false;
    tokenizer->added = more;
    more[tokenizer->added_count++] = *added;
    return true;
}

static int by_length(const void *pa, const void *pb)
{
    const added_token *a = pa, *b = pb;

    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : a->id < b->id ? -1 : a->id > b->id;
}

void sort_added_tokens(text_tokenizer *tokenizer)
{
    if (tokenizer->added_count > 0)
        qsort(tokenizer->added, tokenizer->added_count, sizeof *tokenizer->added, by_length);
}

/* The start of the last character of text[from, at), which is not empty. */
static size_t char_before(const char *text, size_t from, size_t at)
{
    INLAY_CHECK(from < at);
    while (--at > from && ((unsigned char)text[at] & 0xc0) == 0x80)
        ;
    return at;
}

/* True if the `n` bytes at `at` are part of a longer word. */
static bool within_word(const char *text, size_t bytes, size_t at, size_t n)
{
    size_t size;

    INLAY_CHECK(at <= bytes && n <= bytes - at);
    if (at + n < bytes && is_word(char_at(text + at + n, &size)))
        return true;
    return at > 0 && is_word(char_at(text + char_before(text, 0, at), &size));
}

static bool at_character(const char *text, size_t bytes, size_t at)
{
    return at == bytes || ((unsigned char)text[at] & 0xc0) != 0x80;
}

/* The longest added token at `at`; NULL if there is none. A file may have tokens that are not valid UTF-8. They must
 * not match a part of a character, because the rest of the text would not be valid UTF-8. */
static const added_token *added_at(const text_tokenizer *tokenizer, bool normalized, const char *text, size_t bytes,
                                   size_t at)
{
    for (size_t i = 0; i < tokenizer->added_count; i++) {
        const added_token *added = &tokenizer->added[i];

        if (added->normalized == normalized && added->bytes > 0 && added->bytes <= bytes - at &&
            memcmp(text + at, added->text, added->bytes) == 0 && at_character(text, bytes, at + added->bytes) &&
            !(added->single_word && within_word(text, bytes, at, added->bytes)))
            return added;
    }
    return NULL;
}

struct encoder {
    const text_tokenizer *tokenizer;
    text_ids *out;
    const char *why; /* the error message, NULL without an error */
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

/* Encodes a normalized text without added tokens: splits it into words, and these into tokens. */
static bool encode_plain(struct encoder *encoder, const char *text, size_t bytes, bool first)
{
    text_spans now = { 0 };
    bool ok = true;

    buf_append(&now.text, text, bytes);
    spans_add(&now, 0, bytes);
    for (size_t i = 0; i < encoder->tokenizer->pretokenizer_count && !now.text.failed; i++) {
        text_spans next = { 0 };

        pretokenize(&encoder->tokenizer->pretokenizers[i], &now, &next, first);
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

/* Appends the ids of the added tokens in the text, and calls fn for each part of the text between them. */
static bool split_at_added(struct encoder *encoder, bool normalized, const char *text, size_t bytes, bool first,
                           piece_fn fn)
{
    size_t from = 0, at = 0, size;
    bool ok = true;

    while (ok && at < bytes) {
        const added_token *added = added_at(encoder->tokenizer, normalized, text, bytes, at);
        size_t end = at;

        if (added == NULL) {
            (void)char_at(text + at, &size);
            at += size;
            continue;
        }
        while (added->lstrip && end > from && is_space(char_at(text + char_before(text, from, end), &size)))
            end = char_before(text, from, end);
        INLAY_CHECK(from <= end && end <= at && at + added->bytes <= bytes);
        ok = (end == from || fn(encoder, text + from, end - from, first && from == 0)) &&
             ids_push(encoder->out, added->id);
        at += added->bytes;
        while (added->rstrip && at < bytes && is_space(char_at(text + at, &size)))
            at += size;
        from = at;
    }
    return ok && (from == bytes || fn(encoder, text + from, bytes - from, first && from == 0));
}

static bool encode_normalized(struct encoder *encoder, const char *text, size_t bytes, bool first)
{
    text_buf now = { 0 };
    bool ok;

    buf_append(&now, text, bytes);
    for (size_t i = 0; i < encoder->tokenizer->normalizer_count && encoder->why == NULL && !now.failed; i++) {
        text_buf next = { 0 };

        encoder->why = normalizer_apply(&encoder->tokenizer->normalizers[i], now.data, now.count, &next);
        free(now.data);
        now = next;
    }
    if (now.failed && encoder->why == NULL)
        encoder->why = "no memory to normalize the text";
    ok = encoder->why == NULL && split_at_added(encoder, true, now.data, now.count, first, encode_plain);
    free(now.data);
    return ok;
}

inlay_status text_encode(const text_tokenizer *tokenizer, const char *text, size_t bytes, bool special, text_ids *out,
                         inlay_diag *diag)
{
    struct encoder encoder = { .tokenizer = tokenizer, .out = out };
    text_buf clean = { 0 };
    bool ok = true;

    INLAY_CHECK(tokenizer->prefix_count <= MAX_AFFIX && tokenizer->suffix_count <= MAX_AFFIX);
    buf_append_valid(&clean, text, bytes);
    for (size_t i = 0; special && ok && i < tokenizer->prefix_count; i++)
        ok = ids_push(out, tokenizer->prefix_ids[i]);
    ok = ok && !clean.failed && split_at_added(&encoder, false, clean.data, clean.count, true, encode_normalized);
    for (size_t i = 0; special && ok && i < tokenizer->suffix_count; i++)
        ok = ids_push(out, tokenizer->suffix_ids[i]);
    free(clean.data);
    return ok ? INLAY_OK
              : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s",
                           encoder.why != NULL ? encoder.why : "no memory for the tokens");
}

/* The byte of a token such as "<0x0A>" of a vocabulary with byte fallback; -1 if the token is another one. */
static int byte_token(const struct model *model, int64_t id)
{
    for (int byte = 0; model->byte_fallback && byte < 256; byte++)
        if (model->byte_ids[byte] == id)
            return byte;
    return -1;
}

static void append_bytes(const struct token *token, text_buf *out)
{
    size_t size;

    for (size_t at = 0; at < token->bytes; at += size) {
        const uint32_t c = char_at(token->text + at, &size);
        const int byte = byte_of_char(c);
        const char raw = (char)byte;

        if (byte >= 0)
            buf_append(out, &raw, 1);
        else
            buf_append_char(out, c);
    }
}

static void append_unmarked(const struct token *token, text_buf *out)
{
    static const char mark[] = "\xe2\x96\x81";

    for (size_t at = 0; at < token->bytes;) {
        const bool is_mark_here = token->bytes - at >= 3 && memcmp(token->text + at, mark, 3) == 0;

        buf_append(out, is_mark_here ? " " : token->text + at, 1);
        at += is_mark_here ? 3 : 1;
    }
}

static void append_token(const text_tokenizer *tokenizer, int64_t id, bool first, text_buf *out)
{
    const struct token *token = &tokenizer->model.vocabulary.tokens[id];
    const size_t prefix = strlen(tokenizer->model.prefix);
    const int byte = byte_token(&tokenizer->model, id);
    const char raw = (char)byte;

    INLAY_CHECK((size_t)id < tokenizer->model.vocabulary.count && token->present);
    if (byte >= 0) {
        buf_append(out, &raw, 1);
    } else if (tokenizer->decoder == DECODE_BYTES && !token->special) {
        append_bytes(token, out);
    } else if (tokenizer->decoder == DECODE_METASPACE) {
        append_unmarked(token, out);
    } else if (tokenizer->decoder == DECODE_WORDPIECE) {
        const bool continues =
            prefix > 0 && token->bytes > prefix && memcmp(token->text, tokenizer->model.prefix, prefix) == 0;

        if (!first && !continues)
            buf_append(out, " ", 1);
        buf_append(out, token->text + (continues ? prefix : 0), token->bytes - (continues ? prefix : 0));
    } else {
        buf_append(out, token->text, token->bytes);
    }
}

inlay_status text_decode(const text_tokenizer *tokenizer, const int64_t *ids, size_t count, bool skip, char **out,
                         size_t *out_bytes, inlay_diag *diag)
{
    text_buf made = { 0 };
    bool first = true;

    for (size_t i = 0; i < count; i++) {
        if (ids[i] < 0 || (size_t)ids[i] >= tokenizer->model.vocabulary.count ||
            !tokenizer->model.vocabulary.tokens[ids[i]].present ||
            (skip && tokenizer->model.vocabulary.tokens[ids[i]].special && byte_token(&tokenizer->model, ids[i]) < 0))
            continue;
        append_token(tokenizer, ids[i], first, &made);
        first = false;
    }
    buf_append(&made, "", 1);
    if (made.failed) {
        free(made.data);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the text of %llu tokens",
                          (unsigned long long)count);
    }
    INLAY_CHECK(made.count > 0 && made.data[made.count - 1] == '\0');
    *out_bytes = made.count - 1;
    if (tokenizer->strip_leading_space && *out_bytes > 0 && made.data[0] == ' ')
        memmove(made.data, made.data + 1, (*out_bytes)--);
    *out = made.data;
    return INLAY_OK;
}

inlay_status text_token_text(const text_tokenizer *tokenizer, int64_t id, char **out, size_t *out_bytes, bool *special,
                             inlay_diag *diag)
{
    const bool present =
        id >= 0 && (size_t)id < tokenizer->model.vocabulary.count && tokenizer->model.vocabulary.tokens[id].present;
    text_buf made = { 0 };

    *special = present && tokenizer->model.vocabulary.tokens[id].special && byte_token(&tokenizer->model, id) < 0;
    if (present)
        append_token(tokenizer, id, false, &made);
    if (made.failed) {
        free(made.data);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the text of a token");
    }
    *out = made.data;
    *out_bytes = made.count;
    return INLAY_OK;
}

size_t text_vocabulary_size(const text_tokenizer *tokenizer)
{
    return tokenizer->model.vocabulary.count;
}

static inlay_status create(text_tokenizer **out, inlay_diag *diag)
{
    text_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);

    *out = tokenizer;
    if (tokenizer == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a tokenizer");
    tokenizer->model.unknown_id = tokenizer->pad_id = -1;
    memset(tokenizer->model.byte_ids, 0xff, sizeof tokenizer->model.byte_ids);
    tokenizer->model.max_chars = 100;
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
    INLAY_CHECK(tokenizer->normalizer_count <= MAX_STEPS && tokenizer->pretokenizer_count <= MAX_STEPS);
    model_free(&tokenizer->model);
    for (size_t i = 0; i < tokenizer->normalizer_count; i++)
        normalizer_free(&tokenizer->normalizers[i]);
    for (size_t i = 0; i < tokenizer->pretokenizer_count; i++)
        free(tokenizer->pretokenizers[i].pattern);
    free(tokenizer->added);
    free(tokenizer);
}

int64_t text_find_token(const text_tokenizer *tokenizer, const char *token)
{
    return vocabulary_find(&tokenizer->model.vocabulary, token, strlen(token));
}

int64_t text_pad_id(const text_tokenizer *tokenizer)
{
    return tokenizer->pad_id >= 0 ? tokenizer->pad_id : 0;
}

/* Reads the tokens of a vocab.txt, one a line. */
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

inlay_status text_open_bert(const char *vocab, size_t bytes, const text_bert_options *options, text_tokenizer **out,
                            inlay_diag *diag)
{
    const char *const special[] = { options->unknown, options->begin, options->end, options->pad, "[MASK]" };
    text_tokenizer *tokenizer;
    inlay_status status;

    INLAY_TRY(create(&tokenizer, diag));
    tokenizer->model.kind = MODEL_WORDPIECE;
    free(tokenizer->model.prefix);
    tokenizer->model.prefix = copy_text("##", 2);
    if (tokenizer->model.prefix == NULL || !read_lines(&tokenizer->model.vocabulary, vocab, bytes)) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the vocabulary");
        goto done;
    }
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
        const int64_t id = text_find_token(tokenizer, special[i]);

        if (id >= 0) {
            tokenizer->model.vocabulary.tokens[id].special = 1;
            if (!add_token(tokenizer, &(added_token){ .text = tokenizer->model.vocabulary.tokens[id].text,
                                                      .bytes = tokenizer->model.vocabulary.tokens[id].bytes,
                                                      .id = id,
                                                      .special = true })) {
                status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the vocabulary");
                goto done;
            }
        } else if (i < 3) {
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the vocabulary of %llu lines has no token '%.60s'",
                                (unsigned long long)tokenizer->model.vocabulary.count, special[i]);
            goto done;
        }
    }
    sort_added_tokens(tokenizer);
    tokenizer->model.unknown_id = text_find_token(tokenizer, options->unknown);
    tokenizer->prefix_ids[tokenizer->prefix_count++] = text_find_token(tokenizer, options->begin);
    tokenizer->suffix_ids[tokenizer->suffix_count++] = text_find_token(tokenizer, options->end);
    tokenizer->pad_id = text_find_token(tokenizer, options->pad);
    tokenizer->normalizers[tokenizer->normalizer_count++] =
        (struct normalizer){ .kind = NORMALIZE_BERT,
                             .clean = options->clean,
                             .split_chinese = options->chinese,
                             .lower = options->lower,
                             .strip_accents =
                                 options->strip_accents < 0 ? options->lower : options->strip_accents != 0 };
    tokenizer->pretokenizers[tokenizer->pretokenizer_count++] = (struct pretokenizer){ .kind = SPLIT_BERT };
    tokenizer->decoder = DECODE_WORDPIECE;
done:
    if (status != INLAY_OK) {
        text_close(tokenizer);
        tokenizer = NULL;
    }
    *out = tokenizer;
    return status;
}

/* True if the file begins as a SentencePiece model: field 1, a message of a piece that begins with its text. */
static bool is_spm(const unsigned char *file, size_t bytes)
{
    return bytes > 4 && file[0] == 0x0a && file[2] == 0x0a;
}

inlay_status text_open(const char *file, size_t bytes, text_tokenizer **out, inlay_diag *diag)
{
    static const text_bert_options bert = { true, true, true, -1, "[UNK]", "[CLS]", "[SEP]", "[PAD]" };
    text_tokenizer *tokenizer = NULL;
    size_t at = 0;
    inlay_status status;

    *out = NULL;
    while (at < bytes && is_space((unsigned char)file[at]))
        at++;
    if (at == bytes)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the tokenizer file is empty");
    if (file[at] != '{' && !is_spm((const unsigned char *)file, bytes))
        return text_open_bert(file, bytes, &bert, out, diag);
    status = create(&tokenizer, diag);
    if (status == INLAY_OK)
        status = file[at] == '{' ? read_json(tokenizer, file, bytes, diag) : read_spm(tokenizer, file, bytes, diag);
    if (status == INLAY_OK) {
        sort_added_tokens(tokenizer);
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
