/* decode.c - the steps from the texts of tokens to one text. */
#include "prepost/text/tokenizer_parts.h"
#include "inlay/check.h"

void text_list_add(text_list *list, const char *text, size_t bytes)
{
    buf_append(&list->text, text, bytes);
    if (list->count == list->room) {
        const size_t room = list->room * 2 + 16;
        size_t *more = realloc(list->ends, room * sizeof *more);

        if (more == NULL) {
            list->text.failed = true;
            return;
        }
        list->ends = more;
        list->room = room;
    }
    list->ends[list->count++] = list->text.count;
}

void text_list_free(text_list *list)
{
    free(list->text.data);
    free(list->ends);
    *list = (text_list){ 0 };
}

/* Text i of the list. */
static const char *text_of(const text_list *list, size_t i, size_t *bytes)
{
    const size_t begin = i > 0 ? list->ends[i - 1] : 0;

    INLAY_CHECK(i < list->count);
    *bytes = list->ends[i] - begin;
    return list->text.data + begin;
}

/* The bytes of a token of byte-level BPE; false if a character of it stands for no byte. */
static bool spelled_bytes(const char *text, size_t bytes, text_buf *out)
{
    const size_t start = out->count;
    size_t size;

    for (size_t at = 0; at < bytes; at += size) {
        const int byte = byte_of_char(char_at(text + at, &size));
        const char raw = (char)byte;

        if (byte < 0) {
            out->count = start;
            return false;
        }
        buf_append(out, &raw, 1);
    }
    return true;
}

static void decode_byte_level(bool inner, const text_list *in, text_list *out)
{
    text_buf raw = { 0 };
    size_t bytes;

    for (size_t i = 0; i < in->count; i++) {
        const char *text = text_of(in, i, &bytes);

        if (!spelled_bytes(text, bytes, &raw))
            buf_append(&raw, text, bytes);
    }
    if (inner)
        buf_append(&out->text, raw.data, raw.count);
    else
        buf_append_lossy(&out->text, raw.data, raw.count);
    text_list_add(out, "", 0);
    out->text.failed |= raw.failed;
    free(raw.data);
}

int byte_of_token(const char *text, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    const char *high, *low;

    if (bytes != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>' || text[3] == '\0' || text[4] == '\0')
        return -1;
    high = strchr(digits, text[3] >= 'A' && text[3] <= 'F' ? text[3] | 32 : text[3]);
    low = strchr(digits, text[4] >= 'A' && text[4] <= 'F' ? text[4] | 32 : text[4]);
    return high != NULL && low != NULL ? (int)((high - digits) * 16 + (low - digits)) : -1;
}

/* Ends a run of byte tokens: one text, or a replacement character a byte if they are not UTF-8. */
static void flush_bytes(bool inner, text_buf *raw, text_list *out)
{
    if (raw->count == 0)
        return;
    if (inner || is_valid_utf8(raw->data, raw->count)) {
        text_list_add(out, raw->data, raw->count);
    } else {
        for (size_t i = 0; i < raw->count; i++)
            text_list_add(out, "\xef\xbf\xbd", 3);
    }
    raw->count = 0;
}

static void decode_byte_fallback(bool inner, const text_list *in, text_list *out)
{
    text_buf raw = { 0 };
    size_t bytes;

    for (size_t i = 0; i < in->count; i++) {
        const char *text = text_of(in, i, &bytes);
        const int byte = byte_of_token(text, bytes);
        const char one = (char)byte;

        if (byte >= 0) {
            buf_append(&raw, &one, 1);
            continue;
        }
        flush_bytes(inner, &raw, out);
        text_list_add(out, text, bytes);
    }
    flush_bytes(inner, &raw, out);
    out->text.failed |= raw.failed;
    free(raw.data);
}

/* Replaces each `from`. */
static void append_all_replaced(const char *text, size_t bytes, const char *from, const char *to, text_buf *out)
{
    const size_t count = strlen(from);

    for (size_t at = 0; at < bytes;) {
        if (count > 0 && count <= bytes - at && memcmp(text + at, from, count) == 0) {
            buf_append(out, to, strlen(to));
            at += count;
        } else {
            buf_append(out, text + at++, 1);
        }
    }
}

/* Drops spaces before punctuation and English contractions. */
static void clean(text_buf *text)
{
    static const char *const pairs[][2] = {
        { " .", "." },   { " ?", "?" },     { " !", "!" },     { " ,", "," },
        { " ' ", "'" },  { " n't", "n't" }, { " 'm", "'m" },   { " do not", " don't" },
        { " 's", "'s" }, { " 've", "'ve" }, { " 're", "'re" },
    };

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        text_buf next = { 0 };

        append_all_replaced(text->data, text->count, pairs[i][0], pairs[i][1], &next);
        next.failed |= text->failed;
        free(text->data);
        *text = next;
    }
}

/* The bytes of `text` that are `count` times the character at most, from the start or from the end. */
static size_t stripped(const char *text, size_t bytes, const char *character, size_t count, bool at_end)
{
    const size_t size = strlen(character);
    size_t cut = 0;

    while (count-- > 0 && size > 0 && size <= bytes - cut &&
           memcmp(at_end ? text + bytes - cut - size : text + cut, character, size) == 0)
        cut += size;
    return cut;
}

/* One text by a step that changes each text by itself. first, last: its place in the list. */
static inlay_status decode_one(const struct decode_step *step, const char *text, size_t bytes, bool first, bool last,
                               text_buf *out, inlay_diag *diag)
{
    const size_t count = step->text != NULL ? strlen(step->text) : 0;
    size_t cut;

    switch (step->kind) {
    case DECODE_REPLACE:
        return bytes > 0 ? normalizer_apply(&step->normalizer, text, bytes, out, diag) : INLAY_OK;
    case DECODE_WORDPIECE:
        cut = !first && bytes >= count && memcmp(text, step->text, count) == 0 ? count : 0;
        if (!first && cut == 0)
            buf_append(out, " ", 1);
        buf_append(out, text + cut, bytes - cut);
        break;
    case DECODE_METASPACE:
        append_all_replaced(text, bytes, step->text, first && step->drop_first ? "" : " ", out);
        break;
    case DECODE_STRIP:
        cut = stripped(text, bytes, step->text, step->start, false);
        buf_append(out, text + cut, bytes - cut - stripped(text + cut, bytes - cut, step->text, step->stop, true));
        break;
    case DECODE_BPE:
        append_all_replaced(text, bytes, step->text, last ? "" : " ", out);
        break;
    default:
        INLAY_CHECK(step->kind == DECODE_CTC);
        append_all_replaced(text, bytes, step->text, "", out);
    }
    if (step->clean)
        clean(out);
    if (step->kind == DECODE_CTC && step->clean) {
        text_buf spaced = { 0 };

        append_all_replaced(out->data, out->count, step->replacement, " ", &spaced);
        spaced.failed |= out->failed;
        free(out->data);
        *out = spaced;
    }
    return INLAY_OK;
}

inlay_status decode_step_apply(const struct decode_step *step, bool inner, const text_list *in, text_list *out,
                               inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    size_t bytes, before_bytes;

    INLAY_CHECK(out->count == 0);
    if (step->kind == DECODE_BYTE_LEVEL)
        decode_byte_level(inner, in, out);
    else if (step->kind == DECODE_BYTE_FALLBACK)
        decode_byte_fallback(inner, in, out);
    else if (step->kind == DECODE_FUSE)
        text_list_add(out, in->text.data, in->text.count);
    for (size_t i = 0; step->kind != DECODE_BYTE_LEVEL && step->kind != DECODE_BYTE_FALLBACK &&
                       step->kind != DECODE_FUSE && i < in->count && status == INLAY_OK;
         i++) {
        const char *text = text_of(in, i, &bytes), *before = i > 0 ? text_of(in, i - 1, &before_bytes) : NULL;
        text_buf made = { 0 };

        if (step->kind == DECODE_CTC && before != NULL && before_bytes == bytes && memcmp(before, text, bytes) == 0)
            continue;
        status = decode_one(step, text, bytes, i == 0 && !inner, i + 1 == in->count && !inner, &made, diag);
        if (step->kind != DECODE_CTC || made.count > 0)
            text_list_add(out, made.data, made.count);
        out->text.failed |= made.failed;
        free(made.data);
    }
    if (status == INLAY_OK && out->text.failed)
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the text of the tokens");
    return status;
}

void decode_step_free(struct decode_step *step)
{
    free(step->text);
    free(step->replacement);
    normalizer_free(&step->normalizer);
}
