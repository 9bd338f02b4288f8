#include "serve/chat/completion_request.h"
#include "serve/chat/anthropic.h"
#include "serve/chat/models.h"
#include "texts/chat/form_cache.h"
#include "texts/grammar/grammar_gbnf.h"
#include "texts/grammar/grammar_regex.h"
#include "texts/grammar/grammar_schema.h"
#include "texts/model/messages.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHAT_TOKENS = 1024, /* OpenAI's chats have no default */
    COMPLETION_TOKENS = 16
};

static bool read_model(void *user, json_t *value, body_error *error)
{
    completion_request *request = user;

    request->model = json_string_value(value);
    return request->model != NULL || body_fail(error, "not a text");
}

static bool read_prompts(void *user, json_t *value, body_error *error)
{
    return input_list_read(&((completion_request *)user)->prompts, value, MAX_TEXTS, error);
}

/* "" is none. */
static bool read_suffix(void *user, json_t *value, body_error *error)
{
    const char *text = json_string_value(value);

    ((completion_request *)user)->suffix = text != NULL && text[0] != '\0' ? text : NULL;
    return text != NULL || body_fail(error, "not a text");
}

static bool read_messages(void *user, json_t *value, body_error *error)
{
    const completion_request *request = user;

    return messages_read(request->dialog.messages, value, request->response, error);
}

/* A text, which is a message of the user, or messages. */
static bool read_input(void *user, json_t *value, body_error *error)
{
    return json_is_string(value)
               ? messages_add(((completion_request *)user)->dialog.messages, "user", json_string_value(value), error)
               : read_messages(user, value, error);
}

/* chat_template_kwargs: variables of the model's template. */
static bool read_variables(void *user, json_t *value, body_error *error)
{
    ((completion_request *)user)->dialog.variables = value;
    return json_is_object(value) || body_fail(error, "not an object");
}

/* true: the last message, one of the assistant, is the beginning of the answer, as without the parameter. */
static bool read_continues(void *user, json_t *value, body_error *error)
{
    bool continues = true;
    const bool good = body_bool(value, &continues, error);

    ((completion_request *)user)->dialog.continues = continues;
    return good;
}

/* Where the model's thought is in the reply, as llama-server has it. */
static bool read_reasoning(void *user, json_t *value, body_error *error)
{
    static const char *const forms[] = { "none", "auto", "deepseek", NULL };
    uint32_t which = 1;
    const bool good = body_choice(value, forms, &which, error);

    ((completion_request *)user)->keeps_thoughts = which == 0;
    return good;
}

static bool read_instructions(void *user, json_t *value, body_error *error)
{
    ((completion_request *)user)->dialog.instructions = json_string_value(value);
    return json_is_string(value) || body_fail(error, "not a text");
}

static bool read_metadata(void *user, json_t *value, body_error *error)
{
    ((completion_request *)user)->metadata = value;
    return json_is_object(value) || body_fail(error, "not an object");
}

static bool read_stops(void *user, json_t *value, body_error *error)
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
            request->stops[request->ends.stop_count++] = text;
    }
    return true;
}

static bool read_count(const json_t *value, uint32_t least, uint32_t most, uint32_t *out, body_error *error)
{
    double number;

    if (!body_number(value, least, most, true, &number, error))
        return false;
    *out = (uint32_t)number;
    return true;
}

static bool read_part(const json_t *value, double least, double most, float *out, body_error *error)
{
    double number;

    if (!body_number(value, least, most, false, &number, error))
        return false;
    *out = (float)number;
    return true;
}

/* -1 is "no limit" for clients of llama-server: the context ends the text. 0: the prompt alone is read. */
static bool read_max_tokens(void *user, json_t *value, body_error *error)
{
    completion_request *request = user;
    uint32_t count = MAX_TOKENS;

    if (!(json_is_integer(value) && json_integer_value(value) == -1) &&
        !read_count(value, request->response, MAX_TOKENS, &count, error))
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

    if (!read_count(value, 0, MAX_TOKENS, &count, error))
        return false;
    ((completion_request *)user)->ends.min_tokens = count;
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
        request->stop_tokens[request->ends.stop_token_count++] = json_integer_value(json_array_get(value, i));
    }
    return true;
}

static bool read_ignores_ends(void *user, json_t *value, body_error *error)
{
    return body_bool(value, &((completion_request *)user)->ends.ignores_ends, error);
}

static bool read_echo(void *user, json_t *value, body_error *error)
{
    return body_bool(value, &((completion_request *)user)->echoes, error);
}

static bool read_temperature(void *user, json_t *value, body_error *error)
{
    return read_part(value, 0, 2, &((completion_request *)user)->sampler.temperature, error);
}

static bool read_top_p(void *user, json_t *value, body_error *error)
{
    return read_part(value, 0, 1, &((completion_request *)user)->sampler.top_p, error);
}

static bool read_min_p(void *user, json_t *value, body_error *error)
{
    return read_part(value, 0, 1, &((completion_request *)user)->sampler.min_p, error);
}

/* -1 is "all" for some clients. */
static bool read_top_k(void *user, json_t *value, body_error *error)
{
    double number;

    if (!body_number(value, -1, INT32_MAX, true, &number, error))
        return false;
    ((completion_request *)user)->sampler.top_k = number > 0 ? (uint32_t)number : 0;
    return true;
}

static bool read_presence(void *user, json_t *value, body_error *error)
{
    return read_part(value, -2, 2, &((completion_request *)user)->sampler.presence, error);
}

static bool read_frequency(void *user, json_t *value, body_error *error)
{
    return read_part(value, -2, 2, &((completion_request *)user)->sampler.frequency, error);
}

static bool read_repetition(void *user, json_t *value, body_error *error)
{
    struct sampler *sampler = &((completion_request *)user)->sampler;
    const float other = sampler->penalty;

    return read_part(value, 0.01, 100, &sampler->penalty, error) &&
           (isnan(other) || other == sampler->penalty ||
            body_fail(error, "the request has another value for it by its other name"));
}

static bool read_typical(void *user, json_t *value, body_error *error)
{
    return read_part(value, 0, 1, &((completion_request *)user)->sampler.typical_p, error);
}

static bool read_xtc(void *user, json_t *value, body_error *error)
{
    return read_part(value, 0, 1, &((completion_request *)user)->sampler.xtc_probability, error);
}

static bool read_threshold(void *user, json_t *value, body_error *error)
{
    return read_part(value, 0, 1, &((completion_request *)user)->sampler.xtc_threshold, error);
}

/* -1 is "off" for llama-server. */
static bool read_sigma(void *user, json_t *value, body_error *error)
{
    return read_part(value, -1, 100, &((completion_request *)user)->sampler.top_n_sigma, error);
}

/* -1: all tokens; 0: none, as for llama-server. */
static bool read_last(void *user, json_t *value, body_error *error)
{
    double number;

    if (!body_number(value, -1, INT32_MAX, true, &number, error))
        return false;
    ((completion_request *)user)->sampler.last_n = number < 0 ? 0 : number == 0 ? -1 : (int64_t)number;
    return true;
}

static bool read_dry(void *user, json_t *value, body_error *error)
{
    return read_part(value, 0, 100, &((completion_request *)user)->sampler.dry_multiplier, error);
}

static bool read_dry_base(void *user, json_t *value, body_error *error)
{
    return read_part(value, 1, 100, &((completion_request *)user)->sampler.dry_base, error);
}

static bool read_dry_allowed(void *user, json_t *value, body_error *error)
{
    return read_count(value, 1, 65536, &((completion_request *)user)->sampler.dry_allowed, error);
}

/* -1: all tokens; 0: none, as for llama-server. */
static bool read_dry_last(void *user, json_t *value, body_error *error)
{
    double number;

    if (!body_number(value, -1, INT32_MAX, true, &number, error))
        return false;
    ((completion_request *)user)->sampler.dry_last_n = number < 0 ? 0 : number == 0 ? -1 : (int64_t)number;
    return true;
}

static bool read_dry_breakers(void *user, json_t *value, body_error *error)
{
    completion_request *request = user;
    const size_t count = json_array_size(value);

    if (!json_is_array(value) || count >= sizeof request->dry_breakers)
        return body_fail(error, "not an array of at most %zu texts", sizeof request->dry_breakers - 1);
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(value, i));

        if (text == NULL || text[0] <= 0 || text[1] != '\0')
            return body_fail(error, "element %zu is not one character of ASCII; longer texts are not supported", i);
        request->dry_breakers[i] = text[0];
    }
    request->dry_breakers[count] = '\0';
    return true;
}

static bool read_seed(void *user, json_t *value, body_error *error)
{
    completion_request *request = user;

    if (!json_is_integer(value))
        return body_fail(error, "not a whole number");
    request->sampler.state = (uint64_t)json_integer_value(value);
    request->seeded = true;
    return true;
}

static bool read_choices(void *user, json_t *value, body_error *error)
{
    return read_count(value, 1, MAX_TEXTS, &((completion_request *)user)->choices, error);
}

static bool read_candidates(void *user, json_t *value, body_error *error)
{
    return read_count(value, 1, MAX_TEXTS, &((completion_request *)user)->candidates, error);
}

/* {"token id": number from -100 to 100}. */
static bool read_bias(void *user, json_t *value, body_error *error)
{
    completion_request *request = user;
    const char *name;
    json_t *number;

    if (!json_is_object(value) || json_object_size(value) > MAX_BIAS)
        return body_fail(error, "not an object of at most %d tokens", MAX_BIAS);
    request->bias = calloc(MAX_BIAS, sizeof *request->bias);
    if (request->bias == NULL)
        return body_fail(error, "out of memory for the tokens");
    json_object_foreach(value, name, number) {
        struct token_bias *bias = &request->bias[request->sampler.bias_count++];
        char *end;

        bias->token = strtoll(name, &end, 10);
        if (*end != '\0' || end == name || bias->token < 0)
            return body_fail(error, "'%.40s' is not a token id", name);
        if (!read_part(number, -100, 100, &bias->bias, error))
            return false;
    }
    request->sampler.bias = request->bias;
    return true;
}

/* Of chats: true or false. Of completions: the number of most probable tokens. */
static bool read_logprobs(void *user, json_t *value, body_error *error)
{
    completion_request *request = user;

    if (request->chat)
        return body_bool(value, &request->logprobs, error);
    request->logprobs = true;
    return read_count(value, 0, MAX_TOP, &request->top_logprobs, error);
}

static bool read_top_logprobs(void *user, json_t *value, body_error *error)
{
    return read_count(value, 0, MAX_TOP, &((completion_request *)user)->top_logprobs, error);
}

static bool read_prompt_logprobs(void *user, json_t *value, body_error *error)
{
    uint32_t count = 0;
    const bool good = read_count(value, 0, MAX_TOP, &count, error);

    ((completion_request *)user)->prompt_logprobs = good ? (int32_t)count : -1;
    return good;
}

static bool read_stream(void *user, json_t *value, body_error *error)
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

/* {"type": "text"}, {"type": "json_object"} or {"type": "json_schema", "json_schema": {"schema": ...}}. The schema may
 * also be next to the type, as clients of llama-server write it. */
static bool read_format(void *user, json_t *value, body_error *error)
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
    good = whole != NULL ? read_format(user, whole, error) : body_fail(error, "format has no type");
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

static bool read_modalities(void *user, json_t *value, body_error *error)
{
    static const char *const kinds[] = { "text", NULL };
    uint32_t which;

    (void)user;
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!body_choice(json_array_get(value, i), kinds, &which, error))
            return false;
    return json_is_array(value) || body_fail(error, "not an array");
}

static bool read_tier(void *user, json_t *value, body_error *error)
{
    static const char *const tiers[] = { "auto", "default", NULL };
    uint32_t which;

    (void)user;
    return body_choice(value, tiers, &which, error);
}

/* Lists that must be empty. */
static bool read_nothing(void *user, json_t *value, body_error *error)
{
    (void)user;
    return (json_is_array(value) && json_array_size(value) == 0) || body_fail(error, "not supported; leave it empty");
}

static bool read_tools(void *user, json_t *value, body_error *error)
{
    completion_request *request = user;

    return tool_set_read(&request->tools, value, request->response, error);
}

/* Its meaning depends on the tools; see completion_request_read(). */
static bool read_tool_choice(void *user, json_t *value, body_error *error)
{
    (void)error;
    ((completion_request *)user)->tools.given_choice = value;
    return true;
}

static bool read_parallel(void *user, json_t *value, body_error *error)
{
    bool several = true;
    bool good = body_bool(value, &several, error);

    ((completion_request *)user)->tools.single = !several;
    return good;
}

static bool read_no(void *user, json_t *value, body_error *error)
{
    bool on;

    (void)user;
    return body_bool(value, &on, error) && (!on || body_fail(error, "only false is supported"));
}

/* The counterpart of read_no(). */
static bool read_yes(void *user, json_t *value, body_error *error)
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

static bool read_zero(void *user, json_t *value, body_error *error)
{
    (void)user;
    return read_only(value, 0, error);
}

static bool read_one(void *user, json_t *value, body_error *error)
{
    (void)user;
    return read_only(value, 1, error);
}

/* Parameters of both APIs. Those without a function are labels. Those of read_no(), read_yes(), read_zero(),
 * read_one() and read_nothing() are what clients of vLLM and llama-server send with the default values. */
#define BOTH                                                                                                           \
    { "model", read_model }, { "stop", read_stops }, { "max_tokens", read_max_tokens },                                \
        { "n_predict", read_max_tokens }, { "temperature", read_temperature }, { "top_p", read_top_p },                \
        { "min_p", read_min_p }, { "top_k", read_top_k }, { "presence_penalty", read_presence },                       \
        { "frequency_penalty", read_frequency }, { "repetition_penalty", read_repetition }, { "seed", read_seed },     \
        { "n", read_choices }, { "logit_bias", read_bias }, { "logprobs", read_logprobs },                             \
        { "prompt_logprobs", read_prompt_logprobs }, { "stream", read_stream },                                        \
        { "stream_options", read_stream_options }, { "grammar", read_grammar }, { "guided_regex", read_regex },        \
        { "response_format", read_format }, { "guided_json", read_schema }, { "json_schema", read_schema },            \
        { "guided_choice", read_texts }, { "guided_grammar", read_grammar },                                           \
        { "structured_outputs", read_structured }, { "min_tokens", read_min_tokens },                                  \
        { "ignore_eos", read_ignores_ends }, { "stop_token_ids", read_stop_tokens }, { "cache_prompt", NULL },         \
        { "verbosity", NULL }, { "request_id", NULL }, { "repeat_penalty", read_repetition },                          \
        { "skip_special_tokens", read_yes }, { "spaces_between_special_tokens", read_yes },                            \
        { "include_stop_str_in_output", read_no }, { "use_beam_search", read_no },                                     \
        { "return_tokens_as_token_ids", read_no }, { "return_token_ids", read_no }, { "bad_words", read_nothing },     \
        { "length_penalty", read_one }, { "priority", read_zero }, { "mirostat", read_zero },                          \
        { "typical_p", read_typical }, { "typ_p", read_typical }, { "dynatemp_range", read_zero },                     \
        { "dry_multiplier", read_dry }, { "dry_base", read_dry_base }, { "dry_allowed_length", read_dry_allowed },     \
        { "dry_penalty_last_n", read_dry_last }, { "dry_sequence_breakers", read_dry_breakers },                       \
        { "xtc_probability", read_xtc }, { "xtc_threshold", read_threshold }, { "top_n_sigma", read_sigma },           \
        { "repeat_last_n", read_last }, { "n_probs", read_zero }, { "min_keep", read_zero }, { "id_slot", NULL },      \
        { "timings_per_token", read_no }, { "return_progress", read_no },                                              \
    {                                                                                                                  \
        "user", NULL                                                                                                   \
    }

static const body_parameter completion_parameters[] = {
    BOTH, { "prompt", read_prompts }, { "best_of", read_candidates }, { "echo", read_echo }, { "suffix", read_suffix }
};

static const body_parameter chat_parameters[] = { BOTH,
                                                  { "messages", read_messages },
                                                  { "chat_template_kwargs", read_variables },
                                                  { "max_completion_tokens", read_max_tokens },
                                                  { "top_logprobs", read_top_logprobs },
                                                  { "modalities", read_modalities },
                                                  { "add_generation_prompt", read_yes },
                                                  { "continue_final_message", read_continues },
                                                  { "reasoning_format", read_reasoning },
                                                  { "echo", read_no },
                                                  { "service_tier", read_tier },
                                                  { "tools", read_tools },
                                                  { "functions", read_nothing },
                                                  { "tool_choice", read_tool_choice },
                                                  { "store", read_no },
                                                  { "parallel_tool_calls", read_parallel },
                                                  { "metadata", NULL },
                                                  { "safety_identifier", NULL },
                                                  { "prompt_cache_key", NULL } };

static const body_parameter response_parameters[] = { { "model", read_model },
                                                      { "input", read_input },
                                                      { "instructions", read_instructions },
                                                      { "max_output_tokens", read_max_tokens },
                                                      { "temperature", read_temperature },
                                                      { "top_p", read_top_p },
                                                      { "stream", read_stream },
                                                      { "text", read_text_form },
                                                      { "truncation", read_truncation },
                                                      { "service_tier", read_tier },
                                                      { "tools", read_tools },
                                                      { "include", read_nothing },
                                                      { "tool_choice", read_tool_choice },
                                                      { "background", read_no },
                                                      { "store", read_no },
                                                      { "metadata", read_metadata },
                                                      { "parallel_tool_calls", read_parallel },
                                                      { "user", NULL },
                                                      { "safety_identifier", NULL },
                                                      { "prompt_cache_key", NULL } };

/* Adds the value, which it takes, to those that the request points into; NULL: *error says why there is none. */
static json_t *keep(completion_request *request, json_t *value, body_error *error)
{
    if (value == NULL && error->text[0] == '\0')
        (void)body_fail(error, "out of memory");
    return value != NULL && json_array_append_new(request->made, value) == 0 ? value : NULL;
}

static bool read_turns(void *user, json_t *value, body_error *error)
{
    completion_request *request = user;
    json_t *list = keep(request, anthropic_messages(value, error), error);

    return list != NULL && messages_read(request->dialog.messages, list, false, error);
}

static bool read_system(void *user, json_t *value, body_error *error)
{
    const json_t *text = keep(user, messages_content(value, 0, error), error);

    ((completion_request *)user)->dialog.instructions = json_string_value(text);
    return text != NULL;
}

static bool read_anthropic_tools(void *user, json_t *value, body_error *error)
{
    completion_request *request = user;
    json_t *list = keep(request, anthropic_tools(value, error), error);

    return list != NULL && tool_set_read(&request->tools, list, false, error);
}

static bool read_anthropic_choice(void *user, json_t *value, body_error *error)
{
    completion_request *request = user;

    request->tools.given_choice = keep(request, anthropic_choice(value, &request->tools.single, error), error);
    return request->tools.given_choice != NULL;
}

static bool read_thinking(void *user, json_t *value, body_error *error)
{
    static const char *const kinds[] = { "disabled", NULL };
    uint32_t which;

    (void)user;
    return body_choice(json_object_get(value, "type"), kinds, &which, error);
}

static bool read_any_tier(void *user, json_t *value, body_error *error)
{
    static const char *const tiers[] = { "auto", "standard_only", NULL };
    uint32_t which;

    (void)user;
    return body_choice(value, tiers, &which, error);
}

static const body_parameter anthropic_parameters[] = { { "model", read_model },
                                                       { "messages", read_turns },
                                                       { "system", read_system },
                                                       { "max_tokens", read_max_tokens },
                                                       { "stop_sequences", read_stops },
                                                       { "temperature", read_temperature },
                                                       { "top_p", read_top_p },
                                                       { "top_k", read_top_k },
                                                       { "stream", read_stream },
                                                       { "tools", read_anthropic_tools },
                                                       { "tool_choice", read_anthropic_choice },
                                                       { "thinking", read_thinking },
                                                       { "service_tier", read_any_tier },
                                                       { "metadata", NULL } };

/* Also if it is empty. */
static bool read_input_suffix(void *user, json_t *value, body_error *error)
{
    ((completion_request *)user)->suffix = json_string_value(value);
    return json_is_string(value) || body_fail(error, "not a text");
}

static bool read_empty(void *user, json_t *value, body_error *error)
{
    (void)user;
    return (json_is_string(value) && json_string_length(value) == 0) || body_fail(error, "only \"\" is supported");
}

static const body_parameter infill_parameters[] = { BOTH,
                                                    { "input_prefix", read_prompts },
                                                    { "input_suffix", read_input_suffix },
                                                    { "input_extra", read_nothing },
                                                    { "prompt", read_empty },
                                                    { "samplers", NULL },
                                                    { "t_max_prompt_ms", NULL },
                                                    { "t_max_predict_ms", read_zero } };

/* A form of the text: "json", or a schema; "" is none. */
static bool read_ollama_format(void *user, json_t *value, body_error *error)
{
    if (json_is_object(value))
        return set_form(user, FORM_SCHEMA, value, error);
    if (json_is_string(value) && json_string_length(value) == 0)
        return true;
    return json_is_string(value) && strcmp(json_string_value(value), "json") == 0
               ? set_form(user, FORM_SCHEMA, NULL, error)
               : body_fail(error, "neither \"json\" nor a schema");
}

/* Whether the model thinks, if its template can tell it so; or how much. */
static bool read_think(void *user, json_t *value, body_error *error)
{
    completion_request *request = user;
    const bool is_level = json_is_string(value);

    if (!is_level && !json_is_boolean(value))
        return body_fail(error, "neither true, false nor a text");
    request->dialog.variables = keep(
        request,
        is_level ? json_pack("{s:O}", "reasoning_effort", value) : json_pack("{s:O}", "enable_thinking", value), error);
    return request->dialog.variables != NULL;
}

static bool read_ollama_messages(void *user, json_t *value, body_error *error)
{
    for (size_t i = 0; i < json_array_size(value); i++)
        if (json_array_size(json_object_get(json_array_get(value, i), "images")) > 0)
            return body_fail(error, "message %zu has images; the model takes texts only", i);
    return read_messages(user, value, error);
}

static bool read_given_prompt(void *user, json_t *value, body_error *error)
{
    ((completion_request *)user)->given_prompt = json_string_value(value);
    return json_is_string(value) || body_fail(error, "not a text");
}

static bool read_raw(void *user, json_t *value, body_error *error)
{
    return body_bool(value, &((completion_request *)user)->is_raw, error);
}

/* -2 is "until the context is full". */
static bool read_predict(void *user, json_t *value, body_error *error)
{
    json_t *all = json_integer(-1);
    const bool good =
        read_max_tokens(user, json_is_integer(value) && json_integer_value(value) == -2 ? all : value, error);

    json_decref(all);
    return good;
}

/* Those without a function are of Ollama's runner. The context is that of the server. */
static bool read_ollama_options(void *user, json_t *value, body_error *error)
{
    static const body_parameter options[] = { { "temperature", read_temperature },
                                              { "top_p", read_top_p },
                                              { "min_p", read_min_p },
                                              { "top_k", read_top_k },
                                              { "typical_p", read_typical },
                                              { "num_predict", read_predict },
                                              { "stop", read_stops },
                                              { "seed", read_seed },
                                              { "repeat_penalty", read_repetition },
                                              { "repeat_last_n", read_last },
                                              { "presence_penalty", read_presence },
                                              { "frequency_penalty", read_frequency },
                                              { "num_ctx", NULL },
                                              { "num_batch", NULL },
                                              { "num_gpu", NULL },
                                              { "num_keep", NULL },
                                              { "num_thread", NULL },
                                              { "main_gpu", NULL },
                                              { "use_mmap", NULL },
                                              { "numa", NULL } };

    if (!json_is_object(value))
        return body_fail(error, "not an object");
    if (body_take(value, options, sizeof options / sizeof *options, user, error))
        return true;
    error->parameter[0] = '\0'; /* its name is in the text */
    return false;
}

#define OLLAMA                                                                                                         \
    { "model", read_model }, { "stream", read_stream }, { "format", read_ollama_format },                              \
        { "options", read_ollama_options }, { "think", read_think }, { "keep_alive", NULL },                           \
    {                                                                                                                  \
        "logprobs", read_no                                                                                            \
    }
static const body_parameter ollama_chat_parameters[] = { OLLAMA,
                                                         { "messages", read_ollama_messages },
                                                         { "tools", read_tools } };
static const body_parameter ollama_parameters[] = { OLLAMA,
                                                    { "prompt", read_given_prompt },
                                                    { "system", read_instructions },
                                                    { "suffix", read_suffix },
                                                    { "raw", read_raw },
                                                    { "template", read_empty },
                                                    { "context", read_nothing },
                                                    { "images", read_nothing } };

/* A prompt of Ollama is a message of the user, unless it is raw or has a suffix: then it is completed. */
static bool take_given_prompt(completion_request *request, body_error *error)
{
    const json_t *text;

    if (request->given_prompt == NULL)
        return true;
    request->chat = !request->is_raw && request->suffix == NULL;
    text = request->chat ? NULL : keep(request, json_string(request->given_prompt), error);
    if (request->chat)
        return messages_add(request->dialog.messages, "user", request->given_prompt, error);
    return text != NULL && input_list_read(&request->prompts, text, MAX_TEXTS, error);
}

static const body_parameter llama_parameters[] = { BOTH,
                                                   { "prompt", read_prompts },
                                                   { "samplers", NULL },
                                                   { "t_max_predict_ms", read_zero },
                                                   { "return_tokens", read_no },
                                                   { "post_sampling_probs", read_no } };

static bool read_nested(void *user, json_t *value, body_error *error);

static const body_parameter generate_parameters[] = {
    BOTH, { "text_input", read_prompts }, { "parameters", read_nested }, { "id", NULL }, { "details", NULL }
};

/* "parameters" of KServe's form; Triton has them beside the text. */
static bool read_nested(void *user, json_t *value, body_error *error)
{
    if (!json_is_object(value))
        return body_fail(error, "not an object");
    if (body_take(value, generate_parameters, sizeof generate_parameters / sizeof *generate_parameters, user, error))
        return true;
    error->parameter[0] = '\0'; /* its name is in the text */
    return false;
}

typedef struct request_form {
    const body_parameter *parameters;
    size_t count;
    const char *prompt; /* the parameter of the prompt, or of messages */
    bool chat, response;
    bool is_single; /* the reply has one text, without log probabilities */
    bool continues; /* the last message may be the beginning of the answer */
    bool streams;   /* unless the request says otherwise */
} request_form;

static request_form form_of(route_kind kind)
{
#define TABLE(rows) rows, sizeof(rows) / sizeof *(rows)
    switch (kind) {
    case ROUTE_CHAT:
        return (request_form){ TABLE(chat_parameters), "messages", true, false, false, true, false };
    case ROUTE_RESPONSES:
        return (request_form){ TABLE(response_parameters), "input", true, true, true, false, false };
    case ROUTE_MESSAGES:
        return (request_form){ TABLE(anthropic_parameters), "messages", true, false, true, true, false };
    case ROUTE_INFILL:
        return (request_form){ TABLE(infill_parameters), "input_prefix", false, false, true, false, false };
    case ROUTE_OLLAMA_CHAT:
        return (request_form){ TABLE(ollama_chat_parameters), "messages", true, false, true, true, true };
    case ROUTE_OLLAMA_GENERATE:
        return (request_form){ TABLE(ollama_parameters), "prompt", true, false, true, false, true };
    case ROUTE_LLAMA_COMPLETION:
        return (request_form){ TABLE(llama_parameters), "prompt", false, false, true, false, false };
    case ROUTE_GENERATE:
    case ROUTE_GENERATE_STREAM:
        return (request_form){ TABLE(generate_parameters),   "text_input", false, false, true, false,
                               kind == ROUTE_GENERATE_STREAM };
    default:
        return (request_form){ TABLE(completion_parameters), "prompt", false, false, false, false, false };
    }
#undef TABLE
}

/* The model that the path names. If the body names no model, or one that does not exist: the only model for texts. */
static void find_model(completion_request *request, const struct exchange *exchange)
{
    static const char latest[] = ":latest"; /* Ollama adds it to names */
    const size_t bytes = request->model != NULL ? strlen(request->model) : 0;
    const bool is_ollama = exchange->route.kind == ROUTE_OLLAMA_CHAT || exchange->route.kind == ROUTE_OLLAMA_GENERATE;
    char only[MODELS_NAME_BYTES], note[2 * MODELS_NAME_BYTES + 80];
    json_t *name = NULL;

    if (exchange->route.name != NULL) {
        name = json_stringn(exchange->route.name, exchange->route.name_bytes);
    } else if (is_ollama && bytes > sizeof latest &&
               strcmp(request->model + bytes - (sizeof latest - 1), latest) == 0) {
        name = json_stringn(request->model, bytes - (sizeof latest - 1));
    } else if (models_stand_in(exchange->request.server->repository, request->model, only)) {
        (void)snprintf(note, sizeof note, "%s%.*s%s; the only one for texts, '%s', answers",
                       request->model != NULL ? "there is no model '" : "the request names no model", MODELS_NAME_BYTES,
                       request->model != NULL ? request->model : "", request->model != NULL ? "'" : "", only);
        tool_set_warn(&request->tools, note);
        name = json_string(only);
    }
    if (name != NULL && json_array_append_new(request->made, name) == 0)
        request->model = json_string_value(name);
}

static bool check_tools(completion_request *request, body_error *error)
{
    tool_set *tools = &request->tools;

    if (tools->given_choice != NULL && !tool_set_choose(tools, tools->given_choice, error)) {
        char why[sizeof error->text];

        (void)snprintf(why, sizeof why, "tool_choice: %.200s", error->text);
        return body_fail_parameter(error, "tool_choice", why);
    }
    return true;
}

/* The number of tokens of a request that says none. */
static uint64_t default_tokens(route_kind kind)
{
    switch (kind) {
    case ROUTE_LLAMA_COMPLETION:
    case ROUTE_OLLAMA_CHAT:
    case ROUTE_OLLAMA_GENERATE:
        return MAX_TOKENS; /* until the context ends it */
    case ROUTE_CHAT:
    case ROUTE_RESPONSES:
    case ROUTE_MESSAGES:
        return CHAT_TOKENS;
    default:
        return COMPLETION_TOKENS;
    }
}

bool completion_request_read(completion_request *request, struct exchange *exchange, body_error *error)
{
    const request_form form = form_of(exchange->route.kind);

    *request = (completion_request){ .chat = form.chat,
                                     .prompt_name = form.prompt,
                                     .response = form.response,
                                     .streams = form.streams,
                                     .choices = 1,
                                     .prompt_logprobs = -1,
                                     .dry_breakers = "\n:\"*",
                                     .sampler = { .temperature = NAN,
                                                  .top_p = NAN,
                                                  .min_p = NAN,
                                                  .penalty = NAN,
                                                  .xtc_threshold = 0.1F,
                                                  .dry_base = 1.75F,
                                                  .dry_allowed = 2,
                                                  .top_k = OPEN_TOP_K } };
    request->dialog.messages = json_array();
    request->dialog.continues = form.continues;
    request->made = json_array();
    if (request->dialog.messages == NULL || request->made == NULL)
        return body_fail_parameter(error, "messages", "out of memory for the messages");
    request->body = body_read(exchange, form.parameters, form.count, request, error);
    if (request->body == NULL || !take_given_prompt(request, error))
        return false;
    find_model(request, exchange);
    if (!request->has_max_tokens)
        request->ends.max_tokens = default_tokens(exchange->route.kind);
    if (request->model == NULL)
        return body_fail_parameter(error, "model", "the request has no model, and there are several, or none");
    if (request->chat ? json_array_size(request->dialog.messages) == 0 : request->prompts.count == 0) {
        char why[80];

        (void)snprintf(why, sizeof why, "the request has no %s%s", form.prompt, request->chat ? "" : " (a text)");
        return body_fail_parameter(error, form.prompt, why);
    }
    if (exchange->route.kind == ROUTE_INFILL && request->suffix == NULL)
        return body_fail_parameter(error, "input_suffix", "the request has no input_suffix (a text)");
    if (form.is_single && (request->prompts.count > 1 || request->choices > 1))
        return body_fail_parameter(error, form.prompt, "this path takes one text and returns one");
    if (form.is_single && (request->logprobs || request->prompt_logprobs >= 0))
        return body_fail_parameter(error, "logprobs", "this path returns no log probabilities");
    if (request->dialog.instructions != NULL) {
        json_t *first = json_pack("{s:s, s:s}", "role", "system", "content", request->dialog.instructions);

        if (first == NULL || json_array_insert_new(request->dialog.messages, 0, first) != 0)
            return body_fail_parameter(error, "instructions", "out of memory for the messages");
    }
    if (request->candidates == 0)
        request->candidates = request->choices;
    if (request->candidates < request->choices)
        return body_fail_parameter(error, "best_of", "best_of is smaller than n");
    if (request->streams && request->candidates > request->choices)
        return body_fail_parameter(error, "best_of",
                                   "a stream cannot choose the best of several texts; leave out best_of");
    if (request->ends.min_tokens > request->ends.max_tokens)
        return body_fail_parameter(error, "min_tokens", "min_tokens is larger than max_tokens");
    if (request->streams && request->prompt_logprobs >= 0)
        return body_fail_parameter(error, "prompt_logprobs", "prompt_logprobs is not supported in a stream");
    if (request->echoes && request->suffix != NULL)
        return body_fail_parameter(error, "echo", "echo is not supported together with suffix");
    for (uint32_t i = 0; request->suffix != NULL && i < request->prompts.count; i++)
        if (request->prompts.texts[i].text == NULL)
            return body_fail_parameter(error, "suffix", "suffix needs prompts that are texts, not tokens");
    if (request->chat && request->top_logprobs > 0 && !request->logprobs)
        return body_fail_parameter(error, "top_logprobs", "top_logprobs needs \"logprobs\": true");
    if (request->chat)
        return check_tools(request, error);
    if (request->prompts.count * request->candidates > MAX_TEXTS)
        return body_fail_parameter(error, "n", "more than 128 texts in one request");
    return true;
}

void completion_request_deinit(completion_request *request)
{
    input_list_deinit(&request->prompts);
    free(request->bias);
    grammar_destroy(request->form);
    grammar_destroy(request->calls);
    tool_set_deinit(&request->tools);
    sampler_deinit(&request->sampler);
    json_decref(request->dialog.messages);
    json_decref(request->made);
    json_decref(request->body);
}
