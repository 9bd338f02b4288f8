/* JavaScript values: strings, numbers, arrays, errors. */
#include "addon.h"
#include <stdlib.h>

napi_value js_throw(napi_env env, const char *text)
{
    (void)napi_throw_error(env, NULL, text);
    return NULL;
}

napi_value js_error(napi_env env, const inlay_diag *diag)
{
    napi_value text, code, error;

    if (napi_create_string_utf8(env, diag->text, NAPI_AUTO_LENGTH, &text) != napi_ok ||
        napi_create_string_utf8(env, inlay_status_text(diag->code), NAPI_AUTO_LENGTH, &code) != napi_ok ||
        napi_create_error(env, code, text, &error) != napi_ok)
        return NULL;
    return error;
}

char *js_get_text(napi_env env, napi_value value, size_t *bytes)
{
    size_t length = 0;
    char *text;

    if (napi_get_value_string_utf8(env, value, NULL, 0, &length) != napi_ok)
        return NULL;
    text = malloc(length + 1);
    if (text != NULL && napi_get_value_string_utf8(env, value, text, length + 1, &length) != napi_ok) {
        free(text);
        return NULL;
    }
    if (bytes != NULL)
        *bytes = length;
    return text;
}

napi_value js_element(napi_env env, napi_value array, uint32_t index)
{
    napi_value value = NULL;

    (void)napi_get_element(env, array, index, &value);
    return value;
}

uint32_t js_length(napi_env env, napi_value array)
{
    uint32_t length = 0;

    (void)napi_get_array_length(env, array, &length);
    return length;
}

void js_put(napi_env env, napi_value object, const char *name, napi_value value)
{
    (void)napi_set_named_property(env, object, name, value);
}

napi_value js_text(napi_env env, const char *text, size_t bytes)
{
    napi_value value = NULL;

    (void)napi_create_string_utf8(env, text, bytes, &value);
    return value;
}

napi_value js_number(napi_env env, double number)
{
    napi_value value = NULL;

    (void)napi_create_double(env, number, &value);
    return value;
}

inlay_status js_read_options(napi_env env, napi_value list, inlay_options **out, inlay_diag *diag)
{
    inlay_status status = inlay_options_create(out, diag);

    if (status == INLAY_OK)
        status = inlay_options_load(*out, NULL, diag);
    if (status == INLAY_OK)
        status = inlay_options_load_environment(*out, diag);
    for (uint32_t i = 0; status == INLAY_OK && i < js_length(env, list); i++) {
        napi_value pair = js_element(env, list, i);
        char *name = js_get_text(env, js_element(env, pair, 0), NULL);
        char *value = js_get_text(env, js_element(env, pair, 1), NULL);

        if (name != NULL && value != NULL)
            status = inlay_options_set(*out, name, value, diag);
        free(name);
        free(value);
    }
    return status;
}
