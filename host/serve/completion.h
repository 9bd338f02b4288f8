/* serve/completion.h - POST /v1/completions: a text that goes on, token by token.
 *
 * Each token is a run of its own in a sequence (sequence.h), queued as any other request, so that texts share the
 * machine with each other and with other models. */
#ifndef SERVE_COMPLETION_H
#define SERVE_COMPLETION_H
#include "serve/server.h"

/* The answer of a stream, as libmicrohttpd asks for it; NULL: no memory. */
struct MHD_Response *completion_response(struct completion *completion);
/* The connection is gone. true: the request's last run ends later, and frees the exchange. */
bool completion_leave(struct exchange *exchange);
void completion_destroy(struct completion *completion); /* NULL is a no-op */
#endif
