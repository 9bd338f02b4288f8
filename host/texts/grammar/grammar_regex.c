#include "texts/grammar/grammar_regex.h"
#include "base/utf8.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANGES = 256, MAX_REPEAT = 1000, MAX_GROUPS = 64, MAX_LOOKS = 8, LAST_CHARACTER = 0x10ffff };

typedef struct char_range {
    uint32_t low, high;
} char_range;

typedef struct char_set {
    char_range ranges[MAX_RANGES];
    uint32_t count;
} char_set;

typedef struct regex_reader {
    struct grammar *grammar;
    const char *start, *at, *end;
    bool search, in_json;
    uint32_t groups; /* open ones */
    uint32_t look;   /* the one of these that is a look-ahead; 0: none */
    char *why;
} regex_reader;

/* An alternative outside of all groups. Each look-ahead divides it, and holds for the parts after it. */
typedef struct regex_alternative {
    grammar_node parts[MAX_LOOKS + 1];
    grammar_node looks[MAX_LOOKS]; /* [count] the texts that look-aheads let follow, or not */
    bool negative[MAX_LOOKS];
    uint32_t count;
    bool begins, ends; /* anchored by ^ and $ */
    bool is_empty;     /* nothing but look-aheads was read */
} regex_alternative;

static bool fail(const regex_reader *reader, const char *what)
{
    if (reader->why[0] == '\0')
        (void)snprintf(reader->why, GRAMMAR_WHY_BYTES, "the regular expression, character %zu: %.120s",
                       (size_t)(reader->at - reader->start), what);
    return false;
}

static bool add_range(const regex_reader *reader, char_set *set, uint32_t low, uint32_t high)
{
    if (set->count == MAX_RANGES)
        return fail(reader, "a class of more than 256 ranges");
    set->ranges[set->count++] = (char_range){ low, high };
    return true;
}

static int by_low(const void *left, const void *right)
{
    const char_range *a = left, *b = right;

    return (a->low > b->low) - (a->low < b->low);
}

/* The complement. */
static bool invert(const regex_reader *reader, char_set *set)
{
    char_set all = { .count = 0 };
    uint32_t next = 0;

    qsort(set->ranges, set->count, sizeof *set->ranges, by_low);
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->ranges[i].low > next && !add_range(reader, &all, next, set->ranges[i].low - 1))
            return false;
        if (set->ranges[i].high >= next)
            next = set->ranges[i].high + 1;
    }
    if (next <= LAST_CHARACTER && !add_range(reader, &all, next, LAST_CHARACTER))
        return false;
    *set = all;
    return true;
}

/* \d \w \s and their complements. */
static bool add_class(const regex_reader *reader, char_set *set, char name)
{
    static const char_range digits[] = { { '0', '9' } };
    static const char_range words[] = { { '0', '9' }, { 'A', 'Z' }, { '_', '_' }, { 'a', 'z' } };
    static const char_range spaces[] = { { '\t', '\r' },     { ' ', ' ' },       { 0xa0, 0xa0 },     { 0x1680, 0x1680 },
                                         { 0x2000, 0x200a }, { 0x2028, 0x2029 }, { 0x202f, 0x202f }, { 0x205f, 0x205f },
                                         { 0x3000, 0x3000 }, { 0xfeff, 0xfeff } };
    const char kind = (char)(name | 0x20);
    const char_range *ranges = kind == 'd' ? digits : kind == 'w' ? words : spaces;
    uint32_t count = kind == 'd' ? 1 : kind == 'w' ? 4 : sizeof spaces / sizeof *spaces;
    char_set one = { .count = 0 };

    for (uint32_t i = 0; i < count; i++)
        one.ranges[one.count++] = ranges[i];
    if (kind != name && !invert(reader, &one))
        return false;
    for (uint32_t i = 0; i < one.count; i++)
        if (!add_range(reader, set, one.ranges[i].low, one.ranges[i].high))
            return false;
    return true;
}

/* A character in a JSON string. Those that need an escape have their shortest one. */
static grammar_node json_chars(struct grammar *grammar, uint32_t low, uint32_t high)
{
    static const char *const escapes[] = { "\bb", "\tt", "\nn", "\ff", "\rr", "\"\"", "\\\\" };
    grammar_node all = grammar_never(grammar);
    uint32_t next = low;

    for (uint32_t i = 0; i < sizeof escapes / sizeof *escapes; i++) {
        const uint32_t code = (unsigned char)escapes[i][0];
        const char escape[2] = { '\\', escapes[i][1] };

        if (code >= low && code <= high)
            all = grammar_either(grammar, all, grammar_text(grammar, escape, 2));
    }
    for (uint32_t code = low; code <= high && code < 0x20; code++) {
        char escape[8];

        if (code >= 8 && code <= 13 && code != 11)
            continue; /* has a short one */
        (void)snprintf(escape, sizeof escape, "\\u%04x", code);
        all = grammar_either(grammar, all, grammar_text(grammar, escape, 6));
    }
    if (next < 0x20)
        next = 0x20;
    for (uint32_t i = 5; i < 7; i++) { /* the quote and the backslash divide the range */
        const uint32_t code = (unsigned char)escapes[i][0];

        if (next < code && high >= next)
            all = grammar_either(grammar, all, grammar_chars(grammar, next, high < code ? high : code - 1));
        if (next <= code)
            next = code + 1;
    }
    return next <= high ? grammar_either(grammar, all, grammar_chars(grammar, next, high)) : all;
}

static grammar_node set_node(const regex_reader *reader, const char_set *set)
{
    grammar_node all = grammar_never(reader->grammar);

    for (uint32_t i = 0; i < set->count; i++)
        all = grammar_either(
            reader->grammar, all,
            (reader->in_json ? json_chars : grammar_chars)(reader->grammar, set->ranges[i].low, set->ranges[i].high));
    return all;
}

static bool read_hex(regex_reader *reader, int digits, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < digits; i++) {
        const char c = reader->at < reader->end ? *reader->at : '\0';
        const int value = c >= '0' && c <= '9'                     ? c - '0'
                          : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                                   : -1;

        if (value < 0)
            return fail(reader, "an escape without its digits");
        *out = *out * 16 + (uint32_t)value;
        reader->at++;
    }
    return true;
}

/* What follows a backslash: a class (*is_class, added to the set), or a character. */
static bool read_escape(regex_reader *reader, char_set *set, bool *is_class, uint32_t *out)
{
    static const char controls[] = "t\tn\nv\vf\fr\r";
    const char c = reader->at < reader->end ? *reader->at++ : '\0';
    const char *control = c != '\0' ? strchr(controls, c) : NULL;

    *is_class = c != '\0' && strchr("dDwWsS", c) != NULL;
    if (*is_class)
        return add_class(reader, set, c);
    if (control != NULL && (control - controls) % 2 == 0) {
        *out = (unsigned char)control[1];
        return true;
    }
    if (c == 'x')
        return read_hex(reader, 2, out);
    if (c == 'u')
        return read_hex(reader, 4, out);
    if (c == '0') {
        *out = 0;
        return true;
    }
    *out = (unsigned char)c;
    if (c != '\0' && strchr("^$\\.*+?()[]{}|/-\"'#&,:;<=>@_`~!% ", c) != NULL)
        return true;
    reader->at--;
    return fail(reader, "this escape is not supported");
}

static bool read_char(regex_reader *reader, uint32_t *out)
{
    size_t bytes = utf8_get(reader->at, (size_t)(reader->end - reader->at), out);

    if (bytes == 0)
        return fail(reader, "invalid UTF-8");
    reader->at += bytes;
    return true;
}

/* One character of a class or a whole \d. */
static bool read_class_item(regex_reader *reader, char_set *set, bool *is_class, uint32_t *out)
{
    *is_class = false;
    if (reader->at < reader->end && *reader->at == '\\') {
        reader->at++;
        if (reader->at < reader->end && *reader->at == 'b') { /* a backspace, only in classes */
            reader->at++;
            *out = '\b';
            return true;
        }
        return read_escape(reader, set, is_class, out);
    }
    return read_char(reader, out);
}

/* [...], after its bracket. */
static bool read_set(regex_reader *reader, char_set *set)
{
    bool inverted = reader->at < reader->end && *reader->at == '^';

    reader->at += inverted;
    while (reader->at < reader->end && *reader->at != ']') {
        uint32_t low = 0, high;
        bool is_class;

        if (!read_class_item(reader, set, &is_class, &low))
            return false;
        if (is_class)
            continue;
        high = low;
        if (reader->end - reader->at >= 2 && reader->at[0] == '-' && reader->at[1] != ']') {
            reader->at++;
            if (!read_class_item(reader, set, &is_class, &high))
                return false;
            if (is_class || high < low)
                return fail(reader, "a range that is out of order");
        }
        if (!add_range(reader, set, low, high))
            return false;
    }
    if (reader->at == reader->end)
        return fail(reader, "a class without its ']'");
    reader->at++;
    return !inverted || invert(reader, set);
}

/* All texts. */
static grammar_node anything(const regex_reader *reader)
{
    const char_set any = { { { 0, LAST_CHARACTER } }, 1 };

    return grammar_repeat(reader->grammar, set_node(reader, &any), 0, GRAMMAR_MANY);
}

/* The '=' or '!' of a look-ahead that begins here; NULL: there is none. */
static const char *find_look(const regex_reader *reader)
{
    return reader->end - reader->at >= 3 && reader->at[0] == '(' && reader->at[1] == '?' &&
                   (reader->at[2] == '=' || reader->at[2] == '!')
               ? reader->at + 2
               : NULL;
}

static bool read_either(regex_reader *reader, grammar_node *out);

/* (...) or (?:...), after its parenthesis. */
static bool read_group(regex_reader *reader, grammar_node *out)
{
    if (reader->groups == MAX_GROUPS)
        return fail(reader, "more than 64 nested groups");
    if (reader->at < reader->end && *reader->at == '?') {
        const char *name;

        reader->at++;
        if (reader->at < reader->end && *reader->at == ':') {
            reader->at++;
        } else if (reader->end - reader->at >= 2 && reader->at[0] == '<' && reader->at[1] != '=' &&
                   reader->at[1] != '!' &&
                   (name = memchr(reader->at, '>', (size_t)(reader->end - reader->at))) != NULL) {
            reader->at = name + 1;
        } else {
            return fail(reader, "look-around is supported only if it looks ahead and is outside of groups");
        }
    }
    reader->groups++;
    if (!read_either(reader, out))
        return false;
    reader->groups--;
    if (reader->at == reader->end)
        return fail(reader, "a group without its ')'");
    reader->at++;
    return true;
}

static bool read_number(regex_reader *reader, uint32_t *out)
{
    const char *start = reader->at;

    *out = 0;
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9' && *out <= MAX_REPEAT)
        *out = *out * 10 + (uint32_t)(*reader->at++ - '0');
    return (reader->at > start && *out <= MAX_REPEAT) ||
           fail(reader, "a number of repetitions from 0 to 1000 belongs here");
}

/* * + ? {n} {n,} {n,m}, each possibly with a ? that only concerns searching. */
static bool read_repeats(regex_reader *reader, grammar_node *node)
{
    while (reader->at < reader->end && strchr("*+?{", *reader->at) != NULL) {
        const char c = *reader->at++;
        uint32_t least = c == '+', most = c == '?' ? 1 : GRAMMAR_MANY;

        if (c == '{') {
            if (!read_number(reader, &least))
                return false;
            most = least;
            if (reader->at < reader->end && *reader->at == ',') {
                reader->at++;
                most = GRAMMAR_MANY;
                if (reader->at < reader->end && *reader->at != '}' && !read_number(reader, &most))
                    return false;
            }
            if (reader->at == reader->end || *reader->at != '}' || most < least)
                return fail(reader, "a number of repetitions without its '}', or out of order");
            reader->at++;
        }
        if (reader->at < reader->end && *reader->at == '?')
            reader->at++;
        *node = grammar_repeat(reader->grammar, *node, least, most);
    }
    return true;
}

static bool read_item(regex_reader *reader, grammar_node *out)
{
    char_set set = { .count = 0 };
    uint32_t character = 0;
    bool is_class = true;

    switch (*reader->at) {
    case '(':
        reader->at++;
        return read_group(reader, out);
    case '[':
        reader->at++;
        if (!read_set(reader, &set))
            return false;
        break;
    case '.':
        reader->at++;
        if (!add_range(reader, &set, '\n', '\n') || !add_range(reader, &set, '\r', '\r') ||
            !add_range(reader, &set, 0x2028, 0x2029) || !invert(reader, &set))
            return false;
        break;
    case '\\':
        reader->at++;
        if (!read_escape(reader, &set, &is_class, &character))
            return false;
        break;
    case '*':
    case '+':
    case '?':
    case '{':
        return fail(reader, "nothing to repeat");
    case '^':
    case '$':
        return fail(reader, "'^' and '$' are supported at the ends only");
    default:
        is_class = false;
        if (!read_char(reader, &character))
            return false;
    }
    if (!is_class && !add_range(reader, &set, character, character))
        return false;
    *out = set_node(reader, &set);
    return true;
}

/* A sequence, up to a '|', the ')' of its group or the end; outside of groups, also up to a '$' that ends its
 * alternative and a look-ahead. In a look-ahead, a '$' may be before its ')'. */
static bool read_sequence(regex_reader *reader, grammar_node *out)
{
    *out = grammar_empty(reader->grammar);
    while (reader->at < reader->end && *reader->at != '|' && !(*reader->at == ')' && reader->groups > 0)) {
        const char *after = reader->at + 1;
        grammar_node item;

        if (*reader->at == ')')
            return fail(reader, "a ')' without its '('");
        if (*reader->at == '$' && (reader->groups == 0 ? after == reader->end || *after == '|'
                                                       : reader->groups == reader->look && *after == ')'))
            return true;
        if (reader->groups == 0 && find_look(reader) != NULL)
            return true;
        if (!read_item(reader, &item) || !read_repeats(reader, &item))
            return false;
        *out = grammar_sequence(reader->grammar, *out, item);
    }
    return true;
}

/* Alternatives within a group. */
static bool read_either(regex_reader *reader, grammar_node *out)
{
    grammar_node one;

    if (!read_sequence(reader, out))
        return false;
    while (reader->at < reader->end && *reader->at == '|') {
        reader->at++;
        if (!read_sequence(reader, &one))
            return false;
        *out = grammar_either(reader->grammar, *out, one);
    }
    return true;
}

/* (?=...) or (?!...), whose sign is at `sign`: the texts that begin with it, or are it if it ends with $. */
static bool read_look(regex_reader *reader, const char *sign, regex_alternative *alternative)
{
    const bool at_start = (alternative->begins || !reader->search) && alternative->is_empty;
    grammar_node *look = &alternative->looks[alternative->count];

    if (alternative->count == MAX_LOOKS)
        return fail(reader, "more than 8 look-aheads");
    alternative->negative[alternative->count++] = *sign == '!';
    reader->at = sign + 1;
    reader->at += at_start && reader->at < reader->end && *reader->at == '^';
    reader->look = ++reader->groups;
    if (!read_either(reader, look))
        return false;
    if (reader->at < reader->end && *reader->at == '$')
        reader->at++;
    else
        *look = grammar_sequence(reader->grammar, *look, anything(reader));
    reader->look = 0;
    reader->groups--;
    if (reader->at == reader->end || *reader->at != ')')
        return fail(reader, "a look-ahead without its ')', or with $ in the middle");
    reader->at++;
    return true;
}

/* Joins the parts of an alternative. A look-ahead between two parts restricts the parts after it. */
static bool join_parts(regex_reader *reader, const regex_alternative *alternative, grammar_node *out)
{
    char why[GRAMMAR_WHY_BYTES];

    *out = alternative->parts[alternative->count];
    if (reader->search && !alternative->ends)
        *out = grammar_sequence(reader->grammar, *out, anything(reader));
    for (uint32_t i = alternative->count; i-- > 0;) {
        const grammar_node with[2] = { *out, alternative->looks[i] };
        const bool negative = alternative->negative[i];

        if (!grammar_product(reader->grammar, with, negative ? 1 : 2, with + 1, negative, out, why))
            return fail(reader, why);
        *out = grammar_sequence(reader->grammar, alternative->parts[i], *out);
    }
    if (reader->search && !alternative->begins)
        *out = grammar_sequence(reader->grammar, anything(reader), *out);
    return true;
}

static bool read_alternative(regex_reader *reader, grammar_node *out)
{
    regex_alternative alternative = { .begins = reader->at < reader->end && *reader->at == '^' };
    const char *start = reader->at += alternative.begins, *sign;

    for (;;) {
        if (!read_sequence(reader, &alternative.parts[alternative.count]))
            return false;
        sign = find_look(reader);
        if (sign == NULL)
            break;
        alternative.is_empty = reader->at == start;
        if (!read_look(reader, sign, &alternative))
            return false;
        start = alternative.is_empty ? reader->at : NULL; /* another look-ahead may follow at the start */
    }
    alternative.ends = reader->at < reader->end && *reader->at == '$';
    reader->at += alternative.ends;
    return join_parts(reader, &alternative, out);
}

bool grammar_regex(struct grammar *grammar, const char *expression, bool search, bool in_json, grammar_node *out,
                   char *why)
{
    regex_reader reader = { .grammar = grammar,
                            .start = expression,
                            .at = expression,
                            .end = expression + strlen(expression),
                            .search = search,
                            .in_json = in_json,
                            .why = why };
    grammar_node one;

    why[0] = '\0';
    if (!read_alternative(&reader, out))
        return false;
    while (reader.at < reader.end) { /* at a '|' */
        reader.at++;
        if (!read_alternative(&reader, &one))
            return false;
        *out = grammar_either(grammar, *out, one);
    }
    return true;
}
