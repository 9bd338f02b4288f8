/* pretokenize.c - splits a text into words, before the model splits words into tokens. */
#include "prepost/text/tokenizer_parts.h"
#include "inlay/check.h"

/* The rest of a text, from the start of the next word on. */
struct reader {
    const char *text;
    size_t bytes;
};

enum { END, LETTER, NUMBER, SPACE, LINE, OTHER }; /* LINE: \r and \n; SPACE: all other white space */

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

/* Skips at most `most` characters of a kind; returns the byte after them. */
static size_t skip(const struct reader *reader, size_t at, int kind, size_t most)
{
    size_t size;

    while (most-- > 0 && kind_at(reader, at, &size) == kind)
        at += size;
    return at;
}

/* Matches 's 't 're 've 'm 'll 'd, with `capitals` also in upper case. Returns the bytes of the match, or 0. */
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
        memcmp(reader->text + 1, "\xc5\xbf", 2) == 0) /* U+017F, the long s, equals s if case is ignored */
        return 3;
    return 0;
}

/* The bytes of the white space at the start of the rest. If it ends the text, these are all of its bytes; otherwise all
 * but those of its last character, which belongs to the next word. */
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

/* Matches \s*[\r\n]+ at the start of the rest: returns the bytes of white space up to its last end of line, or 0. */
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

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}|
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

/* 's|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+; white space is dropped: *keep is false. */
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

/* The class of a character: 0 is dropped, 1 is a word by itself, 2 and 3 form words with neighbours of their class. */
static int class_of(const struct pretokenizer *pretokenizer, uint32_t ch)
{
    switch (pretokenizer->kind) {
    case SPLIT_WORDS:
        return is_space(ch) ? 0 : 2;
    case SPLIT_WHITESPACE:
        return is_space(ch) ? 0 : is_word(ch) ? 2 : 3;
    case SPLIT_BERT:
        return is_space(ch) ? 0 : is_punctuation(ch) ? 1 : 2;
    case SPLIT_DIGITS:
        return is_number(ch) ? (pretokenizer->max_digits == 1 ? 1 : 3) : 2;
    default:
        INLAY_CHECK(pretokenizer->kind == SPLIT_PUNCTUATION);
        return is_punctuation(ch) ? (pretokenizer->behaviour == DELIMITER_CONTIGUOUS ? 3
                                     : pretokenizer->behaviour == DELIMITER_REMOVED  ? 0
                                                                                     : 1)
                                  : 2;
    }
}

static void split_by_class(const struct pretokenizer *pretokenizer, const char *text, size_t from, size_t bytes,
                           text_spans *out)
{
    size_t start = from, size;
    int before = 0;

    for (size_t at = from; at < from + bytes; at += size) {
        const int class = class_of(pretokenizer, char_at(text + at, &size));

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

static void by_pattern(const struct pretokenizer *pretokenizer, const char *text, size_t from, size_t bytes,
                       text_spans *out)
{
    struct reader reader = { text + from, bytes };

    while (reader.bytes > 0) {
        bool keep = true;
        const size_t n = pretokenizer->kind == SPLIT_GPT2     ? word_gpt2(&reader)
                         : pretokenizer->kind == SPLIT_CL100K ? word_cl100k(&reader, pretokenizer->max_digits)
                                                              : word_clip(&reader, &keep);

        INLAY_CHECK(n > 0 && n <= reader.bytes);
        if (keep)
            spans_add(out, (size_t)(reader.text - text), n);
        reader.text += n;
        reader.bytes -= n;
    }
}

/* Splits at each `mark`. `behaviour` (DELIMITER_*): the mark is dropped, is a word by itself, or belongs to the
 * previous or the next word. */
static void split_at_text(int behaviour, const char *mark, const char *text, size_t from, size_t bytes, text_spans *out)
{
    const size_t n = strlen(mark), end = from + bytes;
    size_t start = from;

    INLAY_CHECK(behaviour >= DELIMITER_REMOVED && behaviour <= DELIMITER_CONTIGUOUS);
    for (size_t at = from; n > 0 && at + n <= end;) {
        if (memcmp(text + at, mark, n) != 0) {
            at++;
            continue;
        }
        if (behaviour == DELIMITER_PREVIOUS) {
            at += n;
            spans_add(out, start, at - start);
            start = at;
            continue;
        }
        spans_add(out, start, at - start);
        start = at;
        at += n;
        while (behaviour == DELIMITER_CONTIGUOUS && at + n <= end && memcmp(text + at, mark, n) == 0)
            at += n;
        if (behaviour == DELIMITER_ISOLATED || behaviour == DELIMITER_CONTIGUOUS)
            spans_add(out, start, at - start);
        if (behaviour != DELIMITER_NEXT)
            start = at;
    }
    spans_add(out, start, end - start);
}

/* Replaces each byte by the character that stands for it in byte-level BPE. */
static void spell_bytes(const struct pretokenizer *pretokenizer, const text_spans *in, text_spans *out)
{
    for (size_t i = 0; i < in->count; i++) {
        const char *text = in->text.data + in->list[i].at;
        const size_t start = out->text.count;

        INLAY_CHECK(in->list[i].count > 0);
        if (pretokenizer->prefix_space && text[0] != ' ')
            buf_append_char(&out->text, char_of_byte(' '));
        for (size_t k = 0; k < in->list[i].count; k++)
            buf_append_char(&out->text, char_of_byte((unsigned char)text[k]));
        spans_add(out, start, out->text.count - start);
    }
}

/* Replaces each space by the mark (U+2581). `prepend` determines whether a mark is put before the text. */
static void mark_spaces(const struct pretokenizer *pretokenizer, const text_spans *in, text_spans *out, bool first)
{
    const size_t n = strlen(pretokenizer->pattern);

    for (size_t i = 0; i < in->count; i++) {
        const char *text = in->text.data + in->list[i].at;
        const size_t start = out->text.count, bytes = in->list[i].count;
        const bool marked = text[0] == ' ' || (bytes >= n && memcmp(text, pretokenizer->pattern, n) == 0);

        INLAY_CHECK(bytes > 0);
        if (!marked &&
            (pretokenizer->prepend == PREPEND_ALWAYS || (pretokenizer->prepend == PREPEND_FIRST && first && i == 0)))
            buf_append(&out->text, pretokenizer->pattern, n);
        for (size_t k = 0; k < bytes; k++)
            buf_append(&out->text, text[k] == ' ' ? pretokenizer->pattern : text + k, text[k] == ' ' ? n : 1);
        if (out->text.failed)
            return;
        if (pretokenizer->split_at_mark)
            split_at_text(DELIMITER_NEXT, pretokenizer->pattern, out->text.data, start, out->text.count - start, out);
        else
            spans_add(out, start, out->text.count - start);
    }
}

/* GPT-2's add_prefix_space: puts a space before the text. */
static void add_prefix_space(const text_spans *in, text_spans *out)
{
    for (size_t i = 0; i < in->count; i++) {
        const char *text = in->text.data + in->list[i].at;
        const size_t start = out->text.count;

        if (text[0] != ' ')
            buf_append(&out->text, " ", 1);
        buf_append(&out->text, text, in->list[i].count);
        spans_add(out, start, out->text.count - start);
    }
}

void pretokenize(const struct pretokenizer *pretokenizer, const text_spans *in, text_spans *out, bool first)
{
    INLAY_CHECK(in != out && out->count == 0 && out->text.count == 0);
    if (pretokenizer->kind == SPLIT_BYTES) {
        spell_bytes(pretokenizer, in, out);
        return;
    }
    if (pretokenizer->kind == SPLIT_METASPACE) {
        mark_spaces(pretokenizer, in, out, first);
        return;
    }
    if (pretokenizer->kind == SPLIT_GPT2 && pretokenizer->prefix_space) {
        text_spans with = { 0 };
        const struct pretokenizer plain = { .kind = SPLIT_GPT2 };

        add_prefix_space(in, &with);
        if (with.text.failed)
            out->text.failed = true;
        else
            pretokenize(&plain, &with, out, first);
        spans_free(&with);
        return;
    }
    buf_append(&out->text, in->text.data, in->text.count);
    if (out->text.failed)
        return;
    for (size_t i = 0; i < in->count; i++) {
        if (pretokenizer->kind == SPLIT_GPT2 || pretokenizer->kind == SPLIT_CL100K || pretokenizer->kind == SPLIT_CLIP)
            by_pattern(pretokenizer, out->text.data, in->list[i].at, in->list[i].count, out);
        else if (pretokenizer->kind == SPLIT_TEXT)
            split_at_text(pretokenizer->behaviour, pretokenizer->pattern, out->text.data, in->list[i].at,
                          in->list[i].count, out);
        else
            split_by_class(pretokenizer, out->text.data, in->list[i].at, in->list[i].count, out);
    }
}
