/* Stub of a server without gRPC, where nghttp2 is not installed. */
#include "serve/grpc.h"

inlay_status grpc_start(struct server *server, const char *address, int port, struct grpc **out_grpc, char *name,
                        size_t name_bytes, inlay_diag *diag)
{
    (void)server;
    (void)address;
    (void)port;
    (void)name;
    (void)name_bytes;
    (void)diag;
    *out_grpc = NULL;
    return INLAY_OK;
}

bool grpc_is_built(void)
{
    return false;
}

void grpc_drain(struct grpc *grpc)
{
    (void)grpc;
}

void grpc_cancel_all(struct grpc *grpc)
{
    (void)grpc;
}

void grpc_stop(struct grpc *grpc)
{
    (void)grpc;
}
