#include "texts/model/messages.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "inlay/text.h"
#include "texts/chat/chat.h"
#include "texts/chat/tool_text.h"
#include <stdlib.h>
#include <string.h>

static bool no_room(body_error *error)
{
    return body_fail(error, "out of memory for the messages");
}

/* Adds `message`, which it releases, to the array. */
static bool append(json_t *to, json_t *message, body_error *error)
{
    return (message != NULL && json_array_append_new(to, message) == 0) || no_room(error);
}

bool messages_add(json_t *to, const char *role, const char *content, body_error *error)
{
    return append(to, json_pack("{s:s, s:s}", "role", role, "content", content), error);
}

/* The address of a part that is an image; NULL: it is none. */
static const char *image_of(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    const json_t *image = json_object_get(part, "image_url");

    if (type == NULL || (strcmp(type, "image_url") != 0 && strcmp(type, "input_image") != 0))
        return NULL;
    return json_string_value(json_is_object(image) ? json_object_get(image, "url") : image);
}

/* Parts {"type": "text", "text": ...} as one text, with marks for images; NULL: *error says why. */
static json_t *join_parts(const json_t *parts, size_t index, const image_taker *images, body_error *error)
{
    struct strbuf text = { 0 };
    json_t *whole;

    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_object_get(json_array_get(parts, i), "text");
        const char *type = json_string_value(json_object_get(json_array_get(parts, i), "type"));
        const char *image = images != NULL ? image_of(json_array_get(parts, i)) : NULL;

        if (image != NULL) {
            if (!images->take(images->user, image, error)) {
                char why[sizeof error->text];

                (void)snprintf(why, sizeof why, "%s", error->text);
                strbuf_deinit(&text);
                (void)body_fail(error, "message %zu: part %zu of the content: %.180s", index, i, why);
                return NULL;
            }
            strbuf_text(&text, INLAY_TEXT_IMAGE_MARK);
            continue;
        }
        if (!json_is_string(part)) {
            strbuf_deinit(&text);
            (void)body_fail(error, "message %zu: part %zu of the content is %s%.40s; the model takes texts only", index,
                            i, type != NULL ? "of type " : "not a text", type != NULL ? type : "");
            return NULL;
        }
        strbuf_add(&text, json_string_value(part), json_string_length(part));
    }
    whole = text.failed ? NULL : json_stringn_nocheck(text.size > 0 ? text.data : "", text.size);
    strbuf_deinit(&text);
    if (whole == NULL)
        (void)no_room(error);
    return whole;
}

/* A text, or parts of one. null is an empty text, or null if the message has calls. */
static json_t *read_content(json_t *content, bool calls, size_t index, const image_taker *images, body_error *error)
{
    json_t *text = NULL;

    if (json_is_string(content))
        return json_incref(content);
    if (json_is_array(content))
        return join_parts(content, index, images, error);
    if ((content == NULL && calls) || json_is_null(content))
        text = calls ? json_null() : json_string("");
    else
        (void)body_fail(error, "message %zu is without role or content", index);
    return text;
}

json_t *messages_content(json_t *content, size_t index, body_error *error)
{
    return read_content(content, false, index, NULL, error);
}

json_t *messages_for_template(text_model *model, json_t *messages, const json_t *tools)
{
    const tool_form *form = tools != NULL || tool_text_is_needed(messages) ? text_model_tool_form(model) : NULL;

    return form != NULL && form->in_messages ? tool_text_messages(messages, tools) : json_incref(messages);
}

/* A text as parts: of the type text, and where it has marks and the template prints images, of the type image. */
static json_t *split_content(const char *text, bool prints_images)
{
    json_t *parts = json_array();
    const char *mark;
    bool good = parts != NULL;

    do {
        mark = prints_images ? strstr(text, INLAY_TEXT_IMAGE_MARK) : NULL;
        if (good && (mark == NULL || mark > text))
            good = json_array_append_new(parts, json_pack("{s:s, s:s%}", "type", "text", "text", text,
                                                          mark != NULL ? (size_t)(mark - text) : strlen(text))) == 0;
        if (good && mark != NULL)
            good = json_array_append_new(parts, json_pack("{s:s}", "type", "image")) == 0;
        text = mark != NULL ? mark + strlen(INLAY_TEXT_IMAGE_MARK) : text;
    } while (good && mark != NULL && text[0] != '\0');
    if (good)
        return parts;
    json_decref(parts);
    return NULL;
}

/* Messages whose contents are parts; NULL: out of memory. *out_images: how many are images. */
static json_t *split_messages(const json_t *messages, bool prints_images, size_t *out_images)
{
    json_t *made = json_array();

    *out_images = 0;
    for (size_t i = 0; i < json_array_size(messages); i++) {
        json_t *message = json_copy(json_array_get(messages, i)), *parts;
        const char *text = json_string_value(json_object_get(message, "content"));

        parts = text != NULL ? split_content(text, prints_images) : NULL;
        for (size_t k = 0; k < json_array_size(parts); k++)
            *out_images += json_object_get(json_array_get(parts, k), "text") == NULL;
        if (message == NULL || (text != NULL && json_object_set_new(message, "content", parts) != 0) ||
            json_array_append_new(made, message) != 0) {
            json_decref(made);
            return NULL;
        }
    }
    return made;
}

/* Replaces what the template prints for images by marks in the text, which is freed. NULL: out of memory. */
static char *mark_images(char *text, const char *printed)
{
    struct strbuf made = { 0 };
    const char *at = text, *next;

    while ((next = strstr(at, printed)) != NULL) {
        strbuf_add(&made, at, (size_t)(next - at));
        strbuf_text(&made, INLAY_TEXT_IMAGE_MARK);
        at = next + strlen(printed);
    }
    strbuf_text(&made, at);
    strbuf_add(&made, "", 1);
    free(text);
    if (!made.failed)
        return made.data;
    strbuf_deinit(&made);
    return NULL;
}

inlay_status messages_write(text_model *model, const struct chat *chat, char **out_text, inlay_diag *diag)
{
    struct chat split = *chat;
    size_t images = 0;
    inlay_status status;

    *out_text = NULL;
    if (text_model_content(model) != CONTENT_PARTS)
        return chat_render(chat, out_text, diag);
    split.messages = split_messages(chat->messages, model->image_mark != NULL, &images);
    status = split.messages != NULL ? chat_render(&split, out_text, diag) : no_memory(diag, "for the messages");
    json_decref(split.messages);
    if (status != INLAY_OK || images == 0)
        return status;
    *out_text = mark_images(*out_text, model->image_mark);
    return *out_text != NULL ? INLAY_OK : no_memory(diag, "for the prompt");
}

/* The beginning of the answer that the messages end with; NULL: they do not. */
static const char *answer_of(const json_t *messages)
{
    const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));

    return role != NULL && strcmp(role, "assistant") == 0 && json_array_size(json_object_get(last, "tool_calls")) == 0
               ? json_string_value(json_object_get(last, "content"))
               : NULL;
}

bool messages_begin_thought(const char *prompt)
{
    const size_t mark = strlen(MESSAGES_THOUGHT);
    size_t bytes = strlen(prompt);

    while (bytes > 0 && strchr(" \n\t\r", prompt[bytes - 1]) != NULL)
        bytes--;
    return bytes >= mark && memcmp(prompt + bytes - mark, MESSAGES_THOUGHT, mark) == 0;
}

/* Adds the beginning of the answer to the prompt *text, which is freed after a failure. */
static inlay_status add_answer(char **text, const char *answer, inlay_diag *diag)
{
    const bool in_thought = messages_begin_thought(*text);
    char *more = in_thought ? NULL : realloc(*text, strlen(*text) + strlen(answer) + 1);

    if (more != NULL) {
        (void)strcat(more, answer);
        *text = more;
        return INLAY_OK;
    }
    free(*text);
    *text = NULL;
    if (!in_thought)
        return no_memory(diag, "for the prompt");
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "the last message begins an answer, and the model's template begins a thought before it; send "
                      "chat_template_kwargs {\"enable_thinking\": false}, or end with another message");
}

inlay_status messages_render(text_model *model, json_t *messages, json_t *tools, json_t *variables, bool continues,
                             char **out_text, inlay_diag *diag)
{
    const char *answer = continues ? answer_of(messages) : NULL;
    const bool has_tools = tools != NULL;
    struct chat chat = { .tools = tools, .begin = model->begin, .end = model->end, .variables = variables };

    if (model->chat_template == NULL && (!has_tools || model->tool_template == NULL))
        return inlay_fail(
            diag, INLAY_INVALID_ARGUMENT,
            "the model has no chat_template (chat_template.jinja or tokenizer_config.json in its folder); "
            "use v1/completions");
    chat.messages = messages_for_template(model, messages, tools);
    if (chat.messages != NULL && answer != NULL) {
        json_t *others = json_copy(chat.messages);

        (void)json_array_remove(others, json_array_size(others) - 1);
        json_decref(chat.messages);
        chat.messages = others;
    }
    if (chat.messages == NULL)
        return no_memory(diag, "for the messages");
    chat.form = text_model_template(model, has_tools, diag);
    if ((chat.form != NULL ? messages_write(model, &chat, out_text, diag) : diag->code) == INLAY_UNSUPPORTED)
        diag->code = INLAY_INVALID_ARGUMENT; /* the model's template is the cause, not the server */
    json_decref(chat.messages);
    return diag->code == INLAY_OK && answer != NULL ? add_answer(out_text, answer, diag) : diag->code;
}

/* The arguments of a call, a text of JSON, as an object. */
static json_t *read_arguments(const json_t *arguments, size_t index, body_error *error)
{
    const char *text = json_string_value(arguments);
    json_error_t wrong;
    json_t *object = json_is_object(arguments) ? json_deep_copy(arguments)
                     : text != NULL            ? json_loads(text[0] != '\0' ? text : "{}", 0, &wrong)
                                               : NULL;

    if (object != NULL && json_is_object(object))
        return object;
    json_decref(object);
    (void)body_fail(error, "message %zu: the arguments of a tool call are not a text of a JSON object", index);
    return NULL;
}

/* A call as templates take it; NULL: *error says why. */
static json_t *make_call(const char *id, const char *name, const json_t *arguments, size_t index, body_error *error)
{
    json_t *object, *call;

    if (name == NULL) {
        (void)body_fail(error, "message %zu: a tool call has no name", index);
        return NULL;
    }
    object = read_arguments(arguments, index, error);
    if (object == NULL)
        return NULL;
    call = json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", id != NULL ? id : "", "type", "function", "function", "name",
                     name, "arguments", object);
    if (call == NULL)
        (void)no_room(error);
    return call;
}

static json_t *read_calls(const json_t *given, size_t index, body_error *error)
{
    json_t *calls = json_array();

    if (!json_is_array(given)) {
        json_decref(calls);
        (void)body_fail(error, "message %zu: tool_calls is not an array", index);
        return NULL;
    }
    for (size_t i = 0; i < json_array_size(given); i++) {
        const json_t *one = json_array_get(given, i), *function = json_object_get(one, "function");
        json_t *call = make_call(json_string_value(json_object_get(one, "id")),
                                 json_string_value(json_object_get(function, "name")),
                                 json_object_get(function, "arguments"), index, error);

        if (call == NULL || json_array_append_new(calls, call) != 0) {
            json_decref(calls);
            return NULL;
        }
    }
    return calls;
}

/* A message with its role, its content and its other members. */
static bool read_message(json_t *to, json_t *given, size_t index, const image_taker *images, body_error *error)
{
    const json_t *given_calls = json_object_get(given, "tool_calls");
    bool has_calls = given_calls != NULL && !json_is_null(given_calls);
    json_t *message = json_copy(given), *content, *calls = NULL;
    bool good;

    if (!json_is_object(given) || !json_is_string(json_object_get(given, "role"))) {
        json_decref(message);
        return body_fail(error, "message %zu is without role or content", index);
    }
    content = read_content(json_object_get(given, "content"), has_calls, index, images, error);
    good = content != NULL && json_object_set_new(message, "content", content) == 0;
    if (good && has_calls) {
        calls = read_calls(given_calls, index, error);
        good = calls != NULL && json_object_set_new(message, "tool_calls", calls) == 0;
    } else if (good) {
        (void)json_object_del(message, "tool_calls");
    }
    if (good)
        return append(to, message, error);
    json_decref(message);
    return false;
}

/* function_call: a call of the assistant's last message, or of a new one. */
static bool read_call_item(json_t *to, const json_t *item, size_t index, body_error *error)
{
    json_t *last = json_array_get(to, json_array_size(to) - 1), *calls = json_object_get(last, "tool_calls");
    json_t *call =
        make_call(json_string_value(json_object_get(item, "call_id")), json_string_value(json_object_get(item, "name")),
                  json_object_get(item, "arguments"), index, error);

    if (call == NULL)
        return false;
    if (calls != NULL)
        return json_array_append_new(calls, call) == 0 || no_room(error);
    return append(to, json_pack("{s:s, s:n, s:[o]}", "role", "assistant", "content", "tool_calls", call), error);
}

/* function_call_output: the message of a tool. */
static bool read_output_item(json_t *to, const json_t *item, size_t index, body_error *error)
{
    const char *id = json_string_value(json_object_get(item, "call_id"));
    json_t *content;

    if (id == NULL || json_object_get(item, "output") == NULL)
        return body_fail(error, "message %zu: a function_call_output has no call_id or output", index);
    content = read_content(json_object_get(item, "output"), false, index, NULL, error);
    return content != NULL &&
           append(to, json_pack("{s:s, s:s, s:o}", "role", "tool", "tool_call_id", id, "content", content), error);
}

/* The text of a reasoning item, a new reference; NULL: *error says why. */
static json_t *read_thought_item(const json_t *item, size_t index, body_error *error)
{
    json_t *content = json_object_get(item, "content");

    return read_content(json_array_size(content) > 0 ? content : json_object_get(item, "summary"), true, index, NULL,
                        error);
}

/* Gives the last message the thought, if it is one of the assistant. Takes over the thought. */
static bool add_thought(json_t *messages, json_t *thought, body_error *error)
{
    json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));

    if (json_string_length(thought) == 0 || role == NULL || strcmp(role, "assistant") != 0) {
        json_decref(thought);
        return true;
    }
    return json_object_set_new(last, "reasoning_content", thought) == 0 || no_room(error);
}

bool messages_read(json_t *to, json_t *value, bool items, const image_taker *images, body_error *error)
{
    json_t *thought = NULL;
    bool good = true;

    if (!json_is_array(value))
        return body_fail(error, "not an array");
    if (json_array_size(value) > MAX_MESSAGES)
        return body_fail(error, "more than %d messages", MAX_MESSAGES);
    for (size_t i = 0; good && i < json_array_size(value); i++) {
        json_t *one = json_array_get(value, i);
        const char *type = items ? json_string_value(json_object_get(one, "type")) : NULL;

        if (type != NULL && strcmp(type, "reasoning") == 0) {
            json_decref(thought);
            thought = read_thought_item(one, i, error);
            good = thought != NULL;
            continue;
        }
        if (type == NULL || strcmp(type, "message") == 0)
            good = read_message(to, one, i, images, error);
        else if (strcmp(type, "function_call") == 0)
            good = read_call_item(to, one, i, error);
        else if (strcmp(type, "function_call_output") == 0)
            good = read_output_item(to, one, i, error);
        else
            good = body_fail(error, "an item of type '%.40s' is not supported; 'message' is", type);
        if (good) {
            good = add_thought(to, thought, error);
            thought = NULL;
        }
    }
    json_decref(thought);
    return good;
}
