/* Which methods a client may call. */
#include "base/clock.h"
#include "serve/grpc/grpc_internal.h"
#include <stdio.h>

bool call_may(struct call *call, access_level level)
{
    uint32_t delay_ms;
    const access_refusal *refusal =
        access_check(call->request.server, &call->request.client, call->head.authorization, level, &delay_ms);

    if (refusal == NULL)
        return true;
    call_fail(call, refusal->code == 401 ? GRPC_UNAUTHENTICATED : GRPC_PERMISSION_DENIED, refusal->text);
    /* A call that is already working has had its header checked before, with a token that may be used. */
    if (delay_ms > 0 && !call->working && front_delay(&call->request.task, clock_ns() + delay_ms * UINT64_C(1000000))) {
        call->waits = WAITS_FOR_DELAY;
        call->working = true;
        request_suspend(&call->request);
    } else {
        call_end(call, call->message.status, call->message.text);
    }
    return false;
}

static void end_unknown(struct call *call)
{
    char text[160];

    (void)snprintf(text, sizeof text, "unknown method '%.120s'", call->head.path);
    call_end(call, GRPC_UNIMPLEMENTED, text);
}

bool call_begin(struct call *call)
{
    struct server *server = call->request.server;

    call->head.method = method_find(call->head.path);
    if (call->head.bytes > server->limits.header_bytes)
        call_end(call, GRPC_RESOURCE_EXHAUSTED, "the header is larger than max_header_bytes");
    else if (!call->head.is_grpc)
        call_end(call, GRPC_INTERNAL, "the content-type is not application/grpc");
    else if (!server->has_grpc)
        call_end(call, GRPC_UNIMPLEMENTED, "gRPC is not enabled (grpc_port is -1)");
    else if (call->head.method == NULL)
        end_unknown(call);
    else if (call->request.client.is_admin && call->head.method->access > ACCESS_EVERYONE)
        call_end(call, GRPC_UNIMPLEMENTED, "admin_port has only health checks");
    else if (call->head.message_coding == CODING_UNKNOWN)
        call_end(call, GRPC_UNIMPLEMENTED, "grpc-encoding must be gzip, deflate or identity");
    else
        (void)call_may(call, call->head.method->access);
    return !call->ended && !call->working;
}
