/* serve/grpc_read.h - from a ModelInfer message to a request. */
#ifndef SERVE_GRPC_READ_H
#define SERVE_GRPC_READ_H
#include "inference.pb-c.h"
#include "serve/infer.h"

/* message_bytes: how long the message was. The request, which is {0}, points into the message; the caller releases it
 * after a failure, too. */
INLAY_NODISCARD inlay_status grpc_read_request(const Inference__InferRequest *InferRequest, size_t message_bytes,
                                               infer_request *request, inlay_diag *diag);
#endif
