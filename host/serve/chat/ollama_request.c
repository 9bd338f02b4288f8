/* Ollama's /api/chat and /api/generate. */
#include "serve/chat/request_fields.h"
#include "texts/model/messages.h"
#include <string.h>

/* A form of the text: "json", or a schema; "" is none. */
static bool read_format(void *user, json_t *value, body_error *error)
{
    if (json_is_object(value))
        return field_schema(user, value, error);
    if (json_is_string(value) && json_string_length(value) == 0)
        return true;
    return json_is_string(value) && strcmp(json_string_value(value), "json") == 0
               ? field_schema(user, NULL, error)
               : body_fail(error, "neither \"json\" nor a schema");
}

/* Whether the model thinks, if its template can tell it so; or how much. */
static bool read_think(void *user, json_t *value, body_error *error)
{
    completion_request *request = user;

    if (json_is_boolean(value))
        return field_think(request, json_is_true(value), error);
    if (!json_is_string(value))
        return body_fail(error, "neither true, false nor a text");
    request->dialog.variables = request_keep(request, json_pack("{s:O}", "reasoning_effort", value), error);
    return request->dialog.variables != NULL;
}

/* The message with its images, texts in base64, as parts of OpenAI's; a new reference. NULL: out of memory. */
static json_t *with_parts(json_t *message)
{
    const json_t *images = json_object_get(message, "images");
    json_t *copy = json_array_size(images) > 0 ? json_copy(message) : json_incref(message), *parts;
    bool good;

    if (json_array_size(images) == 0)
        return copy;
    parts = copy != NULL ? json_array() : NULL;
    good = parts != NULL && json_object_set_new(copy, "content", parts) == 0;
    (void)json_object_del(copy, "images");
    for (size_t i = 0; good && i < json_array_size(images); i++) {
        const char *data = json_string_value(json_array_get(images, i));
        struct strbuf address = { 0 };

        strbuf_text(&address, "data:;base64,");
        strbuf_add(&address, data != NULL ? data : "", data != NULL ? strlen(data) + 1 : 1);
        good = !address.failed && json_array_append_new(parts, json_pack("{s:s, s:s}", "type", "image_url", "image_url",
                                                                         address.data)) == 0;
        strbuf_deinit(&address);
    }
    good = good && (json_object_get(message, "content") == NULL ||
                    json_array_append_new(parts, json_pack("{s:s, s:O}", "type", "text", "text",
                                                           json_object_get(message, "content"))) == 0);
    if (good)
        return copy;
    json_decref(copy);
    return NULL;
}

static bool read_messages(void *user, json_t *value, body_error *error)
{
    completion_request *request = user;
    json_t *list = request_keep(request, json_array(), error);

    if (!json_is_array(value))
        return body_fail(error, "not an array");
    for (size_t i = 0; list != NULL && i < json_array_size(value); i++)
        if (json_array_append_new(list, with_parts(json_array_get(value, i))) != 0)
            return body_fail(error, "out of memory for the messages");
    return list != NULL && field_add_messages(request, list, false, error);
}

static bool read_given_prompt(void *user, json_t *value, body_error *error)
{
    ((completion_request *)user)->prompt.given = json_string_value(value);
    return json_is_string(value) || body_fail(error, "not a text");
}

static bool read_raw(void *user, json_t *value, body_error *error)
{
    return body_bool(value, &((completion_request *)user)->prompt.is_raw, error);
}

/* -2 is "until the context is full". */
static bool read_predict(void *user, json_t *value, body_error *error)
{
    json_t *all = json_integer(-1);
    const bool good =
        field_max_tokens(user, json_is_integer(value) && json_integer_value(value) == -2 ? all : value, error);

    json_decref(all);
    return good;
}

/* Those without a function are of Ollama's runner. The context is that of the server. */
static const body_parameter option_rows[] = { { "temperature", field_temperature },
                                              { "top_p", field_top_p },
                                              { "min_p", field_min_p },
                                              { "top_k", field_top_k },
                                              { "typical_p", field_typical },
                                              { "num_predict", read_predict },
                                              { "stop", field_stops },
                                              { "seed", field_seed },
                                              { "repeat_penalty", field_repetition },
                                              { "repeat_last_n", field_last },
                                              { "presence_penalty", field_presence },
                                              { "frequency_penalty", field_frequency },
                                              { "num_ctx", NULL },
                                              { "num_batch", NULL },
                                              { "num_gpu", NULL },
                                              { "num_keep", NULL },
                                              { "num_thread", NULL },
                                              { "main_gpu", NULL },
                                              { "use_mmap", NULL },
                                              { "numa", NULL } };
static const body_table option = { option_rows, sizeof option_rows / sizeof *option_rows, NULL };

static bool read_options(void *user, json_t *value, body_error *error)
{
    return field_members(value, &option, user, error);
}

/* Of both paths. */
static const body_parameter shared_rows[] = { { "model", field_model },  { "stream", field_stream },
                                              { "format", read_format }, { "options", read_options },
                                              { "think", read_think },   { "keep_alive", NULL },
                                              { "logprobs", field_no } };
static const body_table shared = { shared_rows, sizeof shared_rows / sizeof *shared_rows, NULL };

static const body_parameter chat_rows[] = { { "messages", read_messages }, { "tools", field_tools } };
static const body_table chat = { chat_rows, sizeof chat_rows / sizeof *chat_rows, &shared };

static const body_parameter generate_rows[] = { { "prompt", read_given_prompt }, { "system", field_instructions },
                                                { "suffix", field_suffix },      { "raw", read_raw },
                                                { "template", field_empty },     { "context", field_nothing },
                                                { "images", field_nothing } };
static const body_table generate = { generate_rows, sizeof generate_rows / sizeof *generate_rows, &shared };

/* A prompt of Ollama is a message of the user, unless it is raw or has a suffix: then it is completed. */
static bool take_given_prompt(completion_request *request, body_error *error)
{
    const json_t *text;

    if (request->prompt.given == NULL)
        return true;
    request->chat = !request->prompt.is_raw && request->prompt.suffix == NULL;
    text = request->chat ? NULL : request_keep(request, json_string(request->prompt.given), error);
    if (request->chat)
        return messages_add(request->dialog.messages, "user", request->prompt.given, error);
    return text != NULL && input_list_read(&request->prompt.list, text, MAX_TEXTS, error);
}

static const char latest[] = ":latest"; /* Ollama adds it to names */

const request_form form_ollama_chat = { .table = &chat,
                                        .prompt = "messages",
                                        .reply = &ollama_reply,
                                        .name_end = latest,
                                        .chat = true,
                                        .is_single = true,
                                        .continues = true,
                                        .streams = true,
                                        .max_tokens = MAX_TOKENS };
const request_form form_ollama_generate = { .table = &generate,
                                            .prompt = "prompt",
                                            .reply = &ollama_reply,
                                            .finish = take_given_prompt,
                                            .name_end = latest,
                                            .chat = true,
                                            .is_single = true,
                                            .streams = true,
                                            .max_tokens = MAX_TOKENS };
