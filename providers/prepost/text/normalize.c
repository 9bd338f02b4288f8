/* normalize.c - the normalizers, which change a text before it is split into words. */
#include "prepost/text/tokenizer_parts.h"
#include "inlay/check.h"
#include <unicase.h>
#include <uninorm.h>

static const char no_memory[] = "no memory to normalize the text";

static const char *append_form(int form, const char *text, size_t bytes, text_buf *out)
{
    uninorm_t forms[] = { UNINORM_NFC, UNINORM_NFD, UNINORM_NFKC, UNINORM_NFKD };
    size_t count = 0;
    uint8_t *made;

    INLAY_CHECK(form >= FORM_NFC && form <= FORM_NFKD);
    if (bytes == 0)
        return NULL;
    made = u8_normalize(forms[form], (const uint8_t *)text, bytes, NULL, &count);
    if (made == NULL)
        return no_memory;
    buf_append(out, (const char *)made, count);
    free(made);
    return NULL;
}

/* Lower-cases the whole text at once, because a final sigma has another lower-case letter than other sigmas. */
static const char *append_lower(const char *text, size_t bytes, text_buf *out)
{
    size_t count = 0;
    uint8_t *made;

    if (bytes == 0)
        return NULL;
    made = u8_tolower((const uint8_t *)text, bytes, "", NULL, NULL, &count);
    if (made == NULL)
        return no_memory;
    buf_append(out, (const char *)made, count);
    free(made);
    return NULL;
}

static bool is_chinese(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
           (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b820 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

/* BERT's clean_text (drops control characters, white space becomes a space) and handle_chinese_chars (spaces around
 * Chinese characters). */
static void append_clean(const struct normalizer *normalizer, const char *text, size_t bytes, text_buf *out)
{
    size_t size;

    for (size_t at = 0; at < bytes; at += size) {
        uint32_t c = char_at(text + at, &size);

        if (normalizer->clean) {
            const bool space = is_space(c);

            if (c == 0 || c == 0xfffd || (!space && is_other(c)))
                continue;
            c = space ? ' ' : c;
        }
        if (normalizer->split_chinese && is_chinese(c)) {
            buf_append_char(out, ' ');
            buf_append_char(out, c);
            c = ' ';
        }
        buf_append_char(out, c);
    }
}

static const char *append_bert(const struct normalizer *normalizer, const char *text, size_t bytes, text_buf *out)
{
    text_buf clean = { 0 }, lower = { 0 }, open = { 0 };
    const text_buf *last = &clean;
    const char *why = NULL;
    size_t size;

    append_clean(normalizer, text, bytes, &clean);
    if (normalizer->lower) {
        why = append_lower(clean.data, clean.count, &lower);
        last = &lower;
    }
    if (why == NULL && normalizer->strip_accents) {
        why = append_form(FORM_NFD, last->data, last->count, &open);
        last = &open;
    }
    for (size_t at = 0; why == NULL && at < last->count; at += size) {
        const uint32_t c = char_at(last->data + at, &size);

        if (!normalizer->strip_accents || !is_mark(c, true))
            buf_append_char(out, c);
    }
    out->failed |= clean.failed || lower.failed || open.failed;
    free(clean.data);
    free(lower.data);
    free(open.data);
    return why;
}

static void append_replaced(const struct normalizer *normalizer, const char *text, size_t bytes, text_buf *out)
{
    const size_t from = strlen(normalizer->pattern);
    size_t at = 0;

    INLAY_CHECK(normalizer->replacement != NULL && (normalizer->kind == NORMALIZE_RUNS || normalizer->min_run <= 1));
    while (at < bytes) {
        size_t count = 0;

        while (from > 0 && at + (count + 1) * from <= bytes &&
               memcmp(text + at + count * from, normalizer->pattern, from) == 0 &&
               (normalizer->kind == NORMALIZE_RUNS || count == 0))
            count++;
        if (count > 0 && count >= normalizer->min_run) {
            buf_append(out, normalizer->replacement, strlen(normalizer->replacement));
            at += count * from;
        } else {
            buf_append(out, text + at, count > 0 ? count * from : 1);
            at += count > 0 ? count * from : 1;
        }
    }
}

static void append_joined_spaces(const struct normalizer *normalizer, const char *text, size_t bytes, text_buf *out)
{
    bool inside = false;
    size_t size;

    for (size_t at = 0; at < bytes; at += size) {
        const bool space = is_space(char_at(text + at, &size));

        if (!space)
            buf_append(out, text + at, size);
        else if (!inside)
            buf_append(out, normalizer->replacement, strlen(normalizer->replacement));
        inside = space;
    }
}

static void append_stripped(bool left, bool right, const char *text, size_t bytes, text_buf *out)
{
    size_t from = 0, end = bytes, size;

    while (left && from < end && is_space(char_at(text + from, &size)))
        from += size;
    for (size_t at = from; right && at < bytes; at += size) {
        const uint32_t c = char_at(text + at, &size);

        end = at == from ? from : end;
        if (!is_space(c))
            end = at + size;
    }
    buf_append(out, text + from, end - from);
}

/* Each run of spaces becomes one space; spaces at both ends are dropped. */
static void append_squeezed(const char *text, size_t bytes, text_buf *out)
{
    bool space = true;

    for (size_t at = 0; at < bytes; at++) {
        if (text[at] != ' ' || !space)
            buf_append(out, text + at, 1);
        space = text[at] == ' ';
    }
    if (out->count > 0 && out->data[out->count - 1] == ' ')
        out->count--;
}

/* SentencePiece's map of characters.
 *
 * A double-array trie of 32-bit units (Darts). Its values are offsets of the replacement texts, which follow the trie.
 * The longest match wins. */

static uint32_t unit_at(const struct normalizer *normalizer, size_t at)
{
    uint32_t unit;

    INLAY_CHECK(at < normalizer->trie_units);
    memcpy(&unit, normalizer->charsmap + at * 4, 4);
    return unit;
}

/* The bytes of the longest match at the start of the text, or 0; *value is the offset of its replacement. */
static size_t match(const struct normalizer *normalizer, const char *text, size_t bytes, uint32_t *value)
{
    size_t found = 0;
    uint64_t at = 0;
    uint32_t unit;

    if (normalizer->trie_units == 0)
        return 0;
    unit = unit_at(normalizer, 0);
    at ^= (unit >> 10) << ((unit & (1u << 9)) >> 6);
    for (size_t i = 0; i < bytes; i++) {
        at ^= (unsigned char)text[i];
        if (at >= normalizer->trie_units)
            break;
        unit = unit_at(normalizer, at);
        if ((unit & ((1u << 31) | 0xff)) != (unsigned char)text[i])
            break;
        at ^= (unit >> 10) << ((unit & (1u << 9)) >> 6);
        /* The map of a damaged file may match a part of a character. */
        if ((unit >> 8 & 1) != 0 && at < normalizer->trie_units &&
            (i + 1 == bytes || ((unsigned char)text[i + 1] & 0xc0) != 0x80)) {
            *value = unit_at(normalizer, at) & 0x7fffffff;
            found = i + 1;
        }
    }
    return found;
}

static const char *append_mapped(const struct normalizer *normalizer, const char *text, size_t bytes, text_buf *out)
{
    const char *texts = (const char *)normalizer->charsmap + normalizer->trie_units * 4;
    const size_t room = normalizer->charsmap_bytes - normalizer->trie_units * 4;
    uint32_t value = 0;
    size_t size;

    INLAY_CHECK(normalizer->trie_units * 4 <= normalizer->charsmap_bytes);
    for (size_t at = 0; at < bytes; at += size) {
        size = match(normalizer, text + at, bytes - at, &value);
        if (size > 0 && value < room) {
            buf_append_valid(out, texts + value, strnlen(texts + value, room - value));
            continue;
        }
        (void)char_at(text + at, &size);
        buf_append(out, text + at, size);
    }
    return NULL;
}

bool normalizer_set_charsmap(struct normalizer *normalizer, const uint8_t *bytes, size_t count)
{
    uint32_t trie;

    INLAY_CHECK(normalizer->charsmap == NULL);
    if (count < 4)
        return true;
    memcpy(&trie, bytes, 4);
    if (trie > count - 4 || trie % 4 != 0)
        return false;
    normalizer->charsmap = malloc(count - 4);
    if (normalizer->charsmap == NULL)
        return false;
    memcpy(normalizer->charsmap, bytes + 4, count - 4);
    normalizer->charsmap_bytes = count - 4;
    normalizer->trie_units = trie / 4;
    return true;
}

const char *normalizer_apply(const struct normalizer *normalizer, const char *text, size_t bytes, text_buf *out)
{
    const char *why = NULL;
    size_t size;

    switch (normalizer->kind) {
    case NORMALIZE_FORM:
        why = append_form(normalizer->form, text, bytes, out);
        break;
    case NORMALIZE_LOWER:
        why = append_lower(text, bytes, out);
        break;
    case NORMALIZE_STRIP_ACCENTS:
        for (size_t at = 0; at < bytes; at += size)
            if (!is_mark(char_at(text + at, &size), false))
                buf_append(out, text + at, size);
        break;
    case NORMALIZE_BERT:
        why = append_bert(normalizer, text, bytes, out);
        break;
    case NORMALIZE_REPLACE:
    case NORMALIZE_RUNS:
        append_replaced(normalizer, text, bytes, out);
        break;
    case NORMALIZE_PREPEND:
        if (bytes > 0)
            buf_append(out, normalizer->replacement, strlen(normalizer->replacement));
        buf_append(out, text, bytes);
        break;
    case NORMALIZE_STRIP:
        append_stripped(normalizer->strip_left, normalizer->strip_right, text, bytes, out);
        break;
    case NORMALIZE_SPACES:
        append_joined_spaces(normalizer, text, bytes, out);
        break;
    case NORMALIZE_SQUEEZE:
        append_squeezed(text, bytes, out);
        break;
    default:
        INLAY_CHECK(normalizer->kind == NORMALIZE_CHARSMAP);
        why = append_mapped(normalizer, text, bytes, out);
    }
    return why != NULL ? why : out->failed ? no_memory : NULL;
}

void normalizer_free(struct normalizer *normalizer)
{
    free(normalizer->pattern);
    free(normalizer->replacement);
    free(normalizer->charsmap);
}
