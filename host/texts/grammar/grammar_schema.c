#include "texts/grammar/grammar_schema.h"
#include "texts/grammar/schema_internal.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_NESTING = 100, MAX_CHOICES = 200, FORM_STEPS = 16 }; /* FORM_STEPS: to look at the keywords of a schema */

/* The schemas of a value, with the schemas that they refer to, and each anyOf from which an alternative was added. */
typedef struct value_form {
    schema_list all, chosen; /* owned */
} value_form;

static void form_deinit(value_form *form)
{
    free(form->all.parts);
    free(form->chosen.parts);
}

static bool copy_list(const schema_reader *reader, const schema_list *from, schema_list *to)
{
    for (uint32_t i = 0; i < from->count; i++)
        if (!schema_add(reader, to, from->parts[i]))
            return false;
    return true;
}

/* A keyword that is not obeyed. */
static bool refuse_keywords(const schema_reader *reader, const json_t *schema)
{
    return json_object_get(schema, "$recursiveRef") == NULL || schema_fail(reader, "$recursiveRef", "not supported");
}

static bool add_part(schema_reader *reader, schema_list *list, json_t *part, schema_list *active);

/* Adds the schemas that the keywords of the part stand for. */
static bool add_implied(schema_reader *reader, schema_list *list, json_t *part, schema_list *active)
{
    json_t *all = json_object_get(part, "allOf"), *reference = json_object_get(part, "$ref");
    json_t *one = json_object_get(part, "oneOf"), *excluded = json_object_get(part, "not");
    json_t *dynamic = json_object_get(part, "$dynamicRef");
    static const char *const dependent[] = { "dependentRequired", "dependentSchemas", "dependencies" };

    if (dynamic != NULL && !add_part(reader, list, schema_resolve(reader, dynamic), active))
        return false;
    if (reference != NULL && !add_part(reader, list, schema_resolve(reader, reference), active))
        return false;
    if (all != NULL && json_array_size(all) == 0)
        return schema_fail(reader, "allOf", "not an array of schemas");
    for (size_t i = 0; i < json_array_size(all); i++)
        if (!add_part(reader, list, json_array_get(all, i), active))
            return false;
    if (one != NULL && !add_part(reader, list, schema_one_of(reader, one), active))
        return false;
    if (json_object_get(part, "if") != NULL && !add_part(reader, list, schema_if(reader, part), active))
        return false;
    if (excluded != NULL && schema_plain_not(part) == NULL &&
        !add_part(reader, list, schema_not(reader, excluded), active))
        return false;
    for (size_t i = 0; i < sizeof dependent / sizeof *dependent; i++)
        if (json_object_get(part, dependent[i]) != NULL &&
            !add_part(reader, list, schema_dependent(reader, json_object_get(part, dependent[i])), active))
            return false;
    return true;
}

/* Adds a schema and the schemas that it refers to. active: the schemas that are being added. NULL: a reason is set. */
static bool add_part(schema_reader *reader, schema_list *list, json_t *part, schema_list *active)
{
    const uint32_t before = list->count;
    bool good;

    if (part == NULL)
        return false;
    if (json_is_true(part) || (json_is_object(part) && json_object_size(part) == 0))
        return true;
    if (!json_is_object(part) && !json_is_false(part))
        return schema_fail(reader, "type", "a schema has to be an object");
    for (uint32_t i = 0; i < active->count; i++)
        if (active->parts[i] == part)
            return schema_fail(reader, "$ref", "refers to itself, without a value in between");
    if (!schema_add(reader, list, part))
        return false;
    if (list->count == before || json_is_false(part))
        return true;
    if (active->count == MAX_NESTING)
        return schema_fail(reader, "type", "more than 100 nested schemas");
    good = refuse_keywords(reader, part) && schema_add(reader, active, part) && add_implied(reader, list, part, active);
    active->count -= good;
    return good;
}

/* The type that the keywords of a schema without one speak of; NULL: any. */
static uint32_t implied_types(const schema_list *list)
{
    static const struct {
        const char *keyword;
        uint32_t types;
    } implied[] = {
        { "properties", SCHEMA_OBJECT },
        { "additionalProperties", SCHEMA_OBJECT },
        { "required", SCHEMA_OBJECT },
        { "patternProperties", SCHEMA_OBJECT },
        { "propertyNames", SCHEMA_OBJECT },
        { "minProperties", SCHEMA_OBJECT },
        { "unevaluatedProperties", SCHEMA_OBJECT },
        { "unevaluatedItems", SCHEMA_ARRAY },
        { "maxProperties", SCHEMA_OBJECT },
        { "items", SCHEMA_ARRAY },
        { "prefixItems", SCHEMA_ARRAY },
        { "minItems", SCHEMA_ARRAY },
        { "maxItems", SCHEMA_ARRAY },
        { "contains", SCHEMA_ARRAY },
        { "uniqueItems", SCHEMA_ARRAY },
        { "pattern", SCHEMA_STRING },
        { "minLength", SCHEMA_STRING },
        { "maxLength", SCHEMA_STRING },
        { "format", SCHEMA_STRING },
        { "minimum", SCHEMA_NUMBER },
        { "maximum", SCHEMA_NUMBER },
        { "exclusiveMinimum", SCHEMA_NUMBER },
        { "exclusiveMaximum", SCHEMA_NUMBER },
        { "multipleOf", SCHEMA_NUMBER },
    };

    for (size_t i = 0; i < sizeof implied / sizeof *implied; i++)
        for (uint32_t k = 0; k < list->count; k++)
            if (json_object_get(list->parts[k], implied[i].keyword) != NULL)
                return implied[i].types;
    return SCHEMA_ANY;
}

/* The types that all schemas permit. */
static bool types_of(const schema_reader *reader, const schema_list *list, uint32_t *out)
{
    bool given = false;

    *out = SCHEMA_ANY;
    for (uint32_t i = 0; i < list->count; i++) {
        const json_t *type = json_object_get(list->parts[i], "type");
        uint32_t types = json_is_false(list->parts[i]) ? 0 : (uint32_t)SCHEMA_ANY;

        if (type != NULL && !schema_types(reader, type, &types))
            return false;
        given |= type != NULL;
        if (json_object_get(schema_plain_not(list->parts[i]), "pattern") != NULL ||
            json_object_get(schema_plain_not(list->parts[i]), "format") != NULL)
            types &= SCHEMA_STRING;
        if (json_object_get(schema_plain_not(list->parts[i]), "multipleOf") != NULL)
            types &= SCHEMA_NUMBER;
        *out &= types;
    }
    if (!given)
        *out &= implied_types(list);
    return true;
}

/* The values that `not` excludes. A new array; NULL: out of memory. */
static json_t *excluded_values(const schema_list *list)
{
    json_t *all = json_array();

    for (uint32_t i = 0; i < list->count; i++) {
        const json_t *excluded = schema_plain_not(list->parts[i]);

        if (json_object_get(excluded, "const") != NULL)
            (void)json_array_append(all, json_object_get(excluded, "const"));
        (void)json_array_extend(all, json_object_get(excluded, "enum"));
    }
    return all;
}

static bool excludes(const json_t *excluded, const json_t *value)
{
    for (size_t i = 0; i < json_array_size(excluded); i++)
        if (json_equal(json_array_get(excluded, i), (json_t *)(uintptr_t)value) != 0)
            return true;
    return false;
}

static void make_value(schema_reader *reader)
{
    struct grammar *grammar = reader->grammar;
    grammar_node value, member, all;

    if (reader->has_value)
        return;
    reader->has_value = true;
    reader->value = grammar_rule(grammar);
    reader->object = grammar_rule(grammar);
    value = grammar_refer(grammar, reader->value);
    member =
        schema_join(reader, schema_string_of(reader, 0, GRAMMAR_MANY),
                    schema_join(reader, schema_words(reader, ":"), schema_join(reader, schema_blank(reader), value)));
    grammar_define(grammar, reader->object, schema_list_of(reader, "{", member, "}", 0, GRAMMAR_MANY));
    all = schema_regex(reader, "true|false|null", false);
    all = grammar_either(grammar, all, schema_any_number(reader));
    all = grammar_either(grammar, all, schema_string_of(reader, 0, GRAMMAR_MANY));
    all = grammar_either(grammar, all, schema_list_of(reader, "[", value, "]", 0, GRAMMAR_MANY));
    all = grammar_either(grammar, all, grammar_refer(grammar, reader->object));
    grammar_define(grammar, reader->value, all);
}

/* The keywords of a schema that concern numbers, or strings. A new object. */
static json_t *keywords_of(const json_t *schema, uint32_t types)
{
    static const char *const of_numbers[] = {
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "not", NULL
    };
    static const char *const of_strings[] = { "minLength", "maxLength", "pattern", "format", "not", NULL };
    json_t *own = json_object();

    for (const char *const *name = (types & SCHEMA_NUMBER) != 0 ? of_numbers : of_strings; *name != NULL; name++)
        if (strcmp(*name, "not") != 0 || schema_plain_not(schema) != NULL)
            (void)json_object_set(own, *name, json_object_get(schema, *name));
    return own;
}

/* Numbers or strings. Those of equal keywords have one rule. */
static bool scalars(schema_reader *reader, const schema_list *list, uint32_t types, const json_t *excluded,
                    grammar_node *out)
{
    json_t *keywords = json_array(), *key = json_pack("[i, O, o]", (int)types, excluded, keywords), *known;
    char *text;
    bool good;

    for (uint32_t i = 0; i < list->count; i++)
        (void)json_array_append_new(keywords, keywords_of(list->parts[i], types));
    text = json_dumps(key, JSON_SORT_KEYS | JSON_COMPACT);
    json_decref(key);
    if (text == NULL)
        return schema_fail(reader, "type", "out of memory");
    known = json_object_get(reader->scalars, text);
    *out = (grammar_node)json_integer_value(known);
    good = known != NULL || (schema_spend(reader, strlen(text)) && schema_take(reader, 1 + strlen(text) / 64));
    if (good && known == NULL) {
        good = (types & SCHEMA_NUMBER) != 0 ? schema_numbers(reader, list, types, excluded, out)
                                            : schema_strings(reader, list, excluded, out);
        *out = grammar_share(reader->grammar, *out);
        good = good && (json_object_set_new(reader->scalars, text, json_integer(*out)) == 0 ||
                        schema_fail(reader, "type", "out of memory"));
    }
    free(text);
    return good;
}

/* The values of these types that the keywords of all schemas permit. */
static bool values_of_types(schema_reader *reader, const schema_list *list, uint32_t types, const json_t *excluded,
                            grammar_node *out)
{
    static const struct {
        uint32_t type;
        const char *text;
    } words[] = { { SCHEMA_NULL, "null" }, { SCHEMA_BOOLEAN, "true" }, { SCHEMA_BOOLEAN, "false" } };
    grammar_node one;

    *out = grammar_never(reader->grammar);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        json_t *value = json_loads(words[i].text, JSON_DECODE_ANY, NULL);

        if ((types & words[i].type) != 0 && !excludes(excluded, value))
            *out = schema_either(reader, *out, schema_words(reader, words[i].text));
        json_decref(value);
    }
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t scalar = types & (i == 0 ? (uint32_t)SCHEMA_NUMBER : (uint32_t)SCHEMA_STRING);

        if (scalar != 0 && !scalars(reader, list, scalar, excluded, &one))
            return false;
        if (scalar != 0)
            *out = schema_either(reader, *out, one);
    }
    if ((types & SCHEMA_ARRAY) != 0) {
        if (!schema_arrays(reader, list, &one))
            return false;
        *out = schema_either(reader, *out, one);
    }
    if ((types & SCHEMA_OBJECT) != 0) {
        if (!schema_objects(reader, list, &one))
            return false;
        *out = schema_either(reader, *out, one);
    }
    return true;
}

/* The values that a schema lists, as far as they match all schemas. *out: a new array; NULL: none lists any. */
static bool listed(schema_reader *reader, const schema_list *list, json_t **out)
{
    json_t *values = NULL, *constant = NULL;
    bool fits = true, good = true;

    *out = NULL;
    for (uint32_t i = 0; i < list->count && values == NULL; i++) {
        constant = json_object_get(list->parts[i], "const");
        values = constant != NULL ? json_pack("[O]", constant) : json_incref(json_object_get(list->parts[i], "enum"));
    }
    if (values == NULL)
        return true;
    *out = json_array();
    for (size_t i = 0; good && i < json_array_size(values); i++) {
        fits = true;
        for (uint32_t k = 0; good && fits && k < list->count; k++)
            good = schema_check(reader, list->parts[k], json_array_get(values, i), &fits);
        if (good && fits)
            (void)json_array_append(*out, json_array_get(values, i));
    }
    json_decref(values);
    return good;
}

/* The first anyOf from which no alternative was added; NULL: none. */
static json_t *next_choice(const value_form *form)
{
    for (uint32_t i = 0; i < form->all.count; i++) {
        json_t *any = json_object_get(form->all.parts[i], "anyOf");
        uint32_t k = 0;

        while (k < form->chosen.count && form->chosen.parts[k] != any)
            k++;
        if (any != NULL && k == form->chosen.count)
            return any;
    }
    return NULL;
}

static bool form_value(schema_reader *reader, const value_form *form, grammar_node *out);

/* The values that match one of the alternatives, and everything else. */
static bool choose(schema_reader *reader, const value_form *form, json_t *any, grammar_node *out)
{
    bool good = true;

    *out = grammar_never(reader->grammar);
    if (json_array_size(any) == 0)
        return schema_fail(reader, "anyOf", "not an array of schemas");
    if (form->chosen.count == MAX_CHOICES)
        return schema_fail(reader, "anyOf", "more than 200 for one value");
    for (size_t i = 0; good && i < json_array_size(any); i++) {
        value_form next = { .all.count = 0 };
        schema_list active = { .count = 0 };
        grammar_node one = 0;

        good = copy_list(reader, &form->all, &next.all) && copy_list(reader, &form->chosen, &next.chosen) &&
               schema_add(reader, &next.chosen, any) && add_part(reader, &next.all, json_array_get(any, i), &active) &&
               form_value(reader, &next, &one);
        if (good)
            *out = schema_either(reader, *out, one);
        free(active.parts);
        form_deinit(&next);
    }
    return good;
}

/* The values that match the keywords of all schemas, apart from anyOf. Arrays and objects have a rule for each list of
 * schemas, because schemas may lead to themselves. */
static bool values_of(schema_reader *reader, const schema_list *list, uint32_t types, grammar_node *out)
{
    json_t *excluded;
    schema_list key = { .count = 0 };
    const bool has_rule = (types & (SCHEMA_ARRAY | SCHEMA_OBJECT)) != 0;
    uint32_t rule = 0;
    bool good;

    if (!schema_spend(reader, 1 + reader->rule_count / FORM_STEPS))
        return false;
    for (uint32_t i = 0; has_rule && i < reader->rule_count; i++)
        if (reader->rules[i].list.count == list->count &&
            memcmp(reader->rules[i].list.parts, list->parts, list->count * sizeof *list->parts) == 0) {
            *out = grammar_refer(reader->grammar, reader->rules[i].rule);
            return true;
        }
    if (has_rule) {
        if (!copy_list(reader, list, &key) || !schema_take(reader, 1 + list->count / 16) ||
            !LIST_GROW(reader->rules, reader->rule_count)) {
            free(key.parts);
            return schema_fail(reader, "$ref", "out of memory");
        }
        rule = grammar_rule(reader->grammar);
        reader->rules[reader->rule_count++] = (schema_rule){ key, rule };
    }
    excluded = excluded_values(list);
    good = excluded != NULL ? values_of_types(reader, list, types, excluded, out)
                            : schema_fail(reader, "not", "out of memory");
    json_decref(excluded);
    if (!good || !has_rule)
        return good;
    grammar_define(reader->grammar, rule, *out);
    if (!grammar_is_never(reader->grammar, *out))
        *out = grammar_refer(reader->grammar, rule);
    return true;
}

static bool form_value(schema_reader *reader, const value_form *form, grammar_node *out)
{
    json_t *values = NULL, *any = next_choice(form);
    uint32_t types;

    if (!schema_spend(reader, (uint64_t)(form->all.count + 1) * (FORM_STEPS + form->chosen.count / 8)) ||
        !listed(reader, &form->all, &values) || !types_of(reader, &form->all, &types)) {
        json_decref(values);
        return false;
    }
    if (values != NULL || types == 0) {
        *out = schema_literals(reader, values, false);
        json_decref(values);
        return true;
    }
    if (any != NULL)
        return choose(reader, form, any, out);
    if (form->all.count == 0) {
        make_value(reader);
        *out = grammar_refer(reader->grammar, reader->value);
        return true;
    }
    return values_of(reader, &form->all, types, out);
}

static bool make_form(schema_reader *reader, const schema_list *list, value_form *form)
{
    bool good = true;

    for (uint32_t i = 0; good && i < list->count; i++) {
        schema_list active = { .count = 0 };

        good = add_part(reader, &form->all, list->parts[i], &active);
        free(active.parts);
    }
    return good;
}

static bool make_expression(schema_reader *reader, const schema_list *list, grammar_node *out)
{
    value_form form = { .all.count = 0 };
    bool good;

    *out = 0;
    if (reader->nesting == MAX_NESTING)
        return schema_fail(reader, "type", "more than 100 nested schemas");
    reader->nesting++;
    good = make_form(reader, list, &form) && form_value(reader, &form, out);
    reader->nesting--;
    form_deinit(&form);
    return good;
}

static json_t *list_values(schema_reader *reader, const schema_list *list)
{
    value_form form = { .all.count = 0 };
    json_t *values = NULL;
    uint32_t types;

    if (make_form(reader, list, &form) && next_choice(&form) == NULL && listed(reader, &form.all, &values) &&
        values == NULL && types_of(reader, &form.all, &types) &&
        (types & ~(uint32_t)(SCHEMA_NULL | SCHEMA_BOOLEAN)) == 0) {
        values = json_array();
        if ((types & SCHEMA_NULL) != 0)
            (void)json_array_append_new(values, json_null());
        for (int i = 0; (types & SCHEMA_BOOLEAN) != 0 && i < 2; i++)
            (void)json_array_append_new(values, json_boolean(i));
    }
    form_deinit(&form);
    return values;
}

grammar_node grammar_schema_blank(struct grammar *grammar)
{
    const schema_reader reader = { .grammar = grammar };

    return grammar_share(grammar, schema_regex(&reader, "(?: |\\n {0,20})?", false));
}

bool grammar_schema_value(struct grammar *grammar, json_t *schema, grammar_node *out, char *why)
{
    schema_reader reader = {
        .grammar = grammar, .root = schema, .why = why, .make_value = make_expression, .list_values = list_values
    };
    bool good = true;

    why[0] = '\0';
    reader.blank = grammar_schema_blank(grammar);
    reader.character = schema_character(&reader);
    reader.scalars = json_object();
    if (schema != NULL) {
        good = schema_find_names(&reader) && make_expression(&reader, &(schema_list){ &schema, 1 }, out);
        if (good && (grammar_has_ended(grammar, NULL) || grammar_is_never(grammar, *out)))
            good = reader.left_out != NULL ? schema_fail(&reader, reader.left_out, SCHEMA_NOT_NEGATED)
                                           : schema_fail(&reader, "type", "no value matches all keywords");
    } else {
        make_value(&reader);
        *out = grammar_refer(grammar, reader.object);
    }
    for (uint32_t i = 0; i < reader.rule_count; i++)
        free(reader.rules[i].list.parts);
    for (uint32_t i = 0; i < SCHEMA_MACHINES; i++)
        schema_machine_deinit(&reader.machines[i]);
    free(reader.rules);
    free(reader.pairs);
    json_decref(reader.names);
    json_decref(reader.targets);
    json_decref(reader.made);
    json_decref(reader.scalars);
    json_decref(reader.sets);
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
