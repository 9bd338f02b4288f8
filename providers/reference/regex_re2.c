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

static void fail(struct translation *translation, inlay_status status, const char *what)
{
    if (translation->status == INLAY_OK)
        translation->status =
            inlay_fail(translation->diag, status, "pattern '%.*s', character %d: %s",
                       (int)(translation->end - translation->start < 200 ? translation->end - translation->start : 200),
                       translation->start, (int)(translation->at - translation->start), what);
    translation->at = translation->end;
}

static void put(struct translation *translation, const char *text)
{
    while (*text != '\0')
        translation->out[translation->count++] = *text++;
}

/* Copies up to `end`. */
static void copy(struct translation *translation, const char *end)
{
    while (translation->at < end)
        translation->out[translation->count++] = *translation->at++;
}

/* Copies to behind the next `close`. */
static void copy_to(struct translation *translation, const char *close, const char *otherwise)
{
    const size_t bytes = strlen(close);
    const char *at = translation->at;

    while ((size_t)(translation->end - at) > bytes && memcmp(at, close, bytes) != 0)
        at++;
    if ((size_t)(translation->end - at) < bytes || memcmp(at, close, bytes) != 0)
        fail(translation, INLAY_INVALID_MODEL, otherwise);
    else
        copy(translation, at + bytes);
}

static bool next_is(const struct translation *translation, const char *text)
{
    const size_t bytes = strlen(text);

    return (size_t)(translation->end - translation->at) >= bytes && memcmp(translation->at, text, bytes) == 0;
}

static bool is_one_of(char c, const char *list)
{
    return c != '\0' && strchr(list, c) != NULL;
}

/* Up to that many digits, at least one. */
static void copy_digits(struct translation *translation, const char *digits, uint32_t most)
{
    uint32_t count = 0;

    for (; count < most && translation->at < translation->end && is_one_of(*translation->at, digits); count++)
        copy(translation, translation->at + 1);
    if (count == 0)
        fail(translation, INLAY_INVALID_MODEL, "\\x needs hexadecimal digits");
}

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || (c & 0x80) != 0;
}

/* An escape that is a character or a class, within brackets and without; translation->at is at the backslash. Returns
 * whether it is a class. RE2's \s has no \v, PCRE2's has. */
static bool put_escape(struct translation *translation, bool in_brackets)
{
    static const char octal[] = "01234567";
    const char c = translation->end - translation->at > 1 ? translation->at[1] : '\0';

    if (is_one_of(c, "sSv")) {
        put(translation, c == 'v'       ? "\\x0b"
                         : !in_brackets ? (c == 's' ? "[\\t\\n\\f\\r ]" : "[^\\t\\n\\f\\r ]")
                         : c == 's'     ? "\\t\\n\\f\\r "
                                        : "\\x00-\\x08\\x0b\\x0e-\\x1f\\x21-\\x{10ffff}");
        translation->at += 2;
    } else if (is_one_of(c, "pPx")) {
        copy(translation, translation->at + 2);
        if (next_is(translation, "{"))
            copy_to(translation, "}", "{ without }");
        else if (c == 'x')
            copy_digits(translation, "0123456789abcdefABCDEF", 2);
        else if (translation->at < translation->end)
            copy(translation, translation->at + 1);
    } else if (c == '0' || (is_one_of(c, octal) && translation->end - translation->at > 2 &&
                            is_one_of(translation->at[2], octal))) {
        copy(translation, translation->at + 1);
        copy_digits(translation, octal, 3);
    } else if (is_one_of(c, "dDwWntrfa") || (c != '\0' && !is_word(c))) {
        copy(translation, translation->at + 2);
    } else {
        fail(translation,
             c >= '1' && c <= '9' ? INLAY_UNSUPPORTED
             : c == '\0'          ? INLAY_INVALID_MODEL
                                  : INLAY_UNSUPPORTED,
             c >= '1' && c <= '9' ? "RE2 has no references to groups"
             : c == '\0'          ? "a backslash at the end"
                                  : "this escape is not supported");
    }
    return is_one_of(c, "sSpPdDwW");
}

static void put_brackets(struct translation *translation)
{
    bool is_class = false, is_range = false;
    const char *begin;

    copy(translation, translation->at + 1);
    if (next_is(translation, "^"))
        copy(translation, translation->at + 1);
    for (begin = translation->at;
         translation->at < translation->end && (*translation->at != ']' || translation->at == begin);) {
        if (next_is(translation, "[:")) {
            copy_to(translation, ":]", "[: without :]");
            is_class = true;
        } else if (*translation->at == '\\') {
            is_class = put_escape(translation, true);
        } else if (*translation->at == '-' && translation->at > begin && !is_class && !is_range &&
                   !next_is(translation, "-]")) {
            copy(translation, translation->at + 1);
            is_range = true;
            continue;
        } else {
            if (is_one_of(*translation->at, "[]-"))
                put(translation, "\\");
            copy(translation, translation->at + 1);
            is_class = false;
        }
        is_range = false;
    }
    if (translation->at >= translation->end)
        fail(translation, INLAY_INVALID_MODEL, "[ without ]");
    else
        copy(translation, translation->at + 1);
}

/* A group's head with a name; translation->at is behind the (?. */
static void skip_name(struct translation *translation)
{
    const char *begin;

    translation->at += *translation->at == 'P';
    if (next_is(translation, "<=") || next_is(translation, "<!"))
        fail(translation, INLAY_UNSUPPORTED, "lookbehind is not supported");
    else if (next_is(translation, "<"))
        translation->at++;
    for (begin = translation->at; translation->at < translation->end && is_word(*translation->at);)
        translation->at++;
    if (translation->at == translation->end || *translation->at != '>' || translation->at == begin)
        fail(translation, INLAY_INVALID_MODEL, "a group's name must stand in < and >");
    else
        translation->at++;
}

/* Groups capture nothing: their names go. */
static void put_group(struct translation *translation)
{
    bool lines = translation->lines[translation->depth], on = true;

    translation->before = NOTHING;
    if (translation->depth == MAX_DEPTH) {
        fail(translation, INLAY_LIMIT_EXCEEDED, "groups are nested too deeply");
        return;
    }
    translation->lines[++translation->depth] = lines;
    if (next_is(translation, "(?P<") || next_is(translation, "(?<")) {
        translation->at += 2;
        skip_name(translation);
        put(translation, "(?:");
        return;
    }
    if (!next_is(translation, "(?")) {
        put(translation, "(?:");
        translation->at++;
        return;
    }
    for (copy(translation, translation->at + 2);
         translation->at < translation->end && is_one_of(*translation->at, "imsU-");
         copy(translation, translation->at + 1)) {
        on = on && *translation->at != '-';
        lines = *translation->at == 'm' ? on : lines;
    }
    if (translation->at == translation->end || !is_one_of(*translation->at, ":)")) {
        fail(translation, INLAY_UNSUPPORTED, "this kind of group is not supported");
        return;
    }
    translation->depth -= *translation->at == ')'; /* flags alone, as (?i) */
    translation->lines[translation->depth] = lines;
    copy(translation, translation->at + 1);
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
static bool put_repetition(struct translation *translation)
{
    const char *at = translation->at + 1;
    bool is_plus = *translation->at == '+';

    if (*translation->at == '{') {
        int32_t min = take_number(&at, translation->end), max = -1;

        if (at < translation->end && *at == ',' && min >= 0) {
            at++;
            max = take_number(&at, translation->end);
        }
        if (min < 0 || at >= translation->end || *at++ != '}')
            return false;
        is_plus = min == 1 && at[-2] == ',';
        if (min > MAX_REPEAT || max > MAX_REPEAT)
            fail(translation, INLAY_INVALID_MODEL, "a repeat count is too large: at most 1000");
    }
    if (translation->before != ITEM)
        fail(translation, INLAY_INVALID_MODEL,
             translation->before == NOTHING ? "nothing to repeat"
                                            : "a repetition cannot be repeated: put what it repeats into (?:...)");
    if (translation->status == INLAY_OK && is_plus && translation->out[translation->item] != '(' &&
        translation->out[translation->item] != ')') {
        memmove(translation->out + translation->item + 3, translation->out + translation->item,
                translation->count - translation->item);
        memcpy(translation->out + translation->item, "(?:", 3);
        translation->count += 3;
        put(translation, ")");
    }
    copy(translation, translation->status == INLAY_OK ? at : translation->end);
    translation->at += next_is(translation, "?"); /* lazy: the same to the longest match */
    translation->before = REPETITION;
    return true;
}

/* A character as it is, of one byte or more. */
static void put_character(struct translation *translation)
{
    translation->item = translation->count;
    translation->before = ITEM;
    if (!is_word(*translation->at))
        put(translation, "\\");
    copy(translation, translation->at + 1);
    while (translation->at < translation->end && (*translation->at & 0xc0) == 0x80)
        copy(translation, translation->at + 1);
}

/* \Q...\E */
static void put_quoted(struct translation *translation)
{
    for (translation->at += 2; translation->at < translation->end && !next_is(translation, "\\E");)
        put_character(translation);
    translation->at += next_is(translation, "\\E") ? 2 : 0;
}

static void put_item(struct translation *translation)
{
    const char c = *translation->at;

    if (is_one_of(c, "*+?{") && put_repetition(translation))
        return;
    if (next_is(translation, "\\Q")) {
        put_quoted(translation);
    } else if (!is_one_of(c, "([\\|).^$")) {
        put_character(translation);
    } else if (c == '(') {
        put_group(translation);
    } else {
        translation->item = translation->count;
        translation->before = c == '|' ? NOTHING : ITEM;
        if (c == '[') {
            put_brackets(translation);
        } else if (c == '$') { /* PCRE2's matches before a \n that ends the text, too */
            put(translation, translation->lines[translation->depth] ? "(?:$)" : "(?:\\z)");
            translation->at++;
        } else if (c == '^' ||
                   (c == '\\' && translation->end - translation->at > 1 && is_one_of(translation->at[1], "bBAz"))) {
            put(translation, "(?:"); /* RE2 repeats assertions */
            copy(translation, translation->at + (c == '\\' ? 2 : 1));
            put(translation, ")");
        } else if (c == '\\') {
            (void)put_escape(translation, false);
        } else if (c == ')' && translation->depth-- == 0) {
            fail(translation, INLAY_INVALID_MODEL, ") without (");
        } else {
            copy(translation, translation->at + 1);
        }
    }
}

inlay_status regex_translate(const char *pattern, size_t bytes, char **out_text, size_t *out_bytes, inlay_diag *diag)
{
    struct translation translation = { .at = pattern, .end = pattern + bytes, .start = pattern, .diag = diag };

    *out_text = NULL;
    if (bytes > MAX_BYTES)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "pattern '%.80s...' has %zu bytes; at most %d are read", pattern,
                          bytes, MAX_BYTES);
    translation.out = malloc(bytes * BYTES_EACH + 1);
    if (translation.out == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a pattern");
    while (translation.at < translation.end)
        put_item(&translation);
    if (translation.depth > 0)
        fail(&translation, INLAY_INVALID_MODEL, "( without )");
    if (translation.status != INLAY_OK) {
        free(translation.out);
        return translation.status;
    }
    *out_text = translation.out;
    *out_bytes = translation.count;
    return INLAY_OK;
}
