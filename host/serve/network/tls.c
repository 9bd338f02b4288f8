#include "serve/network/tls.h"
#include "base/memory.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Certificates with their key. Sessions use the ones with which they began, so replaced ones are kept. */
typedef struct tls_identity {
    gnutls_certificate_credentials_t credentials;
    struct tls_identity *older;
} tls_identity;

struct tls {
    pthread_mutex_t lock; /* guards `identity` */
    tls_identity *identity;
    bool clients;           /* clients must show certificates */
    const char *priorities; /* appended to the system's: the versions that are refused */
};

static gnutls_datum_t datum(const char *text)
{
    return (gnutls_datum_t){ (unsigned char *)(uintptr_t)text, (unsigned)strlen(text) };
}

static inlay_status read_identity(gnutls_certificate_credentials_t credentials, const char *certificate,
                                  const char *key, const char *client_ca, inlay_diag *diag)
{
    gnutls_datum_t certificate_pem = datum(certificate), key_pem = datum(key), ca_pem;
    int code = gnutls_certificate_set_x509_key_mem(credentials, &certificate_pem, &key_pem, GNUTLS_X509_FMT_PEM);

    if (code < 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "tls_cert and tls_key are not a matching pair in PEM: %s",
                          gnutls_strerror(code));
    if (client_ca == NULL)
        return INLAY_OK;
    ca_pem = datum(client_ca);
    code = gnutls_certificate_set_x509_trust_mem(credentials, &ca_pem, GNUTLS_X509_FMT_PEM);
    return code > 0 ? INLAY_OK : inlay_fail(diag, INLAY_INVALID_ARGUMENT, "tls_client_ca has no certificate in PEM");
}

inlay_status tls_reload(struct tls *tls, const char *certificate, const char *key, const char *client_ca,
                        inlay_diag *diag)
{
    tls_identity *identity = calloc(1, sizeof *identity);
    inlay_status status;

    if (identity == NULL || gnutls_certificate_allocate_credentials(&identity->credentials) != GNUTLS_E_SUCCESS) {
        free(identity);
        return no_memory(diag, "for TLS");
    }
    status = read_identity(identity->credentials, certificate, key, client_ca, diag);
    if (status != INLAY_OK) {
        gnutls_certificate_free_credentials(identity->credentials);
        free(identity);
        return status;
    }
    (void)pthread_mutex_lock(&tls->lock);
    identity->older = tls->identity;
    tls->identity = identity;
    (void)pthread_mutex_unlock(&tls->lock);
    return INLAY_OK;
}

/* TLS 1.2 has suites without forward secrecy, and those of CBC, which RFC 9113 forbids for HTTP/2. */
#define WITHOUT_WEAK_SUITES ":-RSA:-AES-128-CBC:-AES-256-CBC:-3DES-CBC:-CAMELLIA-128-CBC:-CAMELLIA-256-CBC"

inlay_status tls_create(const char *certificate, const char *key, const char *client_ca, const char *min_version,
                        struct tls **out_tls, inlay_diag *diag)
{
    struct tls *tls = calloc(1, sizeof *tls);
    inlay_status status;

    *out_tls = NULL;
    if (tls == NULL)
        return no_memory(diag, "for TLS");
    (void)pthread_mutex_init(&tls->lock, NULL);
    tls->clients = client_ca != NULL;
    tls->priorities = strcmp(min_version, "1.3") == 0 ? "-VERS-ALL:+VERS-TLS1.3"
                                                      : "-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2" WITHOUT_WEAK_SUITES;
    if (strcmp(min_version, "1.2") != 0 && strcmp(min_version, "1.3") != 0)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "tls_min_version: '%s' is neither 1.2 nor 1.3", min_version);
    else
        status = tls_reload(tls, certificate, key, client_ca, diag);
    if (status != INLAY_OK) {
        tls_destroy(tls);
        return status;
    }
    *out_tls = tls;
    return INLAY_OK;
}

void tls_destroy(struct tls *tls)
{
    if (tls == NULL)
        return;
    for (tls_identity *at = tls->identity, *older; at != NULL; at = older) {
        older = at->older;
        gnutls_certificate_free_credentials(at->credentials);
        free(at);
    }
    (void)pthread_mutex_destroy(&tls->lock);
    free(tls);
}

bool tls_is_trusted(gnutls_session_t session)
{
    unsigned status = 0;

    return gnutls_certificate_verify_peers2(session, &status) == GNUTLS_E_SUCCESS && status == 0;
}

gnutls_session_t tls_accept(struct tls *tls, int fd, bool http2_only)
{
    static const gnutls_datum_t protocols[] = { { (unsigned char *)(uintptr_t) "h2", 2 },
                                                { (unsigned char *)(uintptr_t) "http/1.1", 8 } };
    gnutls_certificate_credentials_t credentials;
    gnutls_session_t session = NULL;

    (void)pthread_mutex_lock(&tls->lock);
    credentials = tls->identity->credentials;
    (void)pthread_mutex_unlock(&tls->lock);
    if (gnutls_init(&session, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) != GNUTLS_E_SUCCESS)
        return NULL;
    if (gnutls_set_default_priority_append(session, tls->priorities, NULL, 0) != GNUTLS_E_SUCCESS ||
        gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials) != GNUTLS_E_SUCCESS ||
        gnutls_alpn_set_protocols(session, protocols, http2_only ? 1 : 2, http2_only ? GNUTLS_ALPN_MANDATORY : 0) !=
            GNUTLS_E_SUCCESS) {
        gnutls_deinit(session);
        return NULL;
    }
    gnutls_certificate_server_set_request(session, !tls->clients ? GNUTLS_CERT_IGNORE
                                                   : http2_only  ? GNUTLS_CERT_REQUIRE
                                                                 : GNUTLS_CERT_REQUEST);
    if (tls->clients && http2_only)
        gnutls_session_set_verify_cert(session, NULL, 0);
    gnutls_transport_set_int(session, fd);
    return session;
}

bool tls_is_http2(gnutls_session_t session)
{
    gnutls_datum_t protocol;

    return gnutls_alpn_get_selected_protocol(session, &protocol) == GNUTLS_E_SUCCESS && protocol.size == 2 &&
           memcmp(protocol.data, "h2", 2) == 0;
}

static void write_fault(gnutls_session_t session, int code, char *fault, size_t bytes)
{
    gnutls_datum_t why = { NULL, 0 };

    if (code == GNUTLS_E_NO_CERTIFICATE_FOUND || code == GNUTLS_E_CERTIFICATE_REQUIRED)
        (void)snprintf(fault, bytes, "it has shown no certificate");
    else if (code == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR &&
             gnutls_certificate_verification_status_print(gnutls_session_get_verify_cert_status(session),
                                                          GNUTLS_CRT_X509, &why, 0) == GNUTLS_E_SUCCESS)
        (void)snprintf(fault, bytes, "%s", (const char *)why.data);
    gnutls_free(why.data);
    for (size_t end = strlen(fault); end > 0 && (fault[end - 1] == ' ' || fault[end - 1] == '.'); end--)
        fault[end - 1] = '\0';
}

int tls_handshake(gnutls_session_t session, char *fault, size_t bytes)
{
    int code = gnutls_handshake(session);

    fault[0] = '\0';
    if (code < 0 && gnutls_error_is_fatal(code) != 0)
        write_fault(session, code, fault, bytes);
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

void tls_finish(gnutls_session_t session)
{
    if (session != NULL)
        (void)gnutls_bye(session, GNUTLS_SHUT_WR);
}

void tls_close(gnutls_session_t session)
{
    if (session == NULL)
        return;
    (void)gnutls_bye(session, GNUTLS_SHUT_WR);
    gnutls_deinit(session);
}
