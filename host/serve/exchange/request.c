#include "serve/exchange/request.h"
#include "base/clock.h"
#include "inlay/check.h"
#include "serve/network/connection.h"
#include "serve/repository/repository.h"
#include <string.h>

enum { SMALL_REPLY = 4096 }; /* bytes of replies that are counted, but not refused */

void request_init(struct request *request, struct server *server, struct connection *connection,
                  void (*resume)(front_task *task))
{
    request->server = server;
    request->task.thread = connection->thread;
    request->task.connection = connection;
    request->task.resume = resume;
    request->client = *connection_client(connection);
    request->arrived_ns = clock_ns();
    (void)atomic_fetch_add(&server->counts->exchanges, 1);
}

void request_deinit(struct request *request)
{
    struct server *server = request->server;

    INLAY_CHECK(atomic_load(&server->counts->exchanges) > 0);
    (void)atomic_fetch_sub(&server->counts->exchanges, 1);
    (void)atomic_fetch_add_explicit(&server->counts->requests, 1, memory_order_relaxed);
    server_release(server, request->held_bytes);
    request_release_reply(request);
}

bool request_count(struct request *request, uint64_t bytes)
{
    if (bytes > 0 && !server_hold(request->server, request->held_bytes, bytes)) {
        request->retry_after = 1;
        return false;
    }
    request->held_bytes += bytes;
    return true;
}

inlay_status request_hold(struct request *request, uint64_t bytes, inlay_diag *diag)
{
    if (bytes > request->server->limits.body_bytes)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the inputs are larger than max_body_bytes");
    return request_count(request, bytes) ? INLAY_OK : inlay_fail(diag, INLAY_BUSY, REQUEST_IS_LARGE);
}

inlay_status request_hold_reply(struct request *request, uint64_t bytes, bool is_result, inlay_diag *diag)
{
    struct server *server = request->server;
    struct connection *connection = request->task.connection;
    const uint64_t most = server->limits.inflight_bytes / 4, unread = connection->reply_bytes;
    uint64_t counted = bytes;

    if (most > 0 && bytes > SMALL_REPLY && unread > 0 && (unread > most || bytes > most - unread)) {
        server_refused(server, REFUSED_BYTES);
        request->retry_after = 1;
        return inlay_fail(diag, INLAY_BUSY,
                          "the reply of %llu bytes and those of %llu bytes that the client has not read exceed a "
                          "quarter of max_inflight_bytes; read them first",
                          (unsigned long long)bytes, (unsigned long long)unread);
    }
    if (!is_result && unread == 0) {
        counted = 0;
    } else if (bytes <= SMALL_REPLY) {
        (void)server_count(server, bytes);
    } else if (!server_hold(server, request->held_bytes + request->counted_reply_bytes, bytes)) {
        request->retry_after = 1;
        return inlay_fail(diag, INLAY_BUSY,
                          "all requests in progress and their replies exceed max_inflight_bytes; try "
                          "again later");
    }
    request->reply_bytes += bytes;
    request->counted_reply_bytes += counted;
    connection->reply_bytes += bytes;
    return INLAY_OK;
}

void request_release_reply(struct request *request)
{
    server_release(request->server, request->counted_reply_bytes);
    if (request->task.connection != NULL)
        request->task.connection->reply_bytes -= request->reply_bytes;
    request->reply_bytes = request->counted_reply_bytes = 0;
}

void request_suspend(struct request *request)
{
    if (request->preparation.pass_on != NULL)
        request->preparation.pass_on(request);
    if (request->suspended)
        return;
    request->suspended = true;
    (void)atomic_fetch_add(&request->server->suspended, 1);
}

void request_wake(struct request *request)
{
    if (request->preparation.pass_on != NULL)
        request->preparation.pass_on(request);
    front_wake(&request->task);
}

bool request_goes_on(const struct request *request, inlay_diag *diag)
{
    if (atomic_load_explicit(&request->preparation.stopped, memory_order_relaxed))
        return inlay_fail(diag, INLAY_CANCELLED, "the client disconnected, or the server ends") == INLAY_OK;
    return request->job.deadline_ns == 0 || clock_ns() < request->job.deadline_ns ||
           inlay_fail(diag, INLAY_DEADLINE_EXCEEDED, "the request's deadline passed before it could run") == INLAY_OK;
}

void request_resumed(struct request *request)
{
    INLAY_CHECK(request->suspended && atomic_load(&request->server->suspended) > 0);
    request->suspended = false;
    (void)atomic_fetch_sub(&request->server->suspended, 1);
}

static void submit(struct request *request, const load_task *task, const char *name, size_t name_bytes)
{
    request->load_task = *task;
    request->load_task.deadline_ns = request->job.deadline_ns;
    (void)snprintf(request->load_task.name, sizeof request->load_task.name, "%.*s", (int)name_bytes, name);
    request_suspend(request);
    loader_submit(request->server->loader, &request->load_task);
}

void request_load(struct request *request, load_task_kind what, const char *name, size_t name_bytes, uint64_t version,
                  void (*done)(void *user, const inlay_diag *failure), void *user)
{
    const load_task task = { .what = what, .version = version, .done = done, .user = user };

    submit(request, &task, name, name_bytes);
}

void request_load_adapter(struct request *request, const char *name, size_t name_bytes, const load_adapter *adapter,
                          void (*done)(void *user, const inlay_diag *failure), void *user)
{
    const load_task task = { .what = LOAD_TASK_ADAPTER, .adapter = *adapter, .done = done, .user = user };

    submit(request, &task, name, name_bytes);
}

inlay_status request_take_model(struct request *request, const inlay_diag *failure, inlay_diag *diag)
{
    const load_task *task = &request->load_task;

    if (failure->code != INLAY_OK) {
        *diag = *failure;
        return failure->code;
    }
    request->job.model = repository_find(request->server->repository, task->name, strlen(task->name), task->version);
    if (request->job.model != NULL)
        return INLAY_OK;
    request->retry_after = 1;
    return inlay_fail(diag, INLAY_BUSY, "the model was unloaded to make room for others; try again later");
}
