/* Whether a value that a schema lists, by enum or const, matches other schemas. */
#include "texts/grammar/schema_internal.h"
#include "texts/grammar/grammar_regex.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NESTING = 100, CHECK_STEPS = 64 };

typedef struct value_check {
    schema_reader *reader;
    uint32_t nesting;
} value_check;

static bool check(value_check *self, json_t *schema, const json_t *value, bool *out);

static uint32_t type_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_NULL:
        return SCHEMA_NULL;
    case JSON_TRUE:
    case JSON_FALSE:
        return SCHEMA_BOOLEAN;
    case JSON_INTEGER:
        return SCHEMA_INTEGER;
    case JSON_REAL:
        return floor(json_real_value(value)) == json_real_value(value) ? SCHEMA_INTEGER : SCHEMA_FRACTION;
    case JSON_STRING:
        return SCHEMA_STRING;
    case JSON_ARRAY:
        return SCHEMA_ARRAY;
    default:
        return SCHEMA_OBJECT;
    }
}

static bool is_equal(const json_t *left, const json_t *right)
{
    return json_is_number(left) && json_is_number(right)
               ? json_number_value(left) == json_number_value(right)
               : json_equal((json_t *)(uintptr_t)left, (json_t *)(uintptr_t)right) != 0;
}

/* A text that is equal for equal values. NULL: out of memory. */
static char *text_of(const json_t *value)
{
    char text[64];

    if (!json_is_number(value))
        return json_dumps(value, JSON_ENCODE_ANY | JSON_SORT_KEYS | JSON_COMPACT);
    (void)snprintf(text, sizeof text, "%.17g", json_number_value(value) + 0.0);
    return strdup(text);
}

/* The texts of many values, as members of an object, which is made once for each array. */
static const json_t *texts_of(schema_reader *reader, json_t *values)
{
    char key[32];
    json_t *set;

    (void)snprintf(key, sizeof key, "%p", (void *)values);
    if (reader->sets == NULL)
        reader->sets = json_object();
    set = json_object_get(reader->sets, key);
    if (set != NULL)
        return set;
    set = json_object();
    for (size_t i = 0; i < json_array_size(values) && schema_take(reader, 1); i++) {
        char *text = text_of(json_array_get(values, i));

        if (text == NULL || json_object_set_new_nocheck(set, text, json_true()) != 0)
            (void)schema_fail(reader, "enum", "out of memory");
        free(text);
    }
    return json_object_set_new(reader->sets, key, set) == 0 ? set : NULL;
}

static bool is_among(schema_reader *reader, const json_t *value, json_t *values)
{
    enum { FEW = 8 };
    char *text;
    bool found = false;

    if (json_array_size(values) > FEW) {
        text = text_of(value);
        found = text != NULL && json_object_get(texts_of(reader, values), text) != NULL;
        free(text);
        return found;
    }
    for (size_t i = 0; i < json_array_size(values); i++)
        found |= is_equal(value, json_array_get(values, i));
    return found;
}

static bool check_number(const json_t *schema, double number)
{
    const json_t *least = json_object_get(schema, "minimum"), *most = json_object_get(schema, "maximum");
    const json_t *above = json_object_get(schema, "exclusiveMinimum"),
                 *below = json_object_get(schema, "exclusiveMaximum");
    const double step = json_number_value(json_object_get(schema, "multipleOf"));
    const double quotient = step > 0 ? number / step : 0;

    return (least == NULL || number >= json_number_value(least)) &&
           (most == NULL || number <= json_number_value(most)) &&
           (above == NULL || number > json_number_value(above)) &&
           (below == NULL || number < json_number_value(below)) &&
           (step == 0 || fabs(quotient - round(quotient)) <= 1e-9 * fmax(1, fabs(quotient)));
}

/* Whether a count of at most `most` is within two keywords. */
static bool is_within(const json_t *schema, const char *least, const char *most, size_t count)
{
    const json_t *low = json_object_get(schema, least), *high = json_object_get(schema, most);

    return (low == NULL || (double)count >= json_number_value(low)) &&
           (high == NULL || (double)count <= json_number_value(high));
}

void schema_machine_deinit(schema_machine *machine)
{
    free(machine->expression);
    grammar_destroy(machine->grammar);
    *machine = (schema_machine){ .expression = NULL };
}

/* The machine of a regular expression, which the reader keeps. Its steps are the reader's. NULL: the reason is set. */
static struct grammar *machine_of(schema_reader *reader, const char *expression, bool search)
{
    schema_machine *machine = &reader->machines[reader->machine_count % SCHEMA_MACHINES];
    char why[GRAMMAR_WHY_BYTES] = "out of memory";
    uint64_t before = grammar_spent(reader->grammar);
    grammar_node node = 0;
    uint32_t rule;
    bool good;

    for (uint32_t i = 0; i < SCHEMA_MACHINES; i++)
        if (reader->machines[i].expression != NULL && strcmp(reader->machines[i].expression, expression) == 0 &&
            reader->machines[i].search == search)
            return reader->machines[i].grammar;
    schema_machine_deinit(machine);
    *machine = (schema_machine){ strdup(expression), search, grammar_create() };
    reader->machine_count++;
    (void)grammar_spend(machine->grammar, before);
    rule = grammar_rule(machine->grammar);
    good = grammar_regex(machine->grammar, expression, search, false, &node, why);
    grammar_define(machine->grammar, rule, node);
    good = good && machine->expression != NULL &&
           (grammar_finish(machine->grammar, why) || !grammar_has_ended(machine->grammar, NULL));
    if (machine->grammar != NULL)
        (void)grammar_spend(reader->grammar, grammar_spent(machine->grammar) - before);
    if (good)
        return machine->grammar;
    (void)schema_fail(reader, "pattern", why);
    schema_machine_deinit(machine);
    return NULL;
}

bool schema_matches(schema_reader *reader, const char *expression, bool search, const char *text, size_t bytes,
                    bool *out)
{
    struct grammar *grammar = machine_of(reader, expression, search);
    uint32_t state, work;

    *out = false;
    if (grammar == NULL)
        return false;
    work = grammar_work(grammar);
    state = grammar_start(grammar);
    for (size_t i = 0; i < bytes && state != GRAMMAR_DEAD; i++)
        state = grammar_next(grammar, state, (uint8_t)text[i]);
    *out = grammar_accepts(grammar, state);
    if (grammar_failed(grammar))
        return schema_fail(reader, "pattern", "needs more than 49,152 states for a value that is listed");
    return schema_spend(reader, bytes / 4 + grammar_work(grammar) - work);
}

static bool check_string(value_check *self, const json_t *schema, const json_t *value, bool *out)
{
    const char *text = json_string_value(value), *pattern = json_string_value(json_object_get(schema, "pattern"));
    const char *format = json_string_value(json_object_get(schema, "format"));
    const size_t bytes = json_string_length(value);
    size_t characters = 0;

    for (size_t i = 0; i < bytes; i++)
        characters += ((uint8_t)text[i] & 0xc0) != 0x80;
    *out = is_within(schema, "minLength", "maxLength", characters);
    format = format != NULL ? schema_format(format, false) : NULL;
    if (*out && format != NULL && !schema_matches(self->reader, format, false, text, bytes, out))
        return false;
    return !*out || pattern == NULL || schema_matches(self->reader, pattern, true, text, bytes, out);
}

static bool check_array(value_check *self, json_t *schema, const json_t *value, bool *out)
{
    json_t *items = json_object_get(schema, "items"), *prefix = json_object_get(schema, "prefixItems");
    json_t *wanted = json_object_get(schema, "contains");
    const bool unique = json_is_true(json_object_get(schema, "uniqueItems"));
    const size_t count = json_array_size(value);
    size_t found = 0;
    bool fits;

    *out = is_within(schema, "minItems", "maxItems", count);
    for (size_t i = 0; *out && i < count; i++) {
        json_t *one = i < json_array_size(prefix) ? json_array_get(prefix, i) : items;

        if (one != NULL && !check(self, one, json_array_get(value, i), out))
            return false;
        for (size_t k = 0; k < i && unique && schema_spend(self->reader, 1); k++)
            *out = *out && !is_equal(json_array_get(value, i), json_array_get(value, k));
        if (wanted != NULL && !check(self, wanted, json_array_get(value, i), &fits))
            return false;
        found += wanted != NULL && fits;
    }
    if (wanted != NULL && json_object_get(schema, "minContains") == NULL)
        *out = *out && found > 0;
    *out = *out && is_within(schema, "minContains", "maxContains", found);
    return true;
}

/* Whether a member matches the schemas of its name. */
static bool check_member(value_check *self, json_t *schema, const char *name, const json_t *value, bool *out)
{
    json_t *own = json_object_get(json_object_get(schema, "properties"), name), *one;
    json_t *others = json_object_get(schema, "additionalProperties"), *names = json_object_get(schema, "propertyNames");
    const char *pattern;
    bool known = own != NULL, fits;

    *out = true;
    if (own != NULL && !check(self, own, value, out))
        return false;
    json_object_foreach(json_object_get(schema, "patternProperties"), pattern, one) {
        if (!schema_matches(self->reader, pattern, true, name, strlen(name), &fits))
            return false;
        if (fits && *out && !check(self, one, value, out))
            return false;
        known |= fits;
    }
    if (*out && !known && others != NULL && !check(self, others, value, out))
        return false;
    if (*out && names != NULL) {
        json_t *text = json_string(name);
        const bool good = text != NULL && check(self, names, text, out);

        json_decref(text);
        return good;
    }
    return true;
}

bool schema_describes(schema_reader *reader, const json_t *schema, const char *name, bool *out)
{
    const char *pattern;
    json_t *one;

    *out = json_object_get(json_object_get(schema, "properties"), name) != NULL;
    json_object_foreach(json_object_get(schema, "patternProperties"), pattern, one) {
        if (!*out && !schema_matches(reader, pattern, true, name, strlen(name), out))
            return false;
    }
    return true;
}

/* Whether an object has a member that the schema of SCHEMA_BEYOND_NAME does not describe. */
static bool check_beyond(value_check *self, const json_t *schema, const json_t *value, bool *out)
{
    const char *name;
    bool described = true;
    json_t *one;

    json_object_foreach((json_t *)(uintptr_t)value, name, one) {
        if (described && !schema_describes(self->reader, schema, name, &described))
            return false;
    }
    *out = !described;
    return true;
}

/* Whether an object has the members of an array, or matches a schema. */
static bool check_dependent(value_check *self, json_t *needed, const json_t *value, bool *out)
{
    if (!json_is_array(needed))
        return check(self, needed, value, out);
    for (size_t i = 0; i < json_array_size(needed); i++) {
        const char *name = json_string_value(json_array_get(needed, i));

        *out = *out && name != NULL && json_object_get(value, name) != NULL;
    }
    return true;
}

static bool check_object(value_check *self, json_t *schema, const json_t *value, bool *out)
{
    static const char *const dependent[] = { "dependentRequired", "dependentSchemas", "dependencies" };
    json_t *required = json_object_get(schema, "required"), *one;
    const json_t *beyond = json_object_get(schema, SCHEMA_BEYOND_NAME);
    const char *name;

    *out = is_within(schema, "minProperties", "maxProperties", json_object_size(value));
    for (size_t i = 0; i < json_array_size(required); i++) {
        name = json_string_value(json_array_get(required, i));
        *out = *out && name != NULL && json_object_get(value, name) != NULL;
    }
    if (*out && beyond != NULL && !check_beyond(self, beyond, value, out))
        return false;
    json_object_foreach((json_t *)(uintptr_t)value, name, one) {
        if (*out && !check_member(self, schema, name, one, out))
            return false;
    }
    for (size_t k = 0; k < sizeof dependent / sizeof *dependent; k++)
        json_object_foreach(json_object_get(schema, dependent[k]), name, one) {
            if (*out && json_object_get(value, name) != NULL && !check_dependent(self, one, value, out))
                return false;
        }
    return true;
}

/* How many of the schemas match. */
static bool count_matches(value_check *self, const json_t *schemas, const json_t *value, size_t *out)
{
    bool fits;

    *out = 0;
    for (size_t i = 0; i < json_array_size(schemas); i++) {
        if (!check(self, json_array_get(schemas, i), value, &fits))
            return false;
        *out += fits;
    }
    return true;
}

static bool check_combinations(value_check *self, json_t *schema, const json_t *value, bool *out)
{
    json_t *all = json_object_get(schema, "allOf"), *any = json_object_get(schema, "anyOf");
    json_t *one = json_object_get(schema, "oneOf"), *not = json_object_get(schema, "not");
    json_t *condition = json_object_get(schema, "if"), *branch;
    size_t of_all, of_any, of_one;
    bool fits = false;

    if (!count_matches(self, all, value, &of_all) || !count_matches(self, any, value, &of_any) ||
        !count_matches(self, one, value, &of_one) || (not != NULL && !check(self, not, value, &fits)))
        return false;
    *out = of_all == json_array_size(all) && (any == NULL || of_any > 0) && (one == NULL || of_one == 1) &&
           !(not != NULL && fits);
    if (condition == NULL || !*out)
        return true;
    if (!check(self, condition, value, &fits))
        return false;
    branch = json_object_get(schema, fits ? "then" : "else");
    return branch == NULL || check(self, branch, value, out);
}

/* Keywords that are not checked. */
static bool refuse_keywords(const value_check *self, const json_t *schema, uint32_t type)
{
    static const struct {
        const char *keyword;
        uint32_t type;
    } refused[] = { { "unevaluatedProperties", SCHEMA_OBJECT },
                    { "unevaluatedItems", SCHEMA_ARRAY },
                    { "$recursiveRef", SCHEMA_ANY } };

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const json_t *keyword = json_object_get(schema, refused[i].keyword);

        if ((type & refused[i].type) != 0 && keyword != NULL && !json_is_true(keyword))
            return schema_fail(self->reader, refused[i].keyword, "not supported for values that are listed");
    }
    return true;
}

static bool check_kind(value_check *self, json_t *schema, const json_t *value, bool *out)
{
    const uint32_t type = type_of(value);

    if (!refuse_keywords(self, schema, type))
        return false;

    *out = true;
    if ((type & SCHEMA_NUMBER) != 0)
        *out = check_number(schema, json_number_value(value));
    else if (type == SCHEMA_STRING)
        return check_string(self, schema, value, out);
    else if (type == SCHEMA_ARRAY)
        return check_array(self, schema, value, out);
    else if (type == SCHEMA_OBJECT)
        return check_object(self, schema, value, out);
    return true;
}

/* The schemas that the schema refers to. */
static bool check_references(value_check *self, json_t *schema, const json_t *value, bool *out)
{
    static const char *const keywords[] = { "$ref", "$dynamicRef" };

    *out = true;
    for (size_t i = 0; *out && i < sizeof keywords / sizeof *keywords; i++) {
        const json_t *reference = json_object_get(schema, keywords[i]);
        json_t *target = reference != NULL ? schema_resolve(self->reader, reference) : NULL;

        if (reference != NULL && (target == NULL || !check(self, target, value, out)))
            return false;
    }
    return true;
}

static bool check_all(value_check *self, json_t *schema, const json_t *value, bool *out)
{
    const json_t *type = json_object_get(schema, "type");
    json_t *constant = json_object_get(schema, "const"), *values = json_object_get(schema, "enum");
    uint32_t types = SCHEMA_ANY;

    *out = false;
    if (type != NULL && !schema_types(self->reader, type, &types))
        return false;
    if ((types & type_of(value)) == 0 || (constant != NULL && !is_equal(constant, value)) ||
        (values != NULL && !is_among(self->reader, value, values)))
        return true;
    if (!check_references(self, schema, value, out))
        return false;
    if (!*out)
        return true;
    if (!check_kind(self, schema, value, out))
        return false;
    return !*out || check_combinations(self, schema, value, out);
}

static bool check(value_check *self, json_t *schema, const json_t *value, bool *out)
{
    bool good;

    *out = json_is_true(schema);
    if (!json_is_object(schema))
        return json_is_boolean(schema) || schema_fail(self->reader, "type", "a schema has to be an object");
    if (!schema_spend(self->reader, CHECK_STEPS))
        return false;
    if (self->nesting == MAX_NESTING)
        return schema_fail(self->reader, "$ref", "more than 100 nested schemas");
    self->nesting++;
    good = check_all(self, schema, value, out);
    self->nesting--;
    return good;
}

bool schema_check(schema_reader *reader, json_t *schema, const json_t *value, bool *out)
{
    value_check self = { .reader = reader };

    return check(&self, schema, value, out);
}
