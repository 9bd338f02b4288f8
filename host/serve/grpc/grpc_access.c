/* Which methods a client may call. */
#include "base/clock.h"
#include "serve/grpc/grpc_internal.h"
#include <stdio.h>

void call_end_refused(struct call *call, const access_refusal *refusal)
{
    call_end(call, refusal->code == 401 ? GRPC_UNAUTHENTICATED : GRPC_PERMISSION_DENIED, refusal->text);
}

bool call_may(struct call *call, access_level level)
{
    uint32_t delay_ms;
    const access_refusal *refusal = access_check(call->server, &call->client, call->authorization, level, &delay_ms);

    if (refusal == NULL)
        return true;
    /* A call that is already working has had its header checked before, with a token that may be used. */
    if (delay_ms > 0 && !call->working && front_delay(&call->task, clock_ns() + delay_ms * UINT64_C(1000000))) {
        call->delayed = refusal;
        call->working = true;
        (void)atomic_fetch_add(&call->server->suspended, 1);
    } else {
        call_end_refused(call, refusal);
    }
    return false;
}

static void end_unknown(struct call *call)
{
    char text[160];

    (void)snprintf(text, sizeof text, "unknown method '%.120s'", call->path);
    call_end(call, GRPC_UNIMPLEMENTED, text);
}

bool call_begin(struct call *call)
{
    struct server *server = call->server;

    call->method = method_find(call->path);
    if (call->header_bytes > server->max_header_bytes)
        call_end(call, GRPC_RESOURCE_EXHAUSTED, "the header is larger than max_header_bytes");
    else if (!call->is_grpc)
        call_end(call, GRPC_INTERNAL, "the content-type is not application/grpc");
    else if (!server->has_grpc)
        call_end(call, GRPC_UNIMPLEMENTED, "gRPC is not enabled (grpc_port is -1)");
    else if (call->method == NULL)
        end_unknown(call);
    else if (call->client.is_admin && call->method->access > ACCESS_EVERYONE)
        call_end(call, GRPC_UNIMPLEMENTED, "admin_port has only health checks");
    else if (call->message_coding == CODING_UNKNOWN)
        call_end(call, GRPC_UNIMPLEMENTED, "grpc-encoding must be gzip, deflate or identity");
    else
        (void)call_may(call, call->method->access);
    return !call->ended && call->delayed == NULL;
}
