/* serve/chat/completion.h - POST /v1/completions and /v1/chat/completions: generates texts token by token.
 *
 * Each token is a separate run in a sequence (sequence.h), queued like any other request, so that completions share the
 * CPUs with each other and with other models. */
#ifndef SERVE_COMPLETION_H
#define SERVE_COMPLETION_H
#include "serve/exchange/exchange.h"

typedef enum completion_state {
    COMPLETION_SENDS, /* there are events */
    COMPLETION_WAITS, /* the exchange is suspended until there are some */
    COMPLETION_DONE   /* the last events, maybe none */
} completion_state;
/* Most bytes of events that a client has not read: then its texts end. */
enum { COMPLETION_UNREAD_BYTES = 1 << 20 };

/* Moves the events of a stream that were generated so far to `to`, which is empty. */
completion_state completion_take(struct completion *completion, struct strbuf *to);
void answer_completions(struct exchange *exchange);
#endif
