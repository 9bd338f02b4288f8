/* Which methods a client may call. */
#include "base/clock.h"
#include "serve/exchange/access.h"
#include "serve/network/connection.h"
#include "serve/grpc/grpc_internal.h"
#include "serve/process/supervise.h"
#include <stdio.h>

void call_refuse(struct call *call)
{
    call_end(call, GRPC_UNAUTHENTICATED, "a bearer token is required: authorization: Bearer TOKEN");
}

/* A call that is already working has had its header checked before, with a token that may be used. */
static void refuse_token(struct call *call)
{
    uint32_t delay_ms = server_wrong_token(call->server, &call->streams->connection->client.any);

    call->delayed =
        delay_ms > 0 && !call->working && front_delay(&call->task, clock_ns() + delay_ms * UINT64_C(1000000));
    if (!call->delayed) {
        call_refuse(call);
        return;
    }
    call->working = true;
    (void)atomic_fetch_add(&call->server->suspended, 1);
}

bool call_may(struct call *call, int access)
{
    struct server *server = call->server;
    bool user = tokens_match(&server->tokens, call->authorization),
         admin = tokens_match(&server->admin_tokens, call->authorization);

    if (access == 0 || (access == 1 && (user || admin || tokens_are_none(&server->tokens))) ||
        (access == 2 && admin && !supervise_is_worker()))
        return true;
    if (access == 2 && supervise_is_worker())
        call_end(call, GRPC_PERMISSION_DENIED, "not possible with several workers; restart the server to change it");
    else if (access == 2 && tokens_are_none(&server->admin_tokens))
        call_end(call, GRPC_PERMISSION_DENIED, "this server is read-only; start it with an admin_token_file");
    else if (access == 2 && user)
        call_end(call, GRPC_PERMISSION_DENIED, "this token may not change the server");
    else if (call->authorization[0] != '\0')
        refuse_token(call);
    else
        call_refuse(call);
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
    else if (call->streams->is_admin && call->method->access > 0)
        call_end(call, GRPC_UNIMPLEMENTED, "admin_port has only health checks");
    else if (!call->streams->is_trusted && call->method->access > 0)
        call_end(call, GRPC_PERMISSION_DENIED,
                 "a client certificate signed by an authority of tls_client_ca is required");
    else if (call->message_coding == CODING_UNKNOWN)
        call_end(call, GRPC_UNIMPLEMENTED, "grpc-encoding must be gzip, deflate or identity");
    else
        (void)call_may(call, call->method->access);
    return !call->ended && !call->delayed;
}
