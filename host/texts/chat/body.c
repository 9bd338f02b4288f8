#include "texts/chat/body.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool body_fail(body_error *error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return false;
}

bool body_fail_parameter(body_error *error, const char *parameter, const char *text)
{
    (void)snprintf(error->parameter, sizeof error->parameter, "%s", parameter);
    return body_fail(error, "%s", text);
}

bool body_fail_length(body_error *error, const char *what, size_t bytes, size_t most)
{
    error->code = "context_length_exceeded";
    return body_fail(error, "%s has %zu bytes, and the model takes at most %zu (max_prompt_bytes)", what, bytes, most);
}

bool body_number(const json_t *value, double least, double most, bool whole, double *out, body_error *error)
{
    if (!json_is_number(value))
        return body_fail(error, "not a number");
    *out = json_number_value(value);
    if (whole && floor(*out) != *out)
        return body_fail(error, "%g is not a whole number", *out);
    if (!(*out >= least && *out <= most))
        return body_fail(error, "%.15g is too %s; it can be %.15g to %.15g", *out, *out < least ? "small" : "large",
                         least, most);
    return true;
}

bool body_members(json_t *object, const char *const *names, body_error *error)
{
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value) {
        size_t i = 0;

        while (names[i] != NULL && strcmp(names[i], name) != 0)
            i++;
        if (names[i] == NULL && !json_is_null(value))
            return body_fail(error, "'%.40s' is not supported; remove it", name);
    }
    return true;
}

bool body_bool(const json_t *value, bool *out, body_error *error)
{
    *out = json_is_true(value);
    return json_is_boolean(value) || body_fail(error, "neither true nor false");
}

bool body_choice(const json_t *value, const char *const *choices, uint32_t *out, body_error *error)
{
    const char *text = json_string_value(value);

    if (text == NULL)
        return body_fail(error, "not a text");
    for (*out = 0; choices[*out] != NULL; ++*out)
        if (strcmp(text, choices[*out]) == 0)
            return true;
    return body_fail(error, "'%.40s' is not supported; '%s' is", text, choices[0]);
}

bool body_tokens(const json_t *value, int64_t **out_tokens, size_t *out_count, body_error *error)
{
    size_t count = json_array_size(value);

    *out_count = 0;
    *out_tokens = malloc((count > 0 ? count : 1) * sizeof **out_tokens);
    if (*out_tokens == NULL)
        return body_fail(error, "out of memory for the tokens");
    for (size_t i = 0; i < count; i++) {
        const json_t *token = json_array_get(value, i);

        if (!json_is_integer(token) || json_integer_value(token) < 0)
            return body_fail(error, "element %zu is not a token id", i);
        (*out_tokens)[i] = json_integer_value(token);
    }
    *out_count = count;
    return true;
}
