/* serve/exchange/access_log.h - one line of JSON for each request. */
#ifndef SERVE_ACCESS_LOG_H
#define SERVE_ACCESS_LOG_H
#include "serve/exchange/request.h"

/* What only the protocol of a request knows. */
typedef struct access_entry {
    const char *method, *path;
    int status;      /* of HTTP */
    int grpc_status; /* -1: not gRPC */
    size_t bytes_in, bytes_out;
} access_entry;

/* Logs a request that has ended. */
void access_log_write(const struct request *request, const access_entry *entry);
#endif
