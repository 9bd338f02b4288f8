/* Strings: lengths, patterns and formats, and values that are excluded. */
#include "texts/grammar/schema_internal.h"
#include "texts/grammar/grammar_regex.h"
#include <stdlib.h>
#include <string.h>

#define DATE                                                                                                           \
    "(?:(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-"                                                       \
    "(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)|"               \
    "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29)"
#define CLOCK_TIME "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?"
#define ZONE "(?:Z|[-+](?:[01][0-9]|2[0-3]):[0-5][0-9])"
/* Used if the schema also has a pattern, which may forbid what RFC 3339 requires, as zod's pattern of local times
 * forbids the zone. */
#define SOME_TIME "(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\\.[0-9]{1,9})?)?" ZONE "?"
/* A label of a host that is not a punycode. The last one of a host begins with a letter, so that it is not a number. */
#define LABEL "[a-zA-Z0-9]{1,30}(?:-[a-zA-Z0-9]{1,14}){0,2}"
#define LAST_LABEL "[a-zA-Z][a-zA-Z0-9]{0,29}(?:-[a-zA-Z0-9]{1,14}){0,2}"
#define HOST "(?:" LABEL "\\.){0,3}" LAST_LABEL
/* For schemas that also have a pattern: the product of both expressions is large if hosts are long. */
#define SHORT_HOST "(?:[a-zA-Z0-9]{1,12}(?:-[a-zA-Z0-9]{1,8})?\\.){0,2}[a-zA-Z][a-zA-Z0-9]{0,11}"
#define MAILBOX "[a-zA-Z0-9_+%-]{1,24}(?:\\.[a-zA-Z0-9_+%-]{1,24}){0,1}@(?:" LABEL "\\.){1,3}[a-zA-Z]{2,24}"
#define BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define GROUP "[0-9a-fA-F]{1,4}"
#define IPV6                                                                                                           \
    "(?:" GROUP ":){7}" GROUP "|(?:" GROUP ":){1,7}:|(?:" GROUP ":){1,6}:" GROUP "|(?:" GROUP ":){1,5}(?::" GROUP      \
    "){2}|(?:" GROUP ":){1,4}(?::" GROUP "){3}|(?:" GROUP ":){1,3}(?::" GROUP "){4}|(?:" GROUP ":){1,2}(?::" GROUP     \
    "){5}|" GROUP ":(?::" GROUP "){6}|:(?::" GROUP "){1,7}|::"
#define PATH_CHAR "(?:[a-zA-Z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
#define URI                                                                                                            \
    "[a-zA-Z][a-zA-Z0-9+.-]{0,15}://" HOST "(?::[1-9][0-9]{0,3})?(?:/" PATH_CHAR "*)*(?:\\?(?:" PATH_CHAR              \
    "|[/?])*)?(?:#(?:" PATH_CHAR "|[/?])*)?"
#define UUID "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
#define SECONDS "[0-9]{1,9}S"
#define MINUTES "[0-9]{1,9}M(?:" SECONDS ")?"
#define CLOCK "T(?:[0-9]{1,9}H(?:" MINUTES ")?|" MINUTES "|" SECONDS ")"
#define DAYS "[0-9]{1,9}D"
#define MONTHS "[0-9]{1,9}M(?:" DAYS ")?"
#define DURATION "P(?:[0-9]{1,9}W|(?:[0-9]{1,9}Y(?:" MONTHS ")?|" MONTHS "|" DAYS ")(?:" CLOCK ")?|" CLOCK ")"
#define POINTER "(?:/(?:[^~/]|~[01])*)*"
/* Without groups: characters, escapes and classes, each possibly repeated. */
#define EXPRESSION                                                                                                     \
    "(?:(?:[a-zA-Z0-9 "                                                                                                \
    "_/:;,@#%&=<>!~'\"-]|\\\\[dDwWsS.+*?()\\[\\]{}|^$\\\\/]|\\.|\\[\\^?[a-zA-Z0-9_]+\\])[*+?]?|[|^$])*"

/* For `not`: a set of texts that has all of a format, also those that its expression lacks. The last label of a host
 * is not a number (RFC 1123, 2.1). */
#define ANY_DATE "[0-9]{4}-[0-9]{2}-[0-9]{2}"
#define ANY_HOST "(?:[a-zA-Z0-9_-]*\\.)*[a-zA-Z0-9_-]*[a-zA-Z_-][a-zA-Z0-9_-]*\\.?"
#define ANY_IPV6 "[0-9a-fA-F:.]*:[0-9a-fA-F:.]*(?:%.*)?"
#define ANY_URI "[a-zA-Z][a-zA-Z0-9+.-]*:.*"

static const struct {
    const char *name, *expression, *with_pattern; /* with_pattern: NULL: the same */
    const char *cover;                            /* NULL: not supported within `not` */
} formats[] = { { "date", DATE, NULL, ANY_DATE },
                { "time", CLOCK_TIME ZONE, SOME_TIME, "[0-9]{2}:.*" },
                { "date-time", DATE "T" CLOCK_TIME ZONE, DATE "T" SOME_TIME, ANY_DATE ".+" },
                { "duration", DURATION, NULL, "P.*" },
                { "email", MAILBOX, NULL, "[^@]*@[\\s\\S]*" },
                { "idn-email", MAILBOX, NULL, "[^@]*@[\\s\\S]*" },
                { "hostname", HOST, SHORT_HOST, ANY_HOST },
                { "idn-hostname", HOST, NULL, NULL },
                { "ipv4", "(?:" BYTE "\\.){3}" BYTE, NULL, "[0-9.]+" },
                { "ipv6", IPV6, NULL, ANY_IPV6 },
                { "uri", URI, NULL, ANY_URI },
                { "iri", URI, NULL, ANY_URI },
                { "uri-reference", URI, NULL, NULL },
                { "iri-reference", URI, NULL, NULL },
                { "uri-template", URI, NULL, NULL },
                { "uuid", UUID, NULL, UUID },
                { "json-pointer", POINTER, NULL, "(?:/.*)?" },
                { "relative-json-pointer", "(?:0|[1-9][0-9]{0,8})(?:#|" POINTER ")", NULL, "[0-9].*" },
                { "regex", EXPRESSION, NULL, NULL } };

const char *schema_format(const char *format, bool has_pattern)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(format, formats[i].name) == 0)
            return has_pattern && formats[i].with_pattern != NULL ? formats[i].with_pattern : formats[i].expression;
    return NULL;
}

const char *schema_format_cover(const char *format)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(format, formats[i].name) == 0)
            return formats[i].cover;
    return NULL;
}

grammar_node schema_character(const schema_reader *reader)
{
    return grammar_share(reader->grammar, schema_regex(reader,
                                                       "[^\"\\\\\\x00-\\x1f]|\\\\[\"\\\\/bfnrt]|"
                                                       "\\\\u(?:[0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})",
                                                       false));
}

grammar_node schema_string_of(const schema_reader *reader, uint32_t least, uint32_t most)
{
    return schema_join(reader, schema_words(reader, "\""),
                       schema_join(reader, grammar_repeat(reader->grammar, reader->character, least, most),
                                   schema_words(reader, "\"")));
}

enum { MAX_TERMS = 15 };

/* Expressions of the contents of strings, in which characters have at most one form. */
typedef struct string_terms {
    grammar_node with[MAX_TERMS + 1], without[MAX_TERMS];
    uint32_t with_count, without_count;
} string_terms;

static bool add_expression(const schema_reader *reader, const char *expression, grammar_node *terms, uint32_t *count)
{
    char why[GRAMMAR_WHY_BYTES];

    if (*count == MAX_TERMS)
        return schema_fail(reader, "pattern", "more than 15 for one text");
    return grammar_regex(reader->grammar, expression, true, true, &terms[(*count)++], why) ||
           schema_fail(reader, "pattern", why);
}

static bool add_pattern(const schema_reader *reader, const json_t *pattern, grammar_node *terms, uint32_t *count)
{
    if (pattern == NULL)
        return true;
    return json_is_string(pattern) ? add_expression(reader, json_string_value(pattern), terms, count)
                                   : schema_fail(reader, "pattern", "not a text");
}

/* The end of the group that begins at `at`, behind its ')'; outside of groups (at NULL), the first '|' of `text`.
 * NULL: none. */
static const char *find_end(const char *text, const char *at)
{
    uint32_t depth = 0;

    for (const char *c = at != NULL ? at : text; *c != '\0'; c++) {
        if (*c == '\\' && c[1] != '\0') {
            c++;
        } else if (*c == '[') {
            while (*++c != '\0' && *c != ']')
                c += *c == '\\' && c[1] != '\0';
            if (*c == '\0')
                return NULL;
        } else if (*c == '|' && depth == 0 && at == NULL) {
            return c;
        } else if (*c == '(') {
            depth++;
        } else if (*c == ')' && depth > 0 && --depth == 0 && at != NULL) {
            return c + 1;
        }
    }
    return NULL;
}

/* Adds a pattern. Look-aheads at its beginning become expressions of their own: ^(?=X)Y is ^(?:X) and ^Y. So what the
 * other keywords exclude need not be part of a product of X and Y. */
static bool add_own_pattern(const schema_reader *reader, const json_t *pattern, string_terms *terms)
{
    const char *text = json_string_value(pattern), *rest, *end;
    char *copy = text != NULL ? malloc(strlen(text) + 8) : NULL;
    bool good = true;

    if (text == NULL || text[0] != '^' || find_end(text, NULL) != NULL) {
        free(copy);
        return add_pattern(reader, pattern, terms->with, &terms->with_count);
    }
    if (copy == NULL)
        return schema_fail(reader, "pattern", "out of memory");
    for (rest = text + 1; good && rest[0] == '(' && rest[1] == '?' && (rest[2] == '=' || rest[2] == '!'); rest = end) {
        end = find_end(text, rest);
        if (end == NULL || (*end != '\0' && strchr("*+?{", *end) != NULL))
            break; /* the expression is wrong, which grammar_regex() says */
        (void)sprintf(copy, "^(?:%.*s", (int)(end - rest - 3), rest + 3);
        good = rest[2] == '=' ? add_expression(reader, copy, terms->with, &terms->with_count)
                              : add_expression(reader, copy, terms->without, &terms->without_count);
    }
    (void)sprintf(copy, "^%s", rest);
    good = good && add_expression(reader, copy, terms->with, &terms->with_count);
    free(copy);
    return good;
}

static bool add_format(const schema_reader *reader, const json_t *part, string_terms *terms)
{
    const char *format = json_string_value(json_object_get(part, "format"));
    const char *expression = format != NULL ? schema_format(format, json_object_get(part, "pattern") != NULL) : NULL;

    if (expression == NULL) /* other formats are annotations, as the standard has it by default */
        return true;
    if (terms->with_count == MAX_TERMS)
        return schema_fail(reader, "format", "more than 15 for one text");
    terms->with[terms->with_count++] = schema_regex(reader, expression, true);
    return true;
}

/* Adds the texts of a format that `not` excludes. */
static bool add_other_format(const schema_reader *reader, const json_t *excluded, string_terms *terms)
{
    const char *format = json_string_value(json_object_get(excluded, "format"));

    if (format == NULL)
        return excluded == NULL || json_object_get(excluded, "format") == NULL ||
               schema_fail(reader, "format", "not a text");
    if (terms->without_count == MAX_TERMS)
        return schema_fail(reader, "format", "more than 15 for one text");
    if (schema_format(format, false) != NULL && schema_format_cover(format) == NULL)
        return schema_fail(reader, "format", "this one is not supported within 'not'");
    /* A format without a meaning takes every text. */
    terms->without[terms->without_count++] = schema_regex(
        reader, schema_format(format, false) != NULL ? schema_format_cover(format) : "(?:.|[\\n\\r\\u2028\\u2029])*",
        true);
    return true;
}

/* Adds the texts among the values. */
static bool add_values(const schema_reader *reader, const json_t *values, string_terms *terms)
{
    const grammar_node all = schema_literals(reader, values, true);

    if (grammar_is_never(reader->grammar, all))
        return true;
    if (terms->without_count == MAX_TERMS)
        return schema_fail(reader, "not", "more than 15 for one text");
    terms->without[terms->without_count++] = all;
    return true;
}

bool schema_strings(const schema_reader *reader, const schema_list *list, const json_t *excluded, grammar_node *out)
{
    uint32_t least = 0, most = GRAMMAR_MANY;
    string_terms terms = { .with_count = 0 };

    if (!schema_count(reader, list, "minLength", true, &least) ||
        !schema_count(reader, list, "maxLength", false, &most))
        return false;
    for (uint32_t i = 0; i < list->count; i++) {
        const json_t *part = list->parts[i];

        if (!add_own_pattern(reader, json_object_get(part, "pattern"), &terms) || !add_format(reader, part, &terms) ||
            !add_pattern(reader, json_object_get(schema_plain_not(part), "pattern"), terms.without,
                         &terms.without_count) ||
            !add_other_format(reader, schema_plain_not(part), &terms))
            return false;
    }
    if (!add_values(reader, excluded, &terms))
        return false;
    if (most < least) {
        *out = grammar_never(reader->grammar);
        return true;
    }
    if (terms.with_count == 0 && terms.without_count == 0) {
        *out = schema_string_of(reader, least, most);
        return true;
    }
    if (terms.with_count == 0 || least > 0 || most != GRAMMAR_MANY)
        terms.with[terms.with_count++] =
            grammar_repeat(reader->grammar, schema_regex(reader, ".|[\\n\\r\\u2028\\u2029]", true), least, most);
    if (!schema_product(reader, "pattern", terms.with, terms.with_count, terms.without, terms.without_count, out))
        return false;
    *out = schema_join(reader, schema_words(reader, "\""), schema_join(reader, *out, schema_words(reader, "\"")));
    return true;
}
