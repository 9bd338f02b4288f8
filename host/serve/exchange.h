/* serve/exchange.h - one request for REST from its header to its reply, as the protocols (HTTP/1.1, HTTP/2) drive it.
 *
 * exchange_create(), exchange_set_target(), exchange_add_field() for each field, exchange_begin(), the body,
 * exchange_run(), exchange_reply_get(), exchange_finish(): all on the thread of the connection. */
#ifndef SERVE_EXCHANGE_H
#define SERVE_EXCHANGE_H
#include "serve/load.h"
#include "serve/server.h"
#include <sys/socket.h>

typedef struct exchange_reply {
    int code;
    struct {
        const char *name, *value;
    } fields[8];
    uint32_t field_count;
    const char *body; /* [body_bytes] valid until exchange_finish() */
    size_t body_bytes;
    bool is_head_only; /* the reply to HEAD: the length of the body without the body */
    bool streams;      /* the body comes from completion_take() */
    char numbers[2][24], load[LOAD_BYTES];
} exchange_reply;

/* resume() gets exchange->task when another thread has finished the request. NULL: out of memory. */
struct exchange *exchange_create(struct server *server, struct front_thread *thread, void (*resume)(front_task *task),
                                 const struct sockaddr *client);
struct exchange *exchange_of(front_task *task);
/* path: as in the request, percent-encoded; "" is "/". */
void exchange_set_target(struct exchange *exchange, const char *method, size_t method_bytes, const char *path,
                         size_t path_bytes);
/* Stores the field if the server uses it. */
void exchange_add_field(struct exchange *exchange, const char *name, size_t name_bytes, const char *value,
                        size_t value_bytes);
/* Checks the header. length: of the body, 0 = none or unknown. exchange->code != 0: the request is refused; with 413
 * the body must not be read. */
void exchange_begin(struct exchange *exchange, uint64_t length, bool is_trusted);
/* Where the next bytes of a body of known length belong; NULL: drop them. The rest of the length has room there. */
char *exchange_room(struct exchange *exchange);
void exchange_received(struct exchange *exchange, size_t bytes);
/* Copies a part of the body. */
void exchange_take_body(struct exchange *exchange, const char *data, size_t bytes);
/* The request is complete. true: it has its reply; false: exchange->task is resumed later. */
bool exchange_run(struct exchange *exchange);
/* The first call of resume(). */
void exchange_resumed(struct exchange *exchange);
void exchange_reply_get(struct exchange *exchange, exchange_reply *out);
/* Logs the request and frees it. sent: the client has received the reply, as far as the server knows. */
void exchange_finish(struct exchange *exchange, bool sent);

/* http1_reply.c: appends the status line and the header of a reply over HTTP/1.1. is_1_0: the client's version. */
void http1_write_head(struct strbuf *to, const exchange_reply *reply, bool is_1_0, bool keep_alive);
#endif
