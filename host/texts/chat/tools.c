#include "texts/chat/tools.h"
#include "base/memory.h"
#include "texts/chat/form_cache.h"
#include "texts/grammar/grammar_schema.h"
#include <stdlib.h>
#include <string.h>

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

static bool is_white(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static bool is_name(const char *name)
{
    size_t bytes = name != NULL ? strlen(name) : 0;

    for (size_t i = 0; i < bytes; i++)
        if (!is_word(name[i]))
            return false;
    return bytes > 0 && bytes < TOOL_NAME_BYTES;
}

static struct tool *find(tool_set *set, const char *name)
{
    for (uint32_t i = 0; i < set->count && name != NULL; i++)
        if (strcmp(set->tools[i].name, name) == 0)
            return &set->tools[i];
    return NULL;
}

/* The tool as templates take it: its function has only the members that are meant for the model. */
static json_t *shown(json_t *function)
{
    static const char *const hidden[] = { "type", "strict" };
    json_t *copy = json_copy(function), *whole;

    for (int i = 0; i < 2; i++)
        (void)json_object_del(copy, hidden[i]);
    if (json_is_null(json_object_get(copy, "parameters")) || json_object_get(copy, "parameters") == NULL)
        (void)json_object_set_new(copy, "parameters", json_pack("{s:s, s:{}}", "type", "object", "properties"));
    whole = json_pack("{s:s, s:o}", "type", "function", "function", copy);
    return whole;
}

static bool read_tool(tool_set *set, json_t *given, size_t index, bool flat, body_error *error)
{
    json_t *function = flat ? given : json_object_get(given, "function");
    const char *type = json_string_value(json_object_get(given, "type"));
    const char *name = json_string_value(json_object_get(function, "name"));
    json_t *description = json_object_get(function, "description"), *strict = json_object_get(function, "strict");
    json_t *parameters = json_object_get(function, "parameters"), *whole;

    if (type == NULL || strcmp(type, "function") != 0)
        return body_fail(error, "element %zu: type '%.40s' is not supported; 'function' is", index,
                         type != NULL ? type : "");
    if (!json_is_object(function))
        return body_fail(error, "element %zu: function is not an object", index);
    if (!is_name(name))
        return body_fail(error, "element %zu: the function has no name of 1 to 64 letters, digits, _ and -", index);
    if (find(set, name) != NULL)
        return body_fail(error, "element %zu: there are two functions '%s'", index, name);
    if (description != NULL && !json_is_null(description) && !json_is_string(description))
        return body_fail(error, "element %zu: the description is not a text", index);
    if (parameters != NULL && !json_is_null(parameters) && !json_is_object(parameters))
        return body_fail(error, "element %zu: parameters is not an object, a JSON schema", index);
    if (strict != NULL && !json_is_null(strict) && !json_is_boolean(strict))
        return body_fail(error, "element %zu: strict is neither true nor false", index);
    whole = shown(function);
    if (whole == NULL || json_array_append_new(set->list, whole) != 0)
        return body_fail(error, "out of memory for the tools");
    set->tools[set->count++] = (struct tool){ .name = name,
                                              .parameters = json_is_object(parameters) ? parameters : NULL,
                                              .strict = json_is_true(strict),
                                              .allowed = true };
    return true;
}

bool tool_set_read(tool_set *set, json_t *value, bool flat, body_error *error)
{
    if (!json_is_array(value) || json_array_size(value) > MAX_TOOLS)
        return body_fail(error, "not an array of at most %d tools", MAX_TOOLS);
    if (json_array_size(value) == 0)
        return true;
    set->given = value;
    set->list = json_array();
    if (set->list == NULL)
        return body_fail(error, "out of memory for the tools");
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!read_tool(set, json_array_get(value, i), i, flat, error))
            return false;
    return true;
}

/* The function's name: {"type": "function", "function": {"name": ...}}, or without "function". */
static struct tool *named(tool_set *set, const json_t *value)
{
    const json_t *function = json_object_get(value, "function");

    return find(set, json_string_value(json_object_get(function != NULL ? function : value, "name")));
}

static bool read_mode(tool_set *set, const json_t *value, body_error *error)
{
    static const char *const modes[] = { "auto", "none", "required", NULL };
    uint32_t which;

    if (!body_choice(value, modes, &which, error))
        return false;
    set->choice = (tool_choice)which;
    if (set->count == 0 && set->choice == TOOLS_REQUIRED)
        return body_fail(error, "'required' needs tools");
    return true;
}

bool tool_set_choose(tool_set *set, json_t *value, body_error *error)
{
    const char *type = json_string_value(json_object_get(value, "type"));
    bool one = type != NULL && strcmp(type, "function") == 0;
    const json_t *allowed = json_object_get(value, "allowed_tools"), *list;

    set->given_choice = value;
    if (!json_is_object(value))
        return read_mode(set, value, error);
    if (!one && (type == NULL || strcmp(type, "allowed_tools") != 0))
        return body_fail(error, "type '%.40s' is not supported; 'function' is", type != NULL ? type : "");
    for (uint32_t i = 0; i < set->count; i++)
        set->tools[i].allowed = false;
    if (one) {
        struct tool *chosen = named(set, value);

        set->choice = TOOLS_REQUIRED;
        set->single = true;
        if (chosen != NULL)
            chosen->allowed = true;
        return chosen != NULL || body_fail(error, "there is no such function among the tools");
    }
    allowed = allowed != NULL ? allowed : value;
    list = json_object_get(allowed, "tools");
    if (!read_mode(set, json_object_get(allowed, "mode"), error))
        return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct tool *chosen = named(set, json_array_get(list, i));

        if (chosen == NULL)
            return body_fail(error, "element %zu of the allowed tools is none of the tools", i);
        chosen->allowed = true;
    }
    return json_array_size(list) > 0 || body_fail(error, "no tool is allowed");
}

bool tool_set_is_used(const tool_set *set)
{
    return set->count > 0 && set->choice != TOOLS_NONE;
}

void tool_set_deinit(tool_set *set)
{
    json_decref(set->list);
    strbuf_deinit(&set->warnings);
}

void tool_set_write_warnings(const tool_set *set, struct strbuf *to)
{
    if (set->warnings.size == 0)
        return;
    strbuf_text(to, "\"warnings\":[");
    strbuf_add(to, set->warnings.data, set->warnings.size);
    strbuf_text(to, "],");
}

void tool_set_warn(tool_set *set, const char *text)
{
    strbuf_text(&set->warnings, set->warnings.size > 0 ? "," : "");
    strbuf_json(&set->warnings, text, strlen(text));
}

static void add_warning(tool_set *set, const struct tool *one, const char *why)
{
    struct strbuf text = { 0 };

    strbuf_format(&text, "function '%s' may get any object: its parameters cannot be obeyed: %s", one->name, why);
    set->loose_count++;
    tool_set_warn(set, text.data != NULL ? text.data : "");
    strbuf_deinit(&text);
}

/* Whether the schema's grammar can be built. Building may use at most a quarter of the remaining steps. */
static bool fits(json_t *schema, uint64_t *left, char *why)
{
    struct grammar *trial = grammar_create();
    const uint64_t most = *left / 4;
    bool good;

    (void)grammar_spend(trial, GRAMMAR_STEPS - most);
    good = trial != NULL && grammar_schema(trial, schema, why) && grammar_finish(trial, why);
    *left -= trial != NULL ? grammar_spent(trial) - (GRAMMAR_STEPS - most) : 0;
    grammar_destroy(trial);
    return good;
}

/* The id of a call. */
static grammar_node identifier(struct grammar *grammar)
{
    grammar_node one = grammar_never(grammar);

    for (int c = '-'; c <= 'z'; c++)
        if (is_word((char)c))
            one = grammar_either(grammar, one, grammar_byte(grammar, (uint8_t)c, (uint8_t)c));
    return grammar_repeat(grammar, one, 1, 40);
}

/* A part of the form: its white space may be missing. */
static grammar_node part(struct grammar *grammar, const char *text)
{
    grammar_node all = grammar_empty(grammar);

    for (size_t i = 0; text[i] != '\0'; i++)
        all = grammar_sequence(grammar, all,
                               is_white(text[i])         ? grammar_schema_blank(grammar)
                               : text[i] == TOOL_FORM_ID ? identifier(grammar)
                                                         : grammar_text(grammar, &text[i], 1));
    return all;
}

/* The arguments of a tool. A schema that cannot be obeyed is an error only if it is strict. left: steps for trials. */
static bool arguments_of(tool_set *set, const struct tool *one, struct grammar *grammar, uint64_t *left,
                         grammar_node *out, body_error *error)
{
    char why[GRAMMAR_WHY_BYTES] = "";
    json_t *schema = one->parameters;

    if (json_object_size(schema) == 0) {
        schema = json_pack("{s:s, s:{}}", "type", "object", "properties");
        if (schema == NULL)
            return body_fail(error, "out of memory for the grammar");
    } else if (fits(schema, left, why)) {
        (void)json_incref(schema);
    } else if (one->strict) {
        return body_fail(error, "function '%s' is strict, and its parameters cannot be obeyed: %s", one->name, why);
    } else {
        add_warning(set, one, why);
        schema = NULL;
    }
    if (!grammar_schema_value(grammar, schema, out, why))
        (void)body_fail(error, "function '%s': %s", one->name, why);
    json_decref(schema);
    return error->text[0] == '\0';
}

static struct grammar *build_calls(tool_set *set, const tool_form *form, body_error *error)
{
    struct grammar *grammar = grammar_create();
    uint32_t rule = grammar_rule(grammar), call_rule = grammar_rule(grammar);
    grammar_node calls = grammar_never(grammar), call, all;
    char why[GRAMMAR_WHY_BYTES] = "";
    uint64_t left = GRAMMAR_STEPS;

    for (uint32_t i = 0; i < set->count; i++) {
        grammar_node arguments = 0;

        if (!set->tools[i].allowed)
            continue;
        if (!arguments_of(set, &set->tools[i], grammar, &left, &arguments, error)) {
            grammar_destroy(grammar);
            return NULL;
        }
        call = grammar_sequence(grammar, grammar_text(grammar, set->tools[i].name, strlen(set->tools[i].name)),
                                grammar_sequence(grammar, part(grammar, form->middle), arguments));
        calls = grammar_either(grammar, calls, call);
    }
    grammar_define(grammar, call_rule, grammar_sequence(grammar, calls, part(grammar, form->after)));
    call = grammar_refer(grammar, call_rule);
    all = grammar_sequence(grammar, part(grammar, form->lead), call);
    if (!set->single && !form->single)
        all = grammar_sequence(
            grammar, all,
            grammar_repeat(grammar, grammar_sequence(grammar, part(grammar, form->next), call), 0, GRAMMAR_MANY));
    grammar_define(grammar, rule, grammar_sequence(grammar, all, part(grammar, form->close)));
    if (grammar_finish(grammar, why))
        return grammar;
    (void)body_fail(error, "%s", why);
    grammar_destroy(grammar);
    return NULL;
}

struct grammar *tool_set_grammar(tool_set *set, const tool_form *form, body_error *error)
{
    struct strbuf key = { 0 };
    struct grammar *grammar;

    strbuf_format(&key, "tools %d %d %s %s %s %s %s\n", set->single, form->single, form->lead, form->middle,
                  form->after, form->next, form->close);
    for (uint32_t i = 0; i < set->count; i++)
        strbuf_text(&key, !set->tools[i].allowed ? "-" : set->tools[i].strict ? "s" : "a");
    form_cache_key(&key, set->list);
    grammar = form_cache_find(&key, &set->warnings, &set->loose_count);
    if (grammar == NULL) {
        grammar = build_calls(set, form, error);
        if (grammar != NULL)
            form_cache_add(&key, grammar, &set->warnings, set->loose_count);
    }
    strbuf_deinit(&key);
    return grammar;
}

/* Whether the bytes that were read of a part are all of it. */
static bool is_read(const tool_reader *reader, const char *part)
{
    size_t at = 0;

    for (; *part != '\0'; part++) {
        const size_t before = at;

        if (is_white(*part))
            continue;
        while (*part == TOOL_FORM_ID && at < reader->pending_bytes && is_word(reader->pending[at]))
            at++;
        if (at > before)
            continue;
        if (at == reader->pending_bytes || reader->pending[at] != *part)
            return false;
        at++;
    }
    return at == reader->pending_bytes;
}

static void next_part(tool_reader *reader, tool_part part)
{
    reader->part = part;
    reader->pending_bytes = 0;
}

static void write_id(tool_call *call, bool is_short, uint64_t seed)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    size_t from = is_short ? 0 : 5, count = is_short ? 9 : 24;
    uint64_t state = seed;

    (void)snprintf(call->id, sizeof call->id, "call_");
    for (size_t i = 0; i < count; i++) { /* splitmix64 */
        uint64_t mixed = state += UINT64_C(0x9e3779b97f4a7c15);

        mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
        call->id[from + i] = letters[(mixed ^ mixed >> 31) % (sizeof letters - 1)];
    }
    call->id[from + count] = '\0';
}

static void begin_call(tool_reader *reader, uint64_t seed)
{
    next_part(reader, READ_NAME);
    if (!LIST_GROW(reader->calls, reader->count)) {
        reader->failed = true;
        return;
    }
    reader->calls[reader->count] = (tool_call){ .name = "" };
    write_id(&reader->calls[reader->count], reader->form->short_ids, seed + (uint64_t)reader->count * 1000);
    reader->count++;
}

/* A byte of the arguments. */
static void add_argument(tool_reader *reader, char c)
{
    tool_call *call = &reader->calls[reader->count - 1];

    if (reader->depth == 0 && is_white(c))
        return;
    strbuf_add(&call->arguments, &c, 1);
    reader->failed |= call->arguments.failed;
    if (reader->quoted) {
        reader->quoted = reader->escaped || c != '"';
        reader->escaped = !reader->escaped && c == '\\';
        return;
    }
    reader->quoted = c == '"';
    reader->depth += c == '{' || c == '[';
    if (c == '}' || c == ']') {
        reader->depth -= reader->depth > 0;
        if (reader->depth == 0)
            next_part(reader, reader->form->after[0] != '\0' ? READ_AFTER : READ_LEAD);
    }
}

static void add_byte(tool_reader *reader, char c, uint64_t seed)
{
    const tool_form *form = reader->form;

    if (reader->part == READ_ARGUMENTS) {
        add_argument(reader, c);
        return;
    }
    if (reader->part == READ_NAME) {
        tool_call *call = &reader->calls[reader->count - 1];
        size_t bytes = strlen(call->name);

        if (is_word(c) && bytes + 1 < sizeof call->name) {
            call->name[bytes] = c;
            call->name[bytes + 1] = '\0';
            return;
        }
        call->named = true;
        next_part(reader, READ_MIDDLE);
        if (form->middle[strspn(form->middle, " \n\t\r")] == '\0') {
            next_part(reader, READ_ARGUMENTS);
            add_argument(reader, c);
            return;
        }
    }
    if (is_white(c) || reader->pending_bytes == sizeof reader->pending)
        return;
    reader->pending[reader->pending_bytes++] = c;
    if (reader->part == READ_LEAD && is_read(reader, reader->count == 0 ? form->lead : form->next))
        begin_call(reader, seed);
    else if (reader->part == READ_MIDDLE && is_read(reader, form->middle))
        next_part(reader, READ_ARGUMENTS);
    else if (reader->part == READ_AFTER && is_read(reader, form->after))
        next_part(reader, READ_LEAD);
}

void tool_reader_add(tool_reader *reader, const char *text, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes && !reader->failed; i++)
        add_byte(reader, text[i], seed);
}

void tool_reader_deinit(tool_reader *reader)
{
    for (uint32_t i = 0; i < reader->count; i++)
        strbuf_deinit(&reader->calls[i].arguments);
    free(reader->calls);
}
