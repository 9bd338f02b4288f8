#include "serve/schedule/collector.h"
#include "base/clock.h"
#include "base/memory.h"
#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TIMEOUT_MS = 1000 }; /* of each operation on the connection */

struct collector {
    char host[256], port[8], path[256], url[600];
    gnutls_certificate_credentials_t authorities; /* NULL: no TLS */
};

typedef struct collector_link {
    int fd;
    gnutls_session_t tls; /* NULL: none */
} collector_link;

/* Splits http[s]://HOST[:PORT][/PATH]. */
static bool read_endpoint(struct collector *collector, const char *endpoint, bool *out_tls)
{
    const char *host, *path, *end, *port;
    bool is_ip6;

    *out_tls = strncmp(endpoint, "https://", 8) == 0;
    if (!*out_tls && strncmp(endpoint, "http://", 7) != 0)
        return false;
    host = endpoint + (*out_tls ? 8 : 7);
    is_ip6 = host[0] == '[';
    path = host + strcspn(host, "/");
    host += is_ip6;
    end = is_ip6 ? strchr(host, ']') : host + strcspn(host, ":/");
    if (end == NULL || end == host || end >= path + (*path == '\0') || (size_t)(end - host) >= sizeof collector->host)
        return false;
    port = end + is_ip6;
    if (port < path && (*port != ':' || (size_t)(path - port) > sizeof collector->port ||
                        strspn(port + 1, "0123456789") != (size_t)(path - port) - 1 || path - port < 2))
        return false;
    if (strlen(path) >= sizeof collector->path || strpbrk(path, " \r\n\t?#") != NULL)
        return false;
    (void)snprintf(collector->host, sizeof collector->host, "%.*s", (int)(end - host), host);
    if (port < path)
        (void)snprintf(collector->port, sizeof collector->port, "%.*s", (int)(path - port - 1), port + 1);
    else
        (void)snprintf(collector->port, sizeof collector->port, "4318");
    (void)snprintf(collector->path, sizeof collector->path, "%s",
                   path[0] != '\0' && path[1] != '\0' ? path : "/v1/traces");
    (void)snprintf(collector->url, sizeof collector->url, "http%s://%s%s%s:%s%s", *out_tls ? "s" : "",
                   is_ip6 ? "[" : "", collector->host, is_ip6 ? "]" : "", collector->port, collector->path);
    return true;
}

static inlay_status read_authorities(struct collector *collector, const char *ca, inlay_diag *diag)
{
    int count;

    if (gnutls_certificate_allocate_credentials(&collector->authorities) != GNUTLS_E_SUCCESS)
        return no_memory(diag, "for TLS");
    count = ca[0] != '\0' ? gnutls_certificate_set_x509_trust_file(collector->authorities, ca, GNUTLS_X509_FMT_PEM)
                          : gnutls_certificate_set_x509_system_trust(collector->authorities);
    if (count > 0)
        return INLAY_OK;
    if (ca[0] == '\0')
        return inlay_fail(diag, INLAY_NOT_FOUND,
                          "trace_endpoint: the system has no certificates of authorities; install ca-certificates, or "
                          "set trace_ca");
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "trace_ca: %s: %s", ca,
                      count < 0 ? gnutls_strerror(count) : "it has no certificate in PEM");
}

inlay_status collector_create(const char *endpoint, const char *ca, struct collector **out_collector, inlay_diag *diag)
{
    struct collector *collector = calloc(1, sizeof *collector);
    inlay_status status = INLAY_OK;
    bool tls = false;

    *out_collector = NULL;
    if (collector == NULL)
        return no_memory(diag, "for spans");
    if (!read_endpoint(collector, endpoint, &tls))
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "trace_endpoint: '%s' is not http[s]://HOST[:PORT][/PATH]",
                            endpoint);
    else if (!tls && ca[0] != '\0')
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                            "trace_ca needs TLS: begin trace_endpoint with https://, or remove trace_ca");
    else if (tls)
        status = read_authorities(collector, ca, diag);
    if (status != INLAY_OK) {
        collector_destroy(collector);
        return status;
    }
    *out_collector = collector;
    return INLAY_OK;
}

void collector_destroy(struct collector *collector)
{
    if (collector != NULL && collector->authorities != NULL)
        gnutls_certificate_free_credentials(collector->authorities);
    free(collector);
}

const char *collector_url(const struct collector *collector)
{
    return collector->url;
}

static int open_socket(const struct collector *collector, char why[COLLECTOR_WHY_BYTES])
{
    const struct addrinfo wanted = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    const struct timeval timeout = { TIMEOUT_MS / 1000, TIMEOUT_MS % 1000 * 1000 };
    struct addrinfo *found = NULL;
    int fd = -1, code = getaddrinfo(collector->host, collector->port, &wanted, &found);

    if (code != 0) {
        (void)snprintf(why, COLLECTOR_WHY_BYTES, "%s: %s", collector->host, gai_strerror(code));
        return -1;
    }
    for (const struct addrinfo *at = found; fd < 0 && at != NULL; at = at->ai_next) {
        fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
        if (fd < 0)
            continue;
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout); /* of connect(), too */
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
        if (connect(fd, at->ai_addr, at->ai_addrlen) != 0) {
            (void)snprintf(why, COLLECTOR_WHY_BYTES, "it cannot be connected to: %s",
                           errno == EINPROGRESS ? "no answer" : strerror(errno));
            (void)close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    return fd;
}

/* Why the handshake has failed. */
static void explain(gnutls_session_t tls, int code, char why[COLLECTOR_WHY_BYTES])
{
    gnutls_datum_t text = { .data = NULL };

    if (code == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR &&
        gnutls_certificate_verification_status_print(gnutls_session_get_verify_cert_status(tls), GNUTLS_CRT_X509, &text,
                                                     0) == GNUTLS_E_SUCCESS)
        (void)snprintf(why, COLLECTOR_WHY_BYTES, "its certificate is refused: %.*s (trace_ca sets the authorities)",
                       (int)text.size - (text.size > 0 && text.data[text.size - 1] == ' '), (const char *)text.data);
    else
        (void)snprintf(why, COLLECTOR_WHY_BYTES, "no TLS with it: %s", gnutls_strerror(code));
    gnutls_free(text.data);
}

/* Begins TLS, for whose certificate the name of the URL counts. */
static bool begin_tls(const struct collector *collector, collector_link *link, char why[COLLECTOR_WHY_BYTES])
{
    struct in6_addr address;
    const bool is_address =
        inet_pton(AF_INET, collector->host, &address) == 1 || inet_pton(AF_INET6, collector->host, &address) == 1;
    int code = gnutls_init(&link->tls, GNUTLS_CLIENT);

    if (code == GNUTLS_E_SUCCESS)
        code = gnutls_set_default_priority_append(link->tls, "-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2", NULL, 0);
    if (code == GNUTLS_E_SUCCESS)
        code = gnutls_credentials_set(link->tls, GNUTLS_CRD_CERTIFICATE, collector->authorities);
    if (code == GNUTLS_E_SUCCESS && !is_address)
        code = gnutls_server_name_set(link->tls, GNUTLS_NAME_DNS, collector->host, strlen(collector->host));
    if (code == GNUTLS_E_SUCCESS) {
        gnutls_session_set_verify_cert(link->tls, collector->host, 0);
        gnutls_transport_set_int(link->tls, link->fd);
        gnutls_handshake_set_timeout(link->tls, TIMEOUT_MS);
        do
            code = gnutls_handshake(link->tls);
        while (code < 0 && code != GNUTLS_E_AGAIN && !gnutls_error_is_fatal(code));
    }
    if (code != GNUTLS_E_SUCCESS)
        explain(link->tls, code, why);
    return code == GNUTLS_E_SUCCESS;
}

static bool send_all(const collector_link *link, const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t sent =
            link->tls != NULL ? gnutls_record_send(link->tls, data, bytes) : send(link->fd, data, bytes, MSG_NOSIGNAL);

        if (sent == GNUTLS_E_INTERRUPTED && link->tls != NULL)
            continue;
        if (sent <= 0)
            return false;
        data += sent;
        bytes -= (size_t)sent;
    }
    return true;
}

static ssize_t receive(const collector_link *link, char *to, size_t bytes)
{
    const uint64_t until = clock_ns() + (uint64_t)TIMEOUT_MS * 1000000;
    ssize_t got;

    if (link->tls == NULL)
        return recv(link->fd, to, bytes, 0);
    do /* GNUTLS_E_AGAIN is also returned for a ticket of TLS 1.3, which comes before the reply */
        got = gnutls_record_recv(link->tls, to, bytes);
    while (got == GNUTLS_E_INTERRUPTED || (got == GNUTLS_E_AGAIN && clock_ns() < until));
    return got;
}

/* Whether the reply's code is 2xx. */
static bool is_taken(const collector_link *link, char why[COLLECTOR_WHY_BYTES])
{
    char reply[64];
    size_t used = 0;

    while (used < 12) {
        ssize_t got = receive(link, reply + used, sizeof reply - used);

        if (got <= 0) {
            (void)snprintf(why, COLLECTOR_WHY_BYTES, "it does not answer");
            return false;
        }
        used += (size_t)got;
    }
    if (strncmp(reply, "HTTP/1.", 7) == 0 && reply[9] == '2')
        return true;
    (void)snprintf(why, COLLECTOR_WHY_BYTES, "its answer is '%.12s'", reply);
    return false;
}

bool collector_post(const struct collector *collector, const struct strbuf *message, char why[COLLECTOR_WHY_BYTES])
{
    struct strbuf head = { .data = NULL };
    collector_link link = { -1, NULL };
    bool is_ip6 = strchr(collector->host, ':') != NULL, taken = false;

    strbuf_format(&head,
                  "POST %s HTTP/1.1\r\nHost: %s%s%s:%s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                  "User-Agent: inlay-serve\r\nConnection: close\r\n\r\n",
                  collector->path, is_ip6 ? "[" : "", collector->host, is_ip6 ? "]" : "", collector->port,
                  message->size);
    (void)snprintf(why, COLLECTOR_WHY_BYTES, "memory is exhausted");
    if (!head.failed && !message->failed)
        link.fd = open_socket(collector, why);
    if (link.fd >= 0 && (collector->authorities == NULL || begin_tls(collector, &link, why))) {
        (void)snprintf(why, COLLECTOR_WHY_BYTES, "it does not take the message");
        taken = send_all(&link, head.data, head.size) && send_all(&link, message->data, message->size) &&
                is_taken(&link, why);
    }
    if (link.tls != NULL)
        gnutls_deinit(link.tls);
    if (link.fd >= 0)
        (void)close(link.fd);
    strbuf_deinit(&head);
    return taken;
}
