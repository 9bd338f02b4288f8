/* Calls whose request another thread has: how they leave and how they return. */
#include "serve/grpc_internal.h"
#include "inlay/check.h"
#include "serve/connection.h"
#include <stddef.h>

void grpc_finished(struct call *call)
{
    front_wake(&call->task);
}

static const char wrong_token[] = "a bearer token is required: authorization: Bearer TOKEN";

/* A call that is already working has had its header checked before, with a token that may be used. */
void grpc_refuse_token(struct call *call)
{
    uint32_t delay_ms = server_wrong_token(call->server, &call->streams->connection->client.any);

    call->delayed =
        delay_ms > 0 && !call->working && front_delay(&call->task, clock_ns() + delay_ms * UINT64_C(1000000));
    if (!call->delayed) {
        call_end(call, GRPC_UNAUTHENTICATED, wrong_token);
        return;
    }
    call->working = true;
    (void)atomic_fetch_add(&call->server->suspended, 1);
}

/* If the call's request runs, the runner owns the call until grpc_resume(). */
void grpc_leave(struct call *call)
{
    bool mine = true;

    call->session = NULL;
    if (call->working && (call->in_loader || call->delayed)) {
        mine = false;
    } else if (call->working && call->queued) {
        mine = front_cancel(&call->task, call->server->sched, &call->job);
        if (mine) {
            INLAY_CHECK(atomic_load(&call->server->suspended) > 0);
            (void)atomic_fetch_sub(&call->server->suspended, 1);
            stats_add_error(&call->job.model->stats, STATS_CANCELLED, clock_ns() - call->arrived_ns);
        }
    }
    if (mine)
        call_destroy(call);
}

void grpc_resume(front_task *task)
{
    struct call *call = (struct call *)(void *)((char *)task - offsetof(struct call, task));
    struct connection *connection;

    INLAY_CHECK(atomic_load(&call->server->suspended) > 0);
    (void)atomic_fetch_sub(&call->server->suspended, 1);
    if (call->session == NULL) { /* its stream was closed meanwhile */
        call_destroy(call);
        return;
    }
    connection = call->streams->connection;
    if (call->delayed) {
        call->working = call->delayed = false;
        call_end(call, GRPC_UNAUTHENTICATED, wrong_token);
    } else {
        call_finish_message(call);
        call_advance(call);
    }
    if (!http2_flush(connection))
        connection_close(connection);
}
