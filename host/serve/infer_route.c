/* POST /v2/models/NAME[/versions/VERSION]/infer */
#include "serve/sequence.h"
#include "serve/server.h"
#include "serve/trace.h"
#include <string.h>

static void fail(struct exchange *x, const inlay_diag *diag)
{
    exchange_fail_diag(x, diag);
    stats_add_error(&x->job.model->stats, stats_error_of(diag->code), clock_ns() - x->arrived_ns);
}

/* The request ran, or will not: makes the answer and wakes the connection, if it sleeps. Any thread. */
static void finish(struct job *j, const inlay_diag *failure, const infer_output *outputs, uint32_t output_count)
{
    struct exchange *x = j->user;
    struct model *m = j->model;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;
    uint64_t answered;

    watch_remove(x->server->watch, x);
    x->queue_ns = j->started_ns - j->arrived_ns;
    x->compute_ns = j->compute_ns;
    x->run_rows = j->run_rows;
    if (failure == NULL)
        status = infer_write_rest(&x->request, m->name, m->version, outputs, output_count, &x->reply,
                                  &x->reply_json_bytes, &diag);
    if (failure != NULL || status != INLAY_OK) {
        fail(x, failure != NULL ? failure : &diag);
    } else {
        x->code = MHD_HTTP_OK;
        if (x->reply_json_bytes > 0)
            x->type = "application/octet-stream";
        (void)atomic_fetch_add_explicit(&m->stats.rows, j->rows, memory_order_relaxed);
        answered = clock_ns();
        stats_add_request(&m->stats, answered - x->arrived_ns, m->settings.batch_target_us);
        trace_request(x->server->trace, j, answered);
    }
    sequence_leave(j); /* before the client knows: who ends one has a place for the next */
    if (x->suspended)
        exchange_wake(x);
}

static void suspend(void *user)
{
    struct exchange *x = user;

    if (!x->suspended) /* it may have waited for its model already */
        exchange_suspend(x);
}

static inlay_status read_request(struct exchange *x, inlay_diag *diag)
{
    size_t json_bytes = x->json_bytes == SIZE_MAX ? x->body_bytes : x->json_bytes;
    inlay_status status = infer_parse_rest(x->body, x->body_bytes, json_bytes, &x->request, diag);

    if (status != INLAY_OK)
        return status;
    (void)atomic_fetch_add_explicit(&x->server->copied_bytes, x->request.copied_bytes, memory_order_relaxed);
    if (x->request.timeout_us > 0 && x->request.timeout_us < UINT64_MAX / 1000000) {
        uint64_t until = x->arrived_ns + x->request.timeout_us * 1000;

        if (x->job.deadline_ns == 0 || until < x->job.deadline_ns)
            x->job.deadline_ns = until;
    }
    x->job.request = &x->request;
    x->job.model = repository_of_sequence(x->server->repository, x->job.model, x->route.version, &x->request);
    return model_check(&x->job, diag);
}

/* false: it is answered. true: finish() was called, or will be. */
static bool submit(struct exchange *x)
{
    struct server *s = x->server;
    inlay_diag diag = INLAY_DIAG_INIT;

    if (read_request(x, &diag) != INLAY_OK) {
        fail(x, &diag);
        return false;
    }
    x->job.arrived_ns = x->arrived_ns;
    x->job.finish = finish;
    x->job.user = x;
    watch_add(s->watch, x);
    if (sched_submit(s->sched, &x->job, suspend, x) != SCHED_FULL)
        return true;
    watch_remove(s->watch, x);
    x->retry_after = sched_retry_after(s->sched, x->job.model);
    exchange_fail(x, MHD_HTTP_TOO_MANY_REQUESTS, "the model's queue is full; try again later");
    stats_add_error(&x->job.model->stats, STATS_REJECTED, clock_ns() - x->arrived_ns);
    return false;
}

/* The model that the request waited for is loaded, or could not be. */
static void woken(void *user, const inlay_diag *failure)
{
    struct exchange *x = user;

    if (failure->code == INLAY_OK)
        x->job.model = repository_find(x->server->repository, x->route.name, x->route.name_bytes, x->route.version);
    if (x->job.model != NULL && submit(x))
        return;
    if (failure->code != INLAY_OK) {
        exchange_fail_diag(x, failure);
    } else if (x->job.model == NULL) {
        x->retry_after = 1;
        exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "the model was unloaded again for others; try again later");
    }
    exchange_wake(x);
}

static void wake_model(struct exchange *x)
{
    x->kept = (struct kept){ .what = KEPT_WAKE, .version = x->route.version, .done = woken, .user = x };
    (void)snprintf(x->kept.name, sizeof x->kept.name, "%.*s", (int)x->route.name_bytes, x->route.name);
    exchange_suspend(x);
    keeper_submit(x->server->keeper, &x->kept);
}

void answer_infer(struct exchange *x)
{
    struct server *s = x->server;
    bool asleep;

    if (atomic_load_explicit(&s->refusing, memory_order_relaxed)) {
        exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "the server is going down");
        return;
    }
    x->job.model = repository_ask(s->repository, x->route.name, x->route.name_bytes, x->route.version, &asleep);
    if (x->job.model == NULL && !atomic_load(&s->ready) && !atomic_load(&s->draining)) {
        x->retry_after = 1;
        exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "models are being loaded");
        return;
    }
    if (x->job.model == NULL && !asleep) {
        exchange_fail(x, MHD_HTTP_NOT_FOUND, "no such model or version is loaded; POST v2/repository/index lists them");
        return;
    }
    if (x->body_bytes == 0) {
        exchange_fail(x, MHD_HTTP_BAD_REQUEST, "the request has no body");
        return;
    }
    if (asleep)
        wake_model(x);
    else
        (void)submit(x);
}
