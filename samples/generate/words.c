#include "words.h"
#include <string.h>
#include <wctype.h>

uint32_t words_char(const char *s, size_t bytes, size_t *size)
{
    const unsigned char *p = (const unsigned char *)s;
    const size_t n = p[0] < 0x80 ? 1 : p[0] >> 5 == 6 ? 2 : p[0] >> 4 == 14 ? 3 : p[0] >> 3 == 30 ? 4 : 0;
    uint32_t c = n == 1 ? p[0] : n == 0 ? 0xfffd : p[0] & (0xffu >> (n + 1));

    *size = 1;
    if (n == 0 || n > bytes)
        return 0xfffd;
    for (size_t i = 1; i < n; i++) {
        if (p[i] >> 6 != 2)
            return 0xfffd;
        c = c << 6 | (p[i] & 63);
    }
    *size = n;
    return c;
}

enum { END, LETTER, NUMBER, SPACE, LINE, OTHER }; /* LINE: \r and \n, which are spaces, too */

typedef struct reader {
    const words_rule *rule;
    const char *text;
    size_t bytes;
} reader;

/* What kind of character begins at `at`; *size: its bytes. */
static int kind_at(const reader *r, size_t at, size_t *size)
{
    uint32_t c;

    *size = 0;
    if (at >= r->bytes)
        return END;
    c = words_char(r->text + at, r->bytes - at, size);
    if (c == '\n' || c == '\r')
        return LINE;
    if (iswspace_l((wint_t)c, r->rule->locale) || c == 0xa0 || c == 0x2007 || c == 0x202f)
        return SPACE;
    if ((c >= '0' && c <= '9') || (c >= 0xff10 && c <= 0xff19) || c == 0xb2 || c == 0xb3 || c == 0xb9 ||
        (c >= 0xbc && c <= 0xbe) || (c >= 0x2150 && c <= 0x218b) || (c >= 0x2460 && c <= 0x249b) ||
        (c >= 0x660 && c <= 0x669) || (c >= 0x966 && c <= 0x96f))
        return NUMBER;
    return iswalpha_l((wint_t)c, r->rule->locale) ? LETTER : OTHER;
}

/* Past characters of that kind, at most so many. */
static size_t skip(const reader *r, size_t at, int kind, size_t most)
{
    size_t size;

    while (most-- > 0 && kind_at(r, at, &size) == kind)
        at += size;
    return at;
}

/* 's 't 're 've 'm 'll 'd, the second form in capitals too. Bytes, 0: none is here. */
static size_t contraction(const reader *r, bool capitals)
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
    return 0;
}

/* White space: all of it at the end, otherwise all but the last, which belongs to the word behind it. */
static size_t spaces(const reader *r)
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
static size_t lines(const reader *r)
{
    size_t at = 0, found = 0, size;
    int kind;

    while ((kind = kind_at(r, at, &size)) == SPACE || kind == LINE) {
        at += size;
        found = kind == LINE ? at : found;
    }
    return found;
}

/* Bytes of the first word, at least one:
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static size_t word_gpt2(const reader *r)
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
static size_t word_cl100k(const reader *r)
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
        return skip(r, 0, NUMBER, r->rule->digits);
    at = r->text[0] == ' ';
    if (kind_at(r, at, &size) == OTHER)
        return skip(r, skip(r, at, OTHER, r->bytes), LINE, r->bytes);
    at = lines(r);
    return at > 0 ? at : spaces(r);
}

size_t words_first(const words_rule *rule, const char *text, size_t bytes)
{
    const reader r = { rule, text, bytes };

    return rule->cut == WORDS_GPT2 ? word_gpt2(&r) : rule->cut == WORDS_CL100K ? word_cl100k(&r) : bytes;
}
