/* json.c - tokenizer.json, and vocab.json with merges.txt. */
#include "json_parts.h"

/* ------------------------------------------------------------------ cutting */

static int behaviour_of(const json_t *step)
{
    static const char *const names[] = {
        "", "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"
    };
    const char *name = text_of(step, "behavior");

    for (int i = WITH_REMOVED; i <= WITH_CONTIGUOUS; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return WITH_ISOLATED;
}

static inlay_status add_cut(const struct source *source, const struct cut *cut)
{
    if (source->tokenizer->cut_count == MOST_STEPS)
        return not_supported(source, "pre_tokenizer", "more than 16 steps");
    source->tokenizer->cuts[source->tokenizer->cut_count++] = *cut;
    return INLAY_OK;
}

/* Split: by a text, or by one of the patterns that published files have. */
static inlay_status read_split(const struct source *source, const json_t *step)
{
    const json_t *pattern = json_object_get(step, "pattern");
    const char *text = json_string_value(json_object_get(pattern, "String"));
    const char *regex = text_of(pattern, "Regex");
    struct cut cut = { .kind = CUT_TEXT, .behaviour = behaviour_of(step) };

    if (text != NULL) {
        cut.text = copy_text(text, strlen(text));
        return cut.text != NULL ? add_cut(source, &cut) : no_memory(source);
    }
    if (strstr(regex, "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+") != NULL) {
        cut.kind = CUT_CL100K;
        cut.digits = strstr(regex, "\\p{N}{1,3}") != NULL ? 3 : 1;
    } else if (strstr(regex, "?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)") != NULL) {
        cut.kind = CUT_GPT2;
    } else if (strstr(regex, "[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+") != NULL) {
        cut.kind = CUT_CLIP;
    } else if (strcmp(regex, "\\s+") == 0 && cut.behaviour == WITH_REMOVED) {
        cut.kind = CUT_WORDS;
    } else {
        return not_supported(source, "pre_tokenizer Split with the pattern", regex);
    }
    return add_cut(source, &cut);
}

static inlay_status read_metaspace(const struct source *source, const json_t *step)
{
    const char *scheme = text_of(step, "prepend_scheme"), *mark = text_of(step, "replacement");
    struct cut cut = { .kind = CUT_METASPACE, .split = flag_of(step, "split", true) };

    cut.prepend = scheme[0] == '\0' ? (flag_of(step, "add_prefix_space", true) ? PREPEND_ALWAYS : PREPEND_NEVER)
                  : strcmp(scheme, "always") == 0 ? PREPEND_ALWAYS
                  : strcmp(scheme, "first") == 0  ? PREPEND_FIRST
                                                  : PREPEND_NEVER;
    cut.text = copy_text(mark[0] != '\0' ? mark : "\xe2\x96\x81", mark[0] != '\0' ? strlen(mark) : 3);
    return cut.text != NULL ? add_cut(source, &cut) : no_memory(source);
}

static inlay_status read_cut(const struct source *source, const json_t *step)
{
    const char *type = text_of(step, "type");
    size_t i;
    json_t *item;
    inlay_status status = INLAY_OK;

    if (strcmp(type, "Sequence") == 0) {
        json_array_foreach(json_object_get(step, "pretokenizers"), i, item) {
            status = read_cut(source, item);
            if (status != INLAY_OK)
                return status;
        }
        return INLAY_OK;
    }
    if (strcmp(type, "ByteLevel") == 0) {
        const bool prefix = flag_of(step, "add_prefix_space", false), regex = flag_of(step, "use_regex", true);

        if (regex)
            status = add_cut(source, &(struct cut){ .kind = CUT_GPT2, .prefix_space = prefix });
        return status != INLAY_OK
                   ? status
                   : add_cut(source, &(struct cut){ .kind = CUT_BYTES, .prefix_space = prefix && !regex });
    }
    if (strcmp(type, "Split") == 0)
        return read_split(source, step);
    if (strcmp(type, "Metaspace") == 0)
        return read_metaspace(source, step);
    if (strcmp(type, "Whitespace") == 0)
        return add_cut(source, &(struct cut){ .kind = CUT_WHITESPACE });
    if (strcmp(type, "WhitespaceSplit") == 0)
        return add_cut(source, &(struct cut){ .kind = CUT_WORDS });
    if (strcmp(type, "BertPreTokenizer") == 0)
        return add_cut(source, &(struct cut){ .kind = CUT_BERT });
    if (strcmp(type, "Punctuation") == 0)
        return add_cut(source, &(struct cut){ .kind = CUT_PUNCTUATION, .behaviour = behaviour_of(step) });
    if (strcmp(type, "Digits") == 0)
        return add_cut(source,
                       &(struct cut){ .kind = CUT_DIGITS, .digits = flag_of(step, "individual_digits", false) });
    return not_supported(source, "pre_tokenizer", type);
}

/* ------------------------------------------------------------------ models */

static inlay_status read_words(const struct source *source, const json_t *words)
{
    const char *text;
    json_t *item;
    size_t i;

    if (json_is_array(words)) { /* of Unigram: text and score, by number */
        json_array_foreach(words, i, item) {
            const json_t *piece = json_array_get(item, 0);

            if (!json_is_string(piece) ||
                !vocabulary_set(&source->tokenizer->model.words, (int64_t)i, json_string_value(piece),
                                json_string_length(piece), json_number_value(json_array_get(item, 1))))
                return inlay_fail(source->diag, INLAY_INVALID_ARGUMENT, "tokenizer.json: model.vocab[%llu] is damaged",
                                  (unsigned long long)i);
        }
        return INLAY_OK;
    }
    json_object_foreach((json_t *)(uintptr_t)words, text, item) {
        if (!json_is_integer(item) ||
            !vocabulary_set(&source->tokenizer->model.words, json_integer_value(item), text, strlen(text), 0))
            return inlay_fail(source->diag, INLAY_INVALID_ARGUMENT,
                              "tokenizer.json: model.vocab: '%.60s' has no good number", text);
    }
    return INLAY_OK;
}

static inlay_status read_merges(const struct source *source, const json_t *merges)
{
    struct model *model = &source->tokenizer->model;
    json_t *item;
    size_t i;

    if (!model_room(model, json_array_size(merges)))
        return no_memory(source);
    json_array_foreach(merges, i, item) {
        const char *left = json_string_value(json_is_array(item) ? json_array_get(item, 0) : item);
        const char *right = json_string_value(json_array_get(item, 1));
        const char *space = left != NULL && right == NULL ? strchr(left, ' ') : NULL;
        bool known = true;

        if (left == NULL || (right == NULL && space == NULL))
            return inlay_fail(source->diag, INLAY_INVALID_ARGUMENT, "tokenizer.json: model.merges[%llu] is damaged",
                              (unsigned long long)i);
        right = space != NULL ? space + 1 : right;
        if (!model_add_merge(model, 0, left, space != NULL ? (size_t)(space - left) : strlen(left), right,
                             strlen(right), (uint32_t)i, &known))
            return no_memory(source);
        if (!known)
            return inlay_fail(source->diag, INLAY_INVALID_ARGUMENT,
                              "tokenizer.json: model.merges[%llu] is of tokens that the vocabulary has not",
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

static double least_score(const struct vocabulary *vocabulary)
{
    double least = 0;

    for (size_t i = 0; i < vocabulary->count; i++)
        least = vocabulary->words[i].present && vocabulary->words[i].exact < least ? vocabulary->words[i].exact : least;
    return least - 10;
}

static inlay_status read_model(const struct source *source, const json_t *at)
{
    struct model *model = &source->tokenizer->model;
    const char *type = text_of(at, "type"), *unknown = text_of(at, "unk_token");
    inlay_status status;

    /* Old files leave the type out. */
    if (type[0] == '\0')
        type = json_object_get(at, "merges") != NULL         ? "BPE"
               : json_is_array(json_object_get(at, "vocab")) ? "Unigram"
                                                             : "WordPiece";
    model->kind = strcmp(type, "BPE") == 0         ? MODEL_BPE
                  : strcmp(type, "WordPiece") == 0 ? MODEL_WORDPIECE
                                                   : MODEL_UNIGRAM;
    if (model->kind == MODEL_UNIGRAM && strcmp(type, "Unigram") != 0)
        return not_supported(source, "model", type);
    if (!set_text(&model->prefix, text_of(at, "continuing_subword_prefix")) ||
        !set_text(&model->suffix, text_of(at, "end_of_word_suffix")))
        return no_memory(source);
    INLAY_TRY(read_words(source, json_object_get(at, "vocab")));
    if (model->kind == MODEL_BPE)
        INLAY_TRY(read_merges(source, json_object_get(at, "merges")));
    model->byte_fallback = flag_of(at, "byte_fallback", false);
    model->fuse_unknown = model->kind == MODEL_UNIGRAM || flag_of(at, "fuse_unk", false);
    model->whole_words = flag_of(at, "ignore_merges", false);
    if (model->kind == MODEL_UNIGRAM)
        model->unknown =
            json_is_integer(json_object_get(at, "unk_id")) ? json_integer_value(json_object_get(at, "unk_id")) : -1;
    else if (unknown[0] != '\0')
        model->unknown = text_id(source->tokenizer, unknown);
    if (json_is_integer(json_object_get(at, "max_input_chars_per_word")))
        model->most_chars = (uint32_t)json_integer_value(json_object_get(at, "max_input_chars_per_word"));
    model_find_bytes(model);
    model->least_score = least_score(&model->words);
done:
    return status;
}

static inlay_status read_added(const struct source *source, const json_t *list)
{
    text_tokenizer *tokenizer = source->tokenizer;
    json_t *item;
    size_t i;

    json_array_foreach(list, i, item) {
        const char *text = text_of(item, "content");
        const int64_t id = json_integer_value(json_object_get(item, "id"));
        const bool special = flag_of(item, "special", false);
        struct added added = { .id = id,
                               .special = special,
                               .left = flag_of(item, "lstrip", false),
                               .right = flag_of(item, "rstrip", false),
                               .single = flag_of(item, "single_word", false),
                               .normalized = flag_of(item, "normalized", !special) };

        if (text[0] == '\0')
            continue;
        if (!vocabulary_set(&tokenizer->model.words, id, text, strlen(text), 0))
            return inlay_fail(source->diag, INLAY_INVALID_ARGUMENT, "tokenizer.json: added_tokens[%llu] has no good id",
                              (unsigned long long)i);
        tokenizer->model.words.words[id].special |= special;
        added.text = tokenizer->model.words.words[id].text;
        added.bytes = tokenizer->model.words.words[id].bytes;
        if (!add_token(tokenizer, &added))
            return no_memory(source);
        if (strcmp(text, "[PAD]") == 0 || strcmp(text, "<pad>") == 0)
            tokenizer->pad = id;
    }
    return INLAY_OK;
}

/* ------------------------------------------------------------------ around a text */

static inlay_status put_around(const struct source *source, bool behind, int64_t id)
{
    text_tokenizer *tokenizer = source->tokenizer;
    size_t *count = behind ? &tokenizer->after_count : &tokenizer->before_count;

    if (*count == MOST_AROUND)
        return not_supported(source, "post_processor", "more than 8 tokens around a text");
    (behind ? tokenizer->after : tokenizer->before)[(*count)++] = id;
    return INLAY_OK;
}

static inlay_status read_template(const struct source *source, const json_t *step)
{
    const json_t *special = json_object_get(step, "special_tokens");
    bool behind = false;
    json_t *item;
    size_t i, k;

    json_array_foreach(json_object_get(step, "single"), i, item) {
        const char *name = text_of(json_object_get(item, "SpecialToken"), "id");
        json_t *id;

        if (json_object_get(item, "Sequence") != NULL) {
            behind = true;
            continue;
        }
        json_array_foreach(json_object_get(json_object_get(special, name), "ids"), k, id) {
            const inlay_status status = put_around(source, behind, json_integer_value(id));

            if (status != INLAY_OK)
                return status;
        }
    }
    return INLAY_OK;
}

static inlay_status read_post(const struct source *source, const json_t *step)
{
    const char *type = text_of(step, "type");
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
        return not_supported(source, "post_processor", type);
    status = put_around(source, false, json_integer_value(json_array_get(json_object_get(step, "cls"), 1)));
    return status != INLAY_OK
               ? status
               : put_around(source, true, json_integer_value(json_array_get(json_object_get(step, "sep"), 1)));
}

/* The decoder decides how tokens become text; of a sequence its most telling step does. */
static void read_decoder(text_tokenizer *tokenizer, const json_t *step)
{
    const char *type = text_of(step, "type");
    json_t *item;
    size_t i;

    if (strcmp(type, "ByteLevel") == 0) {
        tokenizer->decoder = DECODE_BYTES;
    } else if (strcmp(type, "WordPiece") == 0) {
        tokenizer->decoder = DECODE_WORDPIECE;
    } else if (strcmp(type, "Metaspace") == 0) {
        tokenizer->decoder = DECODE_METASPACE;
        tokenizer->strip_first = flag_of(step, "add_prefix_space", true);
    } else if (strcmp(type, "Replace") == 0) {
        tokenizer->decoder = DECODE_METASPACE;
    } else if (strcmp(type, "Strip") == 0) {
        tokenizer->strip_first = true;
    }
    json_array_foreach(json_object_get(step, "decoders"), i, item)
        read_decoder(tokenizer, item);
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
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                            "tokenizer.json: it has no 'model'; is it another file of the model?");
        goto done;
    }
    step = json_object_get(root, "normalizer");
    if (json_is_object(step))
        INLAY_TRY(read_norm(&source, step));
    step = json_object_get(root, "pre_tokenizer");
    if (json_is_object(step))
        INLAY_TRY(read_cut(&source, step));
    INLAY_TRY(read_model(&source, json_object_get(root, "model")));
    INLAY_TRY(read_added(&source, json_object_get(root, "added_tokens")));
    INLAY_TRY(read_post(&source, json_object_get(root, "post_processor")));
    read_decoder(tokenizer, json_object_get(root, "decoder"));
    if (tokenizer->model.words.count == 0)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "tokenizer.json: its vocab has no tokens");
done:
    json_decref(root);
    return status;
}

/* ------------------------------------------------------------------ GPT-2's two files */

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
    if (!model_room(&tokenizer->model, count + 1)) {
        status = no_memory(&source);
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
        if (!model_add_merge(&tokenizer->model, 0, line, (size_t)(space - line), space + 1,
                             right > 0 && space[right] == '\r' ? right - 1 : right, rank++, &known)) {
            status = no_memory(&source);
            goto done;
        }
        if (!known) {
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "merges: line '%.*s' is of tokens that vocab has not",
                                (int)(n < 60 ? n : 60), line);
            goto done;
        }
    }
    tokenizer->model.unknown = text_id(tokenizer, "<|endoftext|>");
    tokenizer->cuts[tokenizer->cut_count++] = (struct cut){ .kind = CUT_GPT2 };
    tokenizer->cuts[tokenizer->cut_count++] = (struct cut){ .kind = CUT_BYTES };
    tokenizer->decoder = DECODE_BYTES;
done:
    json_decref(root);
    return status;
}
