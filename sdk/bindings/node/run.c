/* Runs, each on one of libuv's threads. */
#include "addon.h"
#include "inlay/check.h"
#include <stdlib.h>

typedef struct run_job {
    napi_async_work work;
    napi_deferred deferred;
    struct session *session;
    struct feed *feeds;
    uint32_t *wanted;
    inlay_value **results; /* [wanted_count] each holds a reference */
    const uint32_t *cancel;
    napi_ref cancel_memory;
    uint32_t feed_count, wanted_count, max_threads, priority, power;
    inlay_status status;
    inlay_diag diag;
} run_job;

static void run_in(run_job *job, inlay_context *context)
{
    inlay_run_options options = INLAY_RUN_OPTIONS_INIT;

    for (uint32_t i = 0; i < job->feed_count && job->status == INLAY_OK; i++)
        job->status = inlay_context_set_input(context, job->feeds[i].index, job->feeds[i].value, &job->diag);
    options.cancel = job->cancel;
    options.max_threads = job->max_threads;
    options.priority = job->priority;
    options.power = job->power;
    if (job->status == INLAY_OK)
        job->status = inlay_context_run(context, &options, &job->diag);
    for (uint32_t i = 0; i < job->wanted_count && job->status == INLAY_OK; i++)
        job->results[i] = inlay_value_ref(inlay_context_output(context, job->wanted[i]));
    for (uint32_t i = 0; i < job->feed_count; i++)
        (void)inlay_context_set_input(context, job->feeds[i].index, NULL, NULL);
}

/* Runs in the context that records a profile; false if there is none. */
static bool run_profiled(run_job *job)
{
    bool found = false;

    if (__atomic_load_n(&job->session->profiled, __ATOMIC_ACQUIRE) == NULL)
        return false;
    (void)pthread_mutex_lock(&job->session->profile_lock);
    found = job->session->profiled != NULL;
    if (found)
        run_in(job, job->session->profiled);
    (void)pthread_mutex_unlock(&job->session->profile_lock);
    return found;
}

static void run_execute(napi_env env, void *data)
{
    run_job *job = data;
    inlay_context *context;

    (void)env;
    INLAY_CHECK(job->session != NULL);
    if (run_profiled(job))
        return;
    job->status = session_take_context(job->session, &context, &job->diag);
    if (context == NULL)
        return;
    run_in(job, context);
    session_give_context(job->session, context);
}

static void free_run(napi_env env, run_job *job)
{
    for (uint32_t i = 0; i < job->feed_count; i++) {
        inlay_value_unref(job->feeds[i].value);
        if (job->feeds[i].memory != NULL)
            (void)napi_delete_reference(env, job->feeds[i].memory);
    }
    for (uint32_t i = 0; job->results != NULL && i < job->wanted_count; i++)
        inlay_value_unref(job->results[i]);
    if (job->cancel_memory != NULL)
        (void)napi_delete_reference(env, job->cancel_memory);
    if (job->work != NULL)
        (void)napi_delete_async_work(env, job->work);
    session_unref(job->session);
    free(job->feeds);
    free(job->wanted);
    free(job->results);
    free(job);
}

static void run_complete(napi_env env, napi_status cancelled, void *data)
{
    run_job *job = data;
    napi_value list;

    for (uint32_t i = 0; i < job->wanted_count && job->status == INLAY_OK && cancelled == napi_ok; i++)
        if (job->results[i] == NULL || inlay_value_kind(job->results[i]) != INLAY_KIND_TENSOR)
            job->status = inlay_fail(&job->diag, INLAY_UNSUPPORTED, "output %u is not a tensor", job->wanted[i]);
    if (cancelled != napi_ok || job->status != INLAY_OK) {
        (void)napi_reject_deferred(env, job->deferred, js_error(env, &job->diag));
    } else {
        (void)napi_create_array(env, &list);
        for (uint32_t i = 0; i < job->wanted_count; i++)
            (void)napi_set_element(env, list, i, result_make(env, job->results[i]));
        (void)napi_resolve_deferred(env, job->deferred, list);
    }
    free_run(env, job);
}

static inlay_status read_run(napi_env env, const napi_value *args, run_job *job)
{
    inlay_status status = INLAY_OK;
    napi_valuetype type;
    void *word = NULL;

    job->feed_count = js_length(env, args[1]);
    job->wanted_count = js_length(env, args[2]);
    job->feeds = calloc((size_t)job->feed_count + 1, sizeof *job->feeds);
    job->wanted = calloc((size_t)job->wanted_count + 1, sizeof *job->wanted);
    job->results = calloc((size_t)job->wanted_count + 1, sizeof(inlay_value *));
    if (job->feeds == NULL || job->wanted == NULL || job->results == NULL) {
        job->feed_count = job->feeds != NULL ? job->feed_count : 0;
        return inlay_fail(&job->diag, INLAY_OUT_OF_MEMORY, "no memory for a run");
    }
    for (uint32_t i = 0; i < job->feed_count && status == INLAY_OK; i++)
        status = feed_read(env, js_element(env, args[1], i), &job->feeds[i], &job->diag);
    for (uint32_t i = 0; i < job->wanted_count && status == INLAY_OK; i++)
        if (napi_get_value_uint32(env, js_element(env, args[2], i), &job->wanted[i]) != napi_ok)
            status = inlay_fail(&job->diag, INLAY_INVALID_ARGUMENT, "an output must be a number");
    if (status == INLAY_OK && (napi_get_value_uint32(env, js_element(env, args[4], 0), &job->max_threads) != napi_ok ||
                               napi_get_value_uint32(env, js_element(env, args[4], 1), &job->priority) != napi_ok ||
                               napi_get_value_uint32(env, js_element(env, args[4], 2), &job->power) != napi_ok))
        status = inlay_fail(&job->diag, INLAY_INVALID_ARGUMENT, "maxThreads, priority and power must be numbers");
    if (status == INLAY_OK && napi_typeof(env, args[3], &type) == napi_ok && type == napi_object &&
        napi_get_typedarray_info(env, args[3], NULL, NULL, &word, NULL, NULL) == napi_ok && word != NULL &&
        napi_create_reference(env, args[3], 1, &job->cancel_memory) == napi_ok)
        job->cancel = word;
    return status;
}

napi_value run_start(napi_env env, napi_callback_info info)
{
    napi_value args[5], promise = NULL;
    size_t count = 5;
    run_job *job;
    struct session *session;

    if (napi_get_cb_info(env, info, &count, args, NULL, NULL) != napi_ok || count < 5 ||
        (session = session_of(env, args[0])) == NULL)
        return js_throw(env, "run(session, feeds, outputs, cancel, [threads, priority, power])");
    if (__atomic_load_n(&session->released, __ATOMIC_ACQUIRE) != 0)
        return js_throw(env, "the session was released");
    job = calloc(1, sizeof *job);
    if (job == NULL)
        return js_throw(env, "no memory for a run");
    job->diag = (inlay_diag)INLAY_DIAG_INIT;
    job->session = session;
    (void)__atomic_add_fetch(&session->references, 1, __ATOMIC_RELAXED);
    (void)napi_create_promise(env, &job->deferred, &promise);
    job->status = read_run(env, args, job);
    if (job->status == INLAY_OK &&
        napi_create_async_work(env, NULL, js_text(env, "inlay", 5), run_execute, run_complete, job, &job->work) ==
            napi_ok &&
        napi_queue_async_work(env, job->work) == napi_ok)
        return promise;
    if (job->status == INLAY_OK)
        job->status = inlay_fail(&job->diag, INLAY_INTERNAL, "the run cannot be queued");
    run_complete(env, napi_ok, job);
    return promise;
}
