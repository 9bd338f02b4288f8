/* What all parts of the reader of schemas use: failures, references, lists of schemas, and combinations of
 * expressions. */
#include "texts/grammar/schema_internal.h"
#include "texts/grammar/grammar_regex.h"
#include "base/memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMPARED = 8 }; /* pointers that are compared in a step */

bool schema_fail(const schema_reader *reader, const char *keyword, const char *what)
{
    if (reader->why[0] == '\0' && !grammar_has_ended(reader->grammar, reader->why))
        (void)snprintf(reader->why, GRAMMAR_WHY_BYTES, "the schema, '%.60s': %.120s", keyword, what);
    return false;
}

bool schema_spend(const schema_reader *reader, uint64_t steps)
{
    return grammar_spend(reader->grammar, steps) || schema_fail(reader, "type", "out of memory");
}

bool schema_take(const schema_reader *reader, uint64_t values)
{
    enum { STEPS = 16, BYTES = 160 };

    return schema_spend(reader, values * STEPS) &&
           (grammar_take(reader->grammar, values * BYTES) || schema_fail(reader, "type", "out of memory"));
}

bool schema_add(const schema_reader *reader, schema_list *list, json_t *part)
{
    if (part == NULL)
        return true;
    if (!schema_spend(reader, 1 + list->count / COMPARED))
        return false;
    for (uint32_t i = 0; i < list->count; i++)
        if (list->parts[i] == part)
            return true;
    if (!LIST_GROW(list->parts, list->count))
        return schema_fail(reader, "type", "out of memory");
    list->parts[list->count++] = part;
    return true;
}

json_t *schema_follow(json_t *at, const char *pointer)
{
    while (at != NULL && *pointer == '/') {
        char name[256];
        size_t used = 0;

        for (pointer++; *pointer != '\0' && *pointer != '/' && used + 1 < sizeof name; pointer++) {
            const bool escaped = pointer[0] == '~' && (pointer[1] == '0' || pointer[1] == '1');

            pointer += escaped;
            name[used++] = (char)(!escaped ? *pointer : *pointer == '0' ? '~' : '/');
        }
        name[used] = '\0';
        at = json_is_array(at) ? json_array_get(at, strtoul(name, NULL, 10)) : json_object_get(at, name);
    }
    return at;
}

json_t *schema_resolve(const schema_reader *reader, const json_t *pointer)
{
    const char *text = json_string_value(pointer);
    json_t *target;
    char key[32];

    (void)snprintf(key, sizeof key, "%p", (const void *)pointer);
    target = json_object_get(reader->targets, key);
    /* A schema that only a pointer reaches, in a keyword of another standard: its base is known without other $ids. */
    if (target == NULL && !reader->has_names && text != NULL && text[0] == '#' && (text[1] == '\0' || text[1] == '/'))
        target = schema_follow(reader->root, text + 1);
    if (json_is_null(target))
        target = NULL;
    if (target == NULL)
        (void)schema_fail(reader, "$ref", "refers to nothing in this schema");
    return target;
}

static bool add_type(const schema_reader *reader, const json_t *name, uint32_t *types)
{
    static const struct {
        const char *name;
        uint32_t types;
    } names[] = { { "null", SCHEMA_NULL },     { "boolean", SCHEMA_BOOLEAN }, { "integer", SCHEMA_INTEGER },
                  { "number", SCHEMA_NUMBER }, { "string", SCHEMA_STRING },   { SCHEMA_FRACTION_NAME, SCHEMA_FRACTION },
                  { "array", SCHEMA_ARRAY },   { "object", SCHEMA_OBJECT } };

    for (size_t i = 0; json_is_string(name) && i < sizeof names / sizeof *names; i++)
        if (strcmp(json_string_value(name), names[i].name) == 0) {
            *types |= names[i].types;
            return true;
        }
    return schema_fail(reader, "type", "no such type");
}

bool schema_types(const schema_reader *reader, const json_t *type, uint32_t *out)
{
    *out = 0;
    if (!json_is_array(type))
        return add_type(reader, type, out);
    for (size_t i = 0; i < json_array_size(type); i++)
        if (!add_type(reader, json_array_get(type, i), out))
            return false;
    return true;
}

bool schema_count(const schema_reader *reader, const schema_list *list, const char *keyword, bool largest,
                  uint32_t *out)
{
    bool given = false;

    for (uint32_t i = 0; i < list->count; i++) {
        const json_t *value = json_object_get(list->parts[i], keyword);
        const double number = json_number_value(value);

        if (value == NULL)
            continue;
        if (!json_is_number(value) || number < 0 || number > (double)SCHEMA_MAX_COUNT ||
            number != (double)(uint32_t)number)
            return schema_fail(reader, keyword, "not a whole number from 0 to 1000000");
        if (!given || (largest ? number > *out : number < *out))
            *out = (uint32_t)number;
        given = true;
    }
    return true;
}

static bool is_scalar(const json_t *value)
{
    return value != NULL && !json_is_array(value) && !json_is_object(value);
}

const json_t *schema_plain_not(const json_t *part)
{
    static const char *const keywords[] = { "pattern", "format", "multipleOf" };
    const json_t *excluded = json_object_get(part, "not"), *values = json_object_get(excluded, "enum"), *value;
    bool plain = json_is_array(values);
    size_t i;

    json_array_foreach(values, i, value)
        plain = plain && is_scalar(value);
    plain = plain || is_scalar(json_object_get(excluded, "const"));
    for (i = 0; i < sizeof keywords / sizeof *keywords; i++)
        plain = plain || json_object_get(excluded, keywords[i]) != NULL;
    return plain && json_object_size(excluded) == 1 ? excluded : NULL;
}

grammar_node schema_join(const schema_reader *reader, grammar_node first, grammar_node second)
{
    if (grammar_is_never(reader->grammar, first))
        return first;
    return grammar_is_never(reader->grammar, second) ? second : grammar_sequence(reader->grammar, first, second);
}

grammar_node schema_either(const schema_reader *reader, grammar_node first, grammar_node second)
{
    if (grammar_is_never(reader->grammar, first))
        return second;
    return grammar_is_never(reader->grammar, second) ? first : grammar_either(reader->grammar, first, second);
}

grammar_node schema_words(const schema_reader *reader, const char *text)
{
    return grammar_text(reader->grammar, text, strlen(text));
}

grammar_node schema_literal(const schema_reader *reader, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    grammar_node node = text != NULL ? schema_words(reader, text) : grammar_never(reader->grammar);

    free(text);
    return node;
}

grammar_node schema_literals(const schema_reader *reader, const json_t *values, bool contents)
{
    const size_t count = json_array_size(values);
    grammar_word *words = schema_take(reader, count) ? calloc(count + 1, sizeof *words) : NULL;
    size_t used = 0;
    grammar_node all;

    for (size_t i = 0; words != NULL && i < count; i++) {
        const json_t *value = json_array_get(values, i);
        char *text = !contents || json_is_string(value) ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;

        if (text != NULL)
            words[used++] = (grammar_word){ text + contents, strlen(text) - 2 * contents };
    }
    all = grammar_words(reader->grammar, words, used);
    for (size_t i = 0; i < used; i++)
        free((char *)(uintptr_t)words[i].text - contents);
    free(words);
    return all;
}

grammar_node schema_regex(const schema_reader *reader, const char *expression, bool in_json)
{
    grammar_node node = 0;
    char why[GRAMMAR_WHY_BYTES];

    (void)grammar_regex(reader->grammar, expression, false, in_json, &node, why);
    return node;
}

grammar_node schema_blank(const schema_reader *reader)
{
    return reader->blank;
}

bool schema_product(const schema_reader *reader, const char *keyword, const grammar_node *with, uint32_t with_count,
                    const grammar_node *without, uint32_t without_count, grammar_node *out)
{
    char why[GRAMMAR_WHY_BYTES];

    if (with_count == 1 && without_count == 0) {
        *out = with[0];
        return true;
    }
    if (!grammar_product(reader->grammar, with, with_count, without, without_count, out, why))
        return schema_fail(reader, keyword, why);
    *out = grammar_share(reader->grammar, *out);
    return true;
}

grammar_node schema_list_of(const schema_reader *reader, const char *open, grammar_node item, const char *close,
                            uint32_t least, uint32_t most)
{
    struct grammar *grammar = reader->grammar;
    grammar_node items = grammar_empty(grammar), more;

    if (most > 0 && !grammar_is_never(grammar, item)) {
        item = grammar_share(grammar, item);
        more = grammar_share(
            grammar, schema_join(reader, schema_words(reader, ","), schema_join(reader, schema_blank(reader), item)));
        items = schema_join(
            reader, item,
            grammar_repeat(grammar, more, least > 0 ? least - 1 : 0, most == GRAMMAR_MANY ? GRAMMAR_MANY : most - 1));
        if (least == 0)
            items = grammar_repeat(grammar, items, 0, 1);
    } else if (least > 0) {
        return grammar_never(grammar);
    }
    return schema_join(
        reader, schema_words(reader, open),
        schema_join(
            reader, schema_blank(reader),
            schema_join(reader, items, schema_join(reader, schema_blank(reader), schema_words(reader, close)))));
}
