/* serve/exchange/access_log.h - one line of JSON for each request. */
#ifndef SERVE_ACCESS_LOG_H
#define SERVE_ACCESS_LOG_H
#include "serve/base/server.h"
#include "serve/model/model.h"
#include <sys/socket.h>

/* A request that has ended. */
typedef struct access_entry {
    struct server *server;
    const struct sockaddr *client;
    const char *method, *path;
    int status;      /* of HTTP */
    int grpc_status; /* -1: not gRPC */
    size_t bytes_in, bytes_out;
    uint64_t arrived_ns, received_ns; /* of its header and of its last byte; received_ns 0: it never was complete */
    const struct model *model;        /* NULL: none */
    uint64_t queue_ns, compute_ns, run_rows; /* run_rows 0: it did not run */
    const char *traceparent, *request_id;    /* NULL: none */
} access_entry;

void access_log_write(const access_entry *entry);
#endif
