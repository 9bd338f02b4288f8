/* serve/grpc.h - the Open Inference Protocol over gRPC: HTTP/2 by nghttp2, messages by protobuf-c.
 *
 * One thread waits for all connections. Requests run as REST requests do (sched.h); a thread that finishes one hands it
 * back to the gRPC thread. */
#ifndef SERVE_GRPC_H
#define SERVE_GRPC_H
#include "inlay/status.h"
#include <stdbool.h>

struct server;
struct grpc;

/* Listens and starts the thread. name gets the address, for example "127.0.0.1:8001". */
INLAY_NODISCARD inlay_status grpc_start(struct server *server, const char *address, int port, struct grpc **out_grpc,
                                        char *name, size_t name_bytes, inlay_diag *diag);
/* Whether this program was built with gRPC. */
bool grpc_is_built(void);
/* Accepts no new connections; open connections accept no new calls. */
void grpc_drain(struct grpc *grpc);
/* Ends the calls in progress. */
void grpc_cancel_all(struct grpc *grpc);
/* NULL is a no-op. */
void grpc_stop(struct grpc *grpc);
#endif
