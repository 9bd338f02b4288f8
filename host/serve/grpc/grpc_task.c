/* Calls whose request another thread has: how they leave and how they return. */
#include "serve/grpc/grpc_internal.h"
#include "serve/exchange/watch.h"
#include <stddef.h>

/* A call that another thread has is destroyed by grpc_resume(). */
void grpc_leave(struct call *call)
{
    call->session = NULL;
    request_release_reply(&call->request);
    call->request.task.connection = NULL;
    if (call->working && call->request.suspended)
        watch_cancel(call->request.server->watch, &call->request);
    else
        call_destroy(call);
}

void grpc_resume(front_task *task)
{
    struct call *call = (struct call *)(void *)((char *)task - offsetof(struct call, request.task));

    request_resumed(&call->request);
    if (call->session == NULL) { /* its stream was closed meanwhile */
        call_destroy(call);
        return;
    }
    if (call->waits == WAITS_FOR_DELAY) {
        call->working = false;
        call_end(call, call->message.status, call->message.text);
    } else if (call->waits == WAITS_FOR_CHANGE) {
        grpc_watch_again(call);
    } else {
        call_finish_message(call);
        call_advance(call);
    }
    call->streams->flush(call->streams->connection);
}
