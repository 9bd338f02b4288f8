/* serve/base/access.h - who may call what: one policy for all protocols.
 *
 * Each route and each method has a level for what it does; a client has an address, maybe a certificate, and maybe a
 * token. access_check() compares both, and its refusals are the same over REST, gRPC and OpenAI's API. */
#ifndef SERVE_ACCESS_H
#define SERVE_ACCESS_H
#include "serve/base/guard.h"
#include "serve/base/tokens.h"
#include <netinet/in.h>

/* From the most to the fewest clients. */
typedef enum access_level {
    ACCESS_NO_METHOD,   /* there is nothing to call */
    ACCESS_EVERYONE,    /* health checks */
    ACCESS_USERS,       /* a certificate, if the server wants them, and a token, if it has any */
    ACCESS_ALL_WORKERS, /* the same, with a token of an administrator: a change that all workers share */
    ACCESS_ADMINS       /* the same, of this process only, so that workers refuse it */
} access_level;

struct access_policy {
    struct tokens users, admins;
    struct guard guard;
    bool needs_certificates;
    bool is_worker; /* one of several processes that serve the same models */
};

/* A client, as its connection knows it. */
struct client {
    union {
        struct sockaddr any;
        struct sockaddr_in6 ip;
    } address;
    bool is_admin;    /* it came to admin_port */
    bool is_loopback; /* it came to a socket that only this machine reaches */
    bool is_trusted;  /* it has shown a certificate of an authority of tls_client_ca */
};

typedef struct access_refusal {
    int code; /* 401: it is not known who the client is; 403: it is, or it does not matter */
    const char *text;
} access_refusal;

struct server;
/* NULL: the client may call this. authorization: the header field; NULL or "": none. Refusals are counted in the
 * server's metrics. *out_delay_ms: how long to wait with the refusal, because of a wrong token; 0: not at all. Any
 * thread. */
const access_refusal *access_check(struct server *server, const struct client *client, const char *authorization,
                                   access_level level, uint32_t *out_delay_ms);
#endif
