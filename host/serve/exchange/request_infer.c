#include "serve/exchange/request_infer.h"
#include "base/clock.h"
#include "serve/exchange/watch.h"
#include "serve/model/sequence.h"
#include "serve/repository/repository.h"
#include "serve/request/shared_memory.h"
#include "serve/rollout/trial.h"
#include "serve/schedule/otlp.h"
#include "serve/schedule/trace.h"

acquired request_acquire(struct request *request, const char *name, size_t name_bytes, uint64_t version,
                         void (*loaded)(void *user, const inlay_diag *failure), void *user, inlay_diag *diag)
{
    struct server *server = request->server;
    const bool is_loading = !atomic_load(&server->phase.loaded); /* read first: the load may end meanwhile */
    bool deferred = false;

    if (atomic_load_explicit(&server->phase.refusing, memory_order_relaxed)) {
        (void)inlay_fail(diag, INLAY_BUSY, SERVER_ENDING);
        return ACQUIRED_NOTHING;
    }
    request->job.model = repository_acquire(server->repository, name, name_bytes, version, &deferred);
    if (request->job.model != NULL)
        return ACQUIRED_MODEL;
    if (settings_stopped(server->settings) && !deferred) { /* which stops loads, for which others may have waited */
        (void)inlay_fail(diag, INLAY_BUSY, SERVER_ENDING);
    } else if (is_loading && !settings_stopped(server->settings)) {
        request->retry_after = 1;
        (void)inlay_fail(diag, INLAY_BUSY, SERVER_LOADING);
    } else if (deferred && loaded != NULL) {
        request_load(request, LOAD_TASK_DEFERRED, name, name_bytes, version, loaded, user);
        return ACQUIRED_LATER;
    } else if (repository_failed(server->repository, name, name_bytes, version)) {
        (void)inlay_fail(diag, INLAY_BUSY,
                         "the model could not be loaded; POST v2/repository/index (RepositoryIndex) has the reason");
    } else {
        (void)inlay_fail(diag, INLAY_NOT_FOUND,
                         "no such model or version is loaded; POST v2/repository/index (RepositoryIndex) lists them");
    }
    return ACQUIRED_NOTHING;
}

static void fail(struct request *request, const inlay_diag *diag, bool is_busy)
{
    request->codec->fail(request, diag, is_busy);
    stats_add_error(request->job.model->metrics.stats, stats_error_of(diag->code), clock_ns() - request->arrived_ns);
}

static void suspend(void *user)
{
    request_suspend(user); /* it may be suspended already */
}

/* Submits the request again if only the candidate of a rollout has failed it. */
static bool retry(struct request *request, const inlay_diag *failure)
{
    if (!trial_can_retry(&request->job, failure))
        return false;
    watch_add(request->server->watch, request);
    if (trial_retry(request->server, &request->job, failure, suspend, request))
        return true;
    watch_remove(request->server->watch, request);
    return false;
}

/* The request ran or failed: writes the reply, and hands the request back if it is suspended. Any thread. */
static void finish(struct job *job, const inlay_diag *failure, const infer_output *outputs, uint32_t output_count)
{
    struct request *request = job->user;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;
    uint64_t answered = clock_ns();

    watch_remove(request->server->watch, request);
    if (failure != NULL && retry(request, failure))
        return;
    trial_keep(job, failure, outputs, output_count);
    request->queue_ns = job->run.started_ns - job->received_ns;
    request->compute_ns = job->run.compute_ns;
    request->run_rows = job->run.rows;
    if (failure == NULL)
        status = shared_memory_store(request->server->shared_memory, &request->infer, outputs, output_count, &diag);
    if (failure == NULL && status == INLAY_OK)
        status = request->codec->write(request, outputs, output_count, &diag);
    if (failure == NULL && status != INLAY_OK)
        failure = &diag;
    if (failure != NULL) {
        fail(request, failure, false);
    } else {
        (void)atomic_fetch_add_explicit(&job->model->metrics.stats->rows, job->size.rows, memory_order_relaxed);
        answered = clock_ns();
        stats_add_request(job->model->metrics.stats, answered - request->arrived_ns, job->received_ns - job->arrived_ns,
                          job->model->settings.batch_target_us);
        trace_request(request->server->trace, job, answered);
    }
    otlp_add(request->server->otlp, job, request->traceparent, answered, failure);
    sequence_leave(job); /* before the reply, so that the client's next sequence can use the place */
    if (request->suspended)
        request_wake(request);
}

static inlay_status read_inputs(struct request *request, inlay_diag *diag)
{
    struct server *server = request->server;
    struct job *job = &request->job;
    const uint64_t version = request->load_task.version;
    inlay_status status = request->codec->read(request, diag);
    uint64_t until;

    if (status == INLAY_OK)
        status = request_hold(request, shared_memory_input_bytes(&request->infer), diag);
    if (status == INLAY_OK)
        status = shared_memory_load(server->shared_memory, &request->infer, diag);
    if (status != INLAY_OK)
        return status;
    (void)atomic_fetch_add_explicit(&server->counts->copied_bytes, request->infer.copied_bytes, memory_order_relaxed);
    if (request->infer.timeout_us > 0 && request->infer.timeout_us < UINT64_MAX / 1000000) {
        until = request->arrived_ns + request->infer.timeout_us * 1000;
        job->deadline_ns = job->deadline_ns == 0 || until < job->deadline_ns ? until : job->deadline_ns;
    }
    job->request = &request->infer;
    job->model = repository_of_sequence(server->repository, job->model, version, &request->infer);
    if (!request_goes_on(request, diag))
        return diag->code;
    if (version == 0)
        trial_choose(server, job);
    return trial_check(job, diag);
}

/* false: the request has its failure. true: finish() was called, or will be. */
static bool submit(struct request *request)
{
    struct server *server = request->server;
    inlay_diag diag = INLAY_DIAG_INIT;

    if (read_inputs(request, &diag) != INLAY_OK) {
        fail(request, &diag, request->retry_after > 0); /* request_hold() */
        return false;
    }
    request->job.arrived_ns = request->arrived_ns;
    request->job.received_ns = request->received_ns;
    request->job.finish = finish;
    request->job.user = request;
    otlp_sample(server->otlp, &request->job, request->traceparent);
    watch_add(server->watch, request);
    if (trial_submit(server, &request->job, suspend, request) != SCHED_FULL)
        return true;
    watch_remove(server->watch, request);
    request->retry_after = sched_retry_after(server->sched, request->job.model);
    (void)inlay_fail(&diag, INLAY_BUSY, "the model's queue is full; try again later");
    fail(request, &diag, true);
    return false;
}

/* The model that the request waited for is loaded, or its load failed. */
static void model_loaded(void *user, const inlay_diag *failure)
{
    struct request *request = user;
    inlay_diag diag = INLAY_DIAG_INIT;

    if (request_take_model(request, failure, &diag) != INLAY_OK)
        request->codec->fail(request, &diag, false);
    else if (submit(request))
        return;
    request_wake(request);
}

void request_infer(struct request *request, const request_codec *codec, const char *name, size_t name_bytes,
                   uint64_t version)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    request->codec = codec;
    request->load_task.version = version;
    switch (request_acquire(request, name, name_bytes, version, model_loaded, request, &diag)) {
    case ACQUIRED_MODEL:
        (void)submit(request);
        break;
    case ACQUIRED_LATER:
        break;
    case ACQUIRED_NOTHING:
        codec->fail(request, &diag, false);
        break;
    }
}
