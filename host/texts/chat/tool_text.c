#include "texts/chat/tool_text.h"
#include "base/strbuf.h"
#include <stdlib.h>
#include <string.h>

static bool has_role(const json_t *message, const char *role)
{
    const char *given = json_string_value(json_object_get(message, "role"));

    return given != NULL && strcmp(given, role) == 0;
}

static const json_t *calls_of(const json_t *message)
{
    const json_t *calls = json_object_get(message, "tool_calls");

    return json_array_size(calls) > 0 ? calls : NULL;
}

bool tool_text_is_needed(const json_t *messages)
{
    bool needed = false;

    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *one = json_array_get(messages, i);

        needed |= has_role(one, "tool") || calls_of(one) != NULL;
    }
    return needed;
}

static void add_json(struct strbuf *to, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY);

    strbuf_text(to, text != NULL ? text : "");
    to->failed |= text == NULL;
    free(text);
}

static void add_content(struct strbuf *to, const json_t *message)
{
    const char *text = json_string_value(json_object_get(message, "content"));

    strbuf_text(to, text != NULL ? text : "");
}

/* Appends a message with this text, which it frees. */
static bool append(json_t *to, const char *role, struct strbuf *text)
{
    json_t *one = text->failed ? NULL
                               : json_pack("{s:s, s:s%}", "role", role, "content", text->data != NULL ? text->data : "",
                                           text->size);

    strbuf_deinit(text);
    return one != NULL && json_array_append_new(to, one) == 0;
}

/* A message of the assistant: its text, then a line for each call, as the tools' description asks for. */
static bool append_calls(json_t *to, const json_t *message)
{
    const json_t *calls = calls_of(message);
    struct strbuf text = { 0 };

    add_content(&text, message);
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *function = json_object_get(json_array_get(calls, i), "function");

        strbuf_text(&text, text.size > 0 ? "\n{\"name\": " : "{\"name\": ");
        add_json(&text, json_object_get(function, "name"));
        strbuf_text(&text, ", \"arguments\": ");
        add_json(&text, json_object_get(function, "arguments"));
        strbuf_text(&text, "}");
    }
    return append(to, "assistant", &text);
}

/* The results from message *at on as one message, since templates refuse two of the user in a row. */
static bool append_results(json_t *to, const json_t *messages, size_t *at)
{
    struct strbuf text = { 0 };

    for (; has_role(json_array_get(messages, *at), "tool"); ++*at) {
        strbuf_text(&text, text.size > 0 ? "\nResult of the function: " : "Result of the function: ");
        add_content(&text, json_array_get(messages, *at));
    }
    return append(to, "user", &text);
}

static void describe(struct strbuf *to, const json_t *tools)
{
    strbuf_text(to, "You may call these functions:\n");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        add_json(to, json_object_get(json_array_get(tools, i), "function"));
        strbuf_text(to, "\n");
    }
    strbuf_text(to, "To call a function, answer with {\"name\": NAME, \"arguments\": {...}} alone.");
}

/* Puts the tools before the text of the first message; one of the assistant follows them. */
static bool add_tools(json_t *to, const json_t *tools)
{
    const json_t *first = json_array_get(to, 0);
    const bool takes = has_role(first, "system") || has_role(first, "user");
    const char *role = takes ? json_string_value(json_object_get(first, "role")) : "user";
    struct strbuf text = { 0 };
    json_t *made = json_array();
    bool good;

    describe(&text, tools);
    if (takes) {
        strbuf_text(&text, "\n\n");
        add_content(&text, first);
    }
    good = made != NULL && append(made, role, &text) &&
           (takes ? json_array_set(to, 0, json_array_get(made, 0))
                  : json_array_insert(to, 0, json_array_get(made, 0))) == 0;
    json_decref(made);
    return good;
}

json_t *tool_text_messages(const json_t *messages, const json_t *tools)
{
    json_t *made = json_array();
    bool good = made != NULL;

    for (size_t i = 0; good && i < json_array_size(messages);) {
        json_t *one = json_array_get(messages, i);

        if (has_role(one, "tool")) {
            good = append_results(made, messages, &i);
            continue;
        }
        good = calls_of(one) != NULL ? append_calls(made, one) : json_array_append(made, one) == 0;
        i++;
    }
    if (good && json_array_size(tools) > 0)
        good = add_tools(made, tools);
    if (good)
        return made;
    json_decref(made);
    return NULL;
}
