/* characters.c - UTF-8, classes of characters, and text buffers that grow. */
#include "prepost/text/tokenizer_parts.h"
#include "inlay/check.h"
#include <unictype.h>

void buf_append(text_buf *buffer, const char *data, size_t count)
{
    INLAY_CHECK(buffer->count <= buffer->room && (count == 0 || data != NULL));
    if (count > buffer->room - buffer->count) {
        const size_t room = (buffer->count + count) * 2 + 32;
        char *more = realloc(buffer->data, room);

        if (more == NULL) {
            buffer->failed = true;
            return;
        }
        buffer->data = more;
        buffer->room = room;
    }
    if (count > 0)
        memcpy(buffer->data + buffer->count, data, count);
    buffer->count += count;
}

void buf_append_char(text_buf *buffer, uint32_t c)
{
    char s[4];
    size_t n = 0;

    if (c < 0x80) {
        s[n++] = (char)c;
    } else if (c < 0x800) {
        s[n++] = (char)(0xc0 | c >> 6);
        s[n++] = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        s[n++] = (char)(0xe0 | c >> 12);
        s[n++] = (char)(0x80 | (c >> 6 & 63));
        s[n++] = (char)(0x80 | (c & 63));
    } else {
        s[n++] = (char)(0xf0 | c >> 18);
        s[n++] = (char)(0x80 | (c >> 12 & 63));
        s[n++] = (char)(0x80 | (c >> 6 & 63));
        s[n++] = (char)(0x80 | (c & 63));
    }
    buf_append(buffer, s, n);
}

void spans_add(text_spans *spans, size_t at, size_t count)
{
    INLAY_CHECK(spans->text.failed || (at <= spans->text.count && count <= spans->text.count - at));
    INLAY_CHECK(spans->count <= spans->room);
    if (count == 0)
        return;
    if (spans->count == spans->room) {
        const size_t room = spans->room * 2 + 16;
        text_span *more = realloc(spans->list, room * sizeof *more);

        if (more == NULL) {
            spans->text.failed = true;
            return;
        }
        spans->list = more;
        spans->room = room;
    }
    spans->list[spans->count++] = (text_span){ at, count };
}

void spans_free(text_spans *spans)
{
    free(spans->text.data);
    free(spans->list);
    *spans = (text_spans){ 0 };
}

uint32_t char_at(const char *s, size_t *size)
{
    const unsigned char *p = (const unsigned char *)s;

    if (p[0] < 0x80) {
        *size = 1;
        return p[0];
    }
    *size = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (*size == 2)
        return (p[0] & 31u) << 6 | (p[1] & 63u);
    if (*size == 3)
        return (p[0] & 15u) << 12 | (p[1] & 63u) << 6 | (p[2] & 63u);
    return (p[0] & 7u) << 18 | (p[1] & 63u) << 12 | (p[2] & 63u) << 6 | (p[3] & 63u);
}

/* The bytes of the UTF-8 character at p; 0 if it is not valid. */
static size_t valid_at(const unsigned char *p, size_t left)
{
    const size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;

    INLAY_CHECK(left > 0);
    if (n == 0 || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if (p[i] >> 6 != 2)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
        (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

/* The bytes at p, which are not valid, that one replacement character stands for: the longest beginning of a valid
 * character, or one byte. */
static size_t invalid_at(const unsigned char *p, size_t left)
{
    unsigned char whole[4] = { p[0], 0x80, 0x80, 0x80 };
    size_t count = 1;

    while (count < 3 && count < left && p[count] >> 6 == 2) {
        /* U+0800, U+10000 and the surrogates restrict the second byte: try it within a whole character. */
        whole[count] = p[count];
        if (valid_at(whole, sizeof whole) <= count)
            break;
        count++;
    }
    return count;
}

static void append_mended(text_buf *buffer, const char *text, size_t bytes, bool each_byte)
{
    size_t from = 0, at = 0;

    while (at < bytes) {
        const unsigned char *p = (const unsigned char *)text + at;
        const size_t n = valid_at(p, bytes - at);

        if (n > 0) {
            at += n;
            continue;
        }
        buf_append(buffer, text + from, at - from);
        buf_append_char(buffer, 0xfffd);
        from = at += each_byte ? 1 : invalid_at(p, bytes - at);
    }
    buf_append(buffer, text + from, at - from);
}

void buf_append_valid(text_buf *buffer, const char *text, size_t bytes)
{
    append_mended(buffer, text, bytes, true);
}

void buf_append_lossy(text_buf *buffer, const char *text, size_t bytes)
{
    append_mended(buffer, text, bytes, false);
}

bool is_valid_utf8(const char *text, size_t bytes)
{
    for (size_t at = 0, n; at < bytes; at += n) {
        n = valid_at((const unsigned char *)text + at, bytes - at);
        if (n == 0)
            return false;
    }
    return true;
}

bool is_space(uint32_t c)
{
    return c < 0x80 ? c == ' ' || (c >= 9 && c <= 13) : uc_is_property_white_space(c);
}

bool is_letter(uint32_t c)
{
    return c < 0x80 ? (c | 32) >= 'a' && (c | 32) <= 'z' : uc_is_general_category_withtable(c, UC_CATEGORY_MASK_L);
}

bool is_number(uint32_t c)
{
    return c < 0x80 ? c >= '0' && c <= '9' : uc_is_general_category_withtable(c, UC_CATEGORY_MASK_N);
}

bool is_word(uint32_t c)
{
    if (c < 0x80)
        return is_letter(c) || is_number(c) || c == '_';
    return uc_is_property_alphabetic(c) || c == 0x200c || c == 0x200d ||
           uc_is_general_category_withtable(c, UC_CATEGORY_MASK_M | UC_CATEGORY_MASK_Nd | UC_CATEGORY_MASK_Pc);
}

static bool stands_for_itself(unsigned b)
{
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
}

uint32_t char_of_byte(unsigned char byte)
{
    const uint32_t c = stands_for_itself(byte) ? byte
                       : byte <= 32            ? 256u + byte
                       : byte <= 160           ? 256u + 33 + (byte - 127u)
                                               : 256u + 67;

    INLAY_CHECK(byte_of_char(c) == byte);
    return c;
}

int byte_of_char(uint32_t c)
{
    if (c < 256)
        return stands_for_itself(c) ? (int)c : -1;
    c -= 256;
    return c <= 32 ? (int)c : c <= 66 ? (int)(c - 33 + 127) : c == 67 ? 173 : -1;
}
