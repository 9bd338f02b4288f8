/* Runs, each on one of libuv's threads. */
#include "addon.h"
#include <stdlib.h>

typedef struct run_job {
    napi_async_work work;
    napi_deferred deferred;
    struct session *session;
    struct feed *feeds;
    uint32_t *wanted;
    inlay_value **made; /* [wanted_count] a reference each */
    const uint32_t *cancel;
    napi_ref cancel_memory;
    uint32_t feed_count, wanted_count, max_threads;
    inlay_status status;
    inlay_diag diag;
} run_job;

static void run_execute(napi_env env, void *data)
{
    run_job *j = data;
    inlay_run_options options = INLAY_RUN_OPTIONS_INIT;
    inlay_context *c;

    (void)env;
    j->status = session_take_context(j->session, &c, &j->diag);
    if (c == NULL)
        return;
    for (uint32_t i = 0; i < j->feed_count && j->status == INLAY_OK; i++)
        j->status = inlay_context_set_input(c, j->feeds[i].index, j->feeds[i].value, &j->diag);
    options.cancel = j->cancel;
    options.max_threads = j->max_threads;
    if (j->status == INLAY_OK)
        j->status = inlay_context_run(c, &options, &j->diag);
    for (uint32_t i = 0; i < j->wanted_count && j->status == INLAY_OK; i++)
        j->made[i] = inlay_value_ref(inlay_context_output(c, j->wanted[i]));
    for (uint32_t i = 0; i < j->feed_count; i++)
        (void)inlay_context_set_input(c, j->feeds[i].index, NULL, NULL);
    session_give_context(j->session, c);
}

static void free_run(napi_env env, run_job *j)
{
    for (uint32_t i = 0; i < j->feed_count; i++) {
        inlay_value_unref(j->feeds[i].value);
        if (j->feeds[i].memory != NULL)
            (void)napi_delete_reference(env, j->feeds[i].memory);
    }
    for (uint32_t i = 0; j->made != NULL && i < j->wanted_count; i++)
        inlay_value_unref(j->made[i]);
    if (j->cancel_memory != NULL)
        (void)napi_delete_reference(env, j->cancel_memory);
    if (j->work != NULL)
        (void)napi_delete_async_work(env, j->work);
    session_unref(j->session);
    free(j->feeds);
    free(j->wanted);
    free(j->made);
    free(j);
}

static void run_complete(napi_env env, napi_status cancelled, void *data)
{
    run_job *j = data;
    napi_value list;

    for (uint32_t i = 0; i < j->wanted_count && j->status == INLAY_OK && cancelled == napi_ok; i++)
        if (j->made[i] == NULL || inlay_value_kind(j->made[i]) != INLAY_KIND_TENSOR)
            j->status = inlay_fail(&j->diag, INLAY_UNSUPPORTED, "output %u is not a tensor", j->wanted[i]);
    if (cancelled != napi_ok || j->status != INLAY_OK) {
        (void)napi_reject_deferred(env, j->deferred, js_error(env, &j->diag));
    } else {
        (void)napi_create_array(env, &list);
        for (uint32_t i = 0; i < j->wanted_count; i++)
            (void)napi_set_element(env, list, i, result_make(env, j->made[i]));
        (void)napi_resolve_deferred(env, j->deferred, list);
    }
    free_run(env, j);
}

static inlay_status read_run(napi_env env, const napi_value *args, run_job *j)
{
    inlay_status status = INLAY_OK;
    napi_valuetype type;
    void *word = NULL;

    j->feed_count = js_length(env, args[1]);
    j->wanted_count = js_length(env, args[2]);
    j->feeds = calloc((size_t)j->feed_count + 1, sizeof *j->feeds);
    j->wanted = calloc((size_t)j->wanted_count + 1, sizeof *j->wanted);
    j->made = calloc((size_t)j->wanted_count + 1, sizeof(inlay_value *));
    if (j->feeds == NULL || j->wanted == NULL || j->made == NULL) {
        j->feed_count = j->feeds != NULL ? j->feed_count : 0;
        return inlay_fail(&j->diag, INLAY_OUT_OF_MEMORY, "no memory for a run");
    }
    for (uint32_t i = 0; i < j->feed_count && status == INLAY_OK; i++)
        status = feed_read(env, js_element(env, args[1], i), &j->feeds[i], &j->diag);
    for (uint32_t i = 0; i < j->wanted_count && status == INLAY_OK; i++)
        if (napi_get_value_uint32(env, js_element(env, args[2], i), &j->wanted[i]) != napi_ok)
            status = inlay_fail(&j->diag, INLAY_INVALID_ARGUMENT, "an output is a number");
    if (status == INLAY_OK && napi_get_value_uint32(env, args[4], &j->max_threads) != napi_ok)
        status = inlay_fail(&j->diag, INLAY_INVALID_ARGUMENT, "maxThreads is a number");
    if (status == INLAY_OK && napi_typeof(env, args[3], &type) == napi_ok && type == napi_object &&
        napi_get_typedarray_info(env, args[3], NULL, NULL, &word, NULL, NULL) == napi_ok && word != NULL &&
        napi_create_reference(env, args[3], 1, &j->cancel_memory) == napi_ok)
        j->cancel = word;
    return status;
}

napi_value run_start(napi_env env, napi_callback_info info)
{
    napi_value args[5], promise = NULL;
    size_t count = 5;
    run_job *j;
    struct session *s;

    if (napi_get_cb_info(env, info, &count, args, NULL, NULL) != napi_ok || count < 5 ||
        (s = session_of(env, args[0])) == NULL)
        return js_throw(env, "run(session, feeds, outputs, cancel, threads)");
    if (__atomic_load_n(&s->released, __ATOMIC_ACQUIRE) != 0)
        return js_throw(env, "the session was released");
    j = calloc(1, sizeof *j);
    if (j == NULL)
        return js_throw(env, "no memory for a run");
    j->diag = (inlay_diag)INLAY_DIAG_INIT;
    j->session = s;
    (void)__atomic_add_fetch(&s->references, 1, __ATOMIC_RELAXED);
    (void)napi_create_promise(env, &j->deferred, &promise);
    j->status = read_run(env, args, j);
    if (j->status == INLAY_OK &&
        napi_create_async_work(env, NULL, js_text(env, "inlay", 5), run_execute, run_complete, j, &j->work) ==
            napi_ok &&
        napi_queue_async_work(env, j->work) == napi_ok)
        return promise;
    if (j->status == INLAY_OK)
        j->status = inlay_fail(&j->diag, INLAY_INTERNAL, "the run cannot be queued");
    run_complete(env, napi_ok, j);
    return promise;
}
