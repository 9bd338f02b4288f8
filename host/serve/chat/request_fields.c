/* Fields of requests that several protocols have; those of the choice of tokens and of the form of the text are in
 * files of their own. */
#include "serve/chat/request_fields.h"
#include "texts/model/messages.h"
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool field_model(void *user, json_t *value, body_error *error)
{
    completion_request *request = user;

    request->model = json_string_value(value);
    return request->model != NULL || body_fail(error, "not a text");
}

bool field_prompts(void *user, json_t *value, body_error *error)
{
    return input_list_read(&((completion_request *)user)->prompt.list, value, MAX_TEXTS, error);
}

/* "" is none. */
bool field_suffix(void *user, json_t *value, body_error *error)
{
    const char *text = json_string_value(value);

    ((completion_request *)user)->prompt.suffix = text != NULL && text[0] != '\0' ? text : NULL;
    return text != NULL || body_fail(error, "not a text");
}

/* Adds an image: data:image/png;base64,... */
static bool take_image(void *user, const char *address, body_error *error)
{
    static const char scheme[] = "data:", marker[] = ";base64,";
    completion_request *request = user;
    const char *comma = strchr(address, ',');
    const size_t head = comma != NULL ? (size_t)(comma + 1 - address) : 0;
    gnutls_datum_t text, file = { NULL, 0 };

    if (strncasecmp(address, scheme, sizeof scheme - 1) != 0)
        return body_fail(error, "an image must be a data URI, data:image/png;base64,...; addresses are not fetched");
    if (head < sizeof marker || strncasecmp(comma + 1 - (sizeof marker - 1), marker, sizeof marker - 1) != 0)
        return body_fail(error, "the data URI of an image must be in base64");
    if (request->images.count == MAX_IMAGES)
        return body_fail(error, "more than %d images", MAX_IMAGES);
    if (request->images.list == NULL)
        request->images.list = calloc(MAX_IMAGES, sizeof *request->images.list);
    if (request->images.list == NULL)
        return body_fail(error, "out of memory for the images");
    text = (gnutls_datum_t){ (unsigned char *)(uintptr_t)(address + head), (unsigned)strlen(address + head) };
    if (text.size == 0 || gnutls_base64_decode2(&text, &file) != GNUTLS_E_SUCCESS)
        return body_fail(error, "the image is not in base64");
    request->images.list[request->images.count++] = (image_file){ file.data, file.size };
    return true;
}

bool field_add_messages(completion_request *request, json_t *messages, bool items, body_error *error)
{
    return messages_read(request->dialog.messages, messages, items, &(image_taker){ take_image, request }, error);
}

bool field_messages(void *user, json_t *value, body_error *error)
{
    completion_request *request = user;

    return field_add_messages(request, value, request->response, error);
}

/* chat_template_kwargs: variables of the model's template. */
bool field_variables(void *user, json_t *value, body_error *error)
{
    ((completion_request *)user)->dialog.variables = value;
    return json_is_object(value) || body_fail(error, "not an object");
}

bool field_think(completion_request *request, bool thinks, body_error *error)
{
    request->dialog.variables = request_keep(request, json_pack("{s:b}", "enable_thinking", (int)thinks), error);
    return request->dialog.variables != NULL;
}

bool field_instructions(void *user, json_t *value, body_error *error)
{
    ((completion_request *)user)->dialog.instructions = json_string_value(value);
    return json_is_string(value) || body_fail(error, "not a text");
}

bool field_stops(void *user, json_t *value, body_error *error)
{
    completion_request *request = user;
    size_t count = json_is_array(value) ? json_array_size(value) : 1;

    if (count > MAX_STOPS)
        return body_fail(error, "more than %d stop sequences", MAX_STOPS);
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_is_array(value) ? json_array_get(value, i) : value);

        if (text == NULL)
            return body_fail(error, "not a text");
        if (text[0] != '\0')
            request->stops.texts[request->ends.stop_count++] = text;
    }
    return true;
}

bool field_count(const json_t *value, uint32_t least, uint32_t most, uint32_t *out, body_error *error)
{
    double number;

    if (!body_number(value, least, most, true, &number, error))
        return false;
    *out = (uint32_t)number;
    return true;
}

/* -1 is "no limit" for clients of llama-server: the context ends the text. 0: the prompt alone is read. */
bool field_max_tokens(void *user, json_t *value, body_error *error)
{
    completion_request *request = user;
    uint32_t count = MAX_TOKENS;

    if (!(json_is_integer(value) && json_integer_value(value) == -1) &&
        !field_count(value, request->response, MAX_TOKENS, &count, error))
        return false;
    if (request->has_max_tokens && request->ends.max_tokens != count)
        return body_fail(error, "the request has another value for it by its other name");
    request->has_max_tokens = true;
    request->ends.max_tokens = count;
    return true;
}

static bool read_min_tokens(void *user, json_t *value, body_error *error)
{
    uint32_t count = 0;

    if (!field_count(value, 0, MAX_TOKENS, &count, error))
        return false;
    ((completion_request *)user)->ends.min_tokens = count;
    ((completion_request *)user)->has_min_tokens = true;
    return true;
}

static bool read_stop_tokens(void *user, json_t *value, body_error *error)
{
    completion_request *request = user;

    if (!json_is_array(value) || json_array_size(value) > MAX_STOP_TOKENS)
        return body_fail(error, "not an array of at most %d tokens", MAX_STOP_TOKENS);
    for (size_t i = 0; i < json_array_size(value); i++) {
        if (!json_is_integer(json_array_get(value, i)))
            return body_fail(error, "element %zu is not a token id", i);
        request->stops.tokens[request->ends.stop_token_count++] = json_integer_value(json_array_get(value, i));
    }
    return true;
}

static bool read_ignores_ends(void *user, json_t *value, body_error *error)
{
    return body_bool(value, &((completion_request *)user)->ends.ignores_ends, error);
}

static bool read_choices(void *user, json_t *value, body_error *error)
{
    return field_count(value, 1, MAX_TEXTS, &((completion_request *)user)->choices, error);
}

/* Of chats: true or false. Of completions: the number of most probable tokens. */
static bool read_logprobs(void *user, json_t *value, body_error *error)
{
    completion_request *request = user;

    if (request->chat)
        return body_bool(value, &request->logs.wanted, error);
    request->logs.wanted = true;
    return field_count(value, 0, MAX_TOP, &request->logs.top, error);
}

static bool read_prompt_logprobs(void *user, json_t *value, body_error *error)
{
    uint32_t count = 0;
    const bool good = field_count(value, 0, MAX_TOP, &count, error);

    ((completion_request *)user)->logs.prompt = good ? (int32_t)count : -1;
    return good;
}

bool field_stream(void *user, json_t *value, body_error *error)
{
    return body_bool(value, &((completion_request *)user)->streams, error);
}

static bool read_stream_options(void *user, json_t *value, body_error *error)
{
    static const char *const names[] = { "include_usage", "include_obfuscation", "continuous_usage_stats", NULL };
    const json_t *usage = json_object_get(value, names[0]);

    if (!json_is_object(value))
        return body_fail(error, "not an object");
    for (int i = 1; names[i] != NULL; i++)
        if (json_is_true(json_object_get(value, names[i])))
            return body_fail(error, "%s: only false is supported", names[i]);
    return body_members(value, names, error) &&
           (usage == NULL || body_bool(usage, &((completion_request *)user)->stream_usage, error));
}

bool field_tier(void *user, json_t *value, body_error *error)
{
    static const char *const tiers[] = { "auto", "default", NULL };
    uint32_t which;

    (void)user;
    return body_choice(value, tiers, &which, error);
}

/* Lists that must be empty. */
bool field_nothing(void *user, json_t *value, body_error *error)
{
    (void)user;
    return (json_is_array(value) && json_array_size(value) == 0) || body_fail(error, "not supported; leave it empty");
}

bool field_empty(void *user, json_t *value, body_error *error)
{
    (void)user;
    return (json_is_string(value) && json_string_length(value) == 0) || body_fail(error, "only \"\" is supported");
}

bool field_tools(void *user, json_t *value, body_error *error)
{
    completion_request *request = user;

    return tool_set_read(&request->calls.tools, value, request->response, error);
}

/* Its meaning depends on the tools; see completion_request_read(). */
bool field_tool_choice(void *user, json_t *value, body_error *error)
{
    (void)error;
    ((completion_request *)user)->calls.tools.given_choice = value;
    return true;
}

bool field_parallel(void *user, json_t *value, body_error *error)
{
    bool several = true;
    bool good = body_bool(value, &several, error);

    ((completion_request *)user)->calls.tools.single = !several;
    return good;
}

bool field_no(void *user, json_t *value, body_error *error)
{
    bool on;

    (void)user;
    return body_bool(value, &on, error) && (!on || body_fail(error, "only false is supported"));
}

/* The counterpart of field_no(). */
bool field_yes(void *user, json_t *value, body_error *error)
{
    bool on;

    (void)user;
    return body_bool(value, &on, error) && (on || body_fail(error, "only true is supported"));
}

static bool read_only(const json_t *value, double only, body_error *error)
{
    return (json_is_number(value) && json_number_value(value) == only) ||
           body_fail(error, "only %g is supported", only);
}

bool field_zero(void *user, json_t *value, body_error *error)
{
    (void)user;
    return read_only(value, 0, error);
}

bool field_one(void *user, json_t *value, body_error *error)
{
    (void)user;
    return read_only(value, 1, error);
}

bool field_members(json_t *value, const body_table *table, completion_request *request, body_error *error)
{
    if (!json_is_object(value))
        return body_fail(error, "not an object");
    if (body_take(value, table, request, error))
        return true;
    error->parameter[0] = '\0'; /* its name is in the text */
    return false;
}

json_t *request_keep(completion_request *request, json_t *value, body_error *error)
{
    if (value == NULL && error->text[0] == '\0')
        (void)body_fail(error, "out of memory");
    return value != NULL && json_array_append_new(request->made, value) == 0 ? value : NULL;
}

/* Those without a function are labels. Those of field_no(), field_yes(), field_zero(), field_one() and field_nothing()
 * are what clients of vLLM and llama-server send with the default values. */
static const body_parameter rows[] = { { "model", field_model },
                                       { "stop", field_stops },
                                       { "max_tokens", field_max_tokens },
                                       { "n_predict", field_max_tokens },
                                       { "min_tokens", read_min_tokens },
                                       { "ignore_eos", read_ignores_ends },
                                       { "stop_token_ids", read_stop_tokens },
                                       { "n", read_choices },
                                       { "logprobs", read_logprobs },
                                       { "prompt_logprobs", read_prompt_logprobs },
                                       { "stream", field_stream },
                                       { "stream_options", read_stream_options },
                                       { "cache_prompt", NULL },
                                       { "verbosity", NULL },
                                       { "request_id", NULL },
                                       { "id_slot", NULL },
                                       { "user", NULL },
                                       { "skip_special_tokens", field_yes },
                                       { "spaces_between_special_tokens", field_yes },
                                       { "include_stop_str_in_output", field_no },
                                       { "use_beam_search", field_no },
                                       { "return_tokens_as_token_ids", field_no },
                                       { "return_token_ids", field_no },
                                       { "timings_per_token", field_no },
                                       { "return_progress", field_no },
                                       { "length_penalty", field_one },
                                       { "priority", field_zero },
                                       { "n_probs", field_zero } };
const body_table common_fields = { rows, sizeof rows / sizeof *rows, &sampling_fields };
