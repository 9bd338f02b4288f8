/* regex_re2.c - RE2's syntax in PCRE2's. Most is copied. What the two read differently is written out (\s, \v, {,2},
 * repeated assertions, hyphens behind classes), and what RE2 does not have is refused with a sentence. Names of classes
 * and properties, the order of ranges and of counts are PCRE2's to check. */
#include "regex_re2.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The longest that a byte of a pattern becomes is a half of \S within brackets. */
enum { MAX_DEPTH = 200, MAX_BYTES = 100000, MAX_REPEAT = 1000, BYTES_EACH = 32 };

/* What stands before the place: can it be repeated? */
enum { NOTHING, ITEM, REPETITION };

struct translation {
    const char *at, *end, *start;
    char *out;
    size_t count, item; /* bytes, and where the last item begins */
    uint32_t before, depth;
    bool lines[MAX_DEPTH + 1]; /* by depth: is flag m set? */
    inlay_diag *diag;
    inlay_status status; /* the first failure, which also ends the pattern */
};

static void fail(struct translation *t, inlay_status status, const char *what)
{
    if (t->status == INLAY_OK)
        t->status = inlay_fail(t->diag, status, "pattern '%.*s', character %d: %s",
                               (int)(t->end - t->start < 200 ? t->end - t->start : 200), t->start,
                               (int)(t->at - t->start), what);
    t->at = t->end;
}

static void put(struct translation *t, const char *text)
{
    while (*text != '\0')
        t->out[t->count++] = *text++;
}

/* Copies up to `end`. */
static void copy(struct translation *t, const char *end)
{
    while (t->at < end)
        t->out[t->count++] = *t->at++;
}

/* Copies to behind the next `close`. */
static void copy_to(struct translation *t, const char *close, const char *otherwise)
{
    const size_t bytes = strlen(close);
    const char *at = t->at;

    while ((size_t)(t->end - at) > bytes && memcmp(at, close, bytes) != 0)
        at++;
    if ((size_t)(t->end - at) < bytes || memcmp(at, close, bytes) != 0)
        fail(t, INLAY_INVALID_MODEL, otherwise);
    else
        copy(t, at + bytes);
}

static bool next_is(const struct translation *t, const char *text)
{
    const size_t bytes = strlen(text);

    return (size_t)(t->end - t->at) >= bytes && memcmp(t->at, text, bytes) == 0;
}

static bool is_one_of(char c, const char *list)
{
    return c != '\0' && strchr(list, c) != NULL;
}

/* Up to that many digits, at least one. */
static void copy_digits(struct translation *t, const char *digits, uint32_t most)
{
    uint32_t count = 0;

    for (; count < most && t->at < t->end && is_one_of(*t->at, digits); count++)
        copy(t, t->at + 1);
    if (count == 0)
        fail(t, INLAY_INVALID_MODEL, "\\x needs hexadecimal digits");
}

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || (c & 0x80) != 0;
}

/* An escape that is a character or a class, within brackets and without; t->at is at the backslash. Returns whether it
 * is a class. RE2's \s has no \v, PCRE2's has. */
static bool put_escape(struct translation *t, bool in_brackets)
{
    static const char octal[] = "01234567";
    const char c = t->end - t->at > 1 ? t->at[1] : '\0';

    if (is_one_of(c, "sSv")) {
        put(t, c == 'v'       ? "\\x0b"
               : !in_brackets ? (c == 's' ? "[\\t\\n\\f\\r ]" : "[^\\t\\n\\f\\r ]")
               : c == 's'     ? "\\t\\n\\f\\r "
                              : "\\x00-\\x08\\x0b\\x0e-\\x1f\\x21-\\x{10ffff}");
        t->at += 2;
    } else if (is_one_of(c, "pPx")) {
        copy(t, t->at + 2);
        if (next_is(t, "{"))
            copy_to(t, "}", "{ without }");
        else if (c == 'x')
            copy_digits(t, "0123456789abcdefABCDEF", 2);
        else if (t->at < t->end)
            copy(t, t->at + 1);
    } else if (c == '0' || (is_one_of(c, octal) && t->end - t->at > 2 && is_one_of(t->at[2], octal))) {
        copy(t, t->at + 1);
        copy_digits(t, octal, 3);
    } else if (is_one_of(c, "dDwWntrfa") || (c != '\0' && !is_word(c))) {
        copy(t, t->at + 2);
    } else {
        fail(t,
             c >= '1' && c <= '9' ? INLAY_UNSUPPORTED
             : c == '\0'          ? INLAY_INVALID_MODEL
                                  : INLAY_UNSUPPORTED,
             c >= '1' && c <= '9' ? "RE2 has no references to groups"
             : c == '\0'          ? "a backslash at the end"
                                  : "this escape is not supported");
    }
    return is_one_of(c, "sSpPdDwW");
}

static void put_brackets(struct translation *t)
{
    bool is_class = false, is_range = false;
    const char *begin;

    copy(t, t->at + 1);
    if (next_is(t, "^"))
        copy(t, t->at + 1);
    for (begin = t->at; t->at < t->end && (*t->at != ']' || t->at == begin);) {
        if (next_is(t, "[:")) {
            copy_to(t, ":]", "[: without :]");
            is_class = true;
        } else if (*t->at == '\\') {
            is_class = put_escape(t, true);
        } else if (*t->at == '-' && t->at > begin && !is_class && !is_range && !next_is(t, "-]")) {
            copy(t, t->at + 1);
            is_range = true;
            continue;
        } else {
            if (is_one_of(*t->at, "[]-"))
                put(t, "\\");
            copy(t, t->at + 1);
            is_class = false;
        }
        is_range = false;
    }
    if (t->at >= t->end)
        fail(t, INLAY_INVALID_MODEL, "[ without ]");
    else
        copy(t, t->at + 1);
}

/* A group's head with a name; t->at is behind the (?. */
static void skip_name(struct translation *t)
{
    const char *begin;

    t->at += *t->at == 'P';
    if (next_is(t, "<=") || next_is(t, "<!"))
        fail(t, INLAY_UNSUPPORTED, "lookbehind is not supported");
    else if (next_is(t, "<"))
        t->at++;
    for (begin = t->at; t->at < t->end && is_word(*t->at);)
        t->at++;
    if (t->at == t->end || *t->at != '>' || t->at == begin)
        fail(t, INLAY_INVALID_MODEL, "a group's name must stand in < and >");
    else
        t->at++;
}

/* Groups capture nothing: their names go. */
static void put_group(struct translation *t)
{
    bool lines = t->lines[t->depth], on = true;

    t->before = NOTHING;
    if (t->depth == MAX_DEPTH) {
        fail(t, INLAY_LIMIT_EXCEEDED, "groups are nested too deeply");
        return;
    }
    t->lines[++t->depth] = lines;
    if (next_is(t, "(?P<") || next_is(t, "(?<")) {
        t->at += 2;
        skip_name(t);
        put(t, "(?:");
        return;
    }
    if (!next_is(t, "(?")) {
        put(t, "(?:");
        t->at++;
        return;
    }
    for (copy(t, t->at + 2); t->at < t->end && is_one_of(*t->at, "imsU-"); copy(t, t->at + 1)) {
        on = on && *t->at != '-';
        lines = *t->at == 'm' ? on : lines;
    }
    if (t->at == t->end || !is_one_of(*t->at, ":)")) {
        fail(t, INLAY_UNSUPPORTED, "this kind of group is not supported");
        return;
    }
    t->depth -= *t->at == ')'; /* flags alone, as (?i) */
    t->lines[t->depth] = lines;
    copy(t, t->at + 1);
}

static int32_t take_number(const char **at, const char *end)
{
    int32_t value = -1;

    for (; *at < end && **at >= '0' && **at <= '9'; (*at)++)
        value = value < 0 ? **at - '0' : value > MAX_REPEAT ? value : value * 10 + (**at - '0');
    return value;
}

/* *, +, ?, {n}, {n,}, {n,m}. False: text, as other braces are. PCRE2's automaton counts how often a character or class
 * with a + has been there, which makes ways of what is one, and does not with a group. */
static bool put_repetition(struct translation *t)
{
    const char *at = t->at + 1;
    bool is_plus = *t->at == '+';

    if (*t->at == '{') {
        int32_t min = take_number(&at, t->end), max = -1;

        if (at < t->end && *at == ',' && min >= 0) {
            at++;
            max = take_number(&at, t->end);
        }
        if (min < 0 || at >= t->end || *at++ != '}')
            return false;
        is_plus = min == 1 && at[-2] == ',';
        if (min > MAX_REPEAT || max > MAX_REPEAT)
            fail(t, INLAY_INVALID_MODEL, "a repeat count is too large: at most 1000");
    }
    if (t->before != ITEM)
        fail(t, INLAY_INVALID_MODEL,
             t->before == NOTHING ? "nothing to repeat"
                                  : "a repetition cannot be repeated: put what it repeats into (?:...)");
    if (t->status == INLAY_OK && is_plus && t->out[t->item] != '(' && t->out[t->item] != ')') {
        memmove(t->out + t->item + 3, t->out + t->item, t->count - t->item);
        memcpy(t->out + t->item, "(?:", 3);
        t->count += 3;
        put(t, ")");
    }
    copy(t, t->status == INLAY_OK ? at : t->end);
    t->at += next_is(t, "?"); /* lazy: the same to the longest match */
    t->before = REPETITION;
    return true;
}

/* A character as it is, of one byte or more. */
static void put_character(struct translation *t)
{
    t->item = t->count;
    t->before = ITEM;
    if (!is_word(*t->at))
        put(t, "\\");
    copy(t, t->at + 1);
    while (t->at < t->end && (*t->at & 0xc0) == 0x80)
        copy(t, t->at + 1);
}

/* \Q...\E */
static void put_quoted(struct translation *t)
{
    for (t->at += 2; t->at < t->end && !next_is(t, "\\E");)
        put_character(t);
    t->at += next_is(t, "\\E") ? 2 : 0;
}

static void put_item(struct translation *t)
{
    const char c = *t->at;

    if (is_one_of(c, "*+?{") && put_repetition(t))
        return;
    if (next_is(t, "\\Q")) {
        put_quoted(t);
    } else if (!is_one_of(c, "([\\|).^$")) {
        put_character(t);
    } else if (c == '(') {
        put_group(t);
    } else {
        t->item = t->count;
        t->before = c == '|' ? NOTHING : ITEM;
        if (c == '[') {
            put_brackets(t);
        } else if (c == '$') { /* PCRE2's matches before a \n that ends the text, too */
            put(t, t->lines[t->depth] ? "(?:$)" : "(?:\\z)");
            t->at++;
        } else if (c == '^' || (c == '\\' && t->end - t->at > 1 && is_one_of(t->at[1], "bBAz"))) {
            put(t, "(?:"); /* RE2 repeats assertions */
            copy(t, t->at + (c == '\\' ? 2 : 1));
            put(t, ")");
        } else if (c == '\\') {
            (void)put_escape(t, false);
        } else if (c == ')' && t->depth-- == 0) {
            fail(t, INLAY_INVALID_MODEL, ") without (");
        } else {
            copy(t, t->at + 1);
        }
    }
}

inlay_status regex_translate(const char *pattern, size_t bytes, char **out_text, size_t *out_bytes, inlay_diag *diag)
{
    struct translation t = { .at = pattern, .end = pattern + bytes, .start = pattern, .diag = diag };

    *out_text = NULL;
    if (bytes > MAX_BYTES)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "pattern '%.80s...' has %zu bytes; at most %d are read", pattern,
                          bytes, MAX_BYTES);
    t.out = malloc(bytes * BYTES_EACH + 1);
    if (t.out == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a pattern");
    while (t.at < t.end)
        put_item(&t);
    if (t.depth > 0)
        fail(&t, INLAY_INVALID_MODEL, "( without )");
    if (t.status != INLAY_OK) {
        free(t.out);
        return t.status;
    }
    *out_text = t.out;
    *out_bytes = t.count;
    return INLAY_OK;
}
