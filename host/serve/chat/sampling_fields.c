/* The fields of the choice of a token. */
#include "serve/chat/request_fields.h"
#include <math.h>
#include <stdlib.h>

static bool read_part(const json_t *value, double least, double most, float *out, body_error *error)
{
    double number;

    if (!body_number(value, least, most, false, &number, error))
        return false;
    *out = (float)number;
    return true;
}

bool field_temperature(void *user, json_t *value, body_error *error)
{
    return read_part(value, 0, 2, &((completion_request *)user)->sampler.temperature, error);
}

bool field_top_p(void *user, json_t *value, body_error *error)
{
    return read_part(value, 0, 1, &((completion_request *)user)->sampler.top_p, error);
}

bool field_min_p(void *user, json_t *value, body_error *error)
{
    return read_part(value, 0, 1, &((completion_request *)user)->sampler.min_p, error);
}

/* -1 is "all" for some clients. */
bool field_top_k(void *user, json_t *value, body_error *error)
{
    double number;

    if (!body_number(value, -1, INT32_MAX, true, &number, error))
        return false;
    ((completion_request *)user)->sampler.top_k = number > 0 ? (uint32_t)number : 0;
    return true;
}

bool field_presence(void *user, json_t *value, body_error *error)
{
    return read_part(value, -2, 2, &((completion_request *)user)->sampler.presence, error);
}

bool field_frequency(void *user, json_t *value, body_error *error)
{
    return read_part(value, -2, 2, &((completion_request *)user)->sampler.frequency, error);
}

bool field_repetition(void *user, json_t *value, body_error *error)
{
    struct sampler *sampler = &((completion_request *)user)->sampler;
    const float other = sampler->penalty;

    return read_part(value, 0.01, 100, &sampler->penalty, error) &&
           (isnan(other) || other == sampler->penalty ||
            body_fail(error, "the request has another value for it by its other name"));
}

bool field_typical(void *user, json_t *value, body_error *error)
{
    return read_part(value, 0, 1, &((completion_request *)user)->sampler.typical_p, error);
}

static bool read_epsilon(void *user, json_t *value, body_error *error)
{
    return read_part(value, 0, 1, &((completion_request *)user)->sampler.epsilon_cutoff, error);
}

static bool read_eta(void *user, json_t *value, body_error *error)
{
    return read_part(value, 0, 1, &((completion_request *)user)->sampler.eta_cutoff, error);
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

/* A number of last tokens; -1: all; 0: none, as for llama-server. */
static bool read_span(const json_t *value, int64_t *out, body_error *error)
{
    double number;

    if (!body_number(value, -1, INT32_MAX, true, &number, error))
        return false;
    *out = number < 0 ? 0 : number == 0 ? -1 : (int64_t)number;
    return true;
}

bool field_last(void *user, json_t *value, body_error *error)
{
    return read_span(value, &((completion_request *)user)->sampler.last_n, error);
}

static bool read_dry(void *user, json_t *value, body_error *error)
{
    return read_part(value, 0, 100, &((completion_request *)user)->sampler.dry.multiplier, error);
}

static bool read_dry_base(void *user, json_t *value, body_error *error)
{
    return read_part(value, 1, 100, &((completion_request *)user)->sampler.dry.base, error);
}

static bool read_dry_allowed(void *user, json_t *value, body_error *error)
{
    return field_count(value, 1, 65536, &((completion_request *)user)->sampler.dry.allowed, error);
}

static bool read_dry_last(void *user, json_t *value, body_error *error)
{
    return read_span(value, &((completion_request *)user)->sampler.dry.last_n, error);
}

static bool read_dry_breakers(void *user, json_t *value, body_error *error)
{
    ascii_set *breakers = &((completion_request *)user)->sampler.dry.breakers;

    *breakers = (ascii_set){ { 0, 0 } };
    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *text = json_string_value(json_array_get(value, i));

        if (text == NULL || text[0] == '\0' || (unsigned char)text[0] > 127 || text[1] != '\0')
            return body_fail(error, "element %zu is not one character of ASCII; longer texts are not supported", i);
        ascii_add(breakers, text, 1);
    }
    return json_is_array(value) || body_fail(error, "not an array of texts");
}

static bool read_no_repeat(void *user, json_t *value, body_error *error)
{
    return field_count(value, 0, MAX_TOKENS, &((completion_request *)user)->no_repeat, error);
}

static bool read_bad_words(void *user, json_t *value, body_error *error)
{
    if (!json_is_array(value) || json_array_size(value) > MAX_BAD_WORDS)
        return body_fail(error, "not an array of at most %d texts", MAX_BAD_WORDS);
    for (size_t i = 0; i < json_array_size(value); i++)
        if (json_string_length(json_array_get(value, i)) == 0)
            return body_fail(error, "element %zu is not a text, or it is empty", i);
    ((completion_request *)user)->bad_words = value;
    return true;
}

bool field_seed(void *user, json_t *value, body_error *error)
{
    completion_request *request = user;

    if (!json_is_integer(value))
        return body_fail(error, "not a whole number");
    request->sampler.state = (uint64_t)json_integer_value(value);
    request->seeded = true;
    return true;
}

/* {"token id": number from -100 to 100}; -100: the token is never chosen. */
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
        if (bias->bias == -100)
            bias->bias = -INFINITY;
    }
    request->sampler.bias = request->bias;
    return true;
}

static const body_parameter rows[] = { { "temperature", field_temperature },
                                       { "top_p", field_top_p },
                                       { "min_p", field_min_p },
                                       { "top_k", field_top_k },
                                       { "typical_p", field_typical },
                                       { "typ_p", field_typical },
                                       { "epsilon_cutoff", read_epsilon },
                                       { "eta_cutoff", read_eta },
                                       { "top_n_sigma", read_sigma },
                                       { "xtc_probability", read_xtc },
                                       { "xtc_threshold", read_threshold },
                                       { "presence_penalty", field_presence },
                                       { "frequency_penalty", field_frequency },
                                       { "repetition_penalty", field_repetition },
                                       { "repeat_penalty", field_repetition },
                                       { "repeat_last_n", field_last },
                                       { "dry_multiplier", read_dry },
                                       { "dry_base", read_dry_base },
                                       { "dry_allowed_length", read_dry_allowed },
                                       { "dry_penalty_last_n", read_dry_last },
                                       { "dry_sequence_breakers", read_dry_breakers },
                                       { "no_repeat_ngram_size", read_no_repeat },
                                       { "bad_words", read_bad_words },
                                       { "seed", field_seed },
                                       { "logit_bias", read_bias },
                                       { "mirostat", field_zero },
                                       { "dynatemp_range", field_zero },
                                       { "min_keep", field_zero } };
const body_table sampling_fields = { rows, sizeof rows / sizeof *rows, &grammar_fields };
