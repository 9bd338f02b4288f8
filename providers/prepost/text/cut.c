/* cut.c - a text into words, before a model cuts these into tokens. */
#include "parts.h"

/* A text that is read from the left. */
struct reader {
    const char *text;
    size_t bytes;
};

enum { END, LETTER, NUMBER, SPACE, LINE, OTHER }; /* LINE: \r and \n, which are spaces, too */

static int kind_at(const struct reader *reader, size_t at, size_t *size)
{
    uint32_t c;

    *size = 0;
    if (at >= reader->bytes)
        return END;
    c = char_at(reader->text + at, size);
    if (c == '\n' || c == '\r')
        return LINE;
    return is_space(c) ? SPACE : is_letter(c) ? LETTER : is_number(c) ? NUMBER : OTHER;
}

/* Past characters of that kind, at most so many. */
static size_t skip(const struct reader *reader, size_t at, int kind, size_t most)
{
    size_t size;

    while (most-- > 0 && kind_at(reader, at, &size) == kind)
        at += size;
    return at;
}

/* 's 't 're 've 'm 'll 'd, the second form in capitals too. Bytes, 0: none is here. */
static size_t contraction(const struct reader *reader, bool capitals)
{
    static const char *const ends[] = { "s", "t", "re", "ve", "m", "ll", "d" };

    if (reader->bytes < 2 || reader->text[0] != '\'')
        return 0;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const size_t n = strlen(ends[i]);
        bool same = reader->bytes > n;

        for (size_t k = 0; same && k < n; k++)
            same = reader->text[1 + k] == ends[i][k] || (capitals && (reader->text[1 + k] | 32) == ends[i][k]);
        if (same)
            return n + 1;
    }
    if (capitals && reader->bytes > 2 &&
        memcmp(reader->text + 1, "\xc5\xbf", 2) == 0) /* the long s is an s without its case */
        return 3;
    return 0;
}

/* White space: all of it at the end, otherwise all but the last, which belongs to the word behind it. */
static size_t spaces(const struct reader *reader)
{
    size_t at = 0, last = 0, size;
    int kind;

    while ((kind = kind_at(reader, at, &size)) == SPACE || kind == LINE) {
        last = at;
        at += size;
    }
    return kind == END || last == 0 ? at : last;
}

/* '\s*[\r\n]+': up to the last end of line of the white space; 0: there is none. */
static size_t line_ends(const struct reader *reader)
{
    size_t at = 0, found = 0, size;
    int kind;

    while ((kind = kind_at(reader, at, &size)) == SPACE || kind == LINE) {
        at += size;
        found = kind == LINE ? at : found;
    }
    return found;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static size_t word_gpt2(const struct reader *reader)
{
    size_t size, at = contraction(reader, false);
    int kind;

    if (at > 0)
        return at;
    at = reader->text[0] == ' ';
    kind = kind_at(reader, at, &size);
    if (kind == LETTER || kind == NUMBER || kind == OTHER)
        return skip(reader, at, kind, reader->bytes);
    return spaces(reader);
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
 * ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 */
static size_t word_cl100k(const struct reader *reader, uint32_t digits)
{
    size_t size, second, at = contraction(reader, true);
    int kind;

    if (at > 0)
        return at;
    kind = kind_at(reader, 0, &size);
    if (kind == LETTER)
        return skip(reader, 0, LETTER, reader->bytes);
    if ((kind == SPACE || kind == OTHER) && kind_at(reader, size, &second) == LETTER)
        return skip(reader, size, LETTER, reader->bytes);
    if (kind == NUMBER)
        return skip(reader, 0, NUMBER, digits);
    at = reader->text[0] == ' ';
    if (kind_at(reader, at, &size) == OTHER)
        return skip(reader, skip(reader, at, OTHER, reader->bytes), LINE, reader->bytes);
    at = line_ends(reader);
    return at > 0 ? at : spaces(reader);
}

/* 's|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+; white space is dropped. */
static size_t word_clip(const struct reader *reader, bool *keep)
{
    size_t size, at = contraction(reader, false);
    const int kind = kind_at(reader, 0, &size);

    *keep = kind != SPACE && kind != LINE;
    if (at > 0)
        return at;
    if (kind == NUMBER || !*keep)
        return size;
    return skip(reader, 0, kind, reader->bytes);
}

/* ------------------------------------------------------------------ by characters */

/* What a character is to a cut: 0 = dropped, 1 = alone, others: with its neighbours of the same class. */
static int class_of(const struct cut *cut, uint32_t ch)
{
    switch (cut->kind) {
    case CUT_WORDS:
        return is_space(ch) ? 0 : 2;
    case CUT_WHITESPACE:
        return is_space(ch) ? 0 : is_word(ch) ? 2 : 3;
    case CUT_BERT:
        return is_space(ch) ? 0 : is_punctuation(ch) ? 1 : 2;
    case CUT_DIGITS:
        return is_number(ch) ? (cut->digits == 1 ? 1 : 3) : 2;
    default: /* CUT_PUNCTUATION */
        return is_punctuation(ch) ? (cut->behaviour == WITH_CONTIGUOUS ? 3
                                     : cut->behaviour == WITH_REMOVED  ? 0
                                                                       : 1)
                                  : 2;
    }
}

static void by_class(const struct cut *cut, const char *text, size_t from, size_t bytes, text_spans *out)
{
    size_t start = from, size;
    int before = 0;

    for (size_t at = from; at < from + bytes; at += size) {
        const int class = class_of(cut, char_at(text + at, &size));

        if (class != before || class == 1) {
            if (before != 0)
                spans_add(out, start, at - start);
            start = at;
        }
        before = class;
    }
    if (before != 0)
        spans_add(out, start, from + bytes - start);
}

static void by_pattern(const struct cut *cut, const char *text, size_t from, size_t bytes, text_spans *out)
{
    struct reader reader = { text + from, bytes };

    while (reader.bytes > 0) {
        bool keep = true;
        const size_t n = cut->kind == CUT_GPT2     ? word_gpt2(&reader)
                         : cut->kind == CUT_CL100K ? word_cl100k(&reader, cut->digits)
                                                   : word_clip(&reader, &keep);

        if (keep)
            spans_add(out, (size_t)(reader.text - text), n);
        reader.text += n;
        reader.bytes -= n;
    }
}

/* At a text: it is dropped, stands alone, or goes with its neighbour. */
static void by_text(int behaviour, const char *mark, const char *text, size_t from, size_t bytes, text_spans *out)
{
    const size_t n = strlen(mark), end = from + bytes;
    size_t start = from;

    for (size_t at = from; n > 0 && at + n <= end;) {
        if (memcmp(text + at, mark, n) != 0) {
            at++;
            continue;
        }
        if (behaviour == WITH_PREVIOUS) {
            at += n;
            spans_add(out, start, at - start);
            start = at;
            continue;
        }
        spans_add(out, start, at - start);
        start = at;
        at += n;
        while (behaviour == WITH_CONTIGUOUS && at + n <= end && memcmp(text + at, mark, n) == 0)
            at += n;
        if (behaviour == WITH_ISOLATED || behaviour == WITH_CONTIGUOUS)
            spans_add(out, start, at - start);
        if (behaviour != WITH_NEXT)
            start = at;
    }
    spans_add(out, start, end - start);
}

/* ------------------------------------------------------------------ steps that change the text */

static void spell_bytes(const struct cut *cut, const text_spans *in, text_spans *out)
{
    for (size_t i = 0; i < in->count; i++) {
        const char *text = in->text.data + in->list[i].at;
        const size_t start = out->text.count;

        if (cut->prefix_space && text[0] != ' ')
            buf_char(&out->text, char_of_byte(' '));
        for (size_t k = 0; k < in->list[i].count; k++)
            buf_char(&out->text, char_of_byte((unsigned char)text[k]));
        spans_add(out, start, out->text.count - start);
    }
}

static void mark_spaces(const struct cut *cut, const text_spans *in, text_spans *out, bool first)
{
    const size_t n = strlen(cut->text);

    for (size_t i = 0; i < in->count; i++) {
        const char *text = in->text.data + in->list[i].at;
        const size_t start = out->text.count, bytes = in->list[i].count;
        const bool marked = text[0] == ' ' || (bytes >= n && memcmp(text, cut->text, n) == 0);

        if (!marked && (cut->prepend == PREPEND_ALWAYS || (cut->prepend == PREPEND_FIRST && first && i == 0)))
            buf_put(&out->text, cut->text, n);
        for (size_t k = 0; k < bytes; k++)
            buf_put(&out->text, text[k] == ' ' ? cut->text : text + k, text[k] == ' ' ? n : 1);
        if (out->text.failed)
            return;
        if (cut->split)
            by_text(WITH_NEXT, cut->text, out->text.data, start, out->text.count - start, out);
        else
            spans_add(out, start, out->text.count - start);
    }
}

/* GPT-2's prefix: a space before the text, which then is cut. */
static void prefixed(const text_spans *in, text_spans *out)
{
    for (size_t i = 0; i < in->count; i++) {
        const char *text = in->text.data + in->list[i].at;
        const size_t start = out->text.count;

        if (text[0] != ' ')
            buf_put(&out->text, " ", 1);
        buf_put(&out->text, text, in->list[i].count);
        spans_add(out, start, out->text.count - start);
    }
}

void cut_apply(const struct cut *cut, const text_spans *in, text_spans *out, bool first)
{
    if (cut->kind == CUT_BYTES) {
        spell_bytes(cut, in, out);
        return;
    }
    if (cut->kind == CUT_METASPACE) {
        mark_spaces(cut, in, out, first);
        return;
    }
    if (cut->kind == CUT_GPT2 && cut->prefix_space) {
        text_spans with = { 0 };
        const struct cut plain = { .kind = CUT_GPT2 };

        prefixed(in, &with);
        if (with.text.failed)
            out->text.failed = true;
        else
            cut_apply(&plain, &with, out, first);
        spans_free(&with);
        return;
    }
    buf_put(&out->text, in->text.data, in->text.count);
    if (out->text.failed)
        return;
    for (size_t i = 0; i < in->count; i++) {
        if (cut->kind == CUT_GPT2 || cut->kind == CUT_CL100K || cut->kind == CUT_CLIP)
            by_pattern(cut, out->text.data, in->list[i].at, in->list[i].count, out);
        else if (cut->kind == CUT_TEXT)
            by_text(cut->behaviour, cut->text, out->text.data, in->list[i].at, in->list[i].count, out);
        else
            by_class(cut, out->text.data, in->list[i].at, in->list[i].count, out);
    }
}
