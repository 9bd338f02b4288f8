/* Writes each JSON line with one write() call, so that lines of several threads do not mix. */
#include "serve/exchange/access_log.h"
#include "base/clock.h"
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void add_time(struct strbuf *to)
{
    struct timespec now;
    struct tm parts;
    char text[32];

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &parts);
    (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    strbuf_format(to, "{\"time\":\"%s.%03ldZ\"", text, now.tv_nsec / 1000000);
}

static void add_client(struct strbuf *to, const struct exchange *exchange)
{
    const struct sockaddr *client = &exchange->client.any;
    char host[64];

    if (getnameinfo(client, client->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in),
                    host, sizeof host, NULL, 0, NI_NUMERICHOST) == 0)
        strbuf_format(to, ",\"client\":\"%s\"", host);
}

/* "00-<32 hex>-<16 hex>-<2 hex>" (W3C Trace Context); the trace id and the parent id are not all zeros. Later versions
 * may append fields. */
static bool is_traceparent(const char *text)
{
    static const char form[] = "xx-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";
    size_t bytes = strnlen(text, 512);

    if (bytes < sizeof form - 1 || strncmp(text, "ff", 2) == 0)
        return false;
    for (size_t i = 0; i < sizeof form - 1; i++)
        if (form[i] == '-' ? text[i] != '-' : strchr("0123456789abcdef", text[i]) == NULL)
            return false;
    if (bytes > sizeof form - 1 && (strncmp(text, "00", 2) == 0 || text[sizeof form - 1] != '-'))
        return false;
    return strspn(text + 3, "0") < 32 && strspn(text + 36, "0") < 16;
}

/* The headers that correlate a request across several servers. */
static void add_trace(struct strbuf *to, const struct exchange *exchange)
{
    static const char *const names[] = { "traceparent", "x-request-id" };
    static const exchange_field fields[] = { FIELD_TRACEPARENT, FIELD_REQUEST_ID };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = exchange_field_get(exchange, fields[i]);

        if (text == NULL || (i == 0 && !is_traceparent(text)))
            continue;
        strbuf_format(to, ",\"%s\":", names[i]);
        strbuf_json(to, text, strnlen(text, 128));
    }
}

void access_log_write(const struct exchange *exchange)
{
    struct strbuf line = { .data = NULL };

    if (exchange->server->access_log < 0)
        return;
    add_time(&line);
    add_client(&line, exchange);
    strbuf_text(&line, ",\"method\":");
    strbuf_json(&line, exchange->method, strlen(exchange->method));
    strbuf_text(&line, ",\"path\":");
    strbuf_json(&line, exchange->path, strlen(exchange->path));
    strbuf_format(&line, ",\"status\":%d,\"bytes_in\":%zu,\"bytes_out\":%zu,\"us\":%llu", exchange->code,
                  exchange->body_bytes, exchange->reply.size,
                  (unsigned long long)((clock_ns() - exchange->arrived_ns) / 1000));
    if (exchange->job.model != NULL)
        strbuf_format(&line, ",\"model\":\"%s\",\"version\":\"%s\"", exchange->job.model->name,
                      exchange->job.model->version);
    if (exchange->run_rows > 0)
        strbuf_format(&line, ",\"queue_us\":%llu,\"compute_us\":%llu,\"batch\":%llu",
                      (unsigned long long)(exchange->queue_ns / 1000),
                      (unsigned long long)(exchange->compute_ns / 1000), (unsigned long long)exchange->run_rows);
    add_trace(&line, exchange);
    strbuf_text(&line, "}\n");
    if (!line.failed && write(exchange->server->access_log, line.data, line.size) < 0) {
        /* A full disk is no reason to stop serving. */
    }
    strbuf_deinit(&line);
}
