/* Calls whose request another thread has: how they leave and how they return. */
#include "serve/grpc/grpc_internal.h"
#include "inlay/check.h"
#include <stddef.h>

void grpc_finished(struct call *call)
{
    front_wake(&call->task);
}

/* If the call's request runs, the runner owns the call until grpc_resume(). */
void grpc_leave(struct call *call)
{
    bool mine = true;

    call->session = NULL;
    call->task.connection = NULL;
    if (call->working && (call->in_loader || call->delayed != NULL || call->watched != 0)) {
        mine = false;
    } else if (call->working && call->queued) {
        mine = front_cancel(&call->task, call->server->sched, &call->job);
        if (mine) {
            INLAY_CHECK(atomic_load(&call->server->suspended) > 0);
            (void)atomic_fetch_sub(&call->server->suspended, 1);
            stats_add_error(call->job.model->stats, STATS_CANCELLED, clock_ns() - call->arrived_ns);
        }
    }
    if (mine)
        call_destroy(call);
}

void grpc_resume(front_task *task)
{
    struct call *call = (struct call *)(void *)((char *)task - offsetof(struct call, task));

    INLAY_CHECK(atomic_load(&call->server->suspended) > 0);
    (void)atomic_fetch_sub(&call->server->suspended, 1);
    if (call->session == NULL) { /* its stream was closed meanwhile */
        call_destroy(call);
        return;
    }
    if (call->delayed != NULL) {
        call->working = false;
        call_end_refused(call, call->delayed);
        call->delayed = NULL;
    } else if (call->watched != 0) {
        grpc_watch_again(call);
    } else {
        call_finish_message(call);
        call_advance(call);
    }
    call->streams->flush(call->streams->connection);
}
