/* json.c - reads tokenizer.json, and vocab.json with merges.txt. */
#include "prepost/text/json_parts.h"
#include "inlay/check.h"

static inlay_status read_words(const struct source *source, const json_t *words)
{
    const char *text;
    json_t *item;
    size_t i;

    if (json_is_array(words)) { /* Unigram: an array of [text, score], indexed by id */
        json_array_foreach(words, i, item) {
            const json_t *piece = json_array_get(item, 0);

            if (!json_is_string(piece) ||
                !vocabulary_set(&source->tokenizer->model.vocabulary, (int64_t)i, json_string_value(piece),
                                json_string_length(piece), json_number_value(json_array_get(item, 1))))
                return inlay_fail(source->diag, INLAY_INVALID_ARGUMENT, "tokenizer.json: model.vocab[%llu] is damaged",
                                  (unsigned long long)i);
        }
        return INLAY_OK;
    }
    json_object_foreach((json_t *)(uintptr_t)words, text, item) {
        if (!json_is_integer(item) ||
            !vocabulary_set(&source->tokenizer->model.vocabulary, json_integer_value(item), text, strlen(text), 0))
            return inlay_fail(source->diag, INLAY_INVALID_ARGUMENT,
                              "tokenizer.json: model.vocab: the id of '%.60s' is not valid", text);
    }
    return INLAY_OK;
}

static inlay_status read_merges(const struct source *source, const json_t *merges)
{
    struct model *model = &source->tokenizer->model;
    json_t *item;
    size_t i;

    if (!model_reserve_merges(model, json_array_size(merges)))
        return fail_no_memory(source);
    json_array_foreach(merges, i, item) {
        const char *left = json_string_value(json_is_array(item) ? json_array_get(item, 0) : item);
        const char *right = json_string_value(json_array_get(item, 1));
        const char *space = left != NULL && right == NULL ? strchr(left, ' ') : NULL;
        bool known = true;

        if (left == NULL || (right == NULL && space == NULL))
            return inlay_fail(source->diag, INLAY_INVALID_ARGUMENT, "tokenizer.json: model.merges[%llu] is damaged",
                              (unsigned long long)i);
        right = space != NULL ? space + 1 : right;
        if (!model_add_merge(model, left, space != NULL ? (size_t)(space - left) : strlen(left), right, strlen(right),
                             (uint32_t)i, &known))
            return fail_no_memory(source);
        if (!known)
            return inlay_fail(source->diag, INLAY_INVALID_ARGUMENT,
                              "tokenizer.json: model.merges[%llu] uses tokens missing from the vocabulary",
                              (unsigned long long)i);
    }
    return INLAY_OK;
}

static bool set_text(char **to, const char *text)
{
    free(*to);
    *to = copy_text(text, strlen(text));
    return *to != NULL;
}

/* The score of unknown characters: 10 less than the lowest score of a token (or than 0, if all scores are positive), as
 * in SentencePiece. */
static double unknown_score(const struct vocabulary *vocabulary)
{
    double least = 0;

    for (size_t i = 0; i < vocabulary->count; i++)
        least =
            vocabulary->tokens[i].present && vocabulary->tokens[i].score < least ? vocabulary->tokens[i].score : least;
    return least - 10;
}

static inlay_status read_model(const struct source *source, const json_t *at)
{
    struct model *model = &source->tokenizer->model;
    static const char *const types[] = { "BPE", "WordPiece", "Unigram", "WordLevel" }; /* by MODEL_* */
    const char *type = json_text(at, "type"), *unknown = json_text(at, "unk_token");
    inlay_status status;

    /* Old files have no type. */
    if (type[0] == '\0')
        type = json_object_get(at, "merges") != NULL         ? "BPE"
               : json_is_array(json_object_get(at, "vocab")) ? "Unigram"
                                                             : "WordPiece";
    while (model->kind <= MODEL_WORDLEVEL && strcmp(type, types[model->kind]) != 0)
        model->kind++;
    if (model->kind > MODEL_WORDLEVEL)
        return fail_unsupported(source, "model", type);
    if (json_number_value(json_object_get(at, "dropout")) > 0)
        return fail_unsupported(source, "model with", "dropout"); /* its tokens are random */
    if (!set_text(&model->prefix, json_text(at, "continuing_subword_prefix")) ||
        !set_text(&model->suffix, json_text(at, "end_of_word_suffix")))
        return fail_no_memory(source);
    INLAY_TRY(read_words(source, json_object_get(at, "vocab")));
    /* With a list of [text, score] instead of merges, BPE merges by score, as SentencePiece does: the host's reader of
     * GGUF files makes such files. */
    model->merge_by_score = model->kind == MODEL_BPE && json_is_array(json_object_get(at, "vocab"));
    if (model->kind == MODEL_BPE && !model->merge_by_score)
        INLAY_TRY(read_merges(source, json_object_get(at, "merges")));
    model->byte_fallback = json_flag(at, "byte_fallback", false);
    model->fuse_unknown = model->kind == MODEL_UNIGRAM || json_flag(at, "fuse_unk", false);
    model->ignore_merges = json_flag(at, "ignore_merges", model->ignore_merges);
    if (model->kind == MODEL_UNIGRAM)
        model->unknown_id =
            json_is_integer(json_object_get(at, "unk_id")) ? json_integer_value(json_object_get(at, "unk_id")) : -1;
    else if (unknown[0] != '\0')
        model->unknown_id = text_find_token(source->tokenizer, unknown);
    if (json_is_integer(json_object_get(at, "max_input_chars_per_word")))
        model->max_chars = (uint32_t)json_integer_value(json_object_get(at, "max_input_chars_per_word"));
    model_find_byte_tokens(model);
    model->unknown_score = unknown_score(&model->vocabulary);
done:
    return status;
}

/* Adds a token of the vocabulary; a normalized token gets the text that the normalizers produce from its own. */
static inlay_status add_normalized(const struct source *source, const added_token *token)
{
    const text_tokenizer *tokenizer = source->tokenizer;
    const struct token *named = &tokenizer->model.vocabulary.tokens[token->id];
    added_token added = *token;
    text_buf text = { 0 };
    inlay_status status = INLAY_OK;

    buf_append(&text, named->text, named->bytes);
    if (token->normalized && !text.failed)
        status = normalize_text(tokenizer, &text, source->diag);
    added.text = text.data;
    added.bytes = text.count;
    if (status == INLAY_OK && (text.failed || !add_token(source->tokenizer, &added)))
        status = fail_no_memory(source);
    free(text.data);
    return status;
}

static inlay_status read_added(const struct source *source, const json_t *list)
{
    text_tokenizer *tokenizer = source->tokenizer;
    inlay_status status;
    json_t *item;
    size_t i;

    json_array_foreach(list, i, item) {
        const char *text = json_text(item, "content");
        const int64_t id = json_integer_value(json_object_get(item, "id"));
        const bool special = json_flag(item, "special", false);
        added_token added = { .id = id,
                              .special = special,
                              .lstrip = json_flag(item, "lstrip", false),
                              .rstrip = json_flag(item, "rstrip", false),
                              .single_word = json_flag(item, "single_word", false),
                              .normalized = json_flag(item, "normalized", !special) };

        if (text[0] == '\0')
            continue;
        if (!vocabulary_set(&tokenizer->model.vocabulary, id, text, strlen(text), 0))
            return inlay_fail(source->diag, INLAY_INVALID_ARGUMENT,
                              "tokenizer.json: added_tokens[%llu] has no valid id", (unsigned long long)i);
        tokenizer->model.vocabulary.tokens[id].special |= special;
        status = add_normalized(source, &added);
        if (status != INLAY_OK)
            return status;
        if (strcmp(text, "[PAD]") == 0 || strcmp(text, "<pad>") == 0)
            tokenizer->pad_id = id;
    }
    return INLAY_OK;
}

/* Where special tokens are: before a text, behind it, between two texts. */
enum place { BEFORE, BEHIND, BETWEEN };

static inlay_status put_around(const struct source *source, enum place place, int64_t id)
{
    text_tokenizer *tokenizer = source->tokenizer;
    size_t *const counts[] = { &tokenizer->prefix_count, &tokenizer->suffix_count, &tokenizer->between_count };
    int64_t *const lists[] = { tokenizer->prefix_ids, tokenizer->suffix_ids, tokenizer->between_ids };
    size_t *count = counts[place];

    INLAY_CHECK(*count <= MAX_AFFIX);
    if (*count == MAX_AFFIX)
        return fail_unsupported(source, "post_processor", "more than 8 tokens around a text");
    if (id < 0 || (uint64_t)id >= tokenizer->model.vocabulary.count)
        return inlay_fail(source->diag, INLAY_INVALID_ARGUMENT,
                          "tokenizer.json: post_processor names token %lld, but the last token is %lld", (long long)id,
                          (long long)tokenizer->model.vocabulary.count - 1);
    lists[place][(*count)++] = id;
    return INLAY_OK;
}

/* The special tokens of a template. pair: only those between the two texts; others are as those of a single text. */
static inlay_status read_places(const struct source *source, const json_t *list, const json_t *special, bool pair)
{
    size_t sequences = 0, i, k;
    json_t *item;

    json_array_foreach(list, i, item) {
        const enum place place = sequences == 0 ? BEFORE : pair && sequences == 1 ? BETWEEN : BEHIND;
        const char *name = json_text(json_object_get(item, "SpecialToken"), "id");
        json_t *id;

        if (json_object_get(item, "Sequence") != NULL) {
            sequences++;
            continue;
        }
        if (pair && place != BETWEEN)
            continue;
        if (!json_is_array(json_object_get(json_object_get(special, name), "ids")))
            return fail_unsupported(source, "post_processor TemplateProcessing with no special token", name);
        json_array_foreach(json_object_get(json_object_get(special, name), "ids"), k, id) {
            const inlay_status status = put_around(source, place, json_integer_value(id));

            if (status != INLAY_OK)
                return status;
        }
    }
    return INLAY_OK;
}

static inlay_status read_template(const struct source *source, const json_t *step)
{
    const json_t *special = json_object_get(step, "special_tokens"), *pair = json_object_get(step, "pair");
    inlay_status status;

    if (!json_is_array(json_object_get(step, "single")))
        return fail_unsupported(source, "post_processor TemplateProcessing", "without a list 'single'");
    status = read_places(source, json_object_get(step, "single"), special, false);
    source->tokenizer->takes_pairs = json_is_array(pair);
    return status == INLAY_OK && json_is_array(pair) ? read_places(source, pair, special, true) : status;
}

/* [CLS] text [SEP], or with two texts [CLS] text [SEP] text [SEP]; RoBERTa has two separators between them. */
static inlay_status read_separators(const struct source *source, const json_t *step, size_t between)
{
    const int64_t begin = json_integer_value(json_array_get(json_object_get(step, "cls"), 1)),
                  end = json_integer_value(json_array_get(json_object_get(step, "sep"), 1));
    inlay_status status = put_around(source, BEFORE, begin);

    if (status == INLAY_OK)
        status = put_around(source, BEHIND, end);
    for (size_t i = 0; i < between && status == INLAY_OK; i++)
        status = put_around(source, BETWEEN, end);
    source->tokenizer->takes_pairs = true;
    return status;
}

static inlay_status read_post(const struct source *source, const json_t *step)
{
    const char *type = json_text(step, "type");
    inlay_status status = INLAY_OK;
    json_t *item;
    size_t i;

    if (!json_is_object(step) || strcmp(type, "ByteLevel") == 0)
        return INLAY_OK;
    if (strcmp(type, "Sequence") == 0) {
        json_array_foreach(json_object_get(step, "processors"), i, item) {
            status = read_post(source, item);
            if (status != INLAY_OK)
                return status;
        }
        return status;
    }
    if (strcmp(type, "TemplateProcessing") == 0)
        return read_template(source, step);
    if (strcmp(type, "BertProcessing") != 0 && strcmp(type, "RobertaProcessing") != 0)
        return fail_unsupported(source, "post_processor", type);
    return read_separators(source, step, strcmp(type, "BertProcessing") == 0 ? 1 : 2);
}

inlay_status read_json(text_tokenizer *tokenizer, const char *file, size_t bytes, inlay_diag *diag)
{
    const struct source source = { tokenizer, diag };
    json_error_t why;
    json_t *root = json_loadb(file, bytes, JSON_ALLOW_NUL, &why), *step;
    inlay_status status = INLAY_OK;

    if (root == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "tokenizer.json: line %d: %s", why.line, why.text);
    if (!json_is_object(json_object_get(root, "model"))) {
        status =
            inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                       "tokenizer.json: there is no member 'model'; use the file that was published with the model");
        goto done;
    }
    step = json_object_get(root, "normalizer");
    if (json_is_object(step))
        INLAY_TRY(read_normalizer_step(&source, step));
    step = json_object_get(root, "pre_tokenizer");
    if (json_is_object(step))
        INLAY_TRY(read_pretokenizer(&source, step));
    INLAY_TRY(read_model(&source, json_object_get(root, "model")));
    INLAY_TRY(read_added(&source, json_object_get(root, "added_tokens")));
    INLAY_TRY(read_post(&source, json_object_get(root, "post_processor")));
    step = json_object_get(root, "decoder");
    tokenizer->spaced = !json_is_object(step);
    if (json_is_object(step))
        INLAY_TRY(read_decoder(&source, step));
    step = json_object_get(json_object_get(root, "padding"), "pad_id");
    if (json_is_integer(step))
        tokenizer->pad_id = json_integer_value(step);
    if (tokenizer->model.vocabulary.count == 0)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "tokenizer.json: model.vocab is empty");
    else if (tokenizer->model.unknown_id < -1 ||
             tokenizer->model.unknown_id >= (int64_t)tokenizer->model.vocabulary.count)
        status =
            inlay_fail(diag, INLAY_INVALID_ARGUMENT, "tokenizer.json: model.unk_id is %lld, but the last token is %lld",
                       (long long)tokenizer->model.unknown_id, (long long)tokenizer->model.vocabulary.count - 1);
done:
    json_decref(root);
    return status;
}

inlay_status read_bpe(text_tokenizer *tokenizer, const char *vocab, size_t vocab_bytes, const char *merges,
                      size_t merges_bytes, inlay_diag *diag)
{
    const struct source source = { tokenizer, diag };
    json_error_t why;
    json_t *root = json_loadb(vocab, vocab_bytes, JSON_ALLOW_NUL, &why);
    uint32_t rank = 0;
    size_t count = 0;
    inlay_status status = INLAY_OK;

    if (root == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "vocab: line %d: %s", why.line, why.text);
    INLAY_TRY(read_words(&source, root));
    for (size_t i = 0; i < merges_bytes; i++)
        count += merges[i] == '\n';
    if (!model_reserve_merges(&tokenizer->model, count + 1)) {
        status = fail_no_memory(&source);
        goto done;
    }
    for (size_t at = 0; at < merges_bytes;) {
        const char *line = merges + at, *end = memchr(line, '\n', merges_bytes - at);
        const size_t n = end != NULL ? (size_t)(end - line) : merges_bytes - at;
        const char *space = memchr(line, ' ', n);
        const size_t right = space != NULL ? n - (size_t)(space - line) - 1 : 0;
        bool known = true;

        at += n + 1;
        if (space == NULL || (rank == 0 && n > 8 && memcmp(line, "#version", 8) == 0))
            continue;
        if (!model_add_merge(&tokenizer->model, line, (size_t)(space - line), space + 1,
                             right > 0 && space[right] == '\r' ? right - 1 : right, rank++, &known)) {
            status = fail_no_memory(&source);
            goto done;
        }
        if (!known) {
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "merges: line '%.*s' uses tokens missing from vocab",
                                (int)(n < 60 ? n : 60), line);
            goto done;
        }
    }
    INLAY_CHECK(tokenizer->pretokenizer_count == 0);
    tokenizer->model.unknown_id = text_find_token(tokenizer, "<|endoftext|>");
    INLAY_TRY(add_word_splitter(tokenizer, diag));
    tokenizer->pretokenizers[tokenizer->pretokenizer_count++] = (struct pretokenizer){ .kind = SPLIT_BYTES };
    tokenizer->decoders[tokenizer->decoder_count++].kind = DECODE_BYTE_LEVEL;
done:
    json_decref(root);
    return status;
}
