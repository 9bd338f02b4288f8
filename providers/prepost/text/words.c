/* words.c - hand-written matchers of the expressions that most tokenizers have. tests/prepost/test_tokenizers.c
 * compares them with PCRE2. */
#include "prepost/text/pattern.h"
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

/* 's|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+ */
static size_t word_clip(const struct reader *reader)
{
    size_t size, at = contraction(reader, false);
    const int kind = kind_at(reader, 0, &size);

    if (at > 0 || kind == SPACE || kind == LINE)
        return at;
    return kind == NUMBER ? size : skip(reader, 0, kind, reader->bytes);
}

static size_t match_gpt2(const char *text, size_t bytes)
{
    return word_gpt2(&(struct reader){ text, bytes });
}

static size_t match_cl100k(const char *text, size_t bytes)
{
    return word_cl100k(&(struct reader){ text, bytes }, 3);
}

static size_t match_qwen2(const char *text, size_t bytes)
{
    return word_cl100k(&(struct reader){ text, bytes }, 1);
}

static size_t match_clip(const char *text, size_t bytes)
{
    return word_clip(&(struct reader){ text, bytes });
}

#define CL100K(digits)                                                                                                 \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits                                         \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

word_matcher find_word_matcher(const char *regex)
{
    static const struct {
        const char *regex;
        word_matcher match;
    } known[] = {
        { "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", match_gpt2 },
        { CL100K("{1,3}"), match_cl100k },
        { CL100K(""), match_qwen2 },
        { "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+", match_clip },
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].regex, regex) == 0)
            return known[i].match;
    return NULL;
}

bool find_word(word_matcher match, const char *text, size_t bytes, size_t from, size_t *out_begin, size_t *out_end)
{
    size_t size;

    INLAY_CHECK(from <= bytes);
    for (; from < bytes; from += size) {
        const size_t count = match(text + from, bytes - from);

        INLAY_CHECK(count <= bytes - from);
        if (count > 0) {
            *out_begin = from;
            *out_end = from + count;
            return true;
        }
        (void)char_at(text + from, &size);
    }
    return false;
}
