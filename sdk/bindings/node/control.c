/* Requests to open providers, or TRIM to the session, each on one of libuv's threads, because SUSPEND waits for
 * runs. */
#include "addon.h"
#include <stdlib.h>

typedef struct control_job {
    napi_async_work work;
    napi_deferred deferred;
    struct session *session;
    char *provider, *option, *value; /* provider NULL: the session; option and value: NULL = none */
    inlay_control_request request;
    inlay_status status;
    inlay_diag diag;
} control_job;

/* Trims the session, and the outputs that idle contexts hold. */
static inlay_status trim_session(struct session *session, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    (void)pthread_mutex_lock(&session->lock);
    for (uint32_t i = 0; i < session->idle_count && status == INLAY_OK; i++)
        status = inlay_context_trim(session->idle[i], diag);
    (void)pthread_mutex_unlock(&session->lock);
    return status == INLAY_OK ? inlay_session_trim(session->session, diag) : status;
}

static void control_execute(napi_env env, void *data)
{
    control_job *job = data;

    (void)env;
    if (job->provider == NULL) {
        job->status = trim_session(job->session, &job->diag);
        return;
    }
    job->request.provider = job->provider;
    job->request.option = job->option;
    job->request.value = job->value;
    job->status = inlay_session_control(job->session->session, &job->request, &job->diag);
}

static void control_complete(napi_env env, napi_status cancelled, void *data)
{
    control_job *job = data;

    if (cancelled == napi_ok && job->status == INLAY_OK)
        (void)napi_resolve_deferred(env, job->deferred, js_number(env, (double)job->request.freed_bytes));
    else
        (void)napi_reject_deferred(env, job->deferred, js_error(env, &job->diag));
    if (job->work != NULL)
        (void)napi_delete_async_work(env, job->work);
    session_unref(job->session);
    free(job->provider);
    free(job->option);
    free(job->value);
    free(job);
}

static void read_request(napi_env env, const napi_value *args, control_job *job)
{
    napi_valuetype type = napi_undefined;
    int64_t bytes = 0;

    job->request.struct_size = sizeof job->request;
    if (napi_typeof(env, args[2], &type) == napi_ok && type == napi_undefined &&
        napi_get_value_uint32(env, args[1], &job->request.action) == napi_ok &&
        job->request.action == INLAY_CONTROL_TRIM)
        return;
    job->provider = js_get_text(env, args[2], NULL);
    job->option = js_get_text(env, args[3], NULL);
    job->value = js_get_text(env, args[4], NULL);
    if (job->provider == NULL || napi_get_value_uint32(env, args[1], &job->request.action) != napi_ok ||
        napi_get_value_int64(env, args[5], &bytes) != napi_ok || bytes < 0)
        job->status = inlay_fail(&job->diag, INLAY_INVALID_ARGUMENT,
                                 "a request to a provider: its name is a string, "
                                 "bytes a number from 0");
    job->request.bytes = (uint64_t)bytes;
}

napi_value control_start(napi_env env, napi_callback_info info)
{
    napi_value args[6], promise = NULL;
    size_t count = 6;
    control_job *job;
    struct session *session;

    if (napi_get_cb_info(env, info, &count, args, NULL, NULL) != napi_ok || count < 6 ||
        (session = session_of(env, args[0])) == NULL)
        return js_throw(env, "control(session, action, provider, option, value, bytes)");
    if (__atomic_load_n(&session->released, __ATOMIC_ACQUIRE) != 0)
        return js_throw(env, "the session was released");
    job = calloc(1, sizeof *job);
    if (job == NULL)
        return js_throw(env, "no memory for a request to a provider");
    job->diag = (inlay_diag)INLAY_DIAG_INIT;
    job->session = session;
    (void)__atomic_add_fetch(&session->references, 1, __ATOMIC_RELAXED);
    (void)napi_create_promise(env, &job->deferred, &promise);
    read_request(env, args, job);
    if (job->status == INLAY_OK &&
        napi_create_async_work(env, NULL, js_text(env, "inlay", 5), control_execute, control_complete, job,
                               &job->work) == napi_ok &&
        napi_queue_async_work(env, job->work) == napi_ok)
        return promise;
    if (job->status == INLAY_OK)
        job->status = inlay_fail(&job->diag, INLAY_INTERNAL, "the request cannot be queued");
    control_complete(env, napi_ok, job);
    return promise;
}
