/* json_normalizer.c - reads the normalizers of a tokenizer.json. */
#include "prepost/text/json_parts.h"
#include "inlay/check.h"

/* The six bits of a base64 digit; -1 for other characters. */
static int base64_of(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

static inlay_status read_charsmap(const struct source *source, struct normalizer *normalizer, const char *text)
{
    uint8_t *bytes = malloc(strlen(text) + 1);
    uint32_t bits = 0, have = 0;
    size_t count = 0;
    bool ok;

    if (bytes == NULL)
        return fail_no_memory(source);
    for (; *text != '\0'; text++) {
        const int digit = base64_of(*text);

        if (digit < 0)
            continue;
        bits = bits << 6 | (uint32_t)digit;
        have += 6;
        INLAY_CHECK(have < 14);
        if (have >= 8) {
            have -= 8;
            bytes[count++] = (uint8_t)(bits >> have);
        }
    }
    ok = normalizer_set_charsmap(normalizer, bytes, count);
    free(bytes);
    return ok ? INLAY_OK
              : inlay_fail(source->diag, INLAY_INVALID_ARGUMENT, "tokenizer.json: precompiled_charsmap is damaged");
}

inlay_status read_pattern(const struct source *source, const json_t *step, char **out_text, text_pattern **out_pattern)
{
    const json_t *given = json_object_get(step, "pattern");
    const char *text = json_string_value(json_object_get(given, "String"));
    const char *regex = json_string_value(json_object_get(given, "Regex"));

    if (text == NULL && regex == NULL)
        return inlay_fail(source->diag, INLAY_INVALID_ARGUMENT,
                          "tokenizer.json: a step '%.40s' has no pattern 'String' or 'Regex'", json_text(step, "type"));
    if (regex != NULL)
        return pattern_open(regex, out_pattern, source->diag);
    *out_text = copy_text(text, strlen(text));
    return *out_text != NULL ? INLAY_OK : fail_no_memory(source);
}

inlay_status read_replace(const struct source *source, struct normalizer *normalizer, const json_t *step)
{
    inlay_status status = read_pattern(source, step, &normalizer->text, &normalizer->pattern);

    normalizer->kind = normalizer->pattern != NULL ? NORMALIZE_PATTERN : NORMALIZE_REPLACE;
    normalizer->replacement = copy_text(json_text(step, "content"), strlen(json_text(step, "content")));
    return status == INLAY_OK && normalizer->replacement == NULL ? fail_no_memory(source) : status;
}

inlay_status read_normalizer_step(const struct source *source, const json_t *step)
{
    static const char *const forms[] = { "NFC", "NFD", "NFKC", "NFKD" };
    const char *type = json_text(step, "type");
    text_tokenizer *tokenizer = source->tokenizer;
    struct normalizer *normalizer = &tokenizer->normalizers[tokenizer->normalizer_count];
    size_t i;
    json_t *item;

    if (strcmp(type, "Sequence") == 0) {
        json_array_foreach(json_object_get(step, "normalizers"), i, item) {
            const inlay_status status = read_normalizer_step(source, item);

            if (status != INLAY_OK)
                return status;
        }
        return INLAY_OK;
    }
    INLAY_CHECK(tokenizer->normalizer_count <= MAX_STEPS);
    if (tokenizer->normalizer_count == MAX_STEPS)
        return fail_unsupported(source, "normalizer", "more than 16 steps");
    tokenizer->normalizer_count++;
    for (i = 0; i < 4; i++) {
        if (strcmp(type, forms[i]) == 0) {
            *normalizer = (struct normalizer){ .kind = NORMALIZE_FORM, .form = (int)i };
            return INLAY_OK;
        }
    }
    if (strcmp(type, "Lowercase") == 0) {
        normalizer->kind = NORMALIZE_LOWER;
    } else if (strcmp(type, "StripAccents") == 0) {
        normalizer->kind = NORMALIZE_STRIP_ACCENTS;
    } else if (strcmp(type, "BertNormalizer") == 0) {
        const bool lower = json_flag(step, "lowercase", true);

        *normalizer = (struct normalizer){ .kind = NORMALIZE_BERT,
                                           .lower = lower,
                                           .strip_accents = json_flag(step, "strip_accents", lower),
                                           .split_chinese = json_flag(step, "handle_chinese_chars", true),
                                           .clean = json_flag(step, "clean_text", true) };
    } else if (strcmp(type, "Replace") == 0) {
        return read_replace(source, normalizer, step);
    } else if (strcmp(type, "Prepend") == 0) {
        normalizer->kind = NORMALIZE_PREPEND;
        normalizer->replacement = copy_text(json_text(step, "prepend"), strlen(json_text(step, "prepend")));
        return normalizer->replacement != NULL ? INLAY_OK : fail_no_memory(source);
    } else if (strcmp(type, "Strip") == 0) {
        *normalizer = (struct normalizer){ .kind = NORMALIZE_STRIP,
                                           .strip_left = json_flag(step, "strip_left", true),
                                           .strip_right = json_flag(step, "strip_right", true) };
    } else if (strcmp(type, "Nmt") == 0) {
        normalizer->kind = NORMALIZE_NMT;
    } else if (strcmp(type, "ByteLevel") == 0) {
        normalizer->kind = NORMALIZE_BYTES;
    } else if (strcmp(type, "Precompiled") == 0) {
        *normalizer = (struct normalizer){ .kind = NORMALIZE_CHARSMAP, .by_grapheme = true };
        return read_charsmap(source, normalizer, json_text(step, "precompiled_charsmap"));
    } else {
        tokenizer->normalizer_count--;
        return fail_unsupported(source, "normalizer", type);
    }
    return INLAY_OK;
}
