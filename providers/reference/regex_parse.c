/* regex_parse.c - the parser of regex.h: a pattern becomes a tree, because counted repetition emits a part several
 * times. After a failure parsing goes on with empty nodes at the pattern's end, so that nobody has to look at
 * returns. */
#include "regex_parts.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 200, MAX_NODES = 20000 };
enum { FLAG_FOLD = 1, FLAG_DOT_ALL = 2 };

uint32_t regex_fail(parser *p, inlay_status status, const char *what)
{
    if (p->status == INLAY_OK)
        p->status =
            inlay_fail(p->diag, status, "pattern '%.200s', character %d: %s", p->start, (int)(p->at - p->start), what);
    p->at = p->end;
    return 0;
}

bool regex_grow(void *array, uint32_t *room, uint32_t count, size_t bytes)
{
    void *bigger, *old;

    memcpy(&old, array, sizeof old);
    if (count < *room)
        return true;
    bigger = realloc(old, (*room * 2 + 16) * bytes);
    if (bigger == NULL)
        return false;
    memcpy(array, &bigger, sizeof bigger);
    *room = *room * 2 + 16;
    return true;
}

/* ------------------------------------------------------------------ sets */

static void add_range(parser *p, uint32_t low, uint32_t high)
{
    regex *re = p->re;

    if (!regex_grow(&re->ranges, &re->range_room, re->range_count, sizeof *re->ranges)) {
        regex_fail(p, INLAY_OUT_OF_MEMORY, "no memory");
        return;
    }
    re->ranges[re->range_count++] = (range){ low, high };
}

/* With (?i) letters of ASCII match in both cases. */
static void add_folded(parser *p, uint32_t low, uint32_t high)
{
    add_range(p, low, high);
    if ((p->flags & FLAG_FOLD) == 0)
        return;
    for (uint32_t shift = 0; shift < 2; shift++) {
        const uint32_t first = shift == 0 ? 'A' : 'a', last = first + 25;
        const uint32_t from = low > first ? low : first, to = high < last ? high : last;

        if (from <= to)
            add_range(p, from ^ 32, to ^ 32);
    }
}

/* The class of \d \w \s (small letters); false for other letters. */
static bool add_class(parser *p, char letter)
{
    switch (letter) {
    case 'd':
        add_range(p, '0', '9');
        return true;
    case 'w':
        add_range(p, '0', '9');
        add_range(p, 'A', 'Z');
        add_range(p, 'a', 'z');
        add_range(p, '_', '_');
        return true;
    case 's':
        add_range(p, '\t', '\n');
        add_range(p, '\f', '\r');
        add_range(p, ' ', ' ');
        return true;
    default:
        return false;
    }
}

/* As above, everything else: \D \W \S within brackets. */
static bool add_inverse(parser *p, char letter)
{
    const char small = (char)(letter | 32);
    uint32_t next = 0;

    if (small == 'd') {
        add_range(p, 0, '0' - 1);
        next = '9' + 1;
    } else if (small == 'w') {
        add_range(p, 0, '0' - 1);
        add_range(p, '9' + 1, 'A' - 1);
        add_range(p, 'Z' + 1, '_' - 1);
        add_range(p, '_' + 1, 'a' - 1);
        next = 'z' + 1;
    } else if (small == 's') {
        add_range(p, 0, '\t' - 1);
        add_range(p, '\v', '\v');
        add_range(p, '\r' + 1, ' ' - 1);
        next = ' ' + 1;
    } else {
        return false;
    }
    add_range(p, next, UINT32_MAX);
    return true;
}

static uint32_t new_node(parser *p, node n)
{
    if (p->node_count >= MAX_NODES)
        return regex_fail(p, INLAY_LIMIT_EXCEEDED, "the pattern is too long");
    if (!regex_grow(&p->nodes, &p->node_room, p->node_count, sizeof *p->nodes))
        return regex_fail(p, INLAY_OUT_OF_MEMORY, "no memory");
    p->nodes[p->node_count] = n;
    return p->node_count++;
}

/* A node for the ranges added since first. */
static uint32_t set_node(parser *p, uint32_t first, bool negated)
{
    regex *re = p->re;

    if (!regex_grow(&re->sets, &re->set_room, re->set_count, sizeof *re->sets))
        return regex_fail(p, INLAY_OUT_OF_MEMORY, "no memory");
    re->sets[re->set_count] = (set){ first, re->range_count - first, negated };
    return new_node(p, (node){ .kind = NODE_SET, .a = re->set_count++ });
}

static uint32_t literal(parser *p, uint32_t c)
{
    const uint32_t first = p->re->range_count;

    add_folded(p, c, c);
    return set_node(p, first, false);
}

/* ------------------------------------------------------------------ parsing */

static uint32_t parse_either(parser *p);
static uint32_t parse_suffix(parser *p, uint32_t atom);

/* Hexadecimal digits after \x. */
static uint32_t parse_hex(parser *p)
{
    const bool braces = p->at < p->end && *p->at == '{';
    uint32_t code = 0, digits = 0;

    p->at += braces;
    while (p->at < p->end && digits < (braces ? 6 : 2)) {
        const char c = (char)(*p->at | 32);
        const uint32_t digit = c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10 : (uint32_t)(*p->at - '0');

        if (!((*p->at >= '0' && *p->at <= '9') || (c >= 'a' && c <= 'f')))
            break;
        code = code * 16 + digit;
        digits++;
        p->at++;
    }
    if (digits == 0 || (braces && (p->at >= p->end || *p->at != '}')))
        return regex_fail(p, INLAY_INVALID_MODEL, "\\x needs hexadecimal digits");
    p->at += braces;
    return code;
}

/* The character that a backslash and `c` stand for; p->at is behind c. */
static uint32_t escaped(parser *p, char c)
{
    static const char letters[] = "ntrfva", values[] = "\n\t\r\f\v\a";
    const char *found = strchr(letters, c);

    if (c == 'x')
        return parse_hex(p);
    if (c != '\0' && found != NULL)
        return (uint32_t)values[found - letters];
    if (regex_is_word((uint32_t)c) || (c & 0x80) != 0)
        return regex_fail(p, INLAY_UNSUPPORTED, "this escape is not supported");
    return (uint32_t)c;
}

/* [:alpha:] and the like within brackets; p->at is behind "[:". */
static void parse_posix(parser *p)
{
    static const struct {
        const char *name;
        range ranges[4];
    } classes[] = {
        { "alpha:]", { { 'A', 'Z' }, { 'a', 'z' } } },
        { "digit:]", { { '0', '9' } } },
        { "alnum:]", { { '0', '9' }, { 'A', 'Z' }, { 'a', 'z' } } },
        { "upper:]", { { 'A', 'Z' } } },
        { "lower:]", { { 'a', 'z' } } },
        { "space:]", { { '\t', '\r' }, { ' ', ' ' } } },
        { "blank:]", { { '\t', '\t' }, { ' ', ' ' } } },
        { "punct:]", { { '!', '/' }, { ':', '@' }, { '[', '`' }, { '{', '~' } } },
        { "word:]", { { '0', '9' }, { 'A', 'Z' }, { 'a', 'z' }, { '_', '_' } } },
        { "xdigit:]", { { '0', '9' }, { 'A', 'F' }, { 'a', 'f' } } },
        { "print:]", { { ' ', '~' } } },
        { "graph:]", { { '!', '~' } } },
        { "cntrl:]", { { 1, 31 }, { 127, 127 } } },
    };

    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        const size_t bytes = strlen(classes[i].name);

        if ((size_t)(p->end - p->at) < bytes || memcmp(p->at, classes[i].name, bytes) != 0)
            continue;
        for (int k = 0; k < 4 && classes[i].ranges[k].high > 0; k++)
            add_folded(p, classes[i].ranges[k].low, classes[i].ranges[k].high);
        p->at += bytes;
        return;
    }
    regex_fail(p, INLAY_INVALID_MODEL, "no such character class");
}

/* One character of a bracket expression, or a whole class (then *out_class). */
static uint32_t parse_member(parser *p, bool *out_class)
{
    uint32_t bytes, c;

    *out_class = false;
    if (*p->at == '\\' && p->end - p->at > 1) {
        const char letter = p->at[1];

        p->at += 2;
        *out_class = add_class(p, letter) || (letter < 'a' && add_inverse(p, letter));
        return *out_class ? 0 : escaped(p, letter);
    }
    c = regex_decode(p->at, p->end, &bytes);
    p->at += bytes;
    return c;
}

/* A bracket expression; p->at is behind the [. */
static uint32_t parse_brackets(parser *p)
{
    const uint32_t first = p->re->range_count;
    const bool negated = p->at < p->end && *p->at == '^';
    bool closed = false;

    p->at += negated;
    for (const char *begin = p->at; p->at < p->end;) {
        uint32_t low, high;
        bool is_class;

        if (*p->at == ']' && p->at != begin) {
            p->at++;
            closed = true;
            break;
        }
        if (p->end - p->at > 1 && p->at[0] == '[' && p->at[1] == ':') {
            p->at += 2;
            parse_posix(p);
            continue;
        }
        low = high = parse_member(p, &is_class);
        if (is_class)
            continue;
        if (p->end - p->at > 1 && p->at[0] == '-' && p->at[1] != ']') {
            p->at++;
            high = parse_member(p, &is_class);
            if (is_class || high < low)
                return regex_fail(p, INLAY_INVALID_MODEL, "a range that runs backwards");
        }
        add_folded(p, low, high);
    }
    if (!closed)
        return regex_fail(p, INLAY_INVALID_MODEL, "[ without ]");
    return set_node(p, first, negated);
}

/* What follows "(?": flags, a name, or a colon. Leaves p->at at the group's content; *out_flags_only for "(?i)". */
static void parse_group_head(parser *p, bool *out_flags_only)
{
    bool on = true;

    *out_flags_only = false;
    if (p->at < p->end && (*p->at == 'P' || *p->at == '<')) {
        const char *close = memchr(p->at, '>', (size_t)(p->end - p->at));

        p->at += *p->at == 'P';
        if (p->at >= p->end || *p->at != '<' || close == NULL)
            regex_fail(p, INLAY_INVALID_MODEL, "a group's name must stand in < and >");
        else if (p->at[1] == '=' || p->at[1] == '!')
            regex_fail(p, INLAY_UNSUPPORTED, "lookbehind is not supported");
        else
            p->at = close + 1;
        return;
    }
    for (; p->at < p->end; p->at++) {
        const uint32_t flag = *p->at == 'i' ? FLAG_FOLD : *p->at == 's' ? FLAG_DOT_ALL : 0;

        if (*p->at == ':' || *p->at == ')') {
            *out_flags_only = *p->at++ == ')';
            return;
        }
        if (*p->at == '-')
            on = false;
        else if (flag == 0)
            break;
        else
            p->flags = on ? p->flags | flag : p->flags & ~flag;
    }
    regex_fail(p, INLAY_UNSUPPORTED, "this kind of group is not supported");
}

static uint32_t parse_group(parser *p)
{
    const uint32_t flags = p->flags;
    bool flags_only = false;
    uint32_t inside;

    if (++p->depth > MAX_DEPTH)
        return regex_fail(p, INLAY_LIMIT_EXCEEDED, "groups are nested too deeply");
    if (p->at < p->end && *p->at == '?') {
        p->at++;
        parse_group_head(p, &flags_only);
    }
    if (flags_only) {
        p->depth--;
        return new_node(p, (node){ .kind = NODE_EMPTY });
    }
    inside = parse_either(p);
    if (p->at >= p->end || *p->at != ')')
        return regex_fail(p, INLAY_INVALID_MODEL, "( without )");
    p->at++;
    p->flags = flags;
    p->depth--;
    return inside;
}

/* \Q...\E: characters as they are; what repeats behind it is the last of them. */
static uint32_t parse_quoted(parser *p)
{
    uint32_t joined = new_node(p, (node){ .kind = NODE_EMPTY }), last = joined;

    while (p->at < p->end) {
        uint32_t bytes, c;

        if (p->end - p->at > 1 && p->at[0] == '\\' && p->at[1] == 'E') {
            p->at += 2;
            last = parse_suffix(p, last);
            break;
        }
        joined = new_node(p, (node){ .kind = NODE_JOIN, .a = joined, .b = last });
        c = regex_decode(p->at, p->end, &bytes);
        p->at += bytes;
        last = literal(p, c);
    }
    return new_node(p, (node){ .kind = NODE_JOIN, .a = joined, .b = last });
}

static uint32_t parse_escape(parser *p)
{
    const uint32_t first = p->re->range_count;
    char c;

    if (p->at >= p->end)
        return regex_fail(p, INLAY_INVALID_MODEL, "a backslash at the end");
    c = *p->at++;
    switch (c) {
    case 'b':
        return new_node(p, (node){ .kind = NODE_ASSERT, .a = ASSERT_WORD });
    case 'B':
        return new_node(p, (node){ .kind = NODE_ASSERT, .a = ASSERT_NO_WORD });
    case 'A':
        return new_node(p, (node){ .kind = NODE_ASSERT, .a = ASSERT_BEGIN });
    case 'z':
        return new_node(p, (node){ .kind = NODE_ASSERT, .a = ASSERT_END });
    case 'Q':
        return parse_quoted(p);
    default:
        if (add_class(p, c))
            return set_node(p, first, false);
        if (c < 'a' && add_class(p, (char)(c | 32)))
            return set_node(p, first, true);
        return literal(p, escaped(p, c));
    }
}

static uint32_t parse_atom(parser *p)
{
    const uint32_t first = p->re->range_count;
    uint32_t bytes, c;

    switch (*p->at) {
    case '(':
        p->at++;
        return parse_group(p);
    case '[':
        p->at++;
        return parse_brackets(p);
    case '\\':
        p->at++;
        return parse_escape(p);
    case '.':
        p->at++;
        if ((p->flags & FLAG_DOT_ALL) == 0)
            add_range(p, '\n', '\n');
        return set_node(p, first, true);
    case '^':
        p->at++;
        return new_node(p, (node){ .kind = NODE_ASSERT, .a = ASSERT_BEGIN });
    case '$':
        p->at++;
        return new_node(p, (node){ .kind = NODE_ASSERT, .a = ASSERT_END });
    case '*':
    case '+':
    case '?':
        return regex_fail(p, INLAY_INVALID_MODEL, "nothing to repeat");
    default:
        c = regex_decode(p->at, p->end, &bytes);
        p->at += bytes;
        return literal(p, c);
    }
}

static int32_t parse_number(const char **at, const char *end)
{
    int32_t value = -1;

    for (; *at < end && **at >= '0' && **at <= '9'; (*at)++)
        value = value < 0 ? **at - '0' : value > MAX_REPEAT ? value : value * 10 + (**at - '0');
    return value;
}

/* {n}, {n,}, {n,m} at p->at; anything else in braces is text. */
static bool parse_count(parser *p, int32_t *min, int32_t *max)
{
    const char *at = p->at + 1;

    *min = *max = parse_number(&at, p->end);
    if (*min < 0)
        return false;
    if (at < p->end && *at == ',') {
        at++;
        *max = parse_number(&at, p->end);
    }
    if (at >= p->end || *at != '}')
        return false;
    p->at = at + 1;
    if (*min > MAX_REPEAT || *max > MAX_REPEAT || (*max >= 0 && *max < *min))
        regex_fail(p, INLAY_INVALID_MODEL, "a repeat count is too large, or they run backwards");
    return true;
}

/* The atom with the repetitions that follow it. */
static uint32_t parse_suffix(parser *p, uint32_t atom)
{
    while (p->at < p->end) {
        int32_t min = 0, max = -1;

        if (*p->at == '{') {
            if (!parse_count(p, &min, &max))
                break;
        } else if (*p->at == '*' || *p->at == '+' || *p->at == '?') {
            min = *p->at == '+';
            max = *p->at == '?' ? 1 : -1;
            p->at++;
        } else {
            break;
        }
        p->at += p->at < p->end && *p->at == '?'; /* lazy: the same to a full match */
        atom = new_node(p, (node){ .kind = NODE_REPEAT, .a = atom, .min = min, .max = max });
    }
    return atom;
}

static uint32_t parse_sequence(parser *p)
{
    uint32_t joined = new_node(p, (node){ .kind = NODE_EMPTY });

    while (p->at < p->end && *p->at != '|' && *p->at != ')') {
        const uint32_t next = parse_suffix(p, parse_atom(p));
        joined = new_node(p, (node){ .kind = NODE_JOIN, .a = joined, .b = next });
    }
    return joined;
}

static uint32_t parse_either(parser *p)
{
    uint32_t either = parse_sequence(p);

    while (p->at < p->end && *p->at == '|') {
        uint32_t other;

        p->at++;
        other = parse_sequence(p);
        either = new_node(p, (node){ .kind = NODE_EITHER, .a = either, .b = other });
    }
    return either;
}

uint32_t regex_parse(parser *p)
{
    const uint32_t root = parse_either(p);

    if (p->at < p->end)
        return regex_fail(p, INLAY_INVALID_MODEL, ") without (");
    return root;
}
