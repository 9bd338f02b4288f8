/* serve/grpc.h - the Open Inference Protocol over gRPC: HTTP/2 by nghttp2, its messages by protobuf-c.
 *
 * One thread waits for all connections. Requests run as those over REST do (sched.h); who finishes one elsewhere hands
 * it back to that thread. */
#ifndef SERVE_GRPC_H
#define SERVE_GRPC_H
#include "inlay/status.h"
#include <stdbool.h>

struct server;
struct grpc;

/* Listens and starts the thread. name gets "127.0.0.1:8001". */
INLAY_NODISCARD inlay_status grpc_start(struct server *server, const char *address, int port, struct grpc **out_grpc,
                                        char *name, size_t name_bytes, inlay_diag *diag);
/* Whether this program has gRPC at all. */
bool grpc_is_built(void);
/* No new connections, and calls are the last of theirs. */
void grpc_drain(struct grpc *grpc);
/* Ends the calls that are at work. */
void grpc_cancel_all(struct grpc *grpc);
/* NULL is a no-op. */
void grpc_stop(struct grpc *grpc);
#endif
