#include "serve/chat/body.h"
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
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

bool body_take(json_t *object, const body_parameter *parameters, size_t count, void *request, body_error *error)
{
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value) {
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
        return false;
    }
    return true;
}

enum { FREE_BYTES = 64 << 10, HELD_STEP = 256 << 10 }; /* of a tree: not counted; counted at a time */

/* The tree of JSON that this thread reads. */
static _Thread_local struct {
    struct request *request;   /* NULL: none */
    uint64_t used, held, most; /* bytes: allocated; counted in max_inflight_bytes; limit, 0 = none */
    bool is_large, is_refused; /* the limit is exceeded; max_inflight_bytes is */
} tree;

static bool may_grow(size_t bytes)
{
    struct request *request = tree.request;
    const uint64_t wanted = tree.used + bytes;

    tree.is_large |= tree.most > 0 && wanted > tree.most;
    if (tree.is_large || tree.is_refused)
        return false;
    if (wanted > FREE_BYTES + tree.held) {
        const uint64_t more = (wanted - FREE_BYTES - tree.held + HELD_STEP - 1) / HELD_STEP * HELD_STEP;

        tree.is_refused = !server_hold(request->server, request->held_bytes, more);
        if (tree.is_refused)
            return false;
        tree.held += more;
        request->held_bytes += more;
    }
    return true;
}

static void *allocate(size_t bytes)
{
    void *memory = tree.request == NULL || may_grow(bytes) ? malloc(bytes) : NULL;

    if (tree.request != NULL)
        tree.used += malloc_usable_size(memory);
    return memory;
}

static void release(void *memory)
{
    const size_t bytes = tree.request != NULL ? malloc_usable_size(memory) : 0;

    tree.used -= bytes < tree.used ? bytes : tree.used;
    free(memory);
}

static void count_trees(void)
{
    json_set_alloc_funcs(allocate, release); /* what was allocated before may be freed so, too */
}

/* Reads the body, whose tree counts in max_inflight_bytes until the request ends; NULL: *error says why. */
static json_t *load(struct exchange *exchange, body_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const uint64_t quarter = exchange->request.server->limits.inflight_bytes / 4;
    json_error_t wrong;
    json_t *root;

    (void)pthread_once(&once, count_trees);
    tree.request = &exchange->request;
    tree.used = tree.held = 0;
    tree.most = quarter > 0 && quarter < FREE_BYTES ? FREE_BYTES : quarter;
    tree.is_large = tree.is_refused = false;
    root = json_loadb(exchange->body_bytes > 0 ? exchange->body : "", exchange->body_bytes, JSON_REJECT_DUPLICATES,
                      &wrong);
    tree.request = NULL;
    if (root != NULL)
        return root;
    if (tree.is_large) {
        error->status = 413;
        (void)body_fail(error,
                        "the values of the request's JSON take more than %llu bytes, a quarter of "
                        "max_inflight_bytes",
                        (unsigned long long)tree.most);
    } else if (tree.is_refused) {
        error->status = HTTP_TOO_MANY_REQUESTS;
        exchange->request.retry_after = 1;
        (void)body_fail(error, "all requests in progress exceed max_inflight_bytes; try again later");
    } else {
        (void)body_fail(error, "the request's JSON, byte %d: %s", wrong.position,
                        json_error_code(&wrong) == json_error_null_character ||
                                json_error_code(&wrong) == json_error_null_byte_in_key
                            ? "the character U+0000 is not supported"
                            : wrong.text);
    }
    return NULL;
}

json_t *body_read(struct exchange *exchange, const body_parameter *parameters, size_t count, void *request,
                  body_error *error)
{
    json_t *root;

    *error = (body_error){ .code = NULL };
    root = load(exchange, error);
    if (root == NULL)
        return NULL;
    if (!json_is_object(root)) {
        (void)body_fail(error, "the request's JSON is not an object");
        json_decref(root);
        return NULL;
    }
    if (body_take(root, parameters, count, request, error))
        return root;
    json_decref(root);
    return NULL;
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

void body_refuse(struct exchange *exchange, const body_error *error)
{
    exchange_fail_parameter(exchange, error->status != 0 ? error->status : HTTP_BAD_REQUEST, error->text,
                            error->parameter, error->code);
}
