/* serve/tls.h - TLS by GnuTLS, the library that libmicrohttpd has it from: for gRPC, and clients' certificates. */
#ifndef SERVE_TLS_H
#define SERVE_TLS_H
#include "inlay/status.h"
#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <sys/types.h>

/* The server's certificate and key, and whom it trusts. */
struct tls;
/* All in PEM; client_ca NULL: clients show no certificate. */
INLAY_NODISCARD inlay_status tls_create(const char *certificate, const char *key, const char *client_ca,
                                        struct tls **out_tls, inlay_diag *diag);
void tls_destroy(struct tls *tls); /* NULL is a no-op */
/* Whether the session's client has shown a certificate that is vouched for. */
bool tls_is_trusted(gnutls_session_t session);

/* A connection over TLS that speaks HTTP/2 (ALPN h2). fd is non-blocking, and stays the caller's. NULL: no memory. */
gnutls_session_t tls_accept(const struct tls *tls, int fd);
/* 1: done; 0: the socket has to be waited for, see tls_wants_write(); -1: the client is refused. */
int tls_handshake(gnutls_session_t session);
bool tls_wants_write(gnutls_session_t session);
/* As recv() and send(): -1 with errno EAGAIN: later. */
ssize_t tls_receive(gnutls_session_t session, void *to, size_t bytes);
ssize_t tls_send(gnutls_session_t session, const void *from, size_t bytes);
/* Bytes that were read from the socket, and not received yet. */
bool tls_has_more(gnutls_session_t session);
void tls_close(gnutls_session_t session); /* NULL is a no-op */
#endif
