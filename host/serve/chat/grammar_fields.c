/* The fields of the form of the text: schemas, grammars, regular expressions, lists of texts. */
#include "serve/chat/request_fields.h"
#include "texts/chat/form_cache.h"
#include "texts/grammar/grammar_gbnf.h"
#include "texts/grammar/grammar_regex.h"
#include "texts/grammar/grammar_schema.h"
#include <stdlib.h>
#include <string.h>

/* Builds the language whose texts are the elements of an array. */
static bool words_of(struct grammar *form, const json_t *texts, char *why)
{
    const size_t count = json_array_size(texts);
    grammar_word *words = calloc(count + 1, sizeof *words);

    for (size_t i = 0; words != NULL && i < count; i++)
        words[i] =
            (grammar_word){ json_string_value(json_array_get(texts, i)), json_string_length(json_array_get(texts, i)) };
    if (words != NULL)
        grammar_define(form, grammar_rule(form), grammar_words(form, words, count));
    else
        (void)snprintf(why, GRAMMAR_WHY_BYTES, "out of memory for the texts");
    free(words);
    return words != NULL;
}

/* What the form of a text is made of. */
typedef enum form_kind { FORM_SCHEMA, FORM_GBNF, FORM_REGEX, FORM_WORDS } form_kind;

static bool build_form(struct grammar *form, form_kind kind, json_t *value, char *why)
{
    grammar_node node = 0;
    uint32_t rule;
    bool good;

    switch (kind) {
    case FORM_SCHEMA:
        return grammar_schema(form, value, why);
    case FORM_GBNF:
        return grammar_gbnf(form, json_string_value(value), why);
    case FORM_WORDS:
        return words_of(form, value, why);
    case FORM_REGEX:
        break;
    }
    rule = grammar_rule(form);
    good = grammar_regex(form, json_string_value(value), false, false, &node, why);
    grammar_define(form, rule, node);
    return good;
}

/* Sets the form of the texts: the form of an earlier request with the same value, or a new one (FORM_SCHEMA: NULL is
 * any object). */
static bool set_form(completion_request *request, form_kind kind, json_t *value, body_error *error)
{
    struct strbuf key = { 0 };
    char why[GRAMMAR_WHY_BYTES] = "";
    bool good = true;

    if (request->form != NULL)
        return body_fail(error, "only one form of the text is allowed in a request");
    strbuf_format(&key, "%d", (int)kind);
    form_cache_key(&key, value);
    request->form = form_cache_find(&key, NULL, NULL);
    if (request->form == NULL) {
        request->form = grammar_create();
        good = request->form != NULL ? build_form(request->form, kind, value, why) && grammar_finish(request->form, why)
                                     : body_fail(error, "out of memory for the grammar");
        if (good)
            form_cache_add(&key, request->form, NULL, 0);
        else if (request->form != NULL)
            (void)body_fail(error, "%s", why);
    }
    strbuf_deinit(&key);
    return good;
}

bool field_schema(completion_request *request, json_t *schema, body_error *error)
{
    return set_form(request, FORM_SCHEMA, schema, error);
}

/* {"type": "text"}, {"type": "json_object"} or {"type": "json_schema", "json_schema": {"schema": ...}}. The schema may
 * also be next to the type, as clients of llama-server write it. */
bool field_format(void *user, json_t *value, body_error *error)
{
    static const char *const formats[] = { "text", "json_object", "json_schema", NULL };
    static const char *const names[] = { "type", "json_schema", "schema", NULL };
    static const char *const inner_names[] = { "name", "description", "strict", "schema", "type", NULL };
    json_t *inner = json_object_get(value, "json_schema");
    json_t *schema = json_object_get(value, "schema"), *inner_schema = json_object_get(inner, "schema");
    uint32_t which;

    if (!body_choice(json_object_get(value, "type"), formats, &which, error) || !body_members(value, names, error) ||
        !body_members(inner, inner_names, error))
        return false;
    if ((schema != NULL && (which == 0 || inner_schema != NULL)) || (inner_schema != NULL && which != 2))
        return body_fail(error,
                         "the schema would have no effect; remove it, or use the type json_schema and one schema");
    if (which == 0)
        return true;
    schema = schema != NULL ? schema : inner_schema;
    if (which == 2 && schema == NULL)
        return body_fail(error, "json_schema has no schema");
    return set_form(user, FORM_SCHEMA, schema, error);
}

static bool read_grammar(void *user, json_t *value, body_error *error)
{
    return json_is_string(value) ? set_form(user, FORM_GBNF, value, error) : body_fail(error, "not a text");
}

static bool read_regex(void *user, json_t *value, body_error *error)
{
    return json_is_string(value) ? set_form(user, FORM_REGEX, value, error) : body_fail(error, "not a text");
}

/* A schema, or its text. */
static bool read_schema(void *user, json_t *value, body_error *error)
{
    json_error_t wrong;
    json_t *schema = json_is_string(value)
                         ? json_loads(json_string_value(value), JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &wrong)
                         : json_incref(value);
    const bool good =
        schema != NULL ? set_form(user, FORM_SCHEMA, schema, error) : body_fail(error, "not a schema of JSON");

    json_decref(schema);
    return good;
}

/* Reads an array of texts; the generated text has to be one of them. */
static bool read_texts(void *user, json_t *value, body_error *error)
{
    const size_t count = json_array_size(value);

    for (size_t i = 0; i < count; i++)
        if (!json_is_string(json_array_get(value, i)))
            return body_fail(error, "element %zu is not a text", i);
    return count > 0 ? set_form(user, FORM_WORDS, value, error) : body_fail(error, "not an array of texts");
}

static bool read_any_object(void *user, json_t *value, body_error *error)
{
    bool on = false;

    return body_bool(value, &on, error) && (!on || set_form(user, FORM_SCHEMA, NULL, error));
}

/* An object with the form of the text, as vLLM has it. */
static bool read_structured(void *user, json_t *value, body_error *error)
{
    static const body_parameter forms[] = { { "json", read_schema },
                                            { "regex", read_regex },
                                            { "choice", read_texts },
                                            { "grammar", read_grammar },
                                            { "json_object", read_any_object } };
    const char *name;
    json_t *one;

    if (!json_is_object(value))
        return body_fail(error, "not an object");
    json_object_foreach(value, name, one) {
        size_t i = 0;

        while (i < sizeof forms / sizeof *forms && strcmp(forms[i].name, name) != 0)
            i++;
        if (json_is_null(one))
            continue;
        if (i == sizeof forms / sizeof *forms)
            return body_fail(error, "'%.40s' is not supported", name);
        if (!forms[i].read(user, one, error))
            return false;
    }
    return true;
}

static const body_parameter rows[] = { { "response_format", field_format }, { "structured_outputs", read_structured },
                                       { "json_schema", read_schema },      { "grammar", read_grammar },
                                       { "guided_json", read_schema },      { "guided_regex", read_regex },
                                       { "guided_choice", read_texts },     { "guided_grammar", read_grammar } };
const body_table grammar_fields = { rows, sizeof rows / sizeof *rows, NULL };
