/* Sessions: made on libuv's threads, described, released; their contexts. */
#include "addon.h"
#include <stdlib.h>
#include <string.h>

void session_unref(struct session *s)
{
    if (__atomic_sub_fetch(&s->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (uint32_t i = 0; i < s->idle_count; i++)
        inlay_context_destroy(s->idle[i]);
    inlay_session_destroy(s->session);
    (void)pthread_mutex_destroy(&s->lock);
    free(s->bytes);
    free(s);
}

inlay_status session_take_context(struct session *s, inlay_context **out, inlay_diag *diag)
{
    *out = NULL;
    (void)pthread_mutex_lock(&s->lock);
    if (s->idle_count > 0)
        *out = s->idle[--s->idle_count];
    (void)pthread_mutex_unlock(&s->lock);
    return *out != NULL ? INLAY_OK : inlay_context_create(s->session, out, diag);
}

void session_give_context(struct session *s, inlay_context *c)
{
    (void)pthread_mutex_lock(&s->lock);
    if (s->idle_count < MOST_IDLE && __atomic_load_n(&s->released, __ATOMIC_ACQUIRE) == 0) {
        s->idle[s->idle_count++] = c;
        c = NULL;
    }
    (void)pthread_mutex_unlock(&s->lock);
    inlay_context_destroy(c);
}

/* ------------------------------------------------------------------ creating */

typedef struct create_job {
    napi_async_work work;
    napi_deferred deferred;
    char *path; /* or the bytes of made */
    size_t bytes;
    inlay_options *options;
    struct session *made;
    inlay_status status;
    inlay_diag diag;
} create_job;

static void create_execute(napi_env env, void *data)
{
    create_job *j = data;
    struct session *s = j->made;

    (void)env;
    if (j->path != NULL)
        j->status = inlay_session_create(j->path, j->options, &s->session, &j->diag);
    else
        j->status = inlay_session_create_from_bytes(s->bytes, j->bytes, j->options, &s->session, &j->diag);
}

static void finalize_session(napi_env env, void *data, void *hint)
{
    (void)env, (void)hint;
    session_unref(data);
}

static void create_complete(napi_env env, napi_status cancelled, void *data)
{
    create_job *j = data;
    napi_value made = NULL;

    if (cancelled == napi_ok && j->status == INLAY_OK &&
        napi_create_external(env, j->made, finalize_session, NULL, &made) == napi_ok) {
        (void)napi_resolve_deferred(env, j->deferred, made);
    } else {
        session_unref(j->made);
        (void)napi_reject_deferred(env, j->deferred, js_error(env, &j->diag));
    }
    (void)napi_delete_async_work(env, j->work);
    inlay_options_destroy(j->options);
    free(j->path);
    free(j);
}

/* Settings as pairs of texts, on top of files and environment. */
static inlay_status read_options(napi_env env, napi_value list, create_job *j)
{
    inlay_status status = inlay_options_create(&j->options, &j->diag);

    if (status == INLAY_OK)
        status = inlay_options_load(j->options, NULL, &j->diag);
    if (status == INLAY_OK)
        status = inlay_options_load_environment(j->options, &j->diag);
    for (uint32_t i = 0; status == INLAY_OK && i < js_length(env, list); i++) {
        napi_value pair = js_element(env, list, i);
        char *name = js_get_text(env, js_element(env, pair, 0), NULL);
        char *value = js_get_text(env, js_element(env, pair, 1), NULL);

        if (name != NULL && value != NULL)
            status = inlay_options_set(j->options, name, value, &j->diag);
        free(name);
        free(value);
    }
    return status;
}

static bool read_model(napi_env env, napi_value model, create_job *j)
{
    bool is_array = false;
    void *data = NULL;

    if (napi_is_typedarray(env, model, &is_array) != napi_ok || !is_array) {
        j->path = js_get_text(env, model, NULL);
        return j->path != NULL;
    }
    if (napi_get_typedarray_info(env, model, NULL, &j->bytes, &data, NULL, NULL) != napi_ok)
        return false;
    j->made->bytes = malloc(j->bytes + 1); /* the program may do with its own what it likes */
    if (j->made->bytes != NULL && j->bytes > 0)
        memcpy(j->made->bytes, data, j->bytes);
    return j->made->bytes != NULL;
}

napi_value session_create(napi_env env, napi_callback_info info)
{
    napi_value args[2], promise = NULL;
    create_job *j = calloc(1, sizeof *j);
    struct session *s = calloc(1, sizeof *s);
    size_t count = 2;

    if (j == NULL || s == NULL || napi_get_cb_info(env, info, &count, args, NULL, NULL) != napi_ok || count < 2) {
        free(j);
        free(s);
        return js_throw(env, "createSession(model, options)");
    }
    j->diag = (inlay_diag)INLAY_DIAG_INIT;
    j->made = s;
    s->references = 1;
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)napi_create_promise(env, &j->deferred, &promise);
    (void)napi_create_async_work(env, NULL, js_text(env, "inlay", 5), create_execute, create_complete, j, &j->work);
    if (!read_model(env, args[0], j))
        j->status = inlay_fail(&j->diag, INLAY_INVALID_ARGUMENT, "a model is a path, an ArrayBuffer or a Uint8Array");
    if (j->status == INLAY_OK)
        j->status = read_options(env, args[1], j);
    if (j->status != INLAY_OK)
        create_complete(env, napi_cancelled, j);
    else
        (void)napi_queue_async_work(env, j->work);
    return promise;
}

/* ------------------------------------------------------------------ what a session tells */

struct session *session_of(napi_env env, napi_value value)
{
    napi_valuetype type;
    void *s = NULL;

    if (napi_typeof(env, value, &type) != napi_ok || type != napi_external ||
        napi_get_value_external(env, value, &s) != napi_ok)
        return NULL;
    return s;
}

static napi_value describe_io(napi_env env, const inlay_session *s, bool input)
{
    uint32_t count = input ? inlay_session_input_count(s) : inlay_session_output_count(s);
    napi_value list, shape, one, yes;

    (void)napi_create_array(env, &list);
    for (uint32_t i = 0; i < count; i++) {
        inlay_io_info info = { .struct_size = sizeof info, .name = "" };

        (void)(input ? inlay_session_input(s, i, &info) : inlay_session_output(s, i, &info));
        (void)napi_create_object(env, &one);
        js_put(env, one, "name", js_text(env, info.name, NAPI_AUTO_LENGTH));
        js_put(env, one, "kind", js_number(env, info.kind == INLAY_KIND_TENSOR ? info.dtype : 0));
        (void)napi_get_boolean(env, info.optional != 0 || info.kind == INLAY_KIND_OPTIONAL, &yes);
        js_put(env, one, "optional", yes);
        (void)napi_get_boolean(env, info.kind == INLAY_KIND_TENSOR && info.rank == 0, &yes);
        js_put(env, one, "scalar", yes);
        (void)napi_create_array(env, &shape);
        for (uint32_t d = 0; info.rank != INLAY_RANK_UNKNOWN && d < info.rank; d++)
            (void)napi_set_element(env, shape, d,
                                   info.dims[d] >= 0 ? js_number(env, (double)info.dims[d])
                                                     : js_text(env, info.dim_names[d], NAPI_AUTO_LENGTH));
        js_put(env, one, "shape", shape);
        (void)napi_set_element(env, list, i, one);
    }
    return list;
}

napi_value session_describe(napi_env env, napi_callback_info info)
{
    napi_value args[1], out;
    size_t count = 1;
    struct session *s;

    if (napi_get_cb_info(env, info, &count, args, NULL, NULL) != napi_ok || (s = session_of(env, args[0])) == NULL)
        return js_throw(env, "describe(session)");
    (void)napi_create_object(env, &out);
    js_put(env, out, "inputs", describe_io(env, s->session, true));
    js_put(env, out, "outputs", describe_io(env, s->session, false));
    return out;
}

/* Contexts go at once; the session when no run needs it any more. */
napi_value session_release(napi_env env, napi_callback_info info)
{
    napi_value args[1];
    size_t count = 1;
    struct session *s;

    if (napi_get_cb_info(env, info, &count, args, NULL, NULL) != napi_ok || (s = session_of(env, args[0])) == NULL)
        return js_throw(env, "release(session)");
    __atomic_store_n(&s->released, 1, __ATOMIC_RELEASE);
    (void)pthread_mutex_lock(&s->lock);
    while (s->idle_count > 0)
        inlay_context_destroy(s->idle[--s->idle_count]);
    (void)pthread_mutex_unlock(&s->lock);
    return NULL;
}
