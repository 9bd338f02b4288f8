/* OpenAI's /v1/responses. */
#include "serve/chat/request_fields.h"
#include "texts/model/messages.h"

/* A text, which is a message of the user, or messages. */
static bool read_input(void *user, json_t *value, body_error *error)
{
    return json_is_string(value)
               ? messages_add(((completion_request *)user)->dialog.messages, "user", json_string_value(value), error)
               : field_messages(user, value, error);
}

static bool read_metadata(void *user, json_t *value, body_error *error)
{
    ((completion_request *)user)->metadata = value;
    return json_is_object(value) || body_fail(error, "not an object");
}

/* "text" of /v1/responses: {"format": ...}, whose schema is not below "json_schema". */
static bool read_text_form(void *user, json_t *value, body_error *error)
{
    static const char *const names[] = { "format", "verbosity", NULL };
    json_t *format = json_object_get(value, "format"), *whole;
    bool good;

    if (!json_is_object(value))
        return body_fail(error, "not an object");
    if (!body_members(value, names, error))
        return false;
    if (format == NULL)
        return true;
    ((completion_request *)user)->format = format;
    whole = json_pack("{s:O, s:O}", "type", json_object_get(format, "type"), "json_schema", format);
    good = whole != NULL ? field_format(user, whole, error) : body_fail(error, "format has no type");
    json_decref(whole);
    return good;
}

static bool read_truncation(void *user, json_t *value, body_error *error)
{
    static const char *const ways[] = { "disabled", NULL };
    uint32_t which;

    (void)user;
    return body_choice(value, ways, &which, error);
}

static const body_parameter response_rows[] = { { "model", field_model },
                                                { "input", read_input },
                                                { "instructions", field_instructions },
                                                { "max_output_tokens", field_max_tokens },
                                                { "temperature", field_temperature },
                                                { "top_p", field_top_p },
                                                { "stream", field_stream },
                                                { "text", read_text_form },
                                                { "truncation", read_truncation },
                                                { "service_tier", field_tier },
                                                { "tools", field_tools },
                                                { "include", field_nothing },
                                                { "tool_choice", field_tool_choice },
                                                { "background", field_no },
                                                { "store", field_no },
                                                { "metadata", read_metadata },
                                                { "parallel_tool_calls", field_parallel },
                                                { "user", NULL },
                                                { "safety_identifier", NULL },
                                                { "prompt_cache_key", NULL } };
static const body_table response = { response_rows, sizeof response_rows / sizeof *response_rows, NULL };

const request_form form_response = { .table = &response,
                                     .prompt = "input",
                                     .reply = &response_reply,
                                     .chat = true,
                                     .response = true,
                                     .is_single = true,
                                     .max_tokens = CHAT_TOKENS };
