/* Anthropic's /v1/messages: its requests become those of chats. */
#include "serve/chat/request_fields.h"
#include "texts/model/messages.h"
#include <string.h>

static bool is_of(const json_t *object, const char *type)
{
    const char *text = json_string_value(json_object_get(object, "type"));

    return text != NULL && strcmp(text, type) == 0;
}

/* Appends to a list; false: there is no value. */
static bool append(json_t *list, json_t *value)
{
    return value != NULL && json_array_append_new(list, value) == 0;
}

/* {"type": "base64", "media_type": ..., "data": ...} or {"type": "url", "url": ...} as a part of OpenAI's. */
static json_t *image_part(const json_t *source)
{
    const char *data = json_string_value(json_object_get(source, "data")), *address;
    struct strbuf text = { 0 };
    json_t *part;

    if (is_of(source, "base64") && data != NULL) {
        strbuf_text(&text, "data:;base64,");
        strbuf_add(&text, data, strlen(data) + 1);
    }
    address = text.size > 0 ? text.data : json_string_value(json_object_get(source, "url"));
    part =
        text.failed ? NULL : json_pack("{s:s, s:s}", "type", "image_url", "image_url", address != NULL ? address : "");
    strbuf_deinit(&text);
    return part;
}

/* Adds a block: text to `texts`, a thought to `thoughts`, a call to `calls`, and the message of a result to `list`. */
static bool add_block(json_t *list, json_t *texts, json_t *thoughts, json_t *calls, json_t *block, size_t index,
                      body_error *error)
{
    json_t *content = json_object_get(block, "content");
    const char *type = json_string_value(json_object_get(block, "type"));

    if (is_of(block, "text"))
        return append(texts, json_incref(block));
    if (is_of(block, "image"))
        return append(texts, image_part(json_object_get(block, "source")));
    if (is_of(block, "thinking"))
        return append(thoughts, json_pack("{s:s, s:O?}", "type", "text", "text", json_object_get(block, "thinking")));
    if (is_of(block, "tool_use"))
        return append(calls, json_pack("{s:O?, s:s, s:{s:O?, s:O?}}", "id", json_object_get(block, "id"), "type",
                                       "function", "function", "name", json_object_get(block, "name"), "arguments",
                                       json_object_get(block, "input")));
    if (is_of(block, "tool_result")) {
        content = content != NULL ? messages_content(content, index, error) : json_string("");
        return content != NULL && append(list, json_pack("{s:s, s:O?, s:o}", "role", "tool", "tool_call_id",
                                                         json_object_get(block, "tool_use_id"), "content", content));
    }
    return body_fail(error, "message %zu: a block of type '%.40s' is not supported; 'text' is", index,
                     type != NULL ? type : "");
}

static bool add_message(json_t *list, const json_t *given, size_t index, body_error *error)
{
    const json_t *content = json_object_get(given, "content");
    const char *role = json_string_value(json_object_get(given, "role"));
    json_t *texts = json_array(), *thoughts = json_array(), *calls = json_array(), *message, *thought;
    bool good = role != NULL && (strcmp(role, "user") == 0 || strcmp(role, "assistant") == 0);

    if (!good)
        (void)body_fail(error, "message %zu: the role is neither user nor assistant", index);
    for (size_t i = 0; good && i < json_array_size(content); i++)
        good = add_block(list, texts, thoughts, calls, json_array_get(content, i), index, error);
    if (good && (!json_is_array(content) || json_array_size(texts) > 0 || json_array_size(calls) > 0)) {
        message = json_pack("{s:s, s:O?}", "role", role, "content",
                            !json_is_array(content)      ? (json_t *)(uintptr_t)content
                            : json_array_size(texts) > 0 ? texts
                                                         : NULL);
        if (message != NULL && json_array_size(calls) > 0)
            (void)json_object_set(message, "tool_calls", calls);
        thought = json_array_size(thoughts) > 0 ? messages_content(thoughts, index, error) : NULL;
        if (message != NULL && thought != NULL)
            (void)json_object_set_new(message, "reasoning_content", thought);
        good = (json_array_size(thoughts) == 0 || thought != NULL) && append(list, message);
    }
    json_decref(thoughts);
    json_decref(texts);
    json_decref(calls);
    return good;
}

/* Messages as messages_read() takes them; a new reference, as the next two. Blocks of texts, of calls of tools and of
 * their results are known. NULL: *error names the message. */
static json_t *convert_messages(const json_t *value, body_error *error)
{
    const size_t count = json_array_size(value);
    json_t *list = json_array();
    bool good = json_is_array(value) || body_fail(error, "not an array");

    for (size_t i = 0; good && i < count; i++)
        good = add_message(list, json_array_get(value, i), i, error);
    if (good)
        return list;
    json_decref(list);
    return NULL;
}

/* Tools as tool_set_read() takes them. NULL: *error names the tool. */
static json_t *convert_tools(const json_t *value, body_error *error)
{
    json_t *list = json_array();
    bool good = json_is_array(value) || body_fail(error, "not an array");

    for (size_t i = 0; good && i < json_array_size(value); i++) {
        const json_t *given = json_array_get(value, i), *type = json_object_get(given, "type");

        good = type == NULL || json_is_null(type) || is_of(given, "custom") ||
               body_fail(error, "element %zu: type '%.40s' is not supported; 'custom' is", i,
                         json_is_string(type) ? json_string_value(type) : "");
        good = good && append(list, json_pack("{s:s, s:{s:O?, s:O*, s:O*, s:O*}}", "type", "function", "function",
                                              "name", json_object_get(given, "name"), "description",
                                              json_object_get(given, "description"), "parameters",
                                              json_object_get(given, "input_schema"), "strict",
                                              json_object_get(given, "strict")));
    }
    if (good)
        return list;
    json_decref(list);
    return NULL;
}

/* A choice as tool_set_choose() takes it. *single: at most one tool may be called. NULL: *error says why. */
static json_t *convert_choice(const json_t *value, bool *single, body_error *error)
{
    static const char *const types[] = { "auto", "any", "none", "tool", NULL };
    static const char *const modes[] = { "auto", "required", "none" };
    uint32_t which = 0;

    if (!body_choice(json_object_get(value, "type"), types, &which, error))
        return NULL;
    *single |= json_is_true(json_object_get(value, "disable_parallel_tool_use"));
    return which < 3 ? json_string(modes[which])
                     : json_pack("{s:s, s:O?}", "type", "function", "name", json_object_get(value, "name"));
}

static bool read_turns(void *user, json_t *value, body_error *error)
{
    completion_request *request = user;
    json_t *list = request_keep(request, convert_messages(value, error), error);

    return list != NULL && field_add_messages(request, list, false, error);
}

static bool read_system(void *user, json_t *value, body_error *error)
{
    const json_t *text = request_keep(user, messages_content(value, 0, error), error);

    ((completion_request *)user)->dialog.instructions = json_string_value(text);
    return text != NULL;
}

static bool read_tools(void *user, json_t *value, body_error *error)
{
    completion_request *request = user;
    json_t *list = request_keep(request, convert_tools(value, error), error);

    return list != NULL && tool_set_read(&request->calls.tools, list, false, error);
}

static bool read_choice(void *user, json_t *value, body_error *error)
{
    completion_request *request = user;

    request->calls.tools.given_choice =
        request_keep(request, convert_choice(value, &request->calls.tools.single, error), error);
    return request->calls.tools.given_choice != NULL;
}

/* Whether the model thinks, if its template can tell it so. A budget is a hint there, too, and not kept. */
static bool read_thinking(void *user, json_t *value, body_error *error)
{
    static const char *const kinds[] = { "disabled", "enabled", "adaptive", NULL };
    const json_t *budget = json_object_get(value, "budget_tokens");
    uint32_t which;

    if (budget != NULL && !(json_is_integer(budget) && json_integer_value(budget) > 0))
        return body_fail(error, "budget_tokens is no positive number");
    return body_choice(json_object_get(value, "type"), kinds, &which, error) && field_think(user, which != 0, error);
}

static bool read_tier(void *user, json_t *value, body_error *error)
{
    static const char *const tiers[] = { "auto", "standard_only", NULL };
    uint32_t which;

    (void)user;
    return body_choice(value, tiers, &which, error);
}

static const body_parameter anthropic_rows[] = {
    { "model", field_model },          { "messages", read_turns },
    { "system", read_system },         { "max_tokens", field_max_tokens },
    { "stop_sequences", field_stops }, { "temperature", field_temperature },
    { "top_p", field_top_p },          { "top_k", field_top_k },
    { "stream", field_stream },        { "tools", read_tools },
    { "tool_choice", read_choice },    { "thinking", read_thinking },
    { "service_tier", read_tier },     { "metadata", NULL }
};
static const body_table anthropic = { anthropic_rows, sizeof anthropic_rows / sizeof *anthropic_rows, NULL };

const request_form form_anthropic = { .table = &anthropic,
                                      .prompt = "messages",
                                      .reply = &anthropic_reply,
                                      .chat = true,
                                      .is_single = true,
                                      .continues = true,
                                      .max_tokens = CHAT_TOKENS };
