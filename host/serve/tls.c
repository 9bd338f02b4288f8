#include "serve/tls.h"
#include "base/memory.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct tls {
    gnutls_certificate_credentials_t credentials;
    bool clients; /* clients must show certificates */
};

static gnutls_datum_t datum(const char *text)
{
    return (gnutls_datum_t){ (unsigned char *)(uintptr_t)text, (unsigned)strlen(text) };
}

inlay_status tls_create(const char *certificate, const char *key, const char *client_ca, struct tls **out_tls,
                        inlay_diag *diag)
{
    gnutls_datum_t certificate_pem = datum(certificate), key_pem = datum(key);
    struct tls *tls = calloc(1, sizeof *tls);
    int code;

    *out_tls = NULL;
    if (tls == NULL || gnutls_certificate_allocate_credentials(&tls->credentials) != GNUTLS_E_SUCCESS) {
        free(tls);
        return no_memory(diag, "for TLS");
    }
    code = gnutls_certificate_set_x509_key_mem(tls->credentials, &certificate_pem, &key_pem, GNUTLS_X509_FMT_PEM);
    if (code < 0) {
        tls_destroy(tls);
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "tls_cert and tls_key are not a matching pair in PEM: %s",
                          gnutls_strerror(code));
    }
    if (client_ca != NULL) {
        gnutls_datum_t pem = datum(client_ca);

        code = gnutls_certificate_set_x509_trust_mem(tls->credentials, &pem, GNUTLS_X509_FMT_PEM);
        if (code <= 0) {
            tls_destroy(tls);
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "tls_client_ca has no certificate in PEM");
        }
        tls->clients = true;
    }
    *out_tls = tls;
    return INLAY_OK;
}

void tls_destroy(struct tls *tls)
{
    if (tls == NULL)
        return;
    gnutls_certificate_free_credentials(tls->credentials);
    free(tls);
}

bool tls_is_trusted(gnutls_session_t session)
{
    unsigned status = 0;

    return gnutls_certificate_verify_peers2(session, &status) == GNUTLS_E_SUCCESS && status == 0;
}

gnutls_session_t tls_accept(const struct tls *tls, int fd)
{
    static const gnutls_datum_t protocol = { (unsigned char *)(uintptr_t) "h2", 2 };
    gnutls_session_t session = NULL;

    if (gnutls_init(&session, GNUTLS_SERVER | GNUTLS_NONBLOCK) != GNUTLS_E_SUCCESS)
        return NULL;
    if (gnutls_set_default_priority(session) != GNUTLS_E_SUCCESS ||
        gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, tls->credentials) != GNUTLS_E_SUCCESS ||
        gnutls_alpn_set_protocols(session, &protocol, 1, GNUTLS_ALPN_MANDATORY) != GNUTLS_E_SUCCESS) {
        gnutls_deinit(session);
        return NULL;
    }
    gnutls_certificate_server_set_request(session, tls->clients ? GNUTLS_CERT_REQUIRE : GNUTLS_CERT_IGNORE);
    if (tls->clients)
        gnutls_session_set_verify_cert(session, NULL, 0);
    gnutls_transport_set_int(session, fd);
    return session;
}

int tls_handshake(gnutls_session_t session)
{
    int code = gnutls_handshake(session);

    return code == GNUTLS_E_SUCCESS ? 1 : gnutls_error_is_fatal(code) != 0 ? -1 : 0;
}

bool tls_wants_write(gnutls_session_t session)
{
    return gnutls_record_get_direction(session) == 1;
}

static ssize_t as_errno(ssize_t result)
{
    if (result >= 0)
        return result;
    errno = result == GNUTLS_E_AGAIN || result == GNUTLS_E_INTERRUPTED ? EAGAIN : EIO;
    return -1;
}

ssize_t tls_receive(gnutls_session_t session, void *to, size_t bytes)
{
    return as_errno(gnutls_record_recv(session, to, bytes));
}

ssize_t tls_send(gnutls_session_t session, const void *from, size_t bytes)
{
    return as_errno(gnutls_record_send(session, from, bytes));
}

bool tls_has_more(gnutls_session_t session)
{
    return gnutls_record_check_pending(session) > 0;
}

void tls_close(gnutls_session_t session)
{
    if (session == NULL)
        return;
    (void)gnutls_bye(session, GNUTLS_SHUT_WR);
    gnutls_deinit(session);
}
