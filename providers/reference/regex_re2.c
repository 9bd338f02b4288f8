/* regex_re2.c - translates RE2's syntax to PCRE2's. Most of a pattern is copied. Parts that RE2 and PCRE2 interpret
 * differently are rewritten (\s, \v, {,2}, repeated assertions, hyphens after classes). Syntax that RE2 does not
 * support is rejected with a message. PCRE2 checks the names of classes and properties, and the order of ranges and
 * counts. */
#include "reference/regex_re2.h"
#include "inlay/check.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* BYTES_EACH: maximum output bytes per byte of a pattern; the longest output is that of \S within brackets. */
enum { MAX_DEPTH = 200, MAX_BYTES = 100000, MAX_REPEAT = 1000, BYTES_EACH = 32 };

/* The element before the current position. It determines whether a repetition is allowed here. */
enum { NOTHING, ITEM, REPETITION };

struct translation {
    const char *at, *end, *start;
    char *out;
    size_t count, item; /* bytes written, and the start of the last item */
    uint32_t before, depth;
    bool lines[MAX_DEPTH + 1]; /* for each depth of groups, whether flag m is set */
    inlay_diag *diag;
    inlay_status status; /* the first failure; it ends the translation */
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

/* Copies the pattern up to `end`. */
static void copy(struct translation *translation, const char *end)
{
    INLAY_CHECK(end <= translation->end);
    while (translation->at < end)
        translation->out[translation->count++] = *translation->at++;
}

/* Copies the pattern up to and including the next `close`; without one, fails with the message `otherwise`. */
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

static bool is_one_of(char character, const char *list)
{
    return character != '\0' && strchr(list, character) != NULL;
}

/* Copies at least one and at most `most` digits. */
static void copy_digits(struct translation *translation, const char *digits, uint32_t most)
{
    uint32_t count = 0;

    for (; count < most && translation->at < translation->end && is_one_of(*translation->at, digits); count++)
        copy(translation, translation->at + 1);
    if (count == 0)
        fail(translation, INLAY_INVALID_MODEL, "\\x needs hexadecimal digits");
}

static bool is_word(char character)
{
    return (character >= '0' && character <= '9') || (character >= 'A' && character <= 'Z') ||
           (character >= 'a' && character <= 'z') || character == '_' || (character & 0x80) != 0;
}

/* Translates an escape that is a character or a class, inside or outside brackets; translation->at is at the backslash.
 * Returns whether the escape is a class. \s is rewritten, because PCRE2's \s contains \v and RE2's does not. */
static bool put_escape(struct translation *translation, bool in_brackets)
{
    static const char octal[] = "01234567";
    const char character = translation->end - translation->at > 1 ? translation->at[1] : '\0';

    if (is_one_of(character, "sSv")) {
        put(translation, character == 'v'   ? "\\x0b"
                         : !in_brackets     ? (character == 's' ? "[\\t\\n\\f\\r ]" : "[^\\t\\n\\f\\r ]")
                         : character == 's' ? "\\t\\n\\f\\r "
                                            : "\\x00-\\x08\\x0b\\x0e-\\x1f\\x21-\\x{10ffff}");
        translation->at += 2;
    } else if (is_one_of(character, "pPx")) {
        copy(translation, translation->at + 2);
        if (next_is(translation, "{"))
            copy_to(translation, "}", "{ without }");
        else if (character == 'x')
            copy_digits(translation, "0123456789abcdefABCDEF", 2);
        else if (translation->at < translation->end)
            copy(translation, translation->at + 1);
    } else if (character == '0' || (is_one_of(character, octal) && translation->end - translation->at > 2 &&
                                    is_one_of(translation->at[2], octal))) {
        copy(translation, translation->at + 1);
        copy_digits(translation, octal, 3);
    } else if (is_one_of(character, "dDwWntrfa") || (character != '\0' && !is_word(character))) {
        copy(translation, translation->at + 2);
    } else {
        fail(translation,
             character >= '1' && character <= '9' ? INLAY_UNSUPPORTED
             : character == '\0'                  ? INLAY_INVALID_MODEL
                                                  : INLAY_UNSUPPORTED,
             character >= '1' && character <= '9' ? "RE2 has no references to groups"
             : character == '\0'                  ? "a backslash at the end"
                                                  : "this escape is not supported");
    }
    return is_one_of(character, "sSpPdDwW");
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

/* Skips the name of a group; translation->at is after the (?. */
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
        fail(translation, INLAY_INVALID_MODEL, "a group's name must be enclosed in < and >");
    else
        translation->at++;
}

/* Translates the start of a group. Groups do not capture, so their names are dropped. */
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
    translation->depth -= *translation->at == ')'; /* flags without a group, such as (?i) */
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

/* Translates *, +, ?, {n}, {n,}, {n,m}. Returns false for other braces, which are text. PCRE2's automaton counts the
 * repetitions of a character or class with a +, which multiplies its states, but not those of a group. So such an item
 * is enclosed in a group. */
static bool put_repetition(struct translation *translation)
{
    const char *at = translation->at + 1;
    bool is_plus = *translation->at == '+';

    if (*translation->at == '{') {
        int32_t minimum = take_number(&at, translation->end), maximum = -1;

        if (at < translation->end && *at == ',' && minimum >= 0) {
            at++;
            maximum = take_number(&at, translation->end);
        }
        if (minimum < 0 || at >= translation->end || *at++ != '}')
            return false;
        is_plus = minimum == 1 && at[-2] == ',';
        if (minimum > MAX_REPEAT || maximum > MAX_REPEAT)
            fail(translation, INLAY_INVALID_MODEL, "a repeat count is above 1000");
    }
    if (translation->before != ITEM)
        fail(translation, INLAY_INVALID_MODEL,
             translation->before == NOTHING ? "nothing to repeat"
                                            : "a repetition cannot be repeated: enclose the inner one in (?:...)");
    if (translation->status == INLAY_OK && is_plus && translation->out[translation->item] != '(' &&
        translation->out[translation->item] != ')') {
        memmove(translation->out + translation->item + 3, translation->out + translation->item,
                translation->count - translation->item);
        memcpy(translation->out + translation->item, "(?:", 3);
        translation->count += 3;
        put(translation, ")");
    }
    copy(translation, translation->status == INLAY_OK ? at : translation->end);
    translation->at += next_is(translation, "?"); /* a lazy form has the same longest match, so its ? is dropped */
    translation->before = REPETITION;
    return true;
}

/* Writes a literal character of one or more bytes. */
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

/* Translates \Q...\E. */
static void put_quoted(struct translation *translation)
{
    for (translation->at += 2; translation->at < translation->end && !next_is(translation, "\\E");)
        put_character(translation);
    translation->at += next_is(translation, "\\E") ? 2 : 0;
}

static void put_item(struct translation *translation)
{
    const char character = *translation->at;

    if (is_one_of(character, "*+?{") && put_repetition(translation))
        return;
    if (next_is(translation, "\\Q")) {
        put_quoted(translation);
    } else if (!is_one_of(character, "([\\|).^$")) {
        put_character(translation);
    } else if (character == '(') {
        put_group(translation);
    } else {
        translation->item = translation->count;
        translation->before = character == '|' ? NOTHING : ITEM;
        if (character == '[') {
            put_brackets(translation);
        } else if (character == '$') { /* PCRE2's $ also matches before a \n at the end of the text */
            put(translation, translation->lines[translation->depth] ? "(?:$)" : "(?:\\z)");
            translation->at++;
        } else if (character == '^' || (character == '\\' && translation->end - translation->at > 1 &&
                                        is_one_of(translation->at[1], "bBAz"))) {
            put(translation, "(?:"); /* RE2 allows repeated assertions */
            copy(translation, translation->at + (character == '\\' ? 2 : 1));
            put(translation, ")");
        } else if (character == '\\') {
            (void)put_escape(translation, false);
        } else if (character == ')' && translation->depth-- == 0) {
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
    INLAY_CHECK(translation.count <= bytes * BYTES_EACH);
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
