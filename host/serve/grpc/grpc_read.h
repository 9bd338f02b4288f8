/* serve/grpc/grpc_read.h - converts a ModelInfer message to a request. */
#ifndef SERVE_GRPC_READ_H
#define SERVE_GRPC_READ_H
#include "inference.pb-c.h"
#include "serve/request/infer.h"

/* message_bytes: size of the encoded message. *request has to be {0}. It points into the message; the caller releases
 * it even after a failure. */
INLAY_NODISCARD inlay_status grpc_read_request(const Inference__InferRequest *message, size_t message_bytes,
                                               infer_request *request, inlay_diag *diag);
#endif
