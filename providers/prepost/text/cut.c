/* cut.c - a text into words, before a model cuts these into tokens. */
#include "parts.h"

/* A text that is read from the left. */
struct reader {
    const char *text;
    size_t bytes;
};

enum { END, LETTER, NUMBER, SPACE, LINE, OTHER }; /* LINE: \r and \n, which are spaces, too */

static int kind_at(const struct reader *r, size_t at, size_t *size)
{
    uint32_t c;

    *size = 0;
    if (at >= r->bytes)
        return END;
    c = char_at(r->text + at, size);
    if (c == '\n' || c == '\r')
        return LINE;
    return is_space(c) ? SPACE : is_letter(c) ? LETTER : is_number(c) ? NUMBER : OTHER;
}

/* Past characters of that kind, at most so many. */
static size_t skip(const struct reader *r, size_t at, int kind, size_t most)
{
    size_t size;

    while (most-- > 0 && kind_at(r, at, &size) == kind)
        at += size;
    return at;
}

/* 's 't 're 've 'm 'll 'd, the second form in capitals too. Bytes, 0: none is here. */
static size_t contraction(const struct reader *r, bool capitals)
{
    static const char *const ends[] = { "s", "t", "re", "ve", "m", "ll", "d" };

    if (r->bytes < 2 || r->text[0] != '\'')
        return 0;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const size_t n = strlen(ends[i]);
        bool same = r->bytes > n;

        for (size_t k = 0; same && k < n; k++)
            same = r->text[1 + k] == ends[i][k] || (capitals && (r->text[1 + k] | 32) == ends[i][k]);
        if (same)
            return n + 1;
    }
    if (capitals && r->bytes > 2 && memcmp(r->text + 1, "\xc5\xbf", 2) == 0) /* the long s is an s without its case */
        return 3;
    return 0;
}

/* White space: all of it at the end, otherwise all but the last, which belongs to the word behind it. */
static size_t spaces(const struct reader *r)
{
    size_t at = 0, last = 0, size;
    int kind;

    while ((kind = kind_at(r, at, &size)) == SPACE || kind == LINE) {
        last = at;
        at += size;
    }
    return kind == END || last == 0 ? at : last;
}

/* '\s*[\r\n]+': up to the last end of line of the white space; 0: there is none. */
static size_t line_ends(const struct reader *r)
{
    size_t at = 0, found = 0, size;
    int kind;

    while ((kind = kind_at(r, at, &size)) == SPACE || kind == LINE) {
        at += size;
        found = kind == LINE ? at : found;
    }
    return found;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static size_t word_gpt2(const struct reader *r)
{
    size_t size, at = contraction(r, false);
    int kind;

    if (at > 0)
        return at;
    at = r->text[0] == ' ';
    kind = kind_at(r, at, &size);
    if (kind == LETTER || kind == NUMBER || kind == OTHER)
        return skip(r, at, kind, r->bytes);
    return spaces(r);
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 */
static size_t word_cl100k(const struct reader *r, uint32_t digits)
{
    size_t size, second, at = contraction(r, true);
    int kind;

    if (at > 0)
        return at;
    kind = kind_at(r, 0, &size);
    if (kind == LETTER)
        return skip(r, 0, LETTER, r->bytes);
    if ((kind == SPACE || kind == OTHER) && kind_at(r, size, &second) == LETTER)
        return skip(r, size, LETTER, r->bytes);
    if (kind == NUMBER)
        return skip(r, 0, NUMBER, digits);
    at = r->text[0] == ' ';
    if (kind_at(r, at, &size) == OTHER)
        return skip(r, skip(r, at, OTHER, r->bytes), LINE, r->bytes);
    at = line_ends(r);
    return at > 0 ? at : spaces(r);
}

/* 's|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+; white space is dropped. */
static size_t word_clip(const struct reader *r, bool *keep)
{
    size_t size, at = contraction(r, false);
    const int kind = kind_at(r, 0, &size);

    *keep = kind != SPACE && kind != LINE;
    if (at > 0)
        return at;
    if (kind == NUMBER || !*keep)
        return size;
    return skip(r, 0, kind, r->bytes);
}

/* ------------------------------------------------------------------ by characters */

/* What a character is to a cut: 0 = dropped, 1 = alone, others: with its neighbours of the same class. */
static int class_of(const struct cut *c, uint32_t ch)
{
    switch (c->kind) {
    case CUT_WORDS:
        return is_space(ch) ? 0 : 2;
    case CUT_WHITESPACE:
        return is_space(ch) ? 0 : is_word(ch) ? 2 : 3;
    case CUT_BERT:
        return is_space(ch) ? 0 : is_punctuation(ch) ? 1 : 2;
    case CUT_DIGITS:
        return is_number(ch) ? (c->digits == 1 ? 1 : 3) : 2;
    default: /* CUT_PUNCTUATION */
        return is_punctuation(ch) ? (c->behaviour == WITH_CONTIGUOUS ? 3 : c->behaviour == WITH_REMOVED ? 0 : 1) : 2;
    }
}

static void by_class(const struct cut *c, const char *text, size_t from, size_t bytes, text_spans *out)
{
    size_t start = from, size;
    int before = 0;

    for (size_t at = from; at < from + bytes; at += size) {
        const int class = class_of(c, char_at(text + at, &size));

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

static void by_pattern(const struct cut *c, const char *text, size_t from, size_t bytes, text_spans *out)
{
    struct reader r = { text + from, bytes };

    while (r.bytes > 0) {
        bool keep = true;
        const size_t n = c->kind == CUT_GPT2     ? word_gpt2(&r)
                         : c->kind == CUT_CL100K ? word_cl100k(&r, c->digits)
                                                 : word_clip(&r, &keep);

        if (keep)
            spans_add(out, (size_t)(r.text - text), n);
        r.text += n;
        r.bytes -= n;
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

static void spell_bytes(const struct cut *c, const text_spans *in, text_spans *out)
{
    for (size_t i = 0; i < in->count; i++) {
        const char *text = in->text.data + in->list[i].at;
        const size_t start = out->text.count;

        if (c->prefix_space && text[0] != ' ')
            buf_char(&out->text, char_of_byte(' '));
        for (size_t k = 0; k < in->list[i].count; k++)
            buf_char(&out->text, char_of_byte((unsigned char)text[k]));
        spans_add(out, start, out->text.count - start);
    }
}

static void mark_spaces(const struct cut *c, const text_spans *in, text_spans *out, bool first)
{
    const size_t n = strlen(c->text);

    for (size_t i = 0; i < in->count; i++) {
        const char *text = in->text.data + in->list[i].at;
        const size_t start = out->text.count, bytes = in->list[i].count;
        const bool marked = text[0] == ' ' || (bytes >= n && memcmp(text, c->text, n) == 0);

        if (!marked && (c->prepend == PREPEND_ALWAYS || (c->prepend == PREPEND_FIRST && first && i == 0)))
            buf_put(&out->text, c->text, n);
        for (size_t k = 0; k < bytes; k++)
            buf_put(&out->text, text[k] == ' ' ? c->text : text + k, text[k] == ' ' ? n : 1);
        if (out->text.failed)
            return;
        if (c->split)
            by_text(WITH_NEXT, c->text, out->text.data, start, out->text.count - start, out);
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

void cut_apply(const struct cut *c, const text_spans *in, text_spans *out, bool first)
{
    if (c->kind == CUT_BYTES) {
        spell_bytes(c, in, out);
        return;
    }
    if (c->kind == CUT_METASPACE) {
        mark_spaces(c, in, out, first);
        return;
    }
    if (c->kind == CUT_GPT2 && c->prefix_space) {
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
        if (c->kind == CUT_GPT2 || c->kind == CUT_CL100K || c->kind == CUT_CLIP)
            by_pattern(c, out->text.data, in->list[i].at, in->list[i].count, out);
        else if (c->kind == CUT_TEXT)
            by_text(c->behaviour, c->text, out->text.data, in->list[i].at, in->list[i].count, out);
        else
            by_class(c, out->text.data, in->list[i].at, in->list[i].count, out);
    }
}
