#include "texts/grammar/grammar_gbnf.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_GROUPS = 64, MAX_REPEAT = 2000, LAST_CHARACTER = 0x10ffff };

typedef struct named_rule {
    const char *name; /* [bytes] in the text */
    size_t bytes;
    uint32_t rule;
    bool defined;
} named_rule;

typedef struct gbnf_reader {
    struct grammar *grammar;
    const char *start, *at, *end;
    named_rule *rules; /* [count] */
    uint32_t count, groups;
    char *why;
} gbnf_reader;

static bool fail(const gbnf_reader *reader, const char *what)
{
    uint32_t line = 1;

    for (const char *at = reader->start; at < reader->at; at++)
        line += *at == '\n';
    if (reader->why[0] == '\0')
        (void)snprintf(reader->why, GRAMMAR_WHY_BYTES, "the grammar, line %u: %s", line, what);
    return false;
}

static void skip_blanks(gbnf_reader *reader)
{
    for (;;) {
        while (isspace((unsigned char)*reader->at))
            reader->at++;
        if (*reader->at != '#')
            return;
        reader->at += strcspn(reader->at, "\n");
    }
}

static size_t name_bytes(const char *text)
{
    size_t bytes = 0;

    while (isalnum((unsigned char)text[bytes]) || text[bytes] == '-' || text[bytes] == '_')
        bytes++;
    return bytes;
}

/* Whether a new rule begins here. */
static bool at_rule(const gbnf_reader *reader)
{
    size_t bytes = name_bytes(reader->at);

    if (bytes == 0)
        return false;
    while (reader->at[bytes] == ' ' || reader->at[bytes] == '\t')
        bytes++;
    return strncmp(reader->at + bytes, "::=", 3) == 0;
}

static named_rule *find_rule(gbnf_reader *reader, const char *name, size_t bytes)
{
    (void)grammar_spend(reader->grammar, 1 + reader->count / 8);
    for (uint32_t i = 0; i < reader->count; i++)
        if (reader->rules[i].bytes == bytes && memcmp(reader->rules[i].name, name, bytes) == 0)
            return &reader->rules[i];
    if (!LIST_GROW(reader->rules, reader->count)) {
        (void)fail(reader, "out of memory");
        return NULL;
    }
    reader->rules[reader->count] = (named_rule){ name, bytes, grammar_rule(reader->grammar), false };
    return &reader->rules[reader->count++];
}

/* A character of a text or class, with escapes. */
static bool read_char(gbnf_reader *reader, uint32_t *out)
{
    static const char controls[] = "n\nt\tr\r";
    size_t bytes;

    if (*reader->at == '\\') {
        const char c = reader->at[1];
        const char *control = c != '\0' ? strchr(controls, c) : NULL;
        int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;

        reader->at += 2;
        *out = 0;
        for (int i = 0; i < digits; i++, reader->at++) {
            const char digit = (char)tolower((unsigned char)*reader->at);

            if (!isxdigit((unsigned char)digit))
                return fail(reader, "an escape without its digits");
            *out = *out * 16 + (uint32_t)(isdigit((unsigned char)digit) ? digit - '0' : digit - 'a' + 10);
        }
        if (digits > 0)
            return *out <= LAST_CHARACTER || fail(reader, "no such character");
        if (control != NULL && (control - controls) % 2 == 0) {
            *out = (unsigned char)control[1];
            return true;
        }
        *out = (unsigned char)c;
        return (c != '\0' && strchr("\\\"[]-^", c) != NULL) || fail(reader, "this escape is not supported");
    }
    bytes = utf8_get(reader->at, (size_t)(reader->end - reader->at), out);
    if (bytes == 0)
        return fail(reader, "invalid UTF-8");
    reader->at += bytes;
    return true;
}

static bool read_text(gbnf_reader *reader, grammar_node *out)
{
    *out = grammar_empty(reader->grammar);
    reader->at++;
    while (*reader->at != '"') {
        uint32_t character;
        char bytes[4];

        if (*reader->at == '\0' || *reader->at == '\n')
            return fail(reader, "a text without its end");
        if (!read_char(reader, &character))
            return false;
        *out =
            grammar_sequence(reader->grammar, *out, grammar_text(reader->grammar, bytes, utf8_put(bytes, character)));
    }
    reader->at++;
    return true;
}

/* [...] or [^...]. The ranges of a complement are removed from that of all characters one by one. */
static bool read_class(gbnf_reader *reader, grammar_node *out)
{
    enum { MAX_RANGES = 256 };
    uint32_t low[MAX_RANGES], high[MAX_RANGES], count = 0;
    bool inverted = reader->at[1] == '^';
    uint32_t next = 0;

    reader->at += 1 + inverted;
    while (*reader->at != ']') {
        if (*reader->at == '\0' || count == MAX_RANGES)
            return fail(reader, "a class without its ']', or of more than 256 ranges");
        if (!read_char(reader, &low[count]))
            return false;
        high[count] = low[count];
        if (reader->at[0] == '-' && reader->at[1] != ']') {
            reader->at++;
            if (!read_char(reader, &high[count]))
                return false;
        }
        if (high[count] < low[count])
            return fail(reader, "a range that is out of order");
        count++;
    }
    reader->at++;
    *out = grammar_never(reader->grammar);
    for (uint32_t i = 0; !inverted && i < count; i++)
        *out = grammar_either(reader->grammar, *out, grammar_chars(reader->grammar, low[i], high[i]));
    while (inverted && next <= LAST_CHARACTER) { /* from `next` to the first range after it */
        uint32_t until = LAST_CHARACTER + 1, behind = next;

        for (uint32_t i = 0; i < count; i++) {
            if (low[i] <= next && high[i] >= behind)
                behind = high[i] + 1;
            else if (low[i] > next && low[i] < until)
                until = low[i];
        }
        if (behind > next) {
            next = behind;
            continue;
        }
        *out = grammar_either(reader->grammar, *out, grammar_chars(reader->grammar, next, until - 1));
        next = until;
    }
    return true;
}

static bool read_number(gbnf_reader *reader, uint32_t *out)
{
    char *end;
    unsigned long number = isdigit((unsigned char)*reader->at) ? strtoul(reader->at, &end, 10) : MAX_REPEAT + 1;

    if (number > MAX_REPEAT)
        return fail(reader, "a number of repetitions from 0 to 2000 belongs here");
    reader->at = end;
    *out = (uint32_t)number;
    return true;
}

static bool read_repeats(gbnf_reader *reader, grammar_node *node)
{
    while (*reader->at != '\0' && strchr("*+?{", *reader->at) != NULL) {
        const char c = *reader->at++;
        uint32_t least = c == '+', most = c == '?' ? 1 : GRAMMAR_MANY;

        if (c == '{') {
            if (*reader->at != ',' && !read_number(reader, &least))
                return false;
            most = least;
            if (*reader->at == ',') {
                reader->at++;
                most = GRAMMAR_MANY;
                if (*reader->at != '}' && !read_number(reader, &most))
                    return false;
            }
            if (*reader->at != '}' || most < least)
                return fail(reader, "a number of repetitions without its '}', or out of order");
            reader->at++;
        }
        *node = grammar_repeat(reader->grammar, *node, least, most);
    }
    return true;
}

static bool read_either(gbnf_reader *reader, grammar_node *out);

static bool read_item(gbnf_reader *reader, grammar_node *out)
{
    size_t bytes = name_bytes(reader->at);
    named_rule *rule;

    if (*reader->at == '"')
        return read_text(reader, out);
    if (*reader->at == '[')
        return read_class(reader, out);
    if (*reader->at == '.') {
        reader->at++;
        *out = grammar_chars(reader->grammar, 0, LAST_CHARACTER);
        return true;
    }
    if (*reader->at == '(') {
        if (reader->groups == MAX_GROUPS)
            return fail(reader, "more than 64 nested groups");
        reader->at++;
        reader->groups++;
        if (!read_either(reader, out))
            return false;
        reader->groups--;
        if (*reader->at != ')')
            return fail(reader, "a group without its ')'");
        reader->at++;
        return true;
    }
    if (bytes == 0)
        return fail(reader, "a text, a class, a rule or a group belongs here");
    rule = find_rule(reader, reader->at, bytes);
    if (rule == NULL)
        return false;
    reader->at += bytes;
    *out = grammar_refer(reader->grammar, rule->rule);
    return true;
}

/* Alternatives, up to the end of the rule or group. */
static bool read_either(gbnf_reader *reader, grammar_node *out)
{
    grammar_node all = grammar_never(reader->grammar), sequence = grammar_empty(reader->grammar);

    for (;;) {
        bool ends;
        grammar_node item;

        skip_blanks(reader);
        ends = *reader->at == '\0' || *reader->at == ')' || (reader->groups == 0 && at_rule(reader));
        if (ends || *reader->at == '|') {
            all = grammar_either(reader->grammar, all, sequence);
            *out = all;
            if (ends)
                return true;
            reader->at++;
            sequence = grammar_empty(reader->grammar);
            continue;
        }
        if (!read_item(reader, &item) || !read_repeats(reader, &item))
            return false;
        sequence = grammar_sequence(reader->grammar, sequence, item);
    }
}

static bool read_rule(gbnf_reader *reader)
{
    size_t bytes = name_bytes(reader->at);
    named_rule *rule;
    grammar_node node;
    uint32_t number;

    if (!at_rule(reader))
        return fail(reader, "a rule 'name ::= ...' belongs here");
    rule = find_rule(reader, reader->at, bytes);
    if (rule == NULL)
        return false;
    if (rule->defined)
        return fail(reader, "this rule is defined twice");
    rule->defined = true;
    number = rule->rule;
    reader->at = strstr(reader->at, "::=") + 3;
    if (!read_either(reader, &node)) /* may move the rules */
        return false;
    grammar_define(reader->grammar, number, node);
    skip_blanks(reader);
    return true;
}

bool grammar_gbnf(struct grammar *grammar, const char *text, char *why)
{
    gbnf_reader reader = { .grammar = grammar, .start = text, .at = text, .end = text + strlen(text), .why = why };
    bool good = true;

    why[0] = '\0';
    (void)find_rule(&reader, "root", 4); /* the first rule is the language */
    skip_blanks(&reader);
    while (good && !grammar_has_ended(grammar, why) && *reader.at != '\0')
        good = read_rule(&reader);
    good = good && !grammar_has_ended(grammar, NULL);
    for (uint32_t i = 0; good && i < reader.count; i++) {
        if (reader.rules[i].defined)
            continue;
        (void)snprintf(why, GRAMMAR_WHY_BYTES, "the grammar has no rule '%.*s'",
                       reader.rules[i].bytes < 60 ? (int)reader.rules[i].bytes : 60, reader.rules[i].name);
        good = false;
    }
    free(reader.rules);
    return good;
}
