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

static inlay_status read_charsmap(const struct source *s, struct norm *n, const char *text)
{
    uint8_t *bytes = malloc(strlen(text) + 1);
    uint32_t bits = 0, have = 0;
    size_t count = 0;
    bool ok;

    if (bytes == NULL)
        return no_memory(s);
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
    ok = norm_set_map(n, bytes, count);
    free(bytes);
    return ok ? INLAY_OK
              : inlay_fail(s->diag, INLAY_INVALID_ARGUMENT, "tokenizer.json: precompiled_charsmap is damaged");
}

/* Replace: a text, or one of the patterns that published files have. */
static inlay_status read_replace(const struct source *s, struct norm *n, const json_t *step)
{
    const json_t *pattern = json_object_get(step, "pattern");
    const char *text = json_string_value(json_object_get(pattern, "String"));
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const size_t bytes = regex != NULL ? strlen(regex) : 0;

    n->kind = NORM_REPLACE;
    n->least = 1;
    n->to = copy_text(text_of(step, "content"), strlen(text_of(step, "content")));
    if (text != NULL) {
        n->from = copy_text(text, strlen(text));
    } else if (bytes >= 5 && strcmp(regex + bytes - 4, "{2,}") == 0 && strcspn(regex, "\\[.*+?(|") == bytes) {
        n->kind = NORM_RUNS;
        n->least = 2;
        n->from = copy_text(regex, bytes - 4);
    } else if (bytes == 3 && strcmp(regex, "\\s+") == 0) {
        n->kind = NORM_SPACES;
        n->from = copy_text("", 0);
    } else if (bytes == 2 && regex[1] == '+' && strcspn(regex, "\\[.*?(|") == bytes) {
        n->kind = NORM_RUNS;
        n->from = copy_text(regex, 1);
    } else {
        return not_supported(s, "normalizer Replace with the pattern", regex != NULL ? regex : "");
    }
    return n->from != NULL && n->to != NULL ? INLAY_OK : no_memory(s);
}

inlay_status read_norm(const struct source *s, const json_t *step)
{
    static const char *const forms[] = { "NFC", "NFD", "NFKC", "NFKD" };
    const char *type = text_of(step, "type");
    text_tokenizer *t = s->t;
    struct norm *n = &t->norms[t->norm_count];
    size_t i;
    json_t *item;

    if (strcmp(type, "Sequence") == 0) {
        json_array_foreach(json_object_get(step, "normalizers"), i, item) {
            const inlay_status status = read_norm(s, item);

            if (status != INLAY_OK)
                return status;
        }
        return INLAY_OK;
    }
    if (t->norm_count == MOST_STEPS)
        return not_supported(s, "normalizer", "more than 16 steps");
    t->norm_count++;
    for (i = 0; i < 4; i++) {
        if (strcmp(type, forms[i]) == 0) {
            *n = (struct norm){ .kind = NORM_FORM, .form = (int)i };
            return INLAY_OK;
        }
    }
    if (strcmp(type, "Lowercase") == 0) {
        n->kind = NORM_LOWER;
    } else if (strcmp(type, "StripAccents") == 0) {
        n->kind = NORM_STRIP_ACCENTS;
    } else if (strcmp(type, "BertNormalizer") == 0) {
        const bool lower = flag_of(step, "lowercase", true);

        *n = (struct norm){ .kind = NORM_BERT,
                            .lower = lower,
                            .accents = flag_of(step, "strip_accents", lower),
                            .chinese = flag_of(step, "handle_chinese_chars", true),
                            .clean = flag_of(step, "clean_text", true) };
    } else if (strcmp(type, "Replace") == 0) {
        return read_replace(s, n, step);
    } else if (strcmp(type, "Prepend") == 0) {
        n->kind = NORM_PREPEND;
        n->to = copy_text(text_of(step, "prepend"), strlen(text_of(step, "prepend")));
        return n->to != NULL ? INLAY_OK : no_memory(s);
    } else if (strcmp(type, "Strip") == 0) {
        *n = (struct norm){ .kind = NORM_STRIP,
                            .lower = flag_of(step, "strip_left", true),
                            .clean = flag_of(step, "strip_right", true) };
    } else if (strcmp(type, "Precompiled") == 0) {
        n->kind = NORM_CHARSMAP;
        return read_charsmap(s, n, text_of(step, "precompiled_charsmap"));
    } else {
        t->norm_count--;
        return not_supported(s, "normalizer", type);
    }
    return INLAY_OK;
}
