/* tokenizer.c - converts text to tokens and back: added tokens, normalizers, pre-tokenizers, model, decoder. */
#include "prepost/text/tokenizer_parts.h"
#include "inlay/check.h"

bool add_token(text_tokenizer *tokenizer, const added_token *added)
{
    added_token *more = realloc(tokenizer->added, (tokenizer->added_count + 1) * sizeof *more);

    INLAY_CHECK(added->id >= 0 && (size_t)added->id < tokenizer->model.vocabulary.count);
    if (more == NULL)
        return false;
    tokenizer->added = more;
    more[tokenizer->added_count] = *added;
    more[tokenizer->added_count].text = copy_text(added->text != NULL ? added->text : "", added->bytes);
    if (more[tokenizer->added_count].text == NULL)
        return false;
    tokenizer->added_count++;
    if (added->bytes > 0)
        tokenizer->begins_added[added->normalized][(unsigned char)added->text[0]] = true;
    return true;
}

static int by_length(const void *pa, const void *pb)
{
    const added_token *a = pa, *b = pb;

    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : a->id < b->id ? -1 : a->id > b->id;
}

static void sort_added_tokens(text_tokenizer *tokenizer)
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
    if (!tokenizer->begins_added[normalized][(unsigned char)text[at]])
        return NULL;
    for (size_t i = 0; i < tokenizer->added_count; i++) {
        const added_token *added = &tokenizer->added[i];

        if (added->normalized == normalized && added->bytes > 0 && added->bytes <= bytes - at &&
            memcmp(text + at, added->text, added->bytes) == 0 && at_character(text, bytes, at + added->bytes))
            return added;
    }
    return NULL;
}

struct encoder {
    const text_tokenizer *tokenizer;
    text_ids *out;
    inlay_diag *diag;
    inlay_status status;
};

static bool out_of_memory(struct encoder *encoder)
{
    encoder->status = inlay_fail(encoder->diag, INLAY_OUT_OF_MEMORY, "no memory for the tokens");
    return false;
}

static bool encode_word(struct encoder *encoder, const char *text, size_t bytes)
{
    const struct model *model = &encoder->tokenizer->model;
    const bool ok = model->kind == MODEL_BPE         ? bpe_encode(model, text, bytes, encoder->out)
                    : model->kind == MODEL_WORDPIECE ? wordpiece_encode(model, text, bytes, encoder->out)
                    : model->kind == MODEL_WORDLEVEL ? wordlevel_encode(model, text, bytes, encoder->out)
                                                     : unigram_encode(model, text, bytes, encoder->out);

    return ok || out_of_memory(encoder);
}

/* Encodes a normalized text without added tokens: splits it into words, and these into tokens. */
static bool encode_plain(struct encoder *encoder, const char *text, size_t bytes, bool first)
{
    text_spans now = { 0 };
    bool ok = true;

    buf_append(&now.text, text, bytes);
    spans_add(&now, 0, bytes);
    if (now.text.failed)
        ok = out_of_memory(encoder);
    for (size_t i = 0; ok && i < encoder->tokenizer->pretokenizer_count; i++) {
        text_spans next = { 0 };

        encoder->status = pretokenize(&encoder->tokenizer->pretokenizers[i], &now, &next, first, encoder->diag);
        ok = encoder->status == INLAY_OK;
        spans_free(&now);
        now = next;
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
        if (added->single_word && within_word(text, bytes, at, added->bytes)) {
            at += added->bytes;
            continue;
        }
        while (added->lstrip && end > from && is_space(char_at(text + char_before(text, from, end), &size)))
            end = char_before(text, from, end);
        INLAY_CHECK(from <= end && end <= at && at + added->bytes <= bytes);
        ok = end == from || fn(encoder, text + from, end - from, first && from == 0);
        if (ok && !ids_push(encoder->out, added->id))
            ok = out_of_memory(encoder);
        at += added->bytes;
        while (added->rstrip && at < bytes && is_space(char_at(text + at, &size)))
            at += size;
        from = at;
    }
    return ok && (from == bytes || fn(encoder, text + from, bytes - from, first && from == 0));
}

inlay_status normalize_text(const text_tokenizer *tokenizer, text_buf *text, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (size_t i = 0; i < tokenizer->normalizer_count && status == INLAY_OK; i++) {
        text_buf next = { 0 };

        status = normalizer_apply(&tokenizer->normalizers[i], text->data, text->count, &next, diag);
        free(text->data);
        *text = next;
    }
    return status;
}

static bool encode_normalized(struct encoder *encoder, const char *text, size_t bytes, bool first)
{
    text_buf now = { 0 };
    bool ok;

    buf_append(&now, text, bytes);
    if (now.failed)
        return out_of_memory(encoder);
    encoder->status = normalize_text(encoder->tokenizer, &now, encoder->diag);
    ok = encoder->status == INLAY_OK && split_at_added(encoder, true, now.data, now.count, first, encode_plain);
    free(now.data);
    return ok;
}

static bool push_all(struct encoder *encoder, const int64_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!ids_push(encoder->out, ids[i]))
            return out_of_memory(encoder);
    return true;
}

/* Encodes a text without tokens around it. */
static bool encode_text(struct encoder *encoder, const char *text, size_t bytes)
{
    text_buf clean = { 0 };
    bool good;

    buf_append_valid(&clean, text, bytes);
    good = clean.failed ? out_of_memory(encoder)
                        : split_at_added(encoder, false, clean.data, clean.count, true, encode_normalized);
    free(clean.data);
    return good;
}

inlay_status text_encode(const text_tokenizer *tokenizer, const char *text, size_t bytes, bool special, text_ids *out,
                         inlay_diag *diag)
{
    struct encoder encoder = { .tokenizer = tokenizer, .out = out, .diag = diag, .status = INLAY_OK };

    INLAY_CHECK(tokenizer->prefix_count <= MAX_AFFIX && tokenizer->suffix_count <= MAX_AFFIX);
    (void)((!special || push_all(&encoder, tokenizer->prefix_ids, tokenizer->prefix_count)) &&
           encode_text(&encoder, text, bytes) &&
           (!special || push_all(&encoder, tokenizer->suffix_ids, tokenizer->suffix_count)));
    return encoder.status;
}

inlay_status text_encode_pair(const text_tokenizer *tokenizer, const char *first, const char *second, text_ids *out,
                              size_t *begin, inlay_diag *diag)
{
    struct encoder encoder = { .tokenizer = tokenizer, .out = out, .diag = diag, .status = INLAY_OK };

    if (!tokenizer->takes_pairs)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "the tokenizer does not say how two texts are encoded together: its post_processor has no "
                          "list 'pair'");
    if (push_all(&encoder, tokenizer->prefix_ids, tokenizer->prefix_count) &&
        encode_text(&encoder, first, strlen(first)) &&
        push_all(&encoder, tokenizer->between_ids, tokenizer->between_count)) {
        *begin = out->count;
        (void)(encode_text(&encoder, second, strlen(second)) &&
               push_all(&encoder, tokenizer->suffix_ids, tokenizer->suffix_count));
    }
    return encoder.status;
}

/* The token of an id; NULL: there is none. *special: it is not text. Byte tokens of a SentencePiece model are text. */
static const struct token *token_of(const text_tokenizer *tokenizer, int64_t id, bool *special)
{
    const struct vocabulary *vocabulary = &tokenizer->model.vocabulary;
    const struct token *token = id >= 0 && (size_t)id < vocabulary->count ? &vocabulary->tokens[id] : NULL;

    *special = false;
    if (token == NULL || !token->present)
        return NULL;
    *special = token->special && !(tokenizer->model.byte_fallback && byte_of_token(token->text, token->bytes) >= 0);
    return token;
}

/* Applies all decoders to the list. inner: as for decode_step_apply(). */
static inlay_status decode(const text_tokenizer *tokenizer, bool inner, text_list *list, inlay_diag *diag)
{
    bool joined = false;
    inlay_status status = INLAY_OK;

    for (size_t i = 0; i < tokenizer->decoder_count && status == INLAY_OK; i++) {
        const struct decode_step *step = &tokenizer->decoders[i];
        text_list next = { 0 };

        joined |= step->kind == DECODE_FUSE || step->kind == DECODE_BYTE_LEVEL;
        if (inner && joined && step->kind == DECODE_STRIP) /* the ends of the whole text */
            continue;
        status = decode_step_apply(step, inner, list, &next, diag);
        text_list_free(list);
        *list = next;
    }
    return status;
}

inlay_status text_decode(const text_tokenizer *tokenizer, const int64_t *ids, size_t count, bool skip, char **out,
                         size_t *out_bytes, inlay_diag *diag)
{
    text_list list = { 0 };
    inlay_status status = INLAY_OK;
    bool special;

    for (size_t i = 0; i < count; i++) {
        const struct token *token = token_of(tokenizer, ids[i], &special);

        if (token == NULL || (skip && special))
            continue;
        if (tokenizer->spaced && list.count > 0)
            buf_append(&list.text, " ", 1);
        text_list_add(&list, token->text, token->bytes);
    }
    if (!list.text.failed)
        status = decode(tokenizer, false, &list, diag);
    buf_append(&list.text, "", 1);
    if (status == INLAY_OK && list.text.failed)
        status =
            inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the text of %llu tokens", (unsigned long long)count);
    if (status == INLAY_OK) {
        *out_bytes = list.text.count - 1;
        *out = list.text.data;
        list.text.data = NULL;
    }
    text_list_free(&list);
    return status;
}

inlay_status text_token_text(const text_tokenizer *tokenizer, int64_t id, char **out, size_t *out_bytes, bool *special,
                             inlay_diag *diag)
{
    const struct token *token = token_of(tokenizer, id, special);
    text_list list = { 0 };
    inlay_status status = INLAY_OK;

    *out = NULL;
    *out_bytes = 0;
    if (token == NULL)
        return INLAY_OK;
    if (tokenizer->spaced)
        buf_append(&list.text, " ", 1);
    text_list_add(&list, token->text, token->bytes);
    if (!list.text.failed)
        status = decode(tokenizer, true, &list, diag);
    if (status == INLAY_OK && list.text.failed)
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the text of a token");
    if (status == INLAY_OK) {
        *out = list.text.data;
        *out_bytes = list.text.count;
        list.text.data = NULL;
    }
    text_list_free(&list);
    return status;
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
        pretokenizer_free(&tokenizer->pretokenizers[i]);
    for (size_t i = 0; i < tokenizer->decoder_count; i++)
        decode_step_free(&tokenizer->decoders[i]);
    for (size_t i = 0; i < tokenizer->added_count; i++)
        free(tokenizer->added[i].text);
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
            if (!add_token(tokenizer,
                           &(added_token){
                               .text = (char *)special[i], .bytes = strlen(special[i]), .id = id, .special = true })) {
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
    INLAY_TRY(add_bert_splitter(tokenizer, diag));
    tokenizer->decoders[tokenizer->decoder_count] =
        (struct decode_step){ .kind = DECODE_WORDPIECE, .text = copy_text("##", 2) };
    if (tokenizer->decoders[tokenizer->decoder_count++].text == NULL)
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the vocabulary");
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
