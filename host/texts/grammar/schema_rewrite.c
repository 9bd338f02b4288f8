/* Keywords that other keywords express: not, oneOf, if and dependencies become alternatives. Alternatives that cannot
 * be expressed are left out: then some valid texts are not generated, but no invalid ones. */
#include "texts/grammar/schema_internal.h"
#include "base/among.h"
#include "base/memory.h"
#include <string.h>

enum { MAX_DEPTH = 8, MAX_REFERENCES = 10, COMPARED = 8, PAIR_STEPS = 32, MAX_PAIRED = 8 };

/* Gives the reader a schema that it owns from now on. NULL: out of memory. */
static json_t *keep(schema_reader *reader, json_t *schema)
{
    const json_t *parts = json_object_iter_value(json_object_iter(schema));

    if (!schema_take(reader, 4 + 4 * json_array_size(parts))) {
        json_decref(schema);
        return NULL;
    }
    if (reader->made == NULL)
        reader->made = json_array();
    if (schema == NULL || reader->made == NULL || json_array_append_new(reader->made, schema) != 0) {
        (void)schema_fail(reader, "type", "out of memory");
        return NULL;
    }
    return schema;
}

static json_t *find_pair(const schema_reader *reader, const char *keyword, const json_t *value)
{
    (void)schema_spend(reader, 1 + reader->pair_count / COMPARED);
    for (uint32_t i = 0; i < reader->pair_count; i++)
        if (reader->pairs[i].value == value && strcmp(reader->pairs[i].keyword, keyword) == 0)
            return reader->pairs[i].schema;
    return NULL;
}

/* Remembers the schema, so that recursive schemas are rewritten once. */
static json_t *add_pair(schema_reader *reader, const char *keyword, const json_t *value, json_t *schema)
{
    schema = keep(reader, schema);
    if (schema == NULL)
        return NULL;
    if (!LIST_GROW(reader->pairs, reader->pair_count)) {
        (void)schema_fail(reader, keyword, "out of memory");
        return NULL;
    }
    reader->pairs[reader->pair_count++] = (schema_pair){ keyword, value, schema };
    return schema;
}

static json_t *negation_of(json_t *schema)
{
    return json_pack("{s:O}", "not", schema);
}

/* Adds the types that "type" excludes. */
static bool add_other_types(const schema_reader *reader, json_t *alternatives, const json_t *type)
{
    static const struct {
        const char *name;
        uint32_t type;
    } names[] = { { "null", SCHEMA_NULL },
                  { "boolean", SCHEMA_BOOLEAN },
                  { "integer", SCHEMA_INTEGER },
                  { "string", SCHEMA_STRING },
                  { "array", SCHEMA_ARRAY },
                  { "object", SCHEMA_OBJECT },
                  { SCHEMA_FRACTION_NAME, SCHEMA_FRACTION } };
    json_t *others = json_array();
    uint32_t types;
    bool good = schema_types(reader, type, &types);

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if ((types & names[i].type) == 0)
            (void)json_array_append_new(others, json_string(names[i].name));
    if (json_array_size(others) > 0)
        (void)json_array_append_new(alternatives, json_pack("{s:O}", "type", others));
    json_decref(others);
    return good;
}

/* The keyword that holds for exactly the values of a type for which this one does not; step: the difference
 * between their numbers. */
static const struct {
    const char *keyword, *type, *opposite;
    int step;
} opposites[] = {
    { "minimum", "number", "exclusiveMaximum", 0 },
    { "maximum", "number", "exclusiveMinimum", 0 },
    { "exclusiveMinimum", "number", "maximum", 0 },
    { "exclusiveMaximum", "number", "minimum", 0 },
    { "minLength", "string", "maxLength", -1 },
    { "maxLength", "string", "minLength", 1 },
    { "minItems", "array", "maxItems", -1 },
    { "maxItems", "array", "minItems", 1 },
    { "minProperties", "object", "maxProperties", -1 },
    { "maxProperties", "object", "minProperties", 1 },
};

static bool add_opposite(json_t *alternatives, const char *keyword, json_t *value)
{
    for (size_t i = 0; i < sizeof opposites / sizeof *opposites; i++) {
        if (strcmp(keyword, opposites[i].keyword) != 0)
            continue;
        if (opposites[i].step == 0)
            (void)json_array_append_new(
                alternatives, json_pack("{s:s, s:O}", "type", opposites[i].type, opposites[i].opposite, value));
        else if (json_number_value(value) + opposites[i].step >= 0)
            (void)json_array_append_new(alternatives,
                                        json_pack("{s:s, s:f}", "type", opposites[i].type, opposites[i].opposite,
                                                  json_number_value(value) + opposites[i].step));
        return true;
    }
    return false;
}

static void add_missing(json_t *alternatives, const json_t *required)
{
    for (size_t i = 0; i < json_array_size(required); i++)
        if (json_is_string(json_array_get(required, i)))
            (void)json_array_append_new(alternatives, json_pack("{s:s, s:{s:b}}", "type", "object", "properties",
                                                                json_string_value(json_array_get(required, i)), 0));
}

static void add_wrong_members(json_t *alternatives, json_t *properties)
{
    const char *name;
    json_t *schema;

    json_object_foreach(properties, name, schema) {
        (void)json_array_append_new(alternatives, json_pack("{s:s, s:[s], s:{s:o}}", "type", "object", "required", name,
                                                            "properties", name, negation_of(schema)));
    }
}

/* Adds the negations of the schemas: of each one separately, or of all of them in one schema. */
static void add_negations(json_t *alternatives, const json_t *schemas, bool together)
{
    json_t *all = together ? json_array() : NULL;

    for (size_t i = 0; i < json_array_size(schemas); i++)
        (void)json_array_append_new(together ? all : alternatives, negation_of(json_array_get(schemas, i)));
    if (together)
        (void)json_array_append_new(alternatives, json_pack("{s:o}", "allOf", all));
}

/* Adds the values that match two of the schemas. */
static void add_pairs(json_t *alternatives, const json_t *schemas)
{
    for (size_t i = 0; i < json_array_size(schemas); i++)
        for (size_t k = 0; k < i; k++)
            (void)json_array_append_new(
                alternatives, json_pack("{s:[O, O]}", "allOf", json_array_get(schemas, k), json_array_get(schemas, i)));
}

/* The values of const or enum. A new array; NULL: there are none. */
static json_t *listed_values(const json_t *schema)
{
    json_t *constant = json_object_get(schema, "const"), *values = json_object_get(schema, "enum");

    return constant != NULL ? json_pack("[O]", constant) : json_incref(values);
}

/* Adds arrays in which too few items match `contains`, or too many. */
static void add_wrong_counts(json_t *alternatives, const json_t *schema, json_t *contains)
{
    const json_t *least = json_object_get(schema, "minContains"), *most = json_object_get(schema, "maxContains");
    const double needed = least != NULL ? json_number_value(least) : 1;

    if (needed == 1)
        (void)json_array_append_new(alternatives,
                                    json_pack("{s:s, s:o}", "type", "array", "items", negation_of(contains)));
    else if (needed > 1)
        (void)json_array_append_new(alternatives, json_pack("{s:s, s:O, s:i, s:f}", "type", "array", "contains",
                                                            contains, "minContains", 0, "maxContains", needed - 1));
    if (most != NULL)
        (void)json_array_append_new(alternatives, json_pack("{s:s, s:O, s:f}", "type", "array", "contains", contains,
                                                            "minContains", json_number_value(most) + 1));
}

/* Adds arrays whose item at an index does not match the schema, which it takes. */
static void add_wrong_item(const schema_reader *reader, json_t *alternatives, size_t index, json_t *schema)
{
    json_t *items = json_array();

    for (size_t i = 0; schema_take(reader, 1) && i < index; i++)
        (void)json_array_append_new(items, json_true());
    (void)json_array_append_new(items, json_pack("{s:o}", "not", schema));
    (void)json_array_append_new(alternatives, json_pack("{s:s, s:o, s:I}", "type", "array", "prefixItems", items,
                                                        "minItems", (json_int_t)index + 1));
}

/* Adds objects that have a member, but lack members that it needs, or do not match a schema. */
static void add_wrong_dependents(json_t *alternatives, json_t *dependent)
{
    const char *name;
    json_t *needed;

    json_object_foreach(dependent, name, needed) {
        for (size_t i = 0; i < json_array_size(needed); i++)
            if (json_is_string(json_array_get(needed, i)))
                (void)json_array_append_new(alternatives,
                                            json_pack("{s:s, s:[s], s:{s:b}}", "type", "object", "required", name,
                                                      "properties", json_string_value(json_array_get(needed, i)), 0));
        if (!json_is_array(needed))
            (void)json_array_append_new(
                alternatives, json_pack("{s:s, s:[s], s:O}", "type", "object", "required", name, "not", needed));
    }
}

/* Adds what the branches of `if` exclude. */
static void add_wrong_branches(json_t *alternatives, const json_t *schema, json_t *condition)
{
    json_t *good = json_object_get(schema, "then"), *bad = json_object_get(schema, "else");

    if (good != NULL)
        (void)json_array_append_new(alternatives, json_pack("{s:[O, o]}", "allOf", condition, negation_of(good)));
    if (bad != NULL)
        (void)json_array_append_new(alternatives,
                                    json_pack("{s:[o, o]}", "allOf", negation_of(condition), negation_of(bad)));
}

/* Adds objects that have only members with these names, and whose values are those of a schema: a part of the objects
 * that have such a member. Takes both. */
static void add_such_members(json_t *alternatives, json_t *names, json_t *values)
{
    (void)json_array_append_new(alternatives, json_pack("{s:s, s:i, s:o, s:o}", "type", "object", "minProperties", 1,
                                                        "propertyNames", names, "additionalProperties", values));
}

/* Adds objects with a name that propertyNames excludes: all of them if the names are listed. */
static void add_other_names(json_t *alternatives, json_t *names)
{
    json_t *excluded = json_object_get(names, "not"), *values = listed_values(excluded), *name;
    const bool listed = json_object_size(names) == 1 && json_object_size(excluded) == 1 && values != NULL;
    size_t i;

    json_array_foreach(values, i, name)
        if (listed && json_is_string(name))
            (void)json_array_append_new(alternatives, json_pack("{s:s, s:[O]}", "type", "object", "required", name));
    json_decref(values);
    if (!listed)
        add_such_members(alternatives, negation_of(names), json_true());
}

/* The names that properties and patternProperties of a schema do not describe. A new schema. */
static json_t *undescribed_names(const json_t *schema)
{
    json_t *all = json_array(), *names = json_array(), *one;
    const char *name;

    json_object_foreach(json_object_get(schema, "properties"), name, one) {
        (void)json_array_append_new(names, json_string(name));
    }
    (void)json_array_append_new(all, json_pack("{s:{s:o}}", "not", "enum", names));
    json_object_foreach(json_object_get(schema, "patternProperties"), name, one) {
        (void)json_array_append_new(all, json_pack("{s:{s:s}}", "not", "pattern", name));
    }
    return json_pack("{s:o}", "allOf", all);
}

/* Adds values other than an array or an object. */
static void add_other_values(const schema_reader *reader, json_t *alternatives, json_t *value)
{
    const bool is_array = json_is_array(value);
    const char *type = is_array ? "array" : "object", *name;
    const size_t count = is_array ? json_array_size(value) : json_object_size(value);
    json_t *one;
    size_t i;

    (void)json_array_append_new(alternatives, json_pack("{s:{s:s}}", "not", "type", type));
    (void)json_array_append_new(
        alternatives, is_array ? json_pack("{s:s, s:I}", "type", type, "minItems", (json_int_t)count + 1)
                               : json_pack("{s:s, s:{s:O}}", "type", type, SCHEMA_BEYOND_NAME, "properties", value));
    if (is_array && count > 0)
        (void)json_array_append_new(alternatives,
                                    json_pack("{s:s, s:I}", "type", type, "maxItems", (json_int_t)count - 1));
    json_array_foreach(value, i, one)
        add_wrong_item(reader, alternatives, i, json_pack("{s:O}", "const", one));
    json_object_foreach(value, name, one) {
        (void)json_array_append_new(alternatives, json_pack("{s:s, s:{s:b}}", "type", type, "properties", name, 0));
        (void)json_array_append_new(alternatives, json_pack("{s:s, s:[s], s:{s:{s:{s:O}}}}", "type", type, "required",
                                                            name, "properties", name, "not", "const", one));
    }
}

/* The schema of all values that are not listed. A new one. */
static json_t *unlisted(const schema_reader *reader, const json_t *values)
{
    json_t *all = json_array(), *plain = json_array(), *one;
    size_t i;

    json_array_foreach(values, i, one) {
        json_t *others = json_array();

        if (json_is_array(one) || json_is_object(one)) {
            add_other_values(reader, others, one);
            (void)json_array_append_new(all, json_pack("{s:O}", "anyOf", others));
        } else {
            (void)json_array_append(plain, one);
        }
        json_decref(others);
    }
    if (json_array_size(plain) > 0 || json_array_size(all) == 0)
        (void)json_array_append_new(all, json_pack("{s:{s:O}}", "not", "enum", plain));
    json_decref(plain);
    return json_pack("{s:o}", "allOf", all);
}

/* Whether a format has a meaning, but no set of texts that can be excluded for it. */
static bool has_no_cover(const json_t *format)
{
    const char *name = json_string_value(format);

    return name != NULL && schema_format(name, false) != NULL && schema_format_cover(name) == NULL;
}

/* Keywords whose negation is not supported. */
static bool has_no_negation(const char *keyword, const json_t *value)
{
    return is_among(keyword, "$recursiveRef unevaluatedItems unevaluatedProperties") ||
           (strcmp(keyword, "format") == 0 && has_no_cover(value)) ||
           (strcmp(keyword, "uniqueItems") == 0 && json_is_true(value));
}

/* Adds objects with a member that patternProperties exclude. */
static void add_matching_members(json_t *alternatives, json_t *patterns)
{
    const char *pattern;
    json_t *schema;

    json_object_foreach(patterns, pattern, schema) {
        add_such_members(alternatives, json_pack("{s:s}", "pattern", pattern), negation_of(schema));
    }
}

/* Whether negate_keyword() adds only a part of the values. */
static bool is_negated_in_part(const char *keyword, const json_t *value)
{
    return strcmp(keyword, "patternProperties") == 0 || strcmp(keyword, "propertyNames") == 0 ||
           (strcmp(keyword, "oneOf") == 0 && json_array_size(value) > MAX_PAIRED) ||
           (strcmp(keyword, "additionalProperties") == 0 && !json_is_boolean(value));
}

/* Adds the values for which a keyword of the schema does not hold. */
static bool negate_keyword(schema_reader *reader, json_t *alternatives, json_t *schema, const char *keyword,
                           json_t *value)
{
    if (strcmp(keyword, "type") == 0)
        return add_other_types(reader, alternatives, value);
    if (strcmp(keyword, "const") == 0) {
        json_t *values = json_pack("[O]", value);

        (void)json_array_append_new(alternatives, unlisted(reader, values));
        json_decref(values);
    } else if (strcmp(keyword, "enum") == 0) {
        (void)json_array_append_new(alternatives, unlisted(reader, value));
    } else if (strcmp(keyword, "pattern") == 0) {
        (void)json_array_append_new(alternatives, json_pack("{s:s, s:{s:O}}", "type", "string", "not", keyword, value));
    } else if (strcmp(keyword, "format") == 0) { /* one without a meaning excludes nothing */
        if (json_is_string(value) && schema_format_cover(json_string_value(value)) != NULL)
            (void)json_array_append_new(alternatives,
                                        json_pack("{s:s, s:{s:O}}", "type", "string", "not", keyword, value));
    } else if (strcmp(keyword, "multipleOf") == 0) {
        (void)json_array_append_new(alternatives, json_pack("{s:s, s:{s:O}}", "type", "number", "not", keyword, value));
    } else if (strcmp(keyword, "required") == 0) {
        add_missing(alternatives, value);
    } else if (strcmp(keyword, "properties") == 0) {
        add_wrong_members(alternatives, value);
    } else if (strcmp(keyword, "additionalProperties") == 0) {
        if (json_is_false(value))
            (void)json_array_append_new(alternatives,
                                        json_pack("{s:s, s:O}", "type", "object", SCHEMA_BEYOND_NAME, schema));
        else if (!json_is_true(value))
            add_such_members(alternatives, undescribed_names(schema), negation_of(value));
    } else if (strcmp(keyword, "patternProperties") == 0) {
        add_matching_members(alternatives, value);
    } else if (strcmp(keyword, "propertyNames") == 0) {
        add_other_names(alternatives, value);
    } else if (strcmp(keyword, "items") == 0 && json_object_get(schema, "prefixItems") == NULL) {
        (void)json_array_append_new(alternatives,
                                    json_pack("{s:s, s:o}", "type", "array", "contains", negation_of(value)));
    } else if (strcmp(keyword, "contains") == 0) {
        add_wrong_counts(alternatives, schema, value);
    } else if (strcmp(keyword, "prefixItems") == 0) {
        for (size_t i = 0; i < json_array_size(value); i++)
            add_wrong_item(reader, alternatives, i, json_incref(json_array_get(value, i)));
    } else if (strncmp(keyword, "depend", 6) == 0) {
        add_wrong_dependents(alternatives, value);
    } else if (strcmp(keyword, "if") == 0) {
        add_wrong_branches(alternatives, schema, value);
    } else if (strcmp(keyword, "not") == 0) {
        (void)json_array_append(alternatives, value);
    } else if (strcmp(keyword, "allOf") == 0) {
        add_negations(alternatives, value, false);
    } else if (strcmp(keyword, "anyOf") == 0 || strcmp(keyword, "oneOf") == 0) {
        add_negations(alternatives, value, true);
        if (strcmp(keyword, "oneOf") == 0 && !is_negated_in_part(keyword, value))
            add_pairs(alternatives, value);
    } else if (strcmp(keyword, "$ref") == 0 || strcmp(keyword, "$dynamicRef") == 0) {
        json_t *target = schema_resolve(reader, value);

        if (target == NULL)
            return false;
        (void)json_array_append_new(alternatives, negation_of(target));
    } else {
        (void)add_opposite(alternatives, keyword, value);
    }
    return true;
}

json_t *schema_not(schema_reader *reader, json_t *schema)
{
    json_t *alternatives, *found = find_pair(reader, "not", schema), *value;
    const char *keyword;
    bool left_out = false;

    if (found != NULL)
        return found;
    if (!json_is_object(schema)) {
        if (!json_is_boolean(schema))
            (void)schema_fail(reader, "not", "a schema has to be an object");
        return json_is_boolean(schema) ? json_boolean(json_is_false(schema)) : NULL;
    }
    alternatives = json_array();
    json_object_foreach(schema, keyword, value) {
        const bool is_missing = has_no_negation(keyword, value);

        if (is_missing || is_negated_in_part(keyword, value))
            reader->left_out = keyword;
        left_out |= is_missing;
        if (!is_missing && !negate_keyword(reader, alternatives, schema, keyword, value)) {
            json_decref(alternatives);
            return NULL;
        }
    }
    if (json_array_size(alternatives) == 0) {
        json_decref(alternatives);
        if (left_out)
            (void)schema_fail(reader, reader->left_out, SCHEMA_NOT_NEGATED);
        return left_out ? NULL : json_false();
    }
    return add_pair(reader, "not", schema, json_pack("{s:o}", "anyOf", alternatives));
}

/* The schema that a schema of nothing but a reference stands for. */
static json_t *target_of(const schema_reader *reader, json_t *schema)
{
    for (int i = 0; i < MAX_REFERENCES && schema != NULL && json_object_get(schema, "$ref") != NULL; i++)
        schema = schema_resolve(reader, json_object_get(schema, "$ref"));
    return schema;
}

/* Whether no listed value of `left` matches `right`. */
static bool lists_none_of(schema_reader *reader, json_t *left, json_t *right)
{
    json_t *values = listed_values(left);
    bool none = values != NULL;

    for (size_t i = 0; none && i < json_array_size(values); i++) {
        bool fits;

        none = schema_check(reader, right, json_array_get(values, i), &fits) && !fits;
    }
    json_decref(values);
    return none;
}

static bool is_required(const schema_reader *reader, const json_t *schema, const char *name)
{
    const json_t *required = json_object_get(schema, "required");

    for (size_t i = 0; i < json_array_size(required) && schema_spend(reader, 1); i++)
        if (json_is_string(json_array_get(required, i)) &&
            strcmp(json_string_value(json_array_get(required, i)), name) == 0)
            return true;
    return false;
}

static bool are_disjoint(schema_reader *reader, json_t *left, json_t *right, int depth);

/* Whether a member that `left` requires cannot be one of `right`. */
static bool differ_in_member(schema_reader *reader, json_t *left, json_t *right, int depth)
{
    json_t *required = json_object_get(left, "required");

    for (size_t i = 0; i < json_array_size(required) && schema_spend(reader, 4); i++) {
        const char *name = json_string_value(json_array_get(required, i));
        json_t *own = name != NULL ? json_object_get(json_object_get(left, "properties"), name) : NULL;
        json_t *other = name != NULL ? json_object_get(json_object_get(right, "properties"), name) : NULL;

        if (name != NULL && other == NULL && json_is_false(json_object_get(right, "additionalProperties")) &&
            json_object_get(right, "patternProperties") == NULL)
            return true;
        if (own != NULL && other != NULL && is_required(reader, right, name) &&
            are_disjoint(reader, own, other, depth + 1))
            return true;
    }
    return false;
}

static bool is_below(const json_t *left, const json_t *right)
{
    const json_t *most = json_object_get(left, "maximum"), *least = json_object_get(right, "minimum");

    return most != NULL && least != NULL && json_number_value(most) < json_number_value(least);
}

static bool are_all_disjoint(schema_reader *reader, const json_t *list, json_t *other, int depth)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!are_disjoint(reader, json_array_get(list, i), other, depth + 1))
            return false;
    return json_array_size(list) > 0;
}

/* Whether the keywords show that no value matches both. */
static bool are_disjoint(schema_reader *reader, json_t *left, json_t *right, int depth)
{
    uint32_t left_types = SCHEMA_ANY, right_types = SCHEMA_ANY;
    const json_t *type;

    left = target_of(reader, left);
    right = target_of(reader, right);
    if (!schema_spend(reader, PAIR_STEPS) || !json_is_object(left) || !json_is_object(right) || depth == MAX_DEPTH)
        return json_is_false(left) || json_is_false(right);
    type = json_object_get(left, "type");
    if (type != NULL && !schema_types(reader, type, &left_types))
        return false;
    type = json_object_get(right, "type");
    if (type != NULL && !schema_types(reader, type, &right_types))
        return false;
    return (left_types & right_types) == 0 || lists_none_of(reader, left, right) ||
           lists_none_of(reader, right, left) ||
           ((left_types & right_types) == SCHEMA_OBJECT &&
            (differ_in_member(reader, left, right, depth) || differ_in_member(reader, right, left, depth))) ||
           ((left_types & right_types & ~(uint32_t)SCHEMA_NUMBER) == 0 &&
            (is_below(left, right) || is_below(right, left))) ||
           are_all_disjoint(reader, json_object_get(left, "anyOf"), right, depth) ||
           are_all_disjoint(reader, json_object_get(right, "anyOf"), left, depth);
}

json_t *schema_one_of(schema_reader *reader, json_t *schemas)
{
    json_t *alternatives, *negations, *found = find_pair(reader, "oneOf", schemas);
    const size_t count = json_array_size(schemas);

    if (found != NULL)
        return found;
    if (count == 0) {
        (void)schema_fail(reader, "oneOf", "not an array of schemas");
        return NULL;
    }
    alternatives = json_array();
    negations = json_array();
    add_negations(negations, schemas, false);
    for (size_t i = 0; i < count && !grammar_has_ended(reader->grammar, NULL); i++) {
        json_t *all = json_pack("[O]", json_array_get(schemas, i));

        for (size_t k = 0; k < count; k++)
            if (k != i && !are_disjoint(reader, json_array_get(schemas, i), json_array_get(schemas, k), 0))
                (void)json_array_append(all, json_array_get(negations, k));
        (void)schema_take(reader, 1 + json_array_size(all) / 16);
        if (json_array_size(all) == 1)
            (void)json_array_append(alternatives, json_array_get(schemas, i));
        else
            (void)json_array_append_new(alternatives, json_pack("{s:O}", "allOf", all));
        json_decref(all);
    }
    json_decref(negations);
    return add_pair(reader, "oneOf", schemas, json_pack("{s:o}", "anyOf", alternatives));
}

json_t *schema_if(schema_reader *reader, json_t *schema)
{
    json_t *condition = json_object_get(schema, "if"), *found = find_pair(reader, "if", condition);
    json_t *good = json_object_get(schema, "then"), *bad = json_object_get(schema, "else");

    if (found != NULL)
        return found;
    return add_pair(reader, "if", condition,
                    json_pack("{s:[{s:[O, o]}, {s:[o, o]}]}", "anyOf", "allOf", condition,
                              good != NULL ? json_incref(good) : json_true(), "allOf", negation_of(condition),
                              bad != NULL ? json_incref(bad) : json_true()));
}

json_t *schema_dependent(schema_reader *reader, json_t *dependent)
{
    json_t *all, *found = find_pair(reader, "dependent", dependent), *value;
    const char *name;

    if (found != NULL)
        return found;
    if (!json_is_object(dependent)) {
        (void)schema_fail(reader, "dependencies", "not an object");
        return NULL;
    }
    if (json_object_size(dependent) == 0)
        return json_true();
    all = json_array();
    json_object_foreach(dependent, name, value) {
        (void)json_array_append_new(
            all, json_pack("{s:[{s:{s:b}}, {s:[{s:[s]}, o]}]}", "anyOf", "properties", name, 0, "allOf", "required",
                           name, json_is_array(value) ? json_pack("{s:O}", "required", value) : json_incref(value)));
    }
    return add_pair(reader, "dependent", dependent, json_pack("{s:o}", "allOf", all));
}
