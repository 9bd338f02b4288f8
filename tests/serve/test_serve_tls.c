/* TLS: versions, certificates of clients, and new certificates on SIGHUP. */
#include "grpc_client.h"
#include "inference.pb-c.h"
#include <gnutls/x509.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "cmocka_all.h"

/* A certificate with its key as files in the folder; issuer NULL: self-signed. */
struct identity {
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t certificate;
};

static void save(const struct serving *serving, const char *name, gnutls_datum_t *pem)
{
    char *text = strndup((const char *)pem->data, pem->size);

    assert_non_null(text);
    serving_file(serving, name, text, 0600);
    free(text);
    gnutls_free(pem->data);
}

static struct identity make_identity_of(const struct serving *serving, const char *name, const struct identity *issuer,
                                        gnutls_pk_algorithm_t kind, unsigned bits)
{
    const unsigned char serial[] = { 1, (unsigned char)name[0] };
    char file[64];
    struct identity identity;
    gnutls_datum_t pem;

    assert_int_equal(gnutls_x509_privkey_init(&identity.key), 0);
    assert_int_equal(gnutls_x509_privkey_generate(identity.key, kind, bits, 0), 0);
    assert_int_equal(gnutls_x509_crt_init(&identity.certificate), 0);
    assert_int_equal(gnutls_x509_crt_set_version(identity.certificate, 3), 0);
    assert_int_equal(gnutls_x509_crt_set_serial(identity.certificate, serial, sizeof serial), 0);
    assert_int_equal(gnutls_x509_crt_set_activation_time(identity.certificate, time(NULL) - 3600), 0);
    assert_int_equal(gnutls_x509_crt_set_expiration_time(identity.certificate, time(NULL) + 3600), 0);
    assert_int_equal(gnutls_x509_crt_set_dn(identity.certificate, issuer == NULL ? "CN=issuer" : "CN=localhost", NULL),
                     0);
    assert_int_equal(gnutls_x509_crt_set_key(identity.certificate, identity.key), 0);
    assert_int_equal(gnutls_x509_crt_set_basic_constraints(identity.certificate, issuer == NULL, -1), 0);
    assert_int_equal(gnutls_x509_crt_sign2(identity.certificate,
                                           issuer != NULL ? issuer->certificate : identity.certificate,
                                           issuer != NULL ? issuer->key : identity.key, GNUTLS_DIG_SHA256, 0),
                     0);
    assert_int_equal(gnutls_x509_crt_export2(identity.certificate, GNUTLS_X509_FMT_PEM, &pem), 0);
    (void)snprintf(file, sizeof file, "%s.pem", name);
    save(serving, file, &pem);
    assert_int_equal(gnutls_x509_privkey_export2(identity.key, GNUTLS_X509_FMT_PEM, &pem), 0);
    (void)snprintf(file, sizeof file, "%s.key", name);
    save(serving, file, &pem);
    return identity;
}

static struct identity make_identity(const struct serving *serving, const char *name, const struct identity *issuer)
{
    return make_identity_of(serving, name, issuer, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1));
}

static void free_identity(struct identity *identity)
{
    gnutls_x509_crt_deinit(identity->certificate);
    gnutls_x509_privkey_deinit(identity->key);
}

static gnutls_certificate_credentials_t credentials_of(struct identity *identity)
{
    gnutls_certificate_credentials_t credentials_t;

    assert_int_equal(gnutls_certificate_allocate_credentials(&credentials_t), 0);
    if (identity != NULL)
        assert_int_equal(gnutls_certificate_set_x509_key(credentials_t, &identity->certificate, 1, identity->key), 0);
    return credentials_t;
}

/* Is a call over a connection with these credentials answered? */
static bool is_answered(int port, struct identity *who)
{
    static grpc_call call;
    gnutls_certificate_credentials_t credentials = credentials_of(who);
    Inference__Empty empty = INFERENCE__EMPTY__INIT;
    grpc_client client;
    bool answered = false;

    if (grpc_open_tls(&client, port, credentials)) {
        call = (grpc_call){ .path = SERVICE "ServerReady" };
        grpc_add(&call, &empty.base);
        grpc_submit(&client, &call);
        grpc_wait(&client, &call);
        answered = call.status == 0;
        grpc_close(&client);
    }
    gnutls_certificate_free_credentials(credentials);
    return answered;
}

/* Returns the status code over HTTPS; 0: no answer. */
static int https_code(int port, struct identity *who, const char *path)
{
    gnutls_certificate_credentials_t credentials = credentials_of(who);
    gnutls_session_t session;
    char text[512];
    ssize_t n = -1;
    int fd = grpc_connect(port);

    assert_int_equal(gnutls_init(&session, GNUTLS_CLIENT), 0);
    assert_int_equal(gnutls_set_default_priority(session), 0);
    assert_int_equal(gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials), 0);
    gnutls_transport_set_int(session, fd);
    if (gnutls_handshake(session) == 0) {
        (void)snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
        assert_true(gnutls_record_send(session, text, strlen(text)) > 0);
        n = gnutls_record_recv(session, text, sizeof text - 1);
    }
    text[n > 0 ? n : 0] = '\0';
    gnutls_deinit(session);
    gnutls_certificate_free_credentials(credentials);
    (void)close(fd);
    return n > 9 ? (int)strtol(text + 9, NULL, 10) : 0;
}

/* Does the server accept a client with these priorities? */
static bool accepts(int port, const char *priority)
{
    const gnutls_datum_t protocol = { (unsigned char *)(uintptr_t) "h2", 2 };
    gnutls_certificate_credentials_t credentials = credentials_of(NULL);
    gnutls_session_t session;
    int fd = grpc_connect(port);
    bool accepted;

    assert_int_equal(gnutls_init(&session, GNUTLS_CLIENT), 0);
    assert_int_equal(gnutls_priority_set_direct(session, priority, NULL), 0);
    assert_int_equal(gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials), 0);
    assert_int_equal(gnutls_alpn_set_protocols(session, &protocol, 1, 0), 0);
    gnutls_transport_set_int(session, fd);
    accepted = gnutls_handshake(session) == 0;
    gnutls_deinit(session);
    gnutls_certificate_free_credentials(credentials);
    (void)close(fd);
    return accepted;
}

/* Does the server accept a client that knows only this version of TLS? */
static bool accepts_version(int port, const char *version)
{
    char priority[64];

    (void)snprintf(priority, sizeof priority, "NORMAL:-VERS-ALL:+VERS-TLS%s", version);
    return accepts(port, priority);
}

static struct serving over_tls;
static bool secured;

/* Also runs after a failed test. */
static int end_tls(void **state)
{
    (void)state;
    if (secured)
        serving_remove(&over_tls);
    return 0;
}

/* Waits until two workers listen on this port. */
static void wait_for_two(const struct serving *serving, int port)
{
    char part[64], text[8192];
    const char *first = NULL;

    (void)snprintf(part, sizeof part, "listening on grpcs://127.0.0.1:%d\n", port);
    for (uint32_t i = 0; first == NULL || strstr(first + 1, part) == NULL; i++) {
        serving_await(serving, part, text, sizeof text);
        first = strstr(text, part);
        if (i == 12000)
            fail_msg("not twice '%s': %s", part, text);
        client_wait_ms(5);
    }
}

static int count_of(const char *text, const char *part)
{
    int count = 0;

    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

static void test_tls(void **state)
{
    static const char *const flags[] = { "--grpc-port",          "0",         "--tls-cert",
                                         "FOLDER/server.pem",    "--tls-key", "FOLDER/server.key",
                                         "--receive-timeout-ms", "2000",      NULL };
    static const char *const workers[] = { "--grpc-port",       "0",         "--tls-cert",
                                           "FOLDER/server.pem", "--tls-key", "FOLDER/server.key",
                                           "--workers",         "2",         NULL };
    static const char *const mutual[] = { "--grpc-port",
                                          "0",
                                          "--tls-cert",
                                          "FOLDER/server.pem",
                                          "--tls-key",
                                          "FOLDER/server.key",
                                          "--tls-client-ca",
                                          "FOLDER/issuer.pem",
                                          "--tls-min-version",
                                          "1.3",
                                          NULL };
    struct identity issuer, of_server, client, stranger;
    char byte, log[16384];
    int port, fd;
    time_t began;

    (void)state;
    serving_prepare(&over_tls);
    secured = true;
    issuer = make_identity(&over_tls, "issuer", NULL);
    of_server = make_identity(&over_tls, "server", &issuer);
    client = make_identity(&over_tls, "client", &issuer);
    stranger = make_identity(&over_tls, "stranger", NULL);

    serving_start(&over_tls, flags);
    port = grpc_port_of(&over_tls);
    assert_true(is_answered(port, NULL));
    assert_int_equal(https_code(over_tls.port, NULL, "/v2/models/twice"), 200);
    for (int i = 0; i < 2; i++) { /* RFC 8996: no TLS before 1.2 */
        assert_false(accepts_version(i == 0 ? port : over_tls.port, "1.0"));
        assert_false(accepts_version(i == 0 ? port : over_tls.port, "1.1"));
        assert_true(accepts_version(i == 0 ? port : over_tls.port, "1.2"));
        assert_true(accepts_version(i == 0 ? port : over_tls.port, "1.3"));
    }
    fd = grpc_connect(port); /* no TLS: the connection ends */
    client_text(fd, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    while (read(fd, &byte, 1) > 0)
        ;
    (void)close(fd);
    fd = grpc_connect(port); /* other bytes: it ends after its time limit */
    while (read(fd, &byte, 1) > 0)
        ;
    (void)close(fd);
    assert_true(is_answered(port, NULL));
    assert_int_equal(serving_end(&over_tls, SIGTERM), 0);

    serving_start(&over_tls, mutual);
    port = grpc_port_of(&over_tls);
    assert_true(is_answered(port, &client));
    assert_false(accepts_version(over_tls.port, "1.2"));
    assert_true(accepts_version(over_tls.port, "1.3"));
    assert_false(is_answered(port, &stranger));
    serving_await(&over_tls, "refused a connection of 127.0.0.1 to gRPC: The certificate is NOT trusted", log,
                  sizeof log);
    assert_non_null(strstr(strstr(log, "NOT trusted"), " (tls_client_ca)\n"));
    began = time(NULL);
    do { /* at most one line a second */
        assert_false(is_answered(port, NULL));
        serving_await(&over_tls, "refused a connection", log, sizeof log);
    } while (strstr(log, "to gRPC: it has shown no certificate (tls_client_ca)\n") == NULL);
    assert_true(count_of(log, "refused a connection") <= time(NULL) - began + 2);
    assert_int_equal(https_code(over_tls.port, &client, "/v2/models/twice"), 200);
    assert_int_equal(https_code(over_tls.port, &stranger, "/v2/models/twice"), 403);
    assert_int_equal(https_code(over_tls.port, NULL, "/v2/models/twice"), 403);
    assert_int_equal(https_code(over_tls.port, NULL, "/v2/health/ready"), 200);
    assert_int_equal(serving_end(&over_tls, SIGTERM), 0);

    /* Workers share both ports. */
    serving_start(&over_tls, workers);
    port = grpc_port_of(&over_tls);
    wait_for_two(&over_tls, port);
    for (uint32_t i = 0; i < 6; i++) {
        assert_true(is_answered(port, NULL));
        assert_int_equal(https_code(over_tls.port, NULL, "/v2/models/twice"), 200);
    }
    assert_int_equal(serving_end(&over_tls, SIGTERM), 0);

    free_identity(&issuer);
    free_identity(&of_server);
    free_identity(&client);
    free_identity(&stranger);
}

static bool is_common(gnutls_cipher_algorithm_t cipher)
{
    return cipher == GNUTLS_CIPHER_AES_128_GCM || cipher == GNUTLS_CIPHER_AES_256_GCM ||
           cipher == GNUTLS_CIPHER_CHACHA20_POLY1305;
}

/* Every cipher suite of TLS 1.2 that GnuTLS knows, one at a time, for keys of both kinds: those with forward secrecy
 * and authenticated encryption are accepted, all others are refused. */
static void test_cipher_suites(void **state)
{
    static const char *const flags[] = { "--tls-cert", "FOLDER/server.pem", "--tls-key", "FOLDER/server.key", NULL };

    (void)state;
    serving_prepare(&over_tls);
    secured = true;
    for (int rsa = 0; rsa < 2; rsa++) {
        struct identity identity = make_identity_of(&over_tls, "server", NULL, rsa ? GNUTLS_PK_RSA : GNUTLS_PK_ECDSA,
                                                    rsa ? 2048 : GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1));
        uint32_t accepted = 0, refused = 0;
        gnutls_kx_algorithm_t kx;
        gnutls_cipher_algorithm_t cipher;
        gnutls_mac_algorithm_t mac;
        gnutls_protocol_t version;
        unsigned char id[2];

        serving_start(&over_tls, flags);
        for (size_t i = 0; gnutls_cipher_suite_info(i, id, &kx, &cipher, &mac, &version) != NULL; i++) {
            bool is_usual = kx == (rsa ? GNUTLS_KX_ECDHE_RSA : GNUTLS_KX_ECDHE_ECDSA) && is_common(cipher),
                 is_allowed =
                     (kx == GNUTLS_KX_ECDHE_RSA || kx == GNUTLS_KX_ECDHE_ECDSA || kx == GNUTLS_KX_DHE_RSA) &&
                     (is_common(cipher) || cipher == GNUTLS_CIPHER_AES_128_CCM || cipher == GNUTLS_CIPHER_AES_256_CCM),
                 is_accepted;
            char priority[256];

            if (kx == 0 || version > GNUTLS_TLS1_2) /* of TLS 1.3, or of DTLS */
                continue;
            (void)snprintf(priority, sizeof priority,
                           "NONE:+VERS-TLS1.2:+COMP-NULL:+SIGN-ALL:+GROUP-ALL:+CTYPE-X509:+%s:+%s:+%s",
                           gnutls_kx_get_name(kx), gnutls_cipher_get_name(cipher), gnutls_mac_get_name(mac));
            is_accepted = accepts(over_tls.port, priority);
            if (is_accepted ? !is_allowed : is_usual)
                fail_msg("%s: %s", priority, is_accepted ? "accepted" : "refused");
            accepted += is_accepted;
            refused += !is_accepted;
        }
        assert_in_range(accepted, 3, 10);
        assert_true(refused > 50);
        assert_int_equal(serving_end(&over_tls, SIGTERM), 0);
        free_identity(&identity);
    }
}

/* The certificate of the server on this connection. */
static bool has_certificate(const grpc_client *client, const struct identity *identity)
{
    unsigned count = 0;
    const gnutls_datum_t *got = gnutls_certificate_get_peers(client->tls, &count);
    gnutls_datum_t wanted;
    bool same;

    assert_true(got != NULL && count > 0);
    assert_int_equal(gnutls_x509_crt_export2(identity->certificate, GNUTLS_X509_FMT_DER, &wanted), 0);
    same = got->size == wanted.size && memcmp(got->data, wanted.data, wanted.size) == 0;
    gnutls_free(wanted.data);
    return same;
}

static bool calls(grpc_client *client)
{
    static grpc_call call;
    Inference__Empty empty = INFERENCE__EMPTY__INIT;

    call = (grpc_call){ .path = SERVICE "ServerReady" };
    grpc_add(&call, &empty.base);
    grpc_submit(client, &call);
    grpc_wait(client, &call);
    return call.status == 0;
}

/* SIGHUP: new connections get the new certificate, and the open one is still answered. A key that does not belong to
 * the certificate changes nothing. Also with workers, whose supervisor passes the signal on. */
static void test_new_certificates(void **state)
{
    static const char *const flags[] = { "--grpc-port",       "0",         "--tls-cert",
                                         "FOLDER/server.pem", "--tls-key", "FOLDER/server.key",
                                         "--workers",         "1",         NULL };

    (void)state;
    serving_prepare(&over_tls);
    secured = true;
    for (int k = 0; k < 2; k++) {
        struct identity issuer = make_identity(&over_tls, "issuer", NULL);
        struct identity first = make_identity(&over_tls, "server", &issuer), second;
        gnutls_certificate_credentials_t credentials = credentials_of(NULL);
        const char *used[9] = { NULL };
        grpc_client old, new;
        char text[8192];
        int port;

        memcpy(used, flags, (k == 0 ? 6 : 8) * sizeof flags[0]);
        serving_start(&over_tls, used);
        port = grpc_port_of(&over_tls);
        assert_true(grpc_open_tls(&old, port, credentials));
        assert_true(has_certificate(&old, &first) && calls(&old));
        serving_file(&over_tls, "server.key", "rubbish\n", 0600);
        assert_int_equal(kill(over_tls.pid, SIGHUP), 0);
        serving_await(&over_tls, "reloaded in part\n", text, sizeof text);
        assert_true(grpc_open_tls(&new, port, credentials));
        assert_true(has_certificate(&new, &first) && calls(&new));
        grpc_close(&new);
        second = make_identity(&over_tls, "server", &issuer);
        assert_int_equal(kill(over_tls.pid, SIGHUP), 0);
        serving_await(&over_tls, "reloaded\n", text, sizeof text);
        assert_true(grpc_open_tls(&new, port, credentials));
        assert_true(has_certificate(&new, &second) && calls(&new) && calls(&old));
        grpc_close(&new);
        grpc_close(&old);
        gnutls_certificate_free_credentials(credentials);
        assert_int_equal(serving_end(&over_tls, SIGTERM), 0);
        free_identity(&issuer);
        free_identity(&first);
        free_identity(&second);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_tls, end_tls),
        cmocka_unit_test_teardown(test_cipher_suites, end_tls),
        cmocka_unit_test_teardown(test_new_certificates, end_tls),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
