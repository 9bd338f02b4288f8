/* normalize.c - what is done to a text before it is cut into words. */
#include "parts.h"
#include <unicase.h>
#include <uninorm.h>

static const char no_memory[] = "no memory to normalize the text";

static const char *put_form(int form, const char *text, size_t bytes, text_buf *out)
{
    uninorm_t forms[] = { UNINORM_NFC, UNINORM_NFD, UNINORM_NFKC, UNINORM_NFKD };
    size_t count = 0;
    uint8_t *made;

    if (bytes == 0)
        return NULL;
    made = u8_normalize(forms[form], (const uint8_t *)text, bytes, NULL, &count);
    if (made == NULL)
        return no_memory;
    buf_put(out, (const char *)made, count);
    free(made);
    return NULL;
}

/* As a whole: a sigma that ends a word has a small letter of its own. */
static const char *put_lower(const char *text, size_t bytes, text_buf *out)
{
    size_t count = 0;
    uint8_t *made;

    if (bytes == 0)
        return NULL;
    made = u8_tolower((const uint8_t *)text, bytes, "", NULL, NULL, &count);
    if (made == NULL)
        return no_memory;
    buf_put(out, (const char *)made, count);
    free(made);
    return NULL;
}

static bool is_chinese(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
           (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b820 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

/* What BERT drops, and how it takes spaces and Chinese characters. */
static void put_clean(const struct norm *norm, const char *text, size_t bytes, text_buf *out)
{
    size_t size;

    for (size_t at = 0; at < bytes; at += size) {
        uint32_t c = char_at(text + at, &size);

        if (norm->clean) {
            const bool space = is_space(c);

            if (c == 0 || c == 0xfffd || (!space && is_other(c)))
                continue;
            c = space ? ' ' : c;
        }
        if (norm->chinese && is_chinese(c)) {
            buf_char(out, ' ');
            buf_char(out, c);
            c = ' ';
        }
        buf_char(out, c);
    }
}

static const char *put_bert(const struct norm *norm, const char *text, size_t bytes, text_buf *out)
{
    text_buf clean = { 0 }, lower = { 0 }, open = { 0 };
    const text_buf *last = &clean;
    const char *why = NULL;
    size_t size;

    put_clean(norm, text, bytes, &clean);
    if (norm->lower) {
        why = put_lower(clean.data, clean.count, &lower);
        last = &lower;
    }
    if (why == NULL && norm->accents) {
        why = put_form(FORM_NFD, last->data, last->count, &open);
        last = &open;
    }
    for (size_t at = 0; why == NULL && at < last->count; at += size) {
        const uint32_t c = char_at(last->data + at, &size);

        if (!norm->accents || !is_mark(c, true))
            buf_char(out, c);
    }
    out->failed |= clean.failed || lower.failed || open.failed;
    free(clean.data);
    free(lower.data);
    free(open.data);
    return why;
}

static void put_replaced(const struct norm *norm, const char *text, size_t bytes, text_buf *out)
{
    const size_t from = strlen(norm->from);
    size_t at = 0;

    while (at < bytes) {
        size_t count = 0;

        while (from > 0 && at + (count + 1) * from <= bytes &&
               memcmp(text + at + count * from, norm->from, from) == 0 && (norm->kind == NORM_RUNS || count == 0))
            count++;
        if (count > 0 && count >= norm->least) {
            buf_put(out, norm->to, strlen(norm->to));
            at += count * from;
        } else {
            buf_put(out, text + at, count > 0 ? count * from : 1);
            at += count > 0 ? count * from : 1;
        }
    }
}

static void put_spaced(const struct norm *norm, const char *text, size_t bytes, text_buf *out)
{
    bool inside = false;
    size_t size;

    for (size_t at = 0; at < bytes; at += size) {
        const bool space = is_space(char_at(text + at, &size));

        if (!space)
            buf_put(out, text + at, size);
        else if (!inside)
            buf_put(out, norm->to, strlen(norm->to));
        inside = space;
    }
}

static void put_stripped(bool left, bool right, const char *text, size_t bytes, text_buf *out)
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
    buf_put(out, text + from, end - from);
}

/* Runs of spaces become one, and those around a text none. */
static void put_squeezed(const char *text, size_t bytes, text_buf *out)
{
    bool space = true;

    for (size_t at = 0; at < bytes; at++) {
        if (text[at] != ' ' || !space)
            buf_put(out, text + at, 1);
        space = text[at] == ' ';
    }
    if (out->count > 0 && out->data[out->count - 1] == ' ')
        out->count--;
}

/* ------------------------------------------------------------------ SentencePiece's map of characters
 *
 * A double-array trie of 32-bit units, whose values are places of texts behind it. The longest match counts. */

static uint32_t unit_at(const struct norm *norm, size_t at)
{
    uint32_t u;

    memcpy(&u, norm->map + at * 4, 4);
    return u;
}

/* Bytes of the longest match at the beginning of text, 0: none; *value: its place. */
static size_t match(const struct norm *norm, const char *text, size_t bytes, uint32_t *value)
{
    size_t found = 0;
    uint64_t at = 0;
    uint32_t u;

    if (norm->units == 0)
        return 0;
    u = unit_at(norm, 0);
    at ^= (u >> 10) << ((u & (1u << 9)) >> 6);
    for (size_t i = 0; i < bytes; i++) {
        at ^= (unsigned char)text[i];
        if (at >= norm->units)
            break;
        u = unit_at(norm, at);
        if ((u & ((1u << 31) | 0xff)) != (unsigned char)text[i])
            break;
        at ^= (u >> 10) << ((u & (1u << 9)) >> 6);
        if ((u >> 8 & 1) != 0 && at < norm->units) {
            *value = unit_at(norm, at) & 0x7fffffff;
            found = i + 1;
        }
    }
    return found;
}

static const char *put_mapped(const struct norm *norm, const char *text, size_t bytes, text_buf *out)
{
    const char *texts = (const char *)norm->map + norm->units * 4;
    const size_t room = norm->map_bytes - norm->units * 4;
    uint32_t value = 0;
    size_t size;

    for (size_t at = 0; at < bytes; at += size) {
        size = match(norm, text + at, bytes - at, &value);
        if (size > 0 && value < room) {
            buf_put(out, texts + value, strnlen(texts + value, room - value));
            continue;
        }
        (void)char_at(text + at, &size);
        buf_put(out, text + at, size);
    }
    return NULL;
}

/* ------------------------------------------------------------------ one step */

bool norm_set_map(struct norm *norm, const uint8_t *bytes, size_t count)
{
    uint32_t trie;

    if (count < 4)
        return true;
    memcpy(&trie, bytes, 4);
    if (trie > count - 4 || trie % 4 != 0)
        return false;
    norm->map = malloc(count - 4);
    if (norm->map == NULL)
        return false;
    memcpy(norm->map, bytes + 4, count - 4);
    norm->map_bytes = count - 4;
    norm->units = trie / 4;
    return true;
}

const char *norm_apply(const struct norm *norm, const char *text, size_t bytes, text_buf *out)
{
    const char *why = NULL;
    size_t size;

    switch (norm->kind) {
    case NORM_FORM:
        why = put_form(norm->form, text, bytes, out);
        break;
    case NORM_LOWER:
        why = put_lower(text, bytes, out);
        break;
    case NORM_STRIP_ACCENTS:
        for (size_t at = 0; at < bytes; at += size)
            if (!is_mark(char_at(text + at, &size), false))
                buf_put(out, text + at, size);
        break;
    case NORM_BERT:
        why = put_bert(norm, text, bytes, out);
        break;
    case NORM_REPLACE:
    case NORM_RUNS:
        put_replaced(norm, text, bytes, out);
        break;
    case NORM_PREPEND:
        if (bytes > 0)
            buf_put(out, norm->to, strlen(norm->to));
        buf_put(out, text, bytes);
        break;
    case NORM_STRIP:
        put_stripped(norm->lower, norm->clean, text, bytes, out);
        break;
    case NORM_SPACES:
        put_spaced(norm, text, bytes, out);
        break;
    case NORM_SQUEEZE:
        put_squeezed(text, bytes, out);
        break;
    default:
        why = put_mapped(norm, text, bytes, out);
    }
    return why != NULL ? why : out->failed ? no_memory : NULL;
}

void norm_free(struct norm *norm)
{
    free(norm->from);
    free(norm->to);
    free(norm->map);
}
