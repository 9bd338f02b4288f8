/* serve/tls.h - TLS by GnuTLS, which libmicrohttpd also uses: for gRPC, and client certificates. */
#ifndef SERVE_TLS_H
#define SERVE_TLS_H
#include "inlay/status.h"
#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <sys/types.h>

/* The server's certificate and key, and the authorities of client certificates. */
struct tls;
/* All in PEM; client_ca NULL: no client certificates. */
INLAY_NODISCARD inlay_status tls_create(const char *certificate, const char *key, const char *client_ca,
                                        struct tls **out_tls, inlay_diag *diag);
void tls_destroy(struct tls *tls); /* NULL is a no-op */
/* Whether the session's client has shown a certificate signed by a trusted authority. */
bool tls_is_trusted(gnutls_session_t session);

/* A TLS session for HTTP/2 (ALPN h2). The caller owns fd, which is non-blocking. NULL: out of memory. */
gnutls_session_t tls_accept(const struct tls *tls, int fd);
/* 1: complete; 0: wait for the socket, see tls_wants_write(); -1: the client is refused. */
int tls_handshake(gnutls_session_t session);
bool tls_wants_write(gnutls_session_t session);
/* As recv() and send(); -1 with errno EAGAIN: try again later. */
ssize_t tls_receive(gnutls_session_t session, void *to, size_t bytes);
ssize_t tls_send(gnutls_session_t session, const void *from, size_t bytes);
/* Whether TLS holds bytes that were read from the socket but not received yet. */
bool tls_has_more(gnutls_session_t session);
void tls_close(gnutls_session_t session); /* NULL is a no-op */
#endif
