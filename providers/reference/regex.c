/* The compiler and the matcher of regex.h. Parsing makes a tree, because counted repetition emits a part several times;
 * the tree becomes a program of characters, splits, jumps and assertions. */
#include "regex.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 200, MAX_REPEAT = 1000, MAX_PROGRAM = 100000, MAX_NODES = 20000 };
enum { NODE_EMPTY, NODE_SET, NODE_JOIN, NODE_EITHER, NODE_REPEAT, NODE_ASSERT };
enum { OP_SET, OP_SPLIT, OP_JUMP, OP_ASSERT, OP_MATCH };
enum { ASSERT_BEGIN, ASSERT_END, ASSERT_WORD, ASSERT_NO_WORD };
enum { FLAG_FOLD = 1, FLAG_DOT_ALL = 2 };

typedef struct range {
    uint32_t low, high;
} range;

/* ranges[first .. first + count - 1], or all but those. */
typedef struct set {
    uint32_t first, count;
    bool negated;
} set;

typedef struct node {
    uint32_t kind;
    uint32_t a, b;    /* children; of SET the set, of ASSERT which */
    int32_t min, max; /* of REPEAT; max -1 = no bound */
} node;

typedef struct op {
    uint32_t kind;
    uint32_t a, b; /* targets; of SET the set, of ASSERT which */
} op;

struct regex {
    op *program;
    uint32_t program_count, program_room;
    range *ranges;
    uint32_t range_count, range_room;
    set *sets;
    uint32_t set_count, set_room;
};

typedef struct parser {
    regex *re;
    const char *at, *end, *start;
    node *nodes;
    uint32_t node_count, node_room;
    uint32_t depth, flags;
    inlay_diag *diag;
    inlay_status status; /* the first failure; parsing goes on to its end with empty nodes */
} parser;

static uint32_t fail(parser *p, inlay_status status, const char *what)
{
    if (p->status == INLAY_OK)
        p->status =
            inlay_fail(p->diag, status, "pattern '%.200s', character %d: %s", p->start, (int)(p->at - p->start), what);
    p->at = p->end;
    return 0;
}

/* Makes room for one more element; false when memory is out. */
static bool grow(void *array, uint32_t *room, uint32_t count, size_t bytes)
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

/* ------------------------------------------------------------------ characters */

/* The code point at text, and its bytes; what is no UTF-8 is a byte above the code points. */
static uint32_t decode(const char *text, const char *end, uint32_t *out_bytes)
{
    const unsigned char *s = (const unsigned char *)text;
    const uint32_t lead = s[0], bytes = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    uint32_t code = bytes == 1 ? lead : lead & (0x7fu >> bytes);

    *out_bytes = 1;
    if (bytes == 0 || lead > 0xf4 || (size_t)(end - text) < bytes)
        return 0x110000u + lead;
    for (uint32_t i = 1; i < bytes; i++) {
        if ((s[i] & 0xc0u) != 0x80u)
            return 0x110000u + lead;
        code = code << 6 | (s[i] & 0x3fu);
    }
    *out_bytes = bytes;
    return code;
}

static bool is_word(uint32_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

static bool set_has(const regex *re, uint32_t which, uint32_t c)
{
    const set *s = &re->sets[which];

    for (uint32_t i = 0; i < s->count; i++)
        if (c >= re->ranges[s->first + i].low && c <= re->ranges[s->first + i].high)
            return !s->negated;
    return s->negated;
}

/* ------------------------------------------------------------------ sets */

static void add_range(parser *p, uint32_t low, uint32_t high)
{
    regex *re = p->re;

    if (!grow(&re->ranges, &re->range_room, re->range_count, sizeof *re->ranges)) {
        fail(p, INLAY_OUT_OF_MEMORY, "no memory");
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
        return fail(p, INLAY_LIMIT_EXCEEDED, "the pattern is too long");
    if (!grow(&p->nodes, &p->node_room, p->node_count, sizeof *p->nodes))
        return fail(p, INLAY_OUT_OF_MEMORY, "no memory");
    p->nodes[p->node_count] = n;
    return p->node_count++;
}

/* A node for the ranges added since first. */
static uint32_t set_node(parser *p, uint32_t first, bool negated)
{
    regex *re = p->re;

    if (!grow(&re->sets, &re->set_room, re->set_count, sizeof *re->sets))
        return fail(p, INLAY_OUT_OF_MEMORY, "no memory");
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
        return fail(p, INLAY_INVALID_MODEL, "\\x needs hexadecimal digits");
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
    if (is_word((uint32_t)c) || (c & 0x80) != 0)
        return fail(p, INLAY_UNSUPPORTED, "this escape is not supported");
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
    fail(p, INLAY_INVALID_MODEL, "no such character class");
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
    c = decode(p->at, p->end, &bytes);
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
                return fail(p, INLAY_INVALID_MODEL, "a range that runs backwards");
        }
        add_folded(p, low, high);
    }
    if (!closed)
        return fail(p, INLAY_INVALID_MODEL, "[ without ]");
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
            fail(p, INLAY_INVALID_MODEL, "a group's name must stand in < and >");
        else if (p->at[1] == '=' || p->at[1] == '!')
            fail(p, INLAY_UNSUPPORTED, "lookbehind is not supported");
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
    fail(p, INLAY_UNSUPPORTED, "this kind of group is not supported");
}

static uint32_t parse_group(parser *p)
{
    const uint32_t flags = p->flags;
    bool flags_only = false;
    uint32_t inside;

    if (++p->depth > MAX_DEPTH)
        return fail(p, INLAY_LIMIT_EXCEEDED, "groups are nested too deeply");
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
        return fail(p, INLAY_INVALID_MODEL, "( without )");
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
        c = decode(p->at, p->end, &bytes);
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
        return fail(p, INLAY_INVALID_MODEL, "a backslash at the end");
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
        return fail(p, INLAY_INVALID_MODEL, "nothing to repeat");
    default:
        c = decode(p->at, p->end, &bytes);
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
        fail(p, INLAY_INVALID_MODEL, "a repeat count is too large, or they run backwards");
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

/* ------------------------------------------------------------------ the program */

static uint32_t emit(parser *p, op o)
{
    regex *re = p->re;

    if (re->program_count >= MAX_PROGRAM)
        return fail(p, INLAY_LIMIT_EXCEEDED, "the pattern is too large");
    if (!grow(&re->program, &re->program_room, re->program_count, sizeof *re->program))
        return fail(p, INLAY_OUT_OF_MEMORY, "no memory");
    re->program[re->program_count] = o;
    return re->program_count++;
}

static void emit_node(parser *p, uint32_t which);

static void emit_repeat(parser *p, const node *n)
{
    regex *re = p->re;
    uint32_t split, exits[MAX_REPEAT + 1], exit_count = 0;

    for (int32_t i = 0; i < n->min && p->status == INLAY_OK; i++)
        emit_node(p, n->a);
    if (n->max < 0) { /* split: once more, or on */
        split = emit(p, (op){ .kind = OP_SPLIT });
        emit_node(p, n->a);
        emit(p, (op){ .kind = OP_JUMP, .a = split });
        if (p->status == INLAY_OK)
            re->program[split] = (op){ OP_SPLIT, split + 1, re->program_count };
        return;
    }
    for (int32_t i = n->min; i < n->max && p->status == INLAY_OK; i++) {
        exits[exit_count++] = emit(p, (op){ .kind = OP_SPLIT });
        emit_node(p, n->a);
    }
    for (uint32_t i = 0; i < exit_count && p->status == INLAY_OK; i++)
        re->program[exits[i]] = (op){ OP_SPLIT, exits[i] + 1, re->program_count };
}

/* Recursion goes as deep as a sequence is long, which MAX_NODES bounds. */
static void emit_node(parser *p, uint32_t which)
{
    const node n = p->nodes[which];
    uint32_t split, jump;

    if (p->status != INLAY_OK)
        return;
    switch (n.kind) {
    case NODE_SET:
        emit(p, (op){ .kind = OP_SET, .a = n.a });
        break;
    case NODE_ASSERT:
        emit(p, (op){ .kind = OP_ASSERT, .a = n.a });
        break;
    case NODE_JOIN:
        emit_node(p, n.a);
        emit_node(p, n.b);
        break;
    case NODE_EITHER:
        split = emit(p, (op){ .kind = OP_SPLIT });
        emit_node(p, n.a);
        jump = emit(p, (op){ .kind = OP_JUMP });
        if (p->status == INLAY_OK)
            p->re->program[split] = (op){ OP_SPLIT, split + 1, p->re->program_count };
        emit_node(p, n.b);
        if (p->status == INLAY_OK)
            p->re->program[jump].a = p->re->program_count;
        break;
    case NODE_REPEAT:
        emit_repeat(p, &n);
        break;
    default:
        break;
    }
}

void regex_destroy(regex *re)
{
    if (re == NULL)
        return;
    free(re->program);
    free(re->ranges);
    free(re->sets);
    free(re);
}

inlay_status regex_create(const char *pattern, size_t bytes, regex **out_regex, inlay_diag *diag)
{
    parser p = { .at = pattern, .end = pattern + bytes, .start = pattern, .diag = diag };
    uint32_t root;

    *out_regex = NULL;
    p.re = calloc(1, sizeof *p.re);
    if (p.re == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a pattern");
    root = parse_either(&p);
    if (p.at < p.end)
        fail(&p, INLAY_INVALID_MODEL, ") without (");
    if (p.status == INLAY_OK)
        emit_node(&p, root);
    if (p.status == INLAY_OK)
        emit(&p, (op){ .kind = OP_MATCH });
    free(p.nodes);
    if (p.status != INLAY_OK) {
        regex_destroy(p.re);
        return p.status;
    }
    *out_regex = p.re;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ matching */

/* Two sets of threads (places in the program that read a character next), a stack, and when each place was last seen.
 */
typedef struct threads {
    uint32_t *now, *next, *stack;
    uint64_t *seen;
    uint32_t now_count, next_count;
    bool matched; /* a thread reached the end of the program at this place of the text */
} threads;

size_t regex_scratch_bytes(const regex *re)
{
    return (size_t)re->program_count * (sizeof(uint64_t) + 4 * sizeof(uint32_t)) + 4 * sizeof(uint64_t);
}

static bool holds(uint32_t which, bool at_begin, bool at_end, bool word_before, bool word_after)
{
    switch (which) {
    case ASSERT_BEGIN:
        return at_begin;
    case ASSERT_END:
        return at_end;
    case ASSERT_WORD:
        return word_before != word_after;
    default:
        return word_before == word_after;
    }
}

/* Follows splits, jumps and assertions from place `at`, adding what reads a character to t->next. */
static void follow(const regex *re, threads *t, uint32_t at, uint64_t stamp, const bool *where)
{
    uint32_t depth = 0;

    t->stack[depth++] = at;
    while (depth > 0) {
        const uint32_t pc = t->stack[--depth];
        const op *o = &re->program[pc];

        if (t->seen[pc] == stamp)
            continue;
        t->seen[pc] = stamp;
        switch (o->kind) {
        case OP_SPLIT:
            t->stack[depth++] = o->a;
            t->stack[depth++] = o->b;
            break;
        case OP_JUMP:
            t->stack[depth++] = o->a;
            break;
        case OP_ASSERT:
            if (holds(o->a, where[0], where[1], where[2], where[3]))
                t->stack[depth++] = pc + 1;
            break;
        case OP_MATCH:
            t->matched = true;
            break;
        default:
            t->next[t->next_count++] = pc;
        }
    }
}

bool regex_full_match(const regex *re, const char *text, size_t bytes, void *scratch)
{
    const uint32_t n = re->program_count;
    const char *at = text, *end = text + bytes;
    threads t = { .seen = scratch };
    uint64_t stamp = 1;
    uint32_t before = 0;

    memset(t.seen, 0, n * sizeof *t.seen);
    t.now = (uint32_t *)(void *)(t.seen + n);
    t.next = t.now + n;
    t.stack = t.next + n; /* each place is expanded once a step and pushes two: 2 n + 1 fit */
    for (;; stamp++) {
        uint32_t length = 0, c = 0, *swap;
        bool where[4];

        if (at < end)
            c = decode(at, end, &length);
        where[0] = at == text;
        where[1] = at == end;
        where[2] = at > text && is_word(before);
        where[3] = at < end && is_word(c);
        t.matched = false;
        t.next_count = 0;
        if (stamp == 1) {
            follow(re, &t, 0, stamp, where);
        } else {
            /* now holds the places behind the characters that were read. */
            for (uint32_t i = 0; i < t.now_count; i++)
                follow(re, &t, t.now[i], stamp, where);
        }
        if (at == end)
            return t.matched;
        t.now_count = 0;
        for (uint32_t i = 0; i < t.next_count; i++)
            if (set_has(re, re->program[t.next[i]].a, c))
                t.next[t.now_count++] = t.next[i] + 1;
        if (t.now_count == 0)
            return false;
        swap = t.now;
        t.now = t.next;
        t.next = swap;
        before = c;
        at += length;
    }
}
