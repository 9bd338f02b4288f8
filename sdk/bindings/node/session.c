/* Sessions: creation on libuv's threads, description, release; their contexts. */
#include "addon.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

void session_unref(struct session *session)
{
    INLAY_CHECK(__atomic_load_n(&session->references, __ATOMIC_RELAXED) > 0);
    if (__atomic_sub_fetch(&session->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (uint32_t i = 0; i < session->idle_count; i++)
        inlay_context_destroy(session->idle[i]);
    inlay_context_destroy(session->profiled);
    inlay_session_destroy(session->session);
    (void)pthread_mutex_destroy(&session->lock);
    (void)pthread_mutex_destroy(&session->profile_lock);
    for (uint32_t i = 0; i < session->file_count; i++)
        free(session->files[i]);
    free(session->files);
    free(session->bytes);
    free(session);
}

inlay_status session_take_context(struct session *session, inlay_context **out, inlay_diag *diag)
{
    *out = NULL;
    (void)pthread_mutex_lock(&session->lock);
    if (session->idle_count > 0)
        *out = session->idle[--session->idle_count];
    (void)pthread_mutex_unlock(&session->lock);
    return *out != NULL ? INLAY_OK : inlay_context_create(session->session, out, diag);
}

void session_give_context(struct session *session, inlay_context *context)
{
    (void)pthread_mutex_lock(&session->lock);
    INLAY_CHECK(session->idle_count <= MOST_IDLE);
    if (session->idle_count < MOST_IDLE && __atomic_load_n(&session->released, __ATOMIC_ACQUIRE) == 0) {
        session->idle[session->idle_count++] = context;
        context = NULL;
    }
    (void)pthread_mutex_unlock(&session->lock);
    inlay_context_destroy(context);
}

typedef struct create_job {
    napi_async_work work;
    napi_deferred deferred;
    char *path; /* NULL: the model is in created->bytes */
    size_t bytes;
    bool profiled;
    char *optimized; /* path for the optimised model; NULL: none */
    inlay_options *options;
    struct session *created;
    inlay_status status;
    inlay_diag diag;
} create_job;

static inlay_status save_optimized(create_job *job)
{
    inlay_optimize_args args = INLAY_OPTIMIZE_ARGS_INIT;

    args.out_path = job->optimized;
    if (job->path == NULL) {
        args.data = job->created->bytes;
        args.data_bytes = job->bytes;
    }
    return inlay_optimize(job->path, job->options, &args, &job->diag);
}

static void create_execute(napi_env env, void *data)
{
    create_job *job = data;
    struct session *session = job->created;

    (void)env;
    INLAY_CHECK(job->path != NULL || session->bytes != NULL);
    if (job->path != NULL)
        job->status = inlay_session_create(job->path, job->options, &session->session, &job->diag);
    else
        job->status =
            inlay_session_create_from_bytes(session->bytes, job->bytes, job->options, &session->session, &job->diag);
    if (job->status == INLAY_OK && job->optimized != NULL)
        job->status = save_optimized(job);
    if (job->status == INLAY_OK && job->profiled)
        job->status = profile_begin(session, &job->diag);
}

static void finalize_session(napi_env env, void *data, void *hint)
{
    (void)env, (void)hint;
    session_unref(data);
}

static void create_complete(napi_env env, napi_status cancelled, void *data)
{
    create_job *job = data;
    napi_value handle = NULL;

    if (cancelled == napi_ok && job->status == INLAY_OK &&
        napi_create_external(env, job->created, finalize_session, NULL, &handle) == napi_ok) {
        (void)napi_resolve_deferred(env, job->deferred, handle);
    } else {
        session_unref(job->created);
        (void)napi_reject_deferred(env, job->deferred, js_error(env, &job->diag));
    }
    (void)napi_delete_async_work(env, job->work);
    inlay_options_destroy(job->options);
    free(job->path);
    free(job->optimized);
    free(job);
}

/* Copies a Uint8Array, which the program may change during the session. NULL: no such array, or no memory. */
static void *copy_bytes(napi_env env, napi_value array, size_t *out_bytes)
{
    void *data = NULL, *copy;

    if (napi_get_typedarray_info(env, array, NULL, out_bytes, &data, NULL, NULL) != napi_ok)
        return NULL;
    copy = malloc(*out_bytes + 1);
    if (copy != NULL && *out_bytes > 0)
        memcpy(copy, data, *out_bytes);
    return copy;
}

static bool read_model(napi_env env, napi_value model, create_job *job)
{
    bool is_array = false;

    if (napi_is_typedarray(env, model, &is_array) != napi_ok || !is_array) {
        job->path = js_get_text(env, model, NULL);
        return job->path != NULL;
    }
    job->created->bytes = copy_bytes(env, model, &job->bytes);
    return job->created->bytes != NULL;
}

/* Reads [[location, Uint8Array], ...]. */
static inlay_status read_files(napi_env env, napi_value list, create_job *job)
{
    struct session *session = job->created;
    const uint32_t count = js_length(env, list);
    inlay_status status = INLAY_OK;

    session->files = calloc((size_t)count + 1, sizeof *session->files);
    if (session->files == NULL)
        return inlay_fail(&job->diag, INLAY_OUT_OF_MEMORY, "no memory for external data");
    for (uint32_t i = 0; status == INLAY_OK && i < count; i++) {
        napi_value pair = js_element(env, list, i);
        char *location = js_get_text(env, js_element(env, pair, 0), NULL);
        size_t bytes = 0;

        session->files[i] = copy_bytes(env, js_element(env, pair, 1), &bytes);
        session->file_count++;
        status = location == NULL || session->files[i] == NULL
                     ? inlay_fail(&job->diag, INLAY_OUT_OF_MEMORY, "no memory for external data")
                     : inlay_options_set_file(job->options, location, session->files[i], bytes, &job->diag);
        free(location);
    }
    return status;
}

/* Reads { files, profiled, optimized }. */
static inlay_status read_extras(napi_env env, napi_value extras, create_job *job)
{
    napi_value files, profiled, optimized;

    if (napi_get_named_property(env, extras, "files", &files) != napi_ok ||
        napi_get_named_property(env, extras, "profiled", &profiled) != napi_ok ||
        napi_get_value_bool(env, profiled, &job->profiled) != napi_ok ||
        napi_get_named_property(env, extras, "optimized", &optimized) != napi_ok)
        return inlay_fail(&job->diag, INLAY_INVALID_ARGUMENT, "createSession: { files, profiled, optimized }");
    job->optimized = js_get_text(env, optimized, NULL);
    return read_files(env, files, job);
}

napi_value session_create(napi_env env, napi_callback_info info)
{
    napi_value args[3], promise = NULL;
    create_job *job = calloc(1, sizeof *job);
    struct session *session = calloc(1, sizeof *session);
    size_t count = 3;

    if (job == NULL || session == NULL || napi_get_cb_info(env, info, &count, args, NULL, NULL) != napi_ok ||
        count < 3) {
        free(job);
        free(session);
        return js_throw(env, "createSession(model, options, { files, profiled, optimized })");
    }
    job->diag = (inlay_diag)INLAY_DIAG_INIT;
    job->created = session;
    session->references = 1;
    (void)pthread_mutex_init(&session->lock, NULL);
    (void)pthread_mutex_init(&session->profile_lock, NULL);
    (void)napi_create_promise(env, &job->deferred, &promise);
    (void)napi_create_async_work(env, NULL, js_text(env, "inlay", 5), create_execute, create_complete, job, &job->work);
    if (!read_model(env, args[0], job))
        job->status =
            inlay_fail(&job->diag, INLAY_INVALID_ARGUMENT, "a model must be a path, an ArrayBuffer or a Uint8Array");
    if (job->status == INLAY_OK)
        job->status = js_read_options(env, args[1], &job->options, &job->diag);
    if (job->status == INLAY_OK)
        job->status = read_extras(env, args[2], job);
    if (job->status == INLAY_OK && job->work != NULL && napi_queue_async_work(env, job->work) == napi_ok)
        return promise;
    if (job->status == INLAY_OK)
        job->status = inlay_fail(&job->diag, INLAY_INTERNAL, "the creation of the session cannot be queued");
    create_complete(env, napi_cancelled, job);
    return promise;
}

struct session *session_of(napi_env env, napi_value value)
{
    napi_valuetype type;
    void *session = NULL;

    if (napi_typeof(env, value, &type) != napi_ok || type != napi_external ||
        napi_get_value_external(env, value, &session) != napi_ok)
        return NULL;
    return session;
}

static napi_value describe_io(napi_env env, const inlay_session *session, bool input)
{
    uint32_t count = input ? inlay_session_input_count(session) : inlay_session_output_count(session);
    napi_value list, shape, port, flag;

    (void)napi_create_array(env, &list);
    for (uint32_t i = 0; i < count; i++) {
        inlay_io_info info = { .struct_size = sizeof info, .name = "" };

        (void)(input ? inlay_session_input(session, i, &info) : inlay_session_output(session, i, &info));
        (void)napi_create_object(env, &port);
        js_put(env, port, "name", js_text(env, info.name, NAPI_AUTO_LENGTH));
        js_put(env, port, "kind", js_number(env, info.kind == INLAY_KIND_TENSOR ? info.dtype : 0));
        (void)napi_get_boolean(env, info.optional != 0 || info.kind == INLAY_KIND_OPTIONAL, &flag);
        js_put(env, port, "optional", flag);
        (void)napi_get_boolean(env, info.kind == INLAY_KIND_TENSOR && info.declared_rank == 0, &flag);
        js_put(env, port, "scalar", flag);
        (void)napi_create_array(env, &shape);
        for (uint32_t d = 0; info.declared_rank != INLAY_RANK_UNKNOWN && d < info.declared_rank; d++)
            (void)napi_set_element(env, shape, d,
                                   info.declared_dims[d] >= 0
                                       ? js_number(env, (double)info.declared_dims[d])
                                       : js_text(env, info.declared_dim_names[d], NAPI_AUTO_LENGTH));
        js_put(env, port, "shape", shape);
        (void)napi_set_element(env, list, i, port);
    }
    return list;
}

napi_value session_describe(napi_env env, napi_callback_info info)
{
    napi_value args[1], out;
    size_t count = 1;
    struct session *session;

    if (napi_get_cb_info(env, info, &count, args, NULL, NULL) != napi_ok ||
        (session = session_of(env, args[0])) == NULL)
        return js_throw(env, "describe(session)");
    (void)napi_create_object(env, &out);
    js_put(env, out, "inputs", describe_io(env, session->session, true));
    js_put(env, out, "outputs", describe_io(env, session->session, false));
    return out;
}

/* Releases the idle contexts at once, and each other context when its run ends. The session itself is released when
 * JavaScript no longer refers to it. */
napi_value session_release(napi_env env, napi_callback_info info)
{
    napi_value args[1];
    size_t count = 1;
    struct session *session;

    if (napi_get_cb_info(env, info, &count, args, NULL, NULL) != napi_ok ||
        (session = session_of(env, args[0])) == NULL)
        return js_throw(env, "release(session)");
    __atomic_store_n(&session->released, 1, __ATOMIC_RELEASE);
    (void)pthread_mutex_lock(&session->lock);
    while (session->idle_count > 0)
        inlay_context_destroy(session->idle[--session->idle_count]);
    (void)pthread_mutex_unlock(&session->lock);
    return NULL;
}
