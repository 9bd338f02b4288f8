/* unevaluatedProperties and unevaluatedItems of a schema hold for what is described neither by the schema itself nor by
 * those that it applies to the same value. */
#include "texts/grammar/schema_internal.h"
#include <stdlib.h>

static bool add_all(const schema_reader *reader, schema_list *list, json_t *schemas)
{
    for (size_t i = 0; i < json_array_size(schemas); i++)
        if (!schema_add(reader, list, json_array_get(schemas, i)))
            return false;
    return true;
}

static bool has(const schema_list *list, const json_t *part)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->parts[i] == part)
            return true;
    return false;
}

/* Adds the subschemas that the schema applies to the same value: allOf, anyOf, references and so on, and `then` or
 * `else` if the condition is in `list`, the schemas that hold, or not. A subschema within `not` describes nothing. */
static bool add_applied(const schema_reader *reader, const schema_list *list, json_t *schema, schema_list *applied)
{
    static const char *const keywords[] = { "allOf", "anyOf", "oneOf" }, *const by_name[] = { "dependentSchemas",
                                                                                              "dependencies" };
    static const char *const references[] = { "$ref", "$dynamicRef" };
    json_t *condition = json_object_get(schema, "if"), *one;
    bool good = true;
    const char *name;

    for (size_t i = 0; good && i < sizeof keywords / sizeof *keywords; i++)
        good = add_all(reader, applied, json_object_get(schema, keywords[i]));
    for (size_t i = 0; i < sizeof by_name / sizeof *by_name; i++)
        json_object_foreach(json_object_get(schema, by_name[i]), name, one) {
            good = good && (json_is_array(one) || schema_add(reader, applied, one));
        }
    if (condition != NULL)
        good = good && schema_add(reader, applied, condition) &&
               schema_add(reader, applied, json_object_get(schema, has(list, condition) ? "then" : "else"));
    for (size_t i = 0; good && i < sizeof references / sizeof *references; i++) {
        const json_t *reference = json_object_get(schema, references[i]);

        good = reference == NULL || schema_add(reader, applied, schema_resolve(reader, reference));
    }
    return good;
}

bool schema_described(const schema_reader *reader, const schema_list *list, json_t *part, const char *keyword,
                      const bool *describes, bool *out)
{
    schema_list applied = { .count = 0 };
    bool good = schema_add(reader, &applied, part);

    *out = false;
    for (uint32_t i = 0; good && i < applied.count; i++)
        good = add_applied(reader, list, applied.parts[i], &applied);
    for (uint32_t i = 0; good && i < list->count; i++)
        *out |= (describes[i] || (list->parts[i] != part && json_object_get(list->parts[i], keyword) != NULL)) &&
                has(&applied, list->parts[i]);
    free(applied.parts);
    return good;
}
