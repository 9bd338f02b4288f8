/* json_splitter.c - reads the pre-tokenizers of a tokenizer.json. */
#include "prepost/text/json_parts.h"
#include "inlay/check.h"

#define GPT2_WORDS "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

static inlay_status read_behaviour(const struct source *source, const json_t *step, int *out)
{
    static const char *const names[] = {
        "", "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"
    };
    const char *name = json_text(step, "behavior");

    if (json_object_get(step, "behavior") == NULL)
        name = "Isolated";
    for (*out = DELIMITER_REMOVED; *out <= DELIMITER_CONTIGUOUS; ++*out)
        if (strcmp(name, names[*out]) == 0)
            return INLAY_OK;
    return fail_unsupported(source, "pre_tokenizer with the behavior", name);
}

/* Takes over the pre-tokenizer, also after a failure. */
static inlay_status add_pretokenizer(const struct source *source, struct pretokenizer pretokenizer)
{
    INLAY_CHECK(source->tokenizer->pretokenizer_count <= MAX_STEPS);
    if (source->tokenizer->pretokenizer_count == MAX_STEPS) {
        pretokenizer_free(&pretokenizer);
        return fail_unsupported(source, "pre_tokenizer", "more than 16 steps");
    }
    source->tokenizer->pretokenizers[source->tokenizer->pretokenizer_count++] = pretokenizer;
    return INLAY_OK;
}

static inlay_status add_characters(const struct source *source, bool (*is_delimiter)(uint32_t c), int behaviour)
{
    return add_pretokenizer(
        source,
        (struct pretokenizer){ .kind = SPLIT_CHARACTERS, .is_delimiter = is_delimiter, .behaviour = behaviour });
}

/* What the regular expression matches, and what is between, are words. */
static inlay_status add_expression(const struct source *source, const char *expression)
{
    struct pretokenizer words = { .kind = SPLIT_PATTERN, .behaviour = DELIMITER_ISOLATED };
    const inlay_status status = pattern_open(expression, &words.pattern, source->diag);

    return status == INLAY_OK ? add_pretokenizer(source, words) : status;
}

inlay_status add_word_splitter(text_tokenizer *tokenizer, inlay_diag *diag)
{
    const struct source source = { tokenizer, diag };

    return add_expression(&source, GPT2_WORDS);
}

inlay_status add_bert_splitter(text_tokenizer *tokenizer, inlay_diag *diag)
{
    const struct source source = { tokenizer, diag };
    const inlay_status status = add_characters(&source, is_space, DELIMITER_REMOVED);

    return status == INLAY_OK ? add_characters(&source, is_punctuation, DELIMITER_ISOLATED) : status;
}

static inlay_status read_split(const struct source *source, const json_t *step)
{
    struct pretokenizer pretokenizer = { .kind = SPLIT_TEXT, .invert = json_flag(step, "invert", false) };
    inlay_status status = read_behaviour(source, step, &pretokenizer.behaviour);

    if (status == INLAY_OK)
        status = read_pattern(source, step, &pretokenizer.text, &pretokenizer.pattern);
    if (pretokenizer.pattern != NULL)
        pretokenizer.kind = SPLIT_PATTERN;
    return status == INLAY_OK ? add_pretokenizer(source, pretokenizer) : status;
}

static inlay_status add_text(const struct source *source, struct pretokenizer pretokenizer, const char *text)
{
    pretokenizer.text = copy_text(text, strlen(text));
    return pretokenizer.text != NULL ? add_pretokenizer(source, pretokenizer) : fail_no_memory(source);
}

static inlay_status read_metaspace(const struct source *source, const json_t *step)
{
    const char *scheme = json_text(step, "prepend_scheme"), *mark = json_text(step, "replacement");
    struct pretokenizer pretokenizer = { .kind = SPLIT_METASPACE, .split_at_mark = json_flag(step, "split", true) };

    pretokenizer.prepend = metaspace_prepend(step);
    if (pretokenizer.prepend < 0)
        return fail_unsupported(source, "pre_tokenizer Metaspace with the prepend_scheme", scheme);
    return add_text(source, pretokenizer, mark[0] != '\0' ? mark : "\xe2\x96\x81");
}

static inlay_status read_byte_level(const struct source *source, const json_t *step)
{
    inlay_status status = INLAY_OK;

    if (json_flag(step, "add_prefix_space", false))
        status = add_pretokenizer(source, (struct pretokenizer){ .kind = SPLIT_PREFIX });
    if (status == INLAY_OK && json_flag(step, "use_regex", true))
        status = add_word_splitter(source->tokenizer, source->diag);
    return status == INLAY_OK ? add_pretokenizer(source, (struct pretokenizer){ .kind = SPLIT_BYTES }) : status;
}

/* \w+|[^\w\s]+ */
static inlay_status add_whitespace(const struct source *source)
{
    const inlay_status status = add_characters(source, is_space, DELIMITER_REMOVED);

    return status == INLAY_OK ? add_characters(source, is_word, DELIMITER_CONTIGUOUS) : status;
}

static inlay_status read_fixed_length(const struct source *source, const json_t *step)
{
    const json_t *length = json_object_get(step, "length");

    if (length != NULL && json_integer_value(length) <= 0)
        return fail_unsupported(source, "pre_tokenizer", "FixedLength without a length");
    return add_pretokenizer(source,
                            (struct pretokenizer){ .kind = SPLIT_LENGTH,
                                                   .length = length != NULL ? (size_t)json_integer_value(length) : 5 });
}

static inlay_status read_named(const struct source *source, const char *name)
{
    const char *const *expressions = find_named_splitter(name, &source->tokenizer->model.ignore_merges);

    if (expressions == NULL)
        return inlay_fail(source->diag, INLAY_UNSUPPORTED,
                          "the tokenizer of the GGUF file splits texts by the rule '%.60s', which is not supported",
                          name);
    for (; *expressions != NULL; expressions++) {
        const inlay_status status = add_expression(source, *expressions);

        if (status != INLAY_OK)
            return status;
    }
    return add_pretokenizer(source, (struct pretokenizer){ .kind = SPLIT_BYTES });
}

inlay_status read_pretokenizer(const struct source *source, const json_t *step)
{
    const char *type = json_text(step, "type");
    inlay_status status = INLAY_OK;
    json_t *item;
    int behaviour;
    size_t i;

    if (strcmp(type, "Sequence") == 0) {
        json_array_foreach(json_object_get(step, "pretokenizers"), i, item) {
            status = read_pretokenizer(source, item);
            if (status != INLAY_OK)
                return status;
        }
        return INLAY_OK;
    }
    if (strcmp(type, "ByteLevel") == 0)
        return read_byte_level(source, step);
    if (strcmp(type, "Split") == 0)
        return read_split(source, step);
    if (strcmp(type, "Metaspace") == 0)
        return read_metaspace(source, step);
    if (strcmp(type, "Whitespace") == 0)
        return add_whitespace(source);
    if (strcmp(type, "WhitespaceSplit") == 0)
        return add_characters(source, is_space, DELIMITER_REMOVED);
    if (strcmp(type, "BertPreTokenizer") == 0)
        return add_bert_splitter(source->tokenizer, source->diag);
    if (strcmp(type, "CharDelimiterSplit") == 0)
        return add_text(source, (struct pretokenizer){ .kind = SPLIT_TEXT, .behaviour = DELIMITER_REMOVED },
                        json_text(step, "delimiter"));
    if (strcmp(type, "FixedLength") == 0)
        return read_fixed_length(source, step);
    if (strcmp(type, "GGUF") == 0)
        return read_named(source, json_text(step, "name"));
    if (strcmp(type, "Digits") == 0)
        return add_characters(source, is_number,
                              json_flag(step, "individual_digits", false) ? DELIMITER_ISOLATED : DELIMITER_CONTIGUOUS);
    if (strcmp(type, "Punctuation") == 0) {
        status = read_behaviour(source, step, &behaviour);
        return status == INLAY_OK ? add_characters(source, is_punctuation, behaviour) : status;
    }
    return fail_unsupported(source, "pre_tokenizer", type);
}
