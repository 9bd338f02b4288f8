/* normalize.c - the normalizers, which change a text before it is split into words. */
#include "prepost/text/tokenizer_parts.h"
#include "inlay/check.h"
#include <unicase.h>
#include <unigbrk.h>
#include <uninorm.h>

static const char no_memory[] = "no memory to normalize the text";

static const char *append_known(int form, const char *text, size_t bytes, text_buf *out)
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

/* A character that the library `tokenizers` does not know has no mark, decomposition or composition there. */
static const char *append_form(int form, const char *text, size_t bytes, text_buf *out)
{
    const char *why = NULL;
    size_t first = 0, size;

    for (size_t at = 0; at < bytes && why == NULL; at += size) {
        if (!is_unnormalized(char_at(text + at, &size)))
            continue;
        why = append_known(form, text + first, at - first, out);
        buf_append(out, text + at, size);
        first = at + size;
    }
    return why != NULL ? why : append_known(form, text + first, bytes - first, out);
}

/* Lower-cases each character by itself: a final sigma becomes the same letter as other sigmas. U+0130 is the only
 * character with two in lower case. */
static void append_lower(const char *text, size_t bytes, text_buf *out)
{
    size_t size;

    for (size_t at = 0; at < bytes; at += size) {
        const uint32_t c = char_at(text + at, &size);

        if (c == 0x130)
            buf_append(out, "i\xcc\x87", 3);
        else
            buf_append_char(out, uc_tolower(c));
    }
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
            if (c == 0 || c == 0xfffd || (c != '\t' && c != '\n' && c != '\r' && is_other(c)))
                continue;
            c = is_space(c) ? ' ' : c;
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
    text_buf clean = { 0 }, open = { 0 }, plain = { 0 };
    const text_buf *last = &clean;
    const char *why = NULL;
    size_t size;

    append_clean(normalizer, text, bytes, &clean);
    if (normalizer->strip_accents && !clean.failed) {
        why = append_form(FORM_NFD, clean.data, clean.count, &open);
        for (size_t at = 0; why == NULL && at < open.count; at += size)
            if (!is_mark(char_at(open.data + at, &size), true))
                buf_append(&plain, open.data + at, size);
        last = &plain;
    }
    if (normalizer->lower)
        append_lower(last->data, last->count, out);
    else
        buf_append(out, last->data, last->count);
    out->failed |= clean.failed || open.failed || plain.failed;
    free(clean.data);
    free(open.data);
    free(plain.data);
    return why;
}

static void append_replaced(const struct normalizer *normalizer, const char *text, size_t bytes, text_buf *out)
{
    const size_t count = strlen(normalizer->text);

    INLAY_CHECK(normalizer->replacement != NULL);
    for (size_t at = 0; at < bytes;) {
        if (count > 0 && count <= bytes - at && memcmp(text + at, normalizer->text, count) == 0) {
            buf_append(out, normalizer->replacement, strlen(normalizer->replacement));
            at += count;
        } else {
            buf_append(out, text + at++, 1);
        }
    }
}

/* An empty match directly after another match does not count. */
static inlay_status append_substituted(const struct normalizer *normalizer, const char *text, size_t bytes,
                                       text_buf *out, inlay_diag *diag)
{
    size_t at = 0, done = 0, after = SIZE_MAX, begin, end, size;
    inlay_status status = INLAY_OK;
    void *scratch = NULL;
    bool found = true;

    while (at <= bytes) {
        INLAY_TRY(pattern_find(normalizer->pattern, &scratch, text, bytes, at, &found, &begin, &end, diag));
        if (!found)
            break;
        at = end;
        if (begin == end && end == after) {
            (void)char_at(text + at, &size);
            at += at < bytes ? size : 1;
            continue;
        }
        buf_append(out, text + done, begin - done);
        buf_append(out, normalizer->replacement, strlen(normalizer->replacement));
        done = after = end;
    }
    buf_append(out, text + done, bytes - done);
done:
    pattern_free_scratch(normalizer->pattern, scratch);
    return status;
}

/* NMT's normalization in SentencePiece: drops control characters, and other characters become spaces. */
static void append_nmt(const char *text, size_t bytes, text_buf *out)
{
    size_t size;

    for (size_t at = 0; at < bytes; at += size) {
        const uint32_t c = char_at(text + at, &size);

        if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f)
            continue;
        if (c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
            c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd)
            buf_append(out, " ", 1);
        else
            buf_append(out, text + at, size);
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

/* The bytes of the longest match at the start of the text, or of the shortest, or 0; *value is the offset of its
 * replacement. */
static size_t match(const struct normalizer *normalizer, const char *text, size_t bytes, bool shortest, uint32_t *value)
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
            if (shortest)
                break;
        }
    }
    return found;
}

/* Appends the replacement of a match; false if its offset is damaged. */
static bool append_replacement(const struct normalizer *normalizer, uint32_t value, text_buf *out)
{
    const char *texts = (const char *)normalizer->charsmap + normalizer->trie_units * 4;
    const size_t room = normalizer->charsmap_bytes - normalizer->trie_units * 4;

    INLAY_CHECK(normalizer->trie_units * 4 <= normalizer->charsmap_bytes);
    if (value >= room)
        return false;
    buf_append_valid(out, texts + value, strnlen(texts + value, room - value));
    return true;
}

static void append_mapped(const struct normalizer *normalizer, const char *text, size_t bytes, text_buf *out)
{
    uint32_t value = 0;
    size_t size;

    for (size_t at = 0; at < bytes; at += size) {
        size = match(normalizer, text + at, bytes - at, false, &value);
        if (size > 0 && append_replacement(normalizer, value, out))
            continue;
        (void)char_at(text + at, &size);
        buf_append(out, text + at, size);
    }
}

/* A cluster below 6 bytes is replaced as a whole if the map has a beginning of it; otherwise its characters are looked
 * up one by one. */
static const char *append_mapped_clusters(const struct normalizer *normalizer, const char *text, size_t bytes,
                                          text_buf *out)
{
    enum { CLUSTER_BYTES = 6 };
    char *starts = malloc(bytes + 1);
    uint32_t value = 0;
    size_t size, end;

    if (starts == NULL)
        return no_memory;
    u8_grapheme_breaks((const uint8_t *)text, bytes, starts);
    for (size_t from = 0; from < bytes; from = end) {
        for (end = from + 1; end < bytes && starts[end] == 0;)
            end++;
        if (end - from < CLUSTER_BYTES && match(normalizer, text + from, end - from, true, &value) > 0 &&
            append_replacement(normalizer, value, out))
            continue;
        for (size_t at = from; at < end; at += size) {
            (void)char_at(text + at, &size);
            if (match(normalizer, text + at, size, true, &value) == 0 || !append_replacement(normalizer, value, out))
                buf_append(out, text + at, size);
        }
    }
    free(starts);
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

inlay_status normalizer_apply(const struct normalizer *normalizer, const char *text, size_t bytes, text_buf *out,
                              inlay_diag *diag)
{
    const char *why = NULL;
    inlay_status status = INLAY_OK;
    size_t size;

    switch (normalizer->kind) {
    case NORMALIZE_FORM:
        why = append_form(normalizer->form, text, bytes, out);
        break;
    case NORMALIZE_LOWER:
        append_lower(text, bytes, out);
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
        append_replaced(normalizer, text, bytes, out);
        break;
    case NORMALIZE_PATTERN:
        if (bytes > 0)
            status = append_substituted(normalizer, text, bytes, out, diag);
        break;
    case NORMALIZE_PREPEND:
        if (bytes > 0)
            buf_append(out, normalizer->replacement, strlen(normalizer->replacement));
        buf_append(out, text, bytes);
        break;
    case NORMALIZE_STRIP:
        append_stripped(normalizer->strip_left, normalizer->strip_right, text, bytes, out);
        break;
    case NORMALIZE_NMT:
        append_nmt(text, bytes, out);
        break;
    case NORMALIZE_BYTES:
        for (size_t at = 0; at < bytes; at++)
            buf_append_char(out, char_of_byte((unsigned char)text[at]));
        break;
    case NORMALIZE_SQUEEZE:
        append_squeezed(text, bytes, out);
        break;
    default:
        INLAY_CHECK(normalizer->kind == NORMALIZE_CHARSMAP);
        if (normalizer->by_grapheme)
            why = append_mapped_clusters(normalizer, text, bytes, out);
        else
            append_mapped(normalizer, text, bytes, out);
    }
    if (status == INLAY_OK && (why != NULL || out->failed))
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, no_memory);
    return status;
}

void normalizer_free(struct normalizer *normalizer)
{
    free(normalizer->text);
    pattern_close(normalizer->pattern);
    free(normalizer->replacement);
    free(normalizer->charsmap);
}
