/* serve/network/tls.h - TLS by GnuTLS: certificates, and sessions of connections. */
#ifndef SERVE_TLS_H
#define SERVE_TLS_H
#include "inlay/status.h"
#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <sys/types.h>

/* The server's certificate and key, and the authorities of client certificates. */
struct tls;
/* All in PEM; client_ca NULL: no client certificates. min_version: "1.2" or "1.3". */
INLAY_NODISCARD inlay_status tls_create(const char *certificate, const char *key, const char *client_ca,
                                        const char *min_version, struct tls **out_tls, inlay_diag *diag);
/* Connections that are accepted from now on use these certificates. */
INLAY_NODISCARD inlay_status tls_reload(struct tls *tls, const char *certificate, const char *key,
                                        const char *client_ca, inlay_diag *diag);
void tls_destroy(struct tls *tls); /* NULL is a no-op */
/* Whether the session's client has shown a certificate signed by a trusted authority. */
bool tls_is_trusted(gnutls_session_t session);

/* A TLS session. The caller owns fd, which is non-blocking. http2_only: ALPN has to select h2, and a client without a
 * trusted certificate is refused, if the server wants one; otherwise see tls_is_trusted(). NULL: out of memory. */
gnutls_session_t tls_accept(struct tls *tls, int fd, bool http2_only);
/* Whether ALPN has selected HTTP/2. */
bool tls_is_http2(gnutls_session_t session);
/* 1: complete; 0: wait for the socket, see tls_wants_write(); -1: the client is refused, because of its certificate as
 * `fault` says, or for another cause (""). */
int tls_handshake(gnutls_session_t session, char *fault, size_t bytes);
bool tls_wants_write(gnutls_session_t session);
/* As recv() and send(); -1 with errno EAGAIN: try again later. */
ssize_t tls_receive(gnutls_session_t session, void *to, size_t bytes);
ssize_t tls_send(gnutls_session_t session, const void *from, size_t bytes);
/* Whether TLS holds bytes that were read from the socket but not received yet. */
bool tls_has_more(gnutls_session_t session);
/* Sends close_notify: the end of data. NULL is a no-op. */
void tls_finish(gnutls_session_t session);
void tls_close(gnutls_session_t session); /* NULL is a no-op */
#endif
