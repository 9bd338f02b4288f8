#include "serve/chat/body.h"
#include <string.h>

static const body_parameter *find(const body_parameter *parameters, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(parameters[i].name, name) == 0)
            return &parameters[i];
    return NULL;
}

/* Puts the parameter's name before the reason. */
static void name_parameter(body_error *error, const char *name)
{
    char reason[sizeof error->text];

    if (error->parameter[0] == '\0')
        (void)snprintf(error->parameter, sizeof error->parameter, "%s", name);
    (void)snprintf(reason, sizeof reason, "%s", error->text);
    (void)snprintf(error->text, sizeof error->text, "%.63s: %.180s", error->parameter, reason);
}

json_t *body_read(const struct exchange *exchange, const body_parameter *parameters, size_t count, void *request,
                  body_error *error)
{
    json_error_t wrong;
    json_t *root = json_loadb(exchange->body_bytes > 0 ? exchange->body : "", exchange->body_bytes,
                              JSON_REJECT_DUPLICATES, &wrong);
    const char *name;
    json_t *value;

    *error = (body_error){ .code = NULL };
    if (root == NULL) {
        (void)body_fail(error, "the request's JSON, byte %d: %s", wrong.position,
                        json_error_code(&wrong) == json_error_null_character ||
                                json_error_code(&wrong) == json_error_null_byte_in_key
                            ? "the character U+0000 is not supported"
                            : wrong.text);
        return NULL;
    }
    if (!json_is_object(root)) {
        (void)body_fail(error, "the request's JSON is not an object");
        json_decref(root);
        return NULL;
    }
    json_object_foreach(root, name, value) {
        const body_parameter *parameter = find(parameters, count, name);

        if (json_is_null(value) || (parameter != NULL && parameter->read == NULL))
            continue;
        if (parameter != NULL && parameter->read(request, value, error))
            continue;
        if (parameter == NULL) {
            (void)body_fail(error, "not supported; remove it");
            error->code = "unsupported_parameter";
        }
        name_parameter(error, name);
        json_decref(root);
        return NULL;
    }
    return root;
}

void body_refuse(struct exchange *exchange, const body_error *error)
{
    exchange_fail_parameter(exchange, HTTP_BAD_REQUEST, error->text, error->parameter, error->code);
}
