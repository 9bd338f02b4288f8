/* POST /v2/models/NAME[/versions/VERSION]/infer */
#include "serve/model/files.h"
#include "serve/model/sequence.h"
#include "serve/routes/answers.h"
#include "serve/repository/repository.h"
#include "serve/request/shared_memory.h"
#include "serve/exchange/watch.h"
#include "serve/rollout/trial.h"
#include "serve/schedule/otlp.h"
#include "serve/schedule/trace.h"
#include <string.h>
#include <strings.h>

static void fail(struct exchange *exchange, const inlay_diag *diag)
{
    exchange_fail_diag(exchange, diag);
    stats_add_error(exchange->job.model->stats, stats_error_of(diag->code), clock_ns() - exchange->arrived_ns);
}

static void suspend(void *user)
{
    struct exchange *exchange = user;

    if (!exchange->suspended) /* it is suspended already if it waited for its model */
        exchange_suspend(exchange);
}

/* Submits the request again if only the candidate of a rollout has failed it. */
static bool retry(struct exchange *exchange, const inlay_diag *failure)
{
    if (!trial_can_retry(&exchange->job, failure))
        return false;
    watch_add(exchange->server->watch, exchange);
    if (trial_retry(exchange->server, &exchange->job, failure, suspend, exchange))
        return true;
    watch_remove(exchange->server->watch, exchange);
    return false;
}

/* The request ran or failed: writes the reply and resumes the connection if it is suspended. Any thread. */
static void finish(struct job *job, const inlay_diag *failure, const infer_output *outputs, uint32_t output_count)
{
    struct exchange *exchange = job->user;
    const struct model *model;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;
    uint64_t answered = clock_ns();

    watch_remove(exchange->server->watch, exchange);
    if (failure != NULL && retry(exchange, failure))
        return;
    trial_keep(job, failure, outputs, output_count);
    model = job->model;
    exchange->queue_ns = job->started_ns - job->received_ns;
    exchange->compute_ns = job->compute_ns;
    exchange->run_rows = job->run_rows;
    if (failure == NULL)
        status = shared_memory_store(exchange->server->shared_memory, &exchange->request, outputs, output_count, &diag);
    if (failure == NULL && status == INLAY_OK)
        status = infer_write_rest(&exchange->request, model->name, model->version, outputs, output_count,
                                  &exchange->reply, &exchange->reply_json_bytes, &diag);
    if (failure != NULL || status != INLAY_OK) {
        fail(exchange, failure != NULL ? failure : &diag);
    } else {
        exchange->code = HTTP_OK;
        if (exchange->reply_json_bytes > 0)
            exchange->type = "application/octet-stream";
        (void)atomic_fetch_add_explicit(&model->stats->rows, job->rows, memory_order_relaxed);
        answered = clock_ns();
        stats_add_request(model->stats, answered - exchange->arrived_ns, job->received_ns - job->arrived_ns,
                          model->settings.batch_target_us);
        trace_request(exchange->server->trace, job, answered);
    }
    otlp_add(exchange->server->otlp, job, exchange_field_get(exchange, FIELD_TRACEPARENT), answered,
             failure != NULL      ? failure
             : status != INLAY_OK ? &diag
                                  : NULL);
    exchange_encode(exchange);
    sequence_leave(job); /* before the reply, so that the client's next sequence can use the place */
    if (exchange->suspended)
        exchange_wake(exchange);
}

/* Whether the body is a file instead of JSON. */
static bool is_file(const struct exchange *exchange)
{
    const char *type = exchange_field_get(exchange, FIELD_CONTENT_TYPE);

    return type != NULL && (strncasecmp(type, "image/", 6) == 0 || strncasecmp(type, "audio/", 6) == 0);
}

static inlay_status read_file(struct exchange *exchange, inlay_diag *diag)
{
    const struct model *model = exchange->job.model;

    if (model->input_count != 1 || !files_is_list(&model->inputs[0]))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "the body is %.40s, but model '%s' does not read files; send tensors as JSON",
                          exchange_field_get(exchange, FIELD_CONTENT_TYPE), model->name);
    return infer_set_file(&exchange->request, model->inputs[0].name, exchange->body, exchange->body_bytes, diag);
}

static inlay_status read_request(struct exchange *exchange, inlay_diag *diag)
{
    size_t json_bytes = exchange->json_bytes == SIZE_MAX ? exchange->body_bytes : exchange->json_bytes;
    inlay_status status = is_file(exchange) ? read_file(exchange, diag)
                                            : infer_parse_rest(exchange->body, exchange->body_bytes, json_bytes,
                                                               &exchange->request, diag);

    if (status != INLAY_OK)
        return status;
    (void)atomic_fetch_add_explicit(&exchange->server->counts->copied_bytes, exchange->request.copied_bytes,
                                    memory_order_relaxed);
    if (exchange->request.timeout_us > 0 && exchange->request.timeout_us < UINT64_MAX / 1000000) {
        uint64_t until = exchange->arrived_ns + exchange->request.timeout_us * 1000;

        if (exchange->job.deadline_ns == 0 || until < exchange->job.deadline_ns)
            exchange->job.deadline_ns = until;
    }
    status = exchange_hold_more(exchange, shared_memory_input_bytes(&exchange->request), diag);
    if (status == INLAY_OK)
        status = shared_memory_load(exchange->server->shared_memory, &exchange->request, diag);
    if (status != INLAY_OK)
        return status;
    exchange->job.request = &exchange->request;
    exchange->job.model = repository_of_sequence(exchange->server->repository, exchange->job.model,
                                                 exchange->route.version, &exchange->request);
    if (exchange->route.version == 0)
        trial_choose(exchange->server, &exchange->job);
    return trial_check(&exchange->job, diag);
}

/* false: the exchange has its failure. true: finish() was called, or will be. */
static bool submit(struct exchange *exchange)
{
    struct server *server = exchange->server;
    inlay_diag diag = INLAY_DIAG_INIT;

    if (read_request(exchange, &diag) != INLAY_OK) {
        fail(exchange, &diag);
        if (exchange->retry_after > 0) /* exchange_hold_more() */
            exchange->code = HTTP_TOO_MANY_REQUESTS;
        return false;
    }
    exchange->job.arrived_ns = exchange->arrived_ns;
    exchange->job.received_ns = exchange->received_ns;
    exchange->job.finish = finish;
    exchange->job.user = exchange;
    otlp_sample(server->otlp, &exchange->job, exchange_field_get(exchange, FIELD_TRACEPARENT));
    watch_add(server->watch, exchange);
    if (trial_submit(server, &exchange->job, suspend, exchange) != SCHED_FULL)
        return true;
    watch_remove(server->watch, exchange);
    exchange->retry_after = sched_retry_after(server->sched, exchange->job.model);
    exchange_fail(exchange, HTTP_TOO_MANY_REQUESTS, "the model's queue is full; try again later");
    stats_add_error(exchange->job.model->stats, STATS_REJECTED, clock_ns() - exchange->arrived_ns);
    return false;
}

/* The model that the request waited for is loaded, or its load failed. */
static void model_loaded(void *user, const inlay_diag *failure)
{
    struct exchange *exchange = user;

    if (!exchange_take_model(exchange, failure) || !submit(exchange))
        exchange_wake(exchange);
}

void answer_infer(struct exchange *exchange)
{
    struct server *server = exchange->server;
    bool deferred;

    if (atomic_load_explicit(&server->refusing, memory_order_relaxed)) {
        exchange_fail(exchange, HTTP_SERVICE_UNAVAILABLE, "the server is shutting down");
        return;
    }
    exchange->job.model = repository_acquire(server->repository, exchange->route.name, exchange->route.name_bytes,
                                             exchange->route.version, &deferred);
    if (exchange->job.model == NULL && !atomic_load(&server->loaded) && !atomic_load(&server->draining)) {
        exchange->retry_after = 1;
        exchange_fail(exchange, HTTP_SERVICE_UNAVAILABLE, "models are being loaded");
        return;
    }
    if (exchange->job.model == NULL && !deferred) {
        exchange_fail(exchange, HTTP_NOT_FOUND,
                      "no such model or version is loaded; POST v2/repository/index lists them");
        return;
    }
    if (exchange->body_bytes == 0) {
        exchange_fail(exchange, HTTP_BAD_REQUEST, "the request has no body");
        return;
    }
    if (deferred)
        exchange_load_model(exchange, exchange->route.name, exchange->route.name_bytes, exchange->route.version,
                            model_loaded);
    else
        (void)submit(exchange);
}
