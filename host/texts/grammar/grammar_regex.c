#include "texts/grammar/grammar_regex.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANGES = 256, MAX_REPEAT = 1000, MAX_GROUPS = 64, MAX_LOOKS = 16, LAST_CHARACTER = 0x10ffff };

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
    uint32_t groups;         /* open ones */
    uint32_t looks;          /* look-aheads so far */
    grammar_node all, empty; /* all texts; the empty one */
    char *why;
} regex_reader;

/* A part of an expression. A group that has only TERM_NODE is one itself. */
typedef enum regex_kind {
    TERM_NODE,  /* `node` */
    TERM_LOOK,  /* a look-ahead: the text after it matches `node`, or does not if it is negative */
    TERM_GROUP, /* `branches`, or nothing if `is_optional` */
    TERM_BEGIN, /* ^ */
    TERM_END    /* $ */
} regex_kind;

typedef struct regex_branches {
    struct regex_branch *items; /* [count] alternatives */
    uint32_t count;
} regex_branches;

typedef struct regex_term {
    regex_kind kind;
    grammar_node node;
    bool is_negative, is_optional;
    regex_branches branches;
} regex_term;

typedef struct regex_branch {
    regex_term *terms; /* [count] owned */
    uint32_t count;
} regex_branch;

static void free_branches(regex_branches *branches)
{
    for (uint32_t i = 0; i < branches->count; i++) {
        for (uint32_t k = 0; k < branches->items[i].count; k++)
            free_branches(&branches->items[i].terms[k].branches);
        free(branches->items[i].terms);
    }
    free(branches->items);
    *branches = (regex_branches){ .items = NULL };
}

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

static bool add_set(const regex_reader *reader, char_set *set, const char_set *more)
{
    for (uint32_t i = 0; i < more->count; i++)
        if (!add_range(reader, set, more->ranges[i].low, more->ranges[i].high))
            return false;
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
    return (kind == name || invert(reader, &one)) && add_set(reader, set, &one);
}

/* \p{...} and \P{...}, after the letter: the two properties that zod's pattern of emoji uses. Source: emoji-data of
 * Unicode 14; Extended_Pictographic includes what is reserved for later versions. */
static bool add_property(regex_reader *reader, char_set *set, bool inverted)
{
    static const char_range pictographic[] = {
        { 0xa9, 0xa9 },       { 0xae, 0xae },       { 0x203c, 0x203c },   { 0x2049, 0x2049 },   { 0x2122, 0x2122 },
        { 0x2139, 0x2139 },   { 0x2194, 0x2199 },   { 0x21a9, 0x21aa },   { 0x231a, 0x231b },   { 0x2328, 0x2328 },
        { 0x2388, 0x2388 },   { 0x23cf, 0x23cf },   { 0x23e9, 0x23f3 },   { 0x23f8, 0x23fa },   { 0x24c2, 0x24c2 },
        { 0x25aa, 0x25ab },   { 0x25b6, 0x25b6 },   { 0x25c0, 0x25c0 },   { 0x25fb, 0x25fe },   { 0x2600, 0x2605 },
        { 0x2607, 0x2612 },   { 0x2614, 0x2685 },   { 0x2690, 0x2705 },   { 0x2708, 0x2712 },   { 0x2714, 0x2714 },
        { 0x2716, 0x2716 },   { 0x271d, 0x271d },   { 0x2721, 0x2721 },   { 0x2728, 0x2728 },   { 0x2733, 0x2734 },
        { 0x2744, 0x2744 },   { 0x2747, 0x2747 },   { 0x274c, 0x274c },   { 0x274e, 0x274e },   { 0x2753, 0x2755 },
        { 0x2757, 0x2757 },   { 0x2763, 0x2767 },   { 0x2795, 0x2797 },   { 0x27a1, 0x27a1 },   { 0x27b0, 0x27b0 },
        { 0x27bf, 0x27bf },   { 0x2934, 0x2935 },   { 0x2b05, 0x2b07 },   { 0x2b1b, 0x2b1c },   { 0x2b50, 0x2b50 },
        { 0x2b55, 0x2b55 },   { 0x3030, 0x3030 },   { 0x303d, 0x303d },   { 0x3297, 0x3297 },   { 0x3299, 0x3299 },
        { 0x1f000, 0x1f0ff }, { 0x1f10d, 0x1f10f }, { 0x1f12f, 0x1f12f }, { 0x1f16c, 0x1f171 }, { 0x1f17e, 0x1f17f },
        { 0x1f18e, 0x1f18e }, { 0x1f191, 0x1f19a }, { 0x1f1ad, 0x1f1e5 }, { 0x1f201, 0x1f20f }, { 0x1f21a, 0x1f21a },
        { 0x1f22f, 0x1f22f }, { 0x1f232, 0x1f23a }, { 0x1f23c, 0x1f23f }, { 0x1f249, 0x1f3fa }, { 0x1f400, 0x1f53d },
        { 0x1f546, 0x1f64f }, { 0x1f680, 0x1f6ff }, { 0x1f774, 0x1f77f }, { 0x1f7d5, 0x1f7ff }, { 0x1f80c, 0x1f80f },
        { 0x1f848, 0x1f84f }, { 0x1f85a, 0x1f85f }, { 0x1f888, 0x1f88f }, { 0x1f8ae, 0x1f8ff }, { 0x1f90c, 0x1f93a },
        { 0x1f93c, 0x1f945 }, { 0x1f947, 0x1faff }, { 0x1fc00, 0x1fffd }
    };
    static const char_range components[] = { { 0x23, 0x23 },       { 0x2a, 0x2a },       { 0x30, 0x39 },
                                             { 0x200d, 0x200d },   { 0x20e3, 0x20e3 },   { 0xfe0f, 0xfe0f },
                                             { 0x1f1e6, 0x1f1ff }, { 0x1f3fb, 0x1f3ff }, { 0x1f9b0, 0x1f9b3 },
                                             { 0xe0020, 0xe007f } };
    static const struct {
        const char *name;
        const char_range *ranges;
        size_t count;
    } properties[] = { { "{Extended_Pictographic}", pictographic, sizeof pictographic / sizeof *pictographic },
                       { "{ExtPict}", pictographic, sizeof pictographic / sizeof *pictographic },
                       { "{Emoji_Component}", components, sizeof components / sizeof *components },
                       { "{EComp}", components, sizeof components / sizeof *components } };
    char_set one = { .count = 0 };

    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++) {
        const size_t bytes = strlen(properties[i].name);

        if ((size_t)(reader->end - reader->at) < bytes || memcmp(reader->at, properties[i].name, bytes) != 0)
            continue;
        reader->at += bytes;
        memcpy(one.ranges, properties[i].ranges, properties[i].count * sizeof *one.ranges);
        one.count = (uint32_t)properties[i].count;
        return (!inverted || invert(reader, &one)) && add_set(reader, set, &one);
    }
    return fail(reader, "of the properties, Extended_Pictographic and Emoji_Component are supported");
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

    *is_class = c != '\0' && strchr("dDwWsSpP", c) != NULL;
    if (*is_class)
        return (c | 0x20) == 'p' ? add_property(reader, set, c == 'P') : add_class(reader, set, c);
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

static grammar_node join(const regex_reader *reader, grammar_node first, grammar_node second)
{
    return grammar_is_never(reader->grammar, second) ? second : grammar_sequence(reader->grammar, first, second);
}

/* What precedes an expression or a part of it. */
typedef enum regex_place {
    PLACE_INSIDE, /* other parts of the expression */
    PLACE_FIRST,  /* nothing, so that it may begin with ^; otherwise, in a search, any text precedes it */
    PLACE_BEGUN   /* nothing but ^ */
} regex_place;

static bool fold(regex_reader *reader, const regex_branch *branch, grammar_node rest, regex_place place,
                 grammar_node *out);

/* The alternatives, each followed by `rest`. */
static bool fold_all(regex_reader *reader, const regex_branches *branches, grammar_node rest, regex_place place,
                     grammar_node *out)
{
    grammar_node one;

    *out = grammar_never(reader->grammar);
    if (branches->count > 1)
        rest = grammar_share(reader->grammar, rest);
    for (uint32_t i = 0; i < branches->count; i++) {
        if (!fold(reader, &branches->items[i], rest, place, &one))
            return false;
        *out = grammar_is_never(reader->grammar, one) ? *out : grammar_either(reader->grammar, *out, one);
    }
    return true;
}

static bool restrict_rest(regex_reader *reader, const regex_term *look, grammar_node *rest)
{
    const grammar_node with[2] = { *rest, look->node };
    char why[GRAMMAR_WHY_BYTES];

    return grammar_product(reader->grammar, with, look->is_negative ? 1 : 2, with + 1, look->is_negative, rest, why) ||
           fail(reader, why);
}

/* Adds the text that may precede the expression. */
static grammar_node precede(const regex_reader *reader, regex_place place, grammar_node rest)
{
    return reader->search && place == PLACE_FIRST ? join(reader, reader->all, rest) : rest;
}

/* The texts of the branch, followed by those of `rest`, which its look-aheads and $ restrict, and preceded by what
 * `place` says. */
static bool fold(regex_reader *reader, const regex_branch *branch, grammar_node rest, regex_place place,
                 grammar_node *out)
{
    bool is_preceded = false;
    uint32_t first = 0, anchors = 0; /* the first term that takes characters; how many ^ the branch begins with */

    while (first < branch->count &&
           (branch->terms[first].kind == TERM_BEGIN || branch->terms[first].kind == TERM_LOOK)) {
        anchors += branch->terms[first].kind == TERM_BEGIN && anchors == first;
        if (branch->terms[first++].kind == TERM_BEGIN && place == PLACE_FIRST)
            place = PLACE_BEGUN;
    }
    for (uint32_t i = branch->count; i-- > 0;) {
        const regex_term *term = &branch->terms[i];
        const regex_term end = { .kind = TERM_LOOK, .node = reader->empty };
        const grammar_node after = rest;

        if (term->kind == TERM_BEGIN && (place == PLACE_INSIDE || i >= first))
            return fail(reader, "'^' is supported at the beginning only");
        if (term->kind == TERM_NODE)
            rest = join(reader, term->node, rest);
        if (term->kind == TERM_END && (rest == reader->all || rest == reader->empty))
            rest = reader->empty;
        else if ((term->kind == TERM_LOOK || term->kind == TERM_END) &&
                 !restrict_rest(reader, term->kind == TERM_END ? &end : term, &rest))
            return false;
        if (term->kind != TERM_GROUP)
            continue;
        is_preceded = i == anchors;
        if (!fold_all(reader, &term->branches, after, is_preceded ? place : PLACE_INSIDE, &rest))
            return false;
        if (term->is_optional)
            rest = grammar_either(reader->grammar, rest, is_preceded ? precede(reader, place, after) : after);
    }
    *out = is_preceded ? rest : precede(reader, place, rest);
    return true;
}

static bool read_branches(regex_reader *reader, regex_branches *out);

/* The end of a group, whose alternatives were read. */
static bool read_close(regex_reader *reader)
{
    if (reader->at == reader->end)
        return fail(reader, "a group without its ')'");
    reader->at++;
    return true;
}

static bool is_plain(const regex_branches *branches)
{
    for (uint32_t i = 0; i < branches->count; i++)
        for (uint32_t k = 0; k < branches->items[i].count; k++)
            if (branches->items[i].terms[k].kind != TERM_NODE)
                return false;
    return true;
}

/* (...) or (?:...), after its parenthesis. */
static bool read_group(regex_reader *reader, regex_term *out)
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
            return fail(reader, "look-around is supported only if it looks ahead");
        }
    }
    reader->groups++;
    if (!read_branches(reader, &out->branches))
        return false;
    reader->groups--;
    out->kind = TERM_GROUP;
    if (is_plain(&out->branches)) {
        if (!fold_all(reader, &out->branches, reader->empty, PLACE_INSIDE, &out->node))
            return false;
        out->kind = TERM_NODE;
        free_branches(&out->branches);
    }
    return read_close(reader);
}

/* (?=...) or (?!...), whose sign is at `sign`. At the start of an expression, the ^ of its branches says nothing. */
static bool read_look(regex_reader *reader, const char *sign, bool is_start, regex_term *out)
{
    if (reader->looks++ == MAX_LOOKS)
        return fail(reader, "more than 16 look-aheads");
    if (reader->groups == MAX_GROUPS)
        return fail(reader, "more than 64 nested groups");
    out->kind = TERM_LOOK;
    out->is_negative = *sign == '!';
    reader->at = sign + 1;
    reader->groups++;
    if (!read_branches(reader, &out->branches))
        return false;
    reader->groups--;
    for (uint32_t i = 0; is_start && i < out->branches.count; i++)
        if (out->branches.items[i].count > 0 && out->branches.items[i].terms[0].kind == TERM_BEGIN)
            out->branches.items[i].terms[0] = (regex_term){ .node = reader->empty };
    if (!fold_all(reader, &out->branches, reader->all, PLACE_INSIDE, &out->node))
        return false;
    free_branches(&out->branches);
    return read_close(reader);
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
static bool read_repeats(regex_reader *reader, regex_term *term)
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
        if (term->kind == TERM_NODE)
            term->node = grammar_repeat(reader->grammar, term->node, least, most);
        else if (most > 1 || term->kind != TERM_GROUP)
            return fail(reader, "look-aheads, '^' and '$' cannot be repeated");
        else if (most == 0)
            *term = (regex_term){ .node = reader->empty, .branches = term->branches };
        else
            term->is_optional |= least == 0;
    }
    return true;
}

static bool read_item(regex_reader *reader, bool is_start, regex_term *out)
{
    const char *sign = find_look(reader);
    char_set set = { .count = 0 };
    uint32_t character = 0;
    bool is_class = true;

    if (sign != NULL)
        return read_look(reader, sign, is_start, out);
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
        out->kind = *reader->at++ == '^' ? TERM_BEGIN : TERM_END;
        return true;
    case ')':
        return fail(reader, "a ')' without its '('");
    default:
        is_class = false;
        if (!read_char(reader, &character))
            return false;
    }
    if (!is_class && !add_range(reader, &set, character, character))
        return false;
    out->node = set_node(reader, &set);
    return true;
}

/* A sequence, up to a '|', the ')' of its group or the end. */
static bool read_branch(regex_reader *reader, regex_branch *out)
{
    bool is_start = reader->groups == 0;

    while (reader->at < reader->end && *reader->at != '|' && !(*reader->at == ')' && reader->groups > 0)) {
        regex_term *term;

        if (!LIST_GROW(out->terms, out->count))
            return fail(reader, "out of memory");
        term = &out->terms[out->count++];
        *term = (regex_term){ .kind = TERM_NODE };
        if (!read_item(reader, is_start && (!reader->search || (out->count > 1 && out->terms[0].kind == TERM_BEGIN)),
                       term) ||
            !read_repeats(reader, term))
            return false;
        is_start &= term->kind == TERM_BEGIN || term->kind == TERM_LOOK;
    }
    return true;
}

static bool read_branches(regex_reader *reader, regex_branches *out)
{
    for (;;) {
        if (!LIST_GROW(out->items, out->count))
            return fail(reader, "out of memory");
        out->items[out->count++] = (regex_branch){ .terms = NULL };
        if (!read_branch(reader, &out->items[out->count - 1]))
            return false;
        if (reader->at == reader->end || *reader->at != '|')
            return true;
        reader->at++;
    }
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
    regex_branches branches = { .items = NULL };
    bool good;

    why[0] = '\0';
    reader.all = grammar_share(grammar, anything(&reader));
    reader.empty = grammar_empty(grammar);
    good = read_branches(&reader, &branches) &&
           fold_all(&reader, &branches, search ? reader.all : reader.empty, PLACE_FIRST, out);
    free_branches(&branches);
    return good;
}
