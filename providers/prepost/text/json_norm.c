/* json_norm.c - the normalizers of a tokenizer.json. */
#include "json_parts.h"

static int base64_of(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

static inlay_status read_charsmap(const struct source *source, struct norm *norm, const char *text)
{
    uint8_t *bytes = malloc(strlen(text) + 1);
    uint32_t bits = 0, have = 0;
    size_t count = 0;
    bool ok;

    if (bytes == NULL)
        return no_memory(source);
    for (; *text != '\0'; text++) {
        const int v = base64_of(*text);

        if (v < 0)
            continue;
        bits = bits << 6 | (uint32_t)v;
        have += 6;
        if (have >= 8) {
            have -= 8;
            bytes[count++] = (uint8_t)(bits >> have);
        }
    }
    ok = norm_set_map(norm, bytes, count);
    free(bytes);
    return ok ? INLAY_OK
              : inlay_fail(source->diag, INLAY_INVALID_ARGUMENT, "tokenizer.json: precompiled_charsmap is damaged");
}

/* Replace: a text, or one of the patterns that published files have. */
static inlay_status read_replace(const struct source *source, struct norm *norm, const json_t *step)
{
    const json_t *pattern = json_object_get(step, "pattern");
    const char *text = json_string_value(json_object_get(pattern, "String"));
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const size_t bytes = regex != NULL ? strlen(regex) : 0;

    norm->kind = NORM_REPLACE;
    norm->least = 1;
    norm->to = copy_text(text_of(step, "content"), strlen(text_of(step, "content")));
    if (text != NULL) {
        norm->from = copy_text(text, strlen(text));
    } else if (bytes >= 5 && strcmp(regex + bytes - 4, "{2,}") == 0 && strcspn(regex, "\\[.*+?(|") == bytes) {
        norm->kind = NORM_RUNS;
        norm->least = 2;
        norm->from = copy_text(regex, bytes - 4);
    } else if (bytes == 3 && strcmp(regex, "\\s+") == 0) {
        norm->kind = NORM_SPACES;
        norm->from = copy_text("", 0);
    } else if (bytes == 2 && regex[1] == '+' && strcspn(regex, "\\[.*?(|") == bytes) {
        norm->kind = NORM_RUNS;
        norm->from = copy_text(regex, 1);
    } else {
        return not_supported(source, "normalizer Replace with the pattern", regex != NULL ? regex : "");
    }
    return norm->from != NULL && norm->to != NULL ? INLAY_OK : no_memory(source);
}

inlay_status read_norm(const struct source *source, const json_t *step)
{
    static const char *const forms[] = { "NFC", "NFD", "NFKC", "NFKD" };
    const char *type = text_of(step, "type");
    text_tokenizer *tokenizer = source->tokenizer;
    struct norm *norm = &tokenizer->norms[tokenizer->norm_count];
    size_t i;
    json_t *item;

    if (strcmp(type, "Sequence") == 0) {
        json_array_foreach(json_object_get(step, "normalizers"), i, item) {
            const inlay_status status = read_norm(source, item);

            if (status != INLAY_OK)
                return status;
        }
        return INLAY_OK;
    }
    if (tokenizer->norm_count == MOST_STEPS)
        return not_supported(source, "normalizer", "more than 16 steps");
    tokenizer->norm_count++;
    for (i = 0; i < 4; i++) {
        if (strcmp(type, forms[i]) == 0) {
            *norm = (struct norm){ .kind = NORM_FORM, .form = (int)i };
            return INLAY_OK;
        }
    }
    if (strcmp(type, "Lowercase") == 0) {
        norm->kind = NORM_LOWER;
    } else if (strcmp(type, "StripAccents") == 0) {
        norm->kind = NORM_STRIP_ACCENTS;
    } else if (strcmp(type, "BertNormalizer") == 0) {
        const bool lower = flag_of(step, "lowercase", true);

        *norm = (struct norm){ .kind = NORM_BERT,
                               .lower = lower,
                               .accents = flag_of(step, "strip_accents", lower),
                               .chinese = flag_of(step, "handle_chinese_chars", true),
                               .clean = flag_of(step, "clean_text", true) };
    } else if (strcmp(type, "Replace") == 0) {
        return read_replace(source, norm, step);
    } else if (strcmp(type, "Prepend") == 0) {
        norm->kind = NORM_PREPEND;
        norm->to = copy_text(text_of(step, "prepend"), strlen(text_of(step, "prepend")));
        return norm->to != NULL ? INLAY_OK : no_memory(source);
    } else if (strcmp(type, "Strip") == 0) {
        *norm = (struct norm){ .kind = NORM_STRIP,
                               .lower = flag_of(step, "strip_left", true),
                               .clean = flag_of(step, "strip_right", true) };
    } else if (strcmp(type, "Precompiled") == 0) {
        norm->kind = NORM_CHARSMAP;
        return read_charsmap(source, norm, text_of(step, "precompiled_charsmap"));
    } else {
        tokenizer->norm_count--;
        return not_supported(source, "normalizer", type);
    }
    return INLAY_OK;
}
