#include "serve/chat/body.h"
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const body_parameter *find(const body_table *table, const char *name)
{
    for (; table != NULL; table = table->more)
        for (size_t i = 0; i < table->count; i++)
            if (strcmp(table->rows[i].name, name) == 0)
                return &table->rows[i];
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

bool body_take(json_t *object, const body_table *table, void *request, body_error *error)
{
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value) {
        const body_parameter *parameter = find(table, name);

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

        tree.is_refused = !request_count(request, more);
        if (tree.is_refused)
            return false;
        tree.held += more;
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
        (void)body_fail(error, REQUEST_IS_LARGE);
    } else {
        (void)body_fail(error, "the request's JSON, byte %d: %s", wrong.position,
                        json_error_code(&wrong) == json_error_null_character ||
                                json_error_code(&wrong) == json_error_null_byte_in_key
                            ? "the character U+0000 is not supported"
                            : wrong.text);
    }
    return NULL;
}

json_t *body_read(struct exchange *exchange, const body_table *table, void *request, body_error *error)
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
    if (body_take(root, table, request, error))
        return root;
    json_decref(root);
    return NULL;
}

void body_refuse(struct exchange *exchange, const body_error *error)
{
    exchange_fail_parameter(exchange, error->status != 0 ? error->status : HTTP_BAD_REQUEST, error->text,
                            error->parameter, error->code);
}
