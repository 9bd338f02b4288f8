#include "serve/grammar/grammar_schema.h"
#include "serve/grammar/grammar_regex.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NESTING = 100, MAX_DIGITS = 15, MAX_COUNT = 1000 };

#define LARGEST INT64_C(999999999999999) /* MAX_DIGITS digits; a double has every such integer */

typedef struct schema_ref {
    const char *pointer; /* "#/$defs/name" */
    uint32_t rule;
} schema_ref;

typedef struct schema_reader {
    struct grammar *grammar;
    json_t *root;
    schema_ref *refs; /* [ref_count] */
    uint32_t ref_count, nesting;
    uint32_t value, object; /* rules of any value and any object; made when first needed */
    bool has_value;
    char *why;
} schema_reader;

static bool fail(const schema_reader *reader, const char *keyword, const char *what)
{
    if (reader->why[0] == '\0')
        (void)snprintf(reader->why, GRAMMAR_WHY_BYTES, "the schema, '%.60s': %.120s", keyword, what);
    return false;
}

static grammar_node join(schema_reader *reader, grammar_node first, grammar_node second)
{
    return grammar_sequence(reader->grammar, first, second);
}

static grammar_node words(schema_reader *reader, const char *text)
{
    return grammar_text(reader->grammar, text, strlen(text));
}

/* An expression of our own, which is right. */
static grammar_node regex(schema_reader *reader, const char *expression)
{
    grammar_node node = 0;
    char why[GRAMMAR_WHY_BYTES];

    (void)grammar_regex(reader->grammar, expression, false, false, &node, why);
    return node;
}

/* Between tokens: nothing, a space, or a new line with its indentation. */
static grammar_node blank(schema_reader *reader)
{
    return regex(reader, "(?: |\\n {0,20})?");
}

static grammar_node string_of(schema_reader *reader, uint32_t least, uint32_t most)
{
    grammar_node character = regex(reader, "[^\"\\\\\\x00-\\x1f]|\\\\[\"\\\\/bfnrt]|"
                                           "\\\\u(?:[0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})");

    return join(reader, words(reader, "\""),
                join(reader, grammar_repeat(reader->grammar, character, least, most), words(reader, "\"")));
}

static grammar_node any_number(schema_reader *reader)
{
    return regex(reader, "-?(?:0|[1-9][0-9]{0,14})(?:\\.[0-9]{1,15})?(?:[eE][-+]?[0-9]{1,2})?");
}

static grammar_node digit(schema_reader *reader, char low, char high)
{
    return grammar_byte(reader->grammar, (uint8_t)low, (uint8_t)high);
}

/* Digits from low to high, both of this length. */
static grammar_node digits_between(schema_reader *reader, const char *low, const char *high, size_t length)
{
    static const char zeros[] = "000000000000000", nines[] = "999999999999999";
    grammar_node all;

    if (strspn(low, "0") >= length && strspn(high, "9") >= length)
        return grammar_repeat(reader->grammar, digit(reader, '0', '9'), (uint32_t)length, (uint32_t)length);
    if (low[0] == high[0])
        return join(reader, digit(reader, low[0], low[0]), digits_between(reader, low + 1, high + 1, length - 1));
    all = grammar_either(
        reader->grammar,
        join(reader, digit(reader, low[0], low[0]), digits_between(reader, low + 1, nines, length - 1)),
        join(reader, digit(reader, high[0], high[0]), digits_between(reader, zeros, high + 1, length - 1)));
    if (low[0] + 1 < high[0])
        all = grammar_either(reader->grammar, all,
                             join(reader, digit(reader, (char)(low[0] + 1), (char)(high[0] - 1)),
                                  grammar_repeat(reader->grammar, digit(reader, '0', '9'), (uint32_t)(length - 1),
                                                 (uint32_t)(length - 1))));
    return all;
}

/* Integers from low to high, 0 <= low <= high. */
static grammar_node naturals(schema_reader *reader, int64_t low, int64_t high)
{
    grammar_node all = grammar_never(reader->grammar);
    int64_t first = 0, last = 9; /* those with as many digits */

    for (; first <= high; first = last + 1, last = last * 10 + 9) {
        char from[24], to[24];
        int64_t least = first > low ? first : low, most = last < high ? last : high;

        if (least > most)
            continue;
        (void)snprintf(from, sizeof from, "%" PRId64, least);
        (void)snprintf(to, sizeof to, "%" PRId64, most);
        all = grammar_either(reader->grammar, all, digits_between(reader, from, to, strlen(from)));
    }
    return all;
}

static bool read_bound(const schema_reader *reader, json_t *schema, const char *keyword, int64_t *out, bool *given)
{
    json_t *value = json_object_get(schema, keyword);

    *given = value != NULL;
    if (value == NULL)
        return true;
    if (!json_is_integer(value) || json_integer_value(value) < -LARGEST || json_integer_value(value) > LARGEST)
        return fail(reader, keyword, "a bound has to be an integer of at most 15 digits");
    *out = json_integer_value(value);
    return true;
}

static bool integers(schema_reader *reader, json_t *schema, grammar_node *out)
{
    int64_t low = -LARGEST, high = LARGEST, bound = 0;
    bool given;

    if (!read_bound(reader, schema, "minimum", &low, &given) || !read_bound(reader, schema, "maximum", &high, &given) ||
        !read_bound(reader, schema, "exclusiveMinimum", &bound, &given))
        return false;
    if (given && bound >= low)
        low = bound + 1;
    if (!read_bound(reader, schema, "exclusiveMaximum", &bound, &given))
        return false;
    if (given && bound <= high)
        high = bound - 1;
    if (low > high)
        return fail(reader, "minimum", "no integer is within the bounds");
    *out = grammar_never(reader->grammar);
    if (high >= 0)
        *out = grammar_either(reader->grammar, *out, naturals(reader, low > 0 ? low : 0, high));
    if (low < 0)
        *out = grammar_either(reader->grammar, *out,
                              join(reader, words(reader, "-"), naturals(reader, high < 0 ? -high : 1, -low)));
    return true;
}

static bool read_count(const schema_reader *reader, json_t *schema, const char *keyword, uint32_t *out)
{
    json_t *value = json_object_get(schema, keyword);

    if (value == NULL)
        return true;
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > MAX_COUNT)
        return fail(reader, keyword, "not a whole number from 0 to 1000");
    *out = (uint32_t)json_integer_value(value);
    return true;
}

static bool strings(schema_reader *reader, json_t *schema, grammar_node *out)
{
    static const struct {
        const char *name, *expression;
    } formats[] = {
#define DATE                                                                                                           \
    "[0-9]{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
#define TIME "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[-+](?:[01][0-9]|2[0-3]):[0-5][0-9])"
        { "date", DATE },
        { "time", TIME },
        { "date-time", DATE "T" TIME },
        { "uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}" },
#undef DATE
#undef TIME
    };
    const char *pattern = json_string_value(json_object_get(schema, "pattern"));
    const char *format = json_string_value(json_object_get(schema, "format"));
    uint32_t least = 0, most = GRAMMAR_MANY;
    char why[GRAMMAR_WHY_BYTES];

    if (!read_count(reader, schema, "minLength", &least) || !read_count(reader, schema, "maxLength", &most))
        return false;
    if (most < least)
        return fail(reader, "maxLength", "smaller than minLength");
    if (pattern != NULL) {
        if (least > 0 || most != GRAMMAR_MANY)
            return fail(reader, "pattern", "not supported together with minLength or maxLength");
        if (!grammar_regex(reader->grammar, pattern, true, true, out, why))
            return fail(reader, "pattern", why);
        *out = join(reader, words(reader, "\""), join(reader, *out, words(reader, "\"")));
        return true;
    }
    for (size_t i = 0; format != NULL && i < sizeof formats / sizeof *formats; i++)
        if (strcmp(format, formats[i].name) == 0) {
            if (least > 0 || most != GRAMMAR_MANY)
                return fail(reader, "format", "not supported together with minLength or maxLength");
            *out = join(reader, words(reader, "\""),
                        join(reader, regex(reader, formats[i].expression), words(reader, "\"")));
            return true;
        }
    *out = string_of(reader, least, most); /* other formats are annotations, as the standard has it by default */
    return true;
}

/* "[" item, item ... "]", or the same with members and braces. */
static grammar_node list_of(schema_reader *reader, const char *open, grammar_node item, const char *close,
                            uint32_t least, uint32_t most)
{
    grammar_node more = join(reader, words(reader, ","), join(reader, blank(reader), item));
    grammar_node items = grammar_empty(reader->grammar);

    if (most > 0)
        items = join(reader, item,
                     grammar_repeat(reader->grammar, more, least > 0 ? least - 1 : 0,
                                    most == GRAMMAR_MANY ? GRAMMAR_MANY : most - 1));
    if (least == 0 && most > 0)
        items = grammar_repeat(reader->grammar, items, 0, 1);
    return join(reader, words(reader, open),
                join(reader, blank(reader), join(reader, items, join(reader, blank(reader), words(reader, close)))));
}

static grammar_node member(schema_reader *reader, grammar_node name, grammar_node value)
{
    return join(reader, name, join(reader, words(reader, ":"), join(reader, blank(reader), value)));
}

static void make_value(schema_reader *reader)
{
    struct grammar *grammar = reader->grammar;
    grammar_node value, all;

    if (reader->has_value)
        return;
    reader->has_value = true;
    reader->value = grammar_rule(grammar);
    reader->object = grammar_rule(grammar);
    value = grammar_refer(grammar, reader->value);
    grammar_define(
        grammar, reader->object,
        list_of(reader, "{", member(reader, string_of(reader, 0, GRAMMAR_MANY), value), "}", 0, GRAMMAR_MANY));
    all = regex(reader, "true|false|null");
    all = grammar_either(grammar, all, any_number(reader));
    all = grammar_either(grammar, all, string_of(reader, 0, GRAMMAR_MANY));
    all = grammar_either(grammar, all, list_of(reader, "[", value, "]", 0, GRAMMAR_MANY));
    all = grammar_either(grammar, all, grammar_refer(grammar, reader->object));
    grammar_define(grammar, reader->value, all);
}

static grammar_node any_value(schema_reader *reader)
{
    make_value(reader);
    return grammar_refer(reader->grammar, reader->value);
}

static bool read_schema(schema_reader *reader, json_t *schema, grammar_node *out);

static grammar_node literal(schema_reader *reader, json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    grammar_node node = text != NULL ? words(reader, text) : grammar_never(reader->grammar);

    free(text);
    return node;
}

static bool alternatives(schema_reader *reader, json_t *schemas, const char *keyword, grammar_node *out)
{
    *out = grammar_never(reader->grammar);
    if (!json_is_array(schemas) || json_array_size(schemas) == 0)
        return fail(reader, keyword, "not an array of schemas");
    for (size_t i = 0; i < json_array_size(schemas); i++) {
        grammar_node one;

        if (!read_schema(reader, json_array_get(schemas, i), &one))
            return false;
        *out = grammar_either(reader->grammar, *out, one);
    }
    return true;
}

static bool is_required(json_t *schema, const char *name)
{
    json_t *required = json_object_get(schema, "required");

    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *one = json_string_value(json_array_get(required, i));

        if (one != NULL && strcmp(one, name) == 0)
            return true;
    }
    return false;
}

/* A rule for the member, as it is used in two places. schema NULL: any value. */
static bool property(schema_reader *reader, const char *name, json_t *schema, grammar_node *out)
{
    uint32_t rule = grammar_rule(reader->grammar);
    json_t *text;
    grammar_node value;

    if (schema == NULL)
        value = any_value(reader);
    else if (!read_schema(reader, schema, &value))
        return false;
    text = json_string(name);
    if (text == NULL)
        return fail(reader, name, "out of memory");
    grammar_define(reader->grammar, rule, member(reader, literal(reader, text), value));
    json_decref(text);
    *out = grammar_refer(reader->grammar, rule);
    return true;
}

/* Adds a member behind those in *first (texts that begin without a comma) and *rest (texts behind another member). The
 * members are added from the last to the first, so that each is followed by the rest. */
static void add_property(schema_reader *reader, grammar_node one, bool required, grammar_node *first,
                         grammar_node *rest)
{
    struct grammar *grammar = reader->grammar;
    grammar_node behind = *rest;
    uint32_t rule = grammar_rule(grammar);
    grammar_node with_comma = join(reader, words(reader, ","), join(reader, blank(reader), join(reader, one, behind)));

    grammar_define(grammar, rule, required ? with_comma : grammar_either(grammar, with_comma, behind));
    *rest = grammar_refer(grammar, rule);
    *first = required ? join(reader, one, behind) : grammar_either(grammar, join(reader, one, behind), *first);
}

static bool objects(schema_reader *reader, json_t *schema, grammar_node *out)
{
    json_t *properties = json_object_get(schema, "properties"), *value;
    json_t *others = json_object_get(schema, "additionalProperties"), *required = json_object_get(schema, "required");
    size_t count = json_object_size(properties);
    const char *name;
    grammar_node first = grammar_empty(reader->grammar), rest = first, one;
    grammar_node *members;
    const char **names;
    bool good = true;

    if (count == 0 && json_array_size(required) == 0) { /* a map */
        if (json_is_false(others) || (others == NULL && properties != NULL)) {
            *out = list_of(reader, "{", first, "}", 0, 0);
            return true;
        }
        if (json_is_object(others) && !read_schema(reader, others, &one))
            return false;
        if (!json_is_object(others))
            one = any_value(reader);
        *out = list_of(reader, "{", member(reader, string_of(reader, 0, GRAMMAR_MANY), one), "}", 0, GRAMMAR_MANY);
        return true;
    }
    members = calloc(count + json_array_size(required), sizeof *members);
    names = calloc(count + json_array_size(required), sizeof *names);
    count = 0;
    good = members != NULL && names != NULL;
    json_object_foreach(properties, name, value) {
        good = good && property(reader, name, value, &members[count]);
        if (good)
            names[count++] = name;
    }
    for (size_t i = 0; good && i < json_array_size(required); i++) { /* required, but without a schema of its own */
        name = json_string_value(json_array_get(required, i));
        if (name == NULL || json_object_get(properties, name) != NULL)
            continue;
        good = property(reader, name, json_is_object(others) ? others : NULL, &members[count]);
        if (good)
            names[count++] = name;
    }
    for (size_t i = count; good && i-- > 0;)
        add_property(reader, members[i], is_required(schema, names[i]), &first, &rest);
    free(members);
    free(names);
    if (!good)
        return fail(reader, "properties", "out of memory");
    *out = join(reader, words(reader, "{"),
                join(reader, blank(reader), join(reader, first, join(reader, blank(reader), words(reader, "}")))));
    return true;
}

static bool arrays(schema_reader *reader, json_t *schema, grammar_node *out)
{
    json_t *items = json_object_get(schema, "items"), *prefix = json_object_get(schema, "prefixItems");
    uint32_t least = 0, most = GRAMMAR_MANY, fixed = (uint32_t)json_array_size(prefix);
    grammar_node item, all, one;

    if (!read_count(reader, schema, "minItems", &least) || !read_count(reader, schema, "maxItems", &most))
        return false;
    if (most < least || most < fixed)
        return fail(reader, "maxItems", "smaller than minItems or the number of prefixItems");
    if (json_is_object(items) && !read_schema(reader, items, &item))
        return false;
    if (!json_is_object(items))
        item = any_value(reader);
    if (fixed == 0) {
        *out = list_of(reader, "[", item, "]", least, json_is_false(items) ? 0 : most);
        return true;
    }
    all = grammar_empty(reader->grammar);
    for (uint32_t i = 0; i < fixed; i++) {
        if (!read_schema(reader, json_array_get(prefix, i), &one))
            return false;
        all = i == 0 ? one : join(reader, all, join(reader, words(reader, ","), join(reader, blank(reader), one)));
    }
    one = join(reader, words(reader, ","), join(reader, blank(reader), item));
    if (items != NULL && !json_is_false(items))
        all = join(reader, all,
                   grammar_repeat(reader->grammar, one, least > fixed ? least - fixed : 0,
                                  most == GRAMMAR_MANY ? GRAMMAR_MANY : most - fixed));
    else if (least > fixed)
        return fail(reader, "minItems", "larger than the number of prefixItems, without items");
    *out = join(reader, words(reader, "["),
                join(reader, blank(reader), join(reader, all, join(reader, blank(reader), words(reader, "]")))));
    return true;
}

/* A JSON pointer into the schema (RFC 6901). */
static json_t *resolve(json_t *root, const char *pointer)
{
    json_t *at = root;

    if (pointer[0] != '#' || (pointer[1] != '\0' && pointer[1] != '/'))
        return NULL;
    for (pointer++; at != NULL && *pointer == '/';) {
        char name[256];
        size_t used = 0;

        for (pointer++; *pointer != '\0' && *pointer != '/' && used + 1 < sizeof name; pointer++) {
            bool escaped = pointer[0] == '~' && (pointer[1] == '0' || pointer[1] == '1');

            pointer += escaped;
            name[used++] = (char)(!escaped ? *pointer : *pointer == '0' ? '~' : '/');
        }
        name[used] = '\0';
        at = json_is_array(at) ? json_array_get(at, strtoul(name, NULL, 10)) : json_object_get(at, name);
    }
    return at;
}

static bool reference(schema_reader *reader, const char *pointer, grammar_node *out)
{
    json_t *target = pointer != NULL ? resolve(reader->root, pointer) : NULL;
    grammar_node node;
    uint32_t rule;

    if (target == NULL)
        return fail(reader, "$ref", "refers to nothing in this schema");
    for (uint32_t i = 0; i < reader->ref_count; i++)
        if (strcmp(reader->refs[i].pointer, pointer) == 0) {
            *out = grammar_refer(reader->grammar, reader->refs[i].rule);
            return true;
        }
    if (!LIST_GROW(reader->refs, reader->ref_count))
        return fail(reader, "$ref", "out of memory");
    rule = grammar_rule(reader->grammar);
    reader->refs[reader->ref_count++] = (schema_ref){ pointer, rule };
    if (!read_schema(reader, target, &node))
        return false;
    grammar_define(reader->grammar, rule, node);
    *out = grammar_refer(reader->grammar, rule);
    return true;
}

/* Keywords that restrict values in ways that a grammar does not express here. */
static bool refuse_keywords(const schema_reader *reader, json_t *schema, bool fractions)
{
    static const char *const keywords[] = { "not",
                                            "if",
                                            "multipleOf",
                                            "contains",
                                            "minProperties",
                                            "maxProperties",
                                            "propertyNames",
                                            "patternProperties",
                                            "dependentSchemas",
                                            "dependentRequired",
                                            "unevaluatedItems",
                                            "unevaluatedProperties",
                                            "$dynamicRef" };
    static const char *const bounds[] = { "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum" };

    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (json_object_get(schema, keywords[i]) != NULL)
            return fail(reader, keywords[i], "not supported");
    if (json_is_true(json_object_get(schema, "uniqueItems")))
        return fail(reader, "uniqueItems", "not supported");
    for (size_t i = 0; fractions && i < sizeof bounds / sizeof *bounds; i++)
        if (json_object_get(schema, bounds[i]) != NULL)
            return fail(reader, bounds[i], "supported for type integer only");
    return true;
}

static bool of_type(schema_reader *reader, json_t *schema, const char *type, grammar_node *out)
{
    if (!refuse_keywords(reader, schema, strcmp(type, "number") == 0))
        return false;
    if (strcmp(type, "object") == 0)
        return objects(reader, schema, out);
    if (strcmp(type, "array") == 0)
        return arrays(reader, schema, out);
    if (strcmp(type, "string") == 0)
        return strings(reader, schema, out);
    if (strcmp(type, "integer") == 0)
        return integers(reader, schema, out);
    if (strcmp(type, "number") == 0)
        *out = any_number(reader);
    else if (strcmp(type, "boolean") == 0)
        *out = regex(reader, "true|false");
    else if (strcmp(type, "null") == 0)
        *out = words(reader, "null");
    else
        return fail(reader, "type", "no such type");
    return true;
}

/* The type that the keywords of a schema without one speak of; NULL: any. */
static const char *implied_type(json_t *schema)
{
    static const char *const implied[][2] = {
        { "properties", "object" }, { "additionalProperties", "object" },
        { "required", "object" },   { "items", "array" },
        { "prefixItems", "array" }, { "minItems", "array" },
        { "maxItems", "array" },    { "pattern", "string" },
        { "minLength", "string" },  { "maxLength", "string" },
        { "format", "string" },     { "minimum", "integer" },
        { "maximum", "integer" },
    };

    for (size_t i = 0; i < sizeof implied / sizeof *implied; i++)
        if (json_object_get(schema, implied[i][0]) != NULL)
            return implied[i][1];
    return NULL;
}

/* Refuses what would restrict values further beside the keyword that describes them: a grammar has no intersections.
 * with_type: the caller obeys "type". */
static bool is_alone(const schema_reader *reader, json_t *schema, const char *keyword, bool with_type)
{
    static const char *const others[] = {
        "$ref",
        "const",
        "enum",
        "anyOf",
        "oneOf",
        "allOf",
        "properties",
        "required",
        "items",
        "minItems",
        "prefixItems",
        "maxItems",
        "minLength",
        "pattern",
        "maxLength",
        "minimum",
        "maximum",
        "type",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "additionalProperties",
    };
    char what[64];

    (void)snprintf(what, sizeof what, "not supported beside '%s'", keyword);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i], keyword) != 0 && !(with_type && strcmp(others[i], "type") == 0) &&
            json_object_get(schema, others[i]) != NULL)
            return fail(reader, others[i], what);
    return refuse_keywords(reader, schema, false);
}

static bool has_type(const json_t *value, const char *type)
{
    static const struct {
        const char *name;
        json_type type;
    } types[] = { { "object", JSON_OBJECT }, { "array", JSON_ARRAY },     { "string", JSON_STRING },
                  { "null", JSON_NULL },     { "integer", JSON_INTEGER }, { "number", JSON_INTEGER },
                  { "number", JSON_REAL },   { "boolean", JSON_TRUE },    { "boolean", JSON_FALSE } };

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (json_typeof(value) == types[i].type && strcmp(types[i].name, type) == 0)
            return true;
    return false;
}

/* Whether "type", a name or several, lets the value be; NULL: it is not given. */
static bool is_of_type(const json_t *value, const json_t *type)
{
    if (json_is_string(type))
        return has_type(value, json_string_value(type));
    for (size_t i = 0; i < json_array_size(type); i++)
        if (json_is_string(json_array_get(type, i)) && has_type(value, json_string_value(json_array_get(type, i))))
            return true;
    return type == NULL;
}

/* One of the values that has the schema's type. */
static bool values_of(schema_reader *reader, json_t *schema, const char *keyword, json_t *values, grammar_node *out)
{
    bool any = false;

    *out = grammar_never(reader->grammar);
    for (size_t i = 0; i < json_array_size(values); i++) {
        if (!is_of_type(json_array_get(values, i), json_object_get(schema, "type")))
            continue;
        *out = grammar_either(reader->grammar, *out, literal(reader, json_array_get(values, i)));
        any = true;
    }
    return is_alone(reader, schema, keyword, true) &&
           (any || fail(reader, keyword, "there is no value, or none of the type"));
}

static bool constant(schema_reader *reader, json_t *schema, grammar_node *out)
{
    json_t *values = json_pack("[O]", json_object_get(schema, "const"));
    bool good =
        values != NULL ? values_of(reader, schema, "const", values, out) : fail(reader, "const", "out of memory");

    json_decref(values);
    return good;
}

static bool read_object(schema_reader *reader, json_t *schema, grammar_node *out)
{
    static const char *const several[] = { "anyOf", "oneOf" };
    json_t *type = json_object_get(schema, "type"), *all = json_object_get(schema, "allOf");
    json_t *target = json_object_get(schema, "$ref"), *list = json_object_get(schema, "enum");
    const char *name;

    if (target != NULL)
        return is_alone(reader, schema, "$ref", false) && reference(reader, json_string_value(target), out);
    if (json_object_get(schema, "const") != NULL)
        return constant(reader, schema, out);
    if (list != NULL)
        return values_of(reader, schema, "enum", list, out);
    for (size_t i = 0; i < sizeof several / sizeof *several; i++)
        if (json_object_get(schema, several[i]) != NULL)
            return is_alone(reader, schema, several[i], false) &&
                   alternatives(reader, json_object_get(schema, several[i]), several[i], out);
    if (all != NULL)
        return is_alone(reader, schema, "allOf", false) &&
               (json_array_size(all) == 1 ? read_schema(reader, json_array_get(all, 0), out)
                                          : fail(reader, "allOf", "supported with a single schema only"));
    if (json_is_array(type)) {
        *out = grammar_never(reader->grammar);
        for (size_t i = 0; i < json_array_size(type); i++) {
            grammar_node one;

            name = json_string_value(json_array_get(type, i));
            if (!of_type(reader, schema, name != NULL ? name : "", &one))
                return false;
            *out = grammar_either(reader->grammar, *out, one);
        }
        return true;
    }
    name = type != NULL ? json_string_value(type) : implied_type(schema);
    if (name != NULL || type != NULL)
        return of_type(reader, schema, name != NULL ? name : "", out);
    *out = any_value(reader);
    return refuse_keywords(reader, schema, true);
}

static bool read_schema(schema_reader *reader, json_t *schema, grammar_node *out)
{
    bool good;

    if (json_is_true(schema)) {
        *out = any_value(reader);
        return true;
    }
    if (!json_is_object(schema))
        return fail(reader, "type", "a schema has to be an object");
    if (reader->nesting == MAX_NESTING)
        return fail(reader, "type", "more than 100 nested schemas");
    reader->nesting++;
    good = read_object(reader, schema, out);
    reader->nesting--;
    return good;
}

grammar_node grammar_schema_blank(struct grammar *grammar)
{
    schema_reader reader = { .grammar = grammar };

    return blank(&reader);
}

bool grammar_schema_value(struct grammar *grammar, json_t *schema, grammar_node *out, char *why)
{
    schema_reader reader = { .grammar = grammar, .root = schema, .why = why };
    bool good = true;

    why[0] = '\0';
    if (schema != NULL) {
        good = read_schema(&reader, schema, out);
    } else {
        make_value(&reader);
        *out = grammar_refer(grammar, reader.object);
    }
    free(reader.refs);
    return good;
}

bool grammar_schema(struct grammar *grammar, json_t *schema, char *why)
{
    uint32_t rule = grammar_rule(grammar);
    grammar_node node = 0;
    bool good = grammar_schema_value(grammar, schema, &node, why);

    grammar_define(grammar, rule, node);
    return good;
}
