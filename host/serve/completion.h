/* serve/completion.h - POST /v1/completions: generates a text token by token.
 *
 * Each token is a separate run in a sequence (sequence.h), queued like any other request, so that completions share the
 * CPUs with each other and with other models. */
#ifndef SERVE_COMPLETION_H
#define SERVE_COMPLETION_H
#include "serve/server.h"

/* The response of a stream, which libmicrohttpd reads through a callback; NULL: out of memory. */
struct MHD_Response *completion_response(struct completion *completion);
/* The connection was closed. true: a run of the request is still active; when it ends, it frees the exchange. */
bool completion_leave(struct exchange *exchange);
void completion_destroy(struct completion *completion); /* NULL is a no-op */
#endif
