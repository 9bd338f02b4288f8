/* Writes each JSON line with one write() call, so that lines of several threads do not mix. */
#include "serve/exchange/access_log.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "serve/network/connection.h"
#include <string.h>
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

static void add_client(struct strbuf *to, const struct sockaddr *client)
{
    char host[64];

    connection_client_text(client, host, sizeof host);
    if (host[0] != '\0')
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
static void add_trace(struct strbuf *to, const struct request *request)
{
    const char *traceparent = request->traceparent, *id = request->request_id;

    if (traceparent != NULL && is_traceparent(traceparent)) {
        strbuf_text(to, ",\"traceparent\":");
        strbuf_json(to, traceparent, strnlen(traceparent, 128));
    }
    if (id != NULL && id[0] != '\0') {
        strbuf_text(to, ",\"x-request-id\":");
        strbuf_json(to, id, strnlen(id, 128));
    }
}

static unsigned long long us(uint64_t ns)
{
    return (unsigned long long)(ns / 1000);
}

/* A full disk is not a reason to stop serving. It may cut a line: the next one then begins on a new line. */
static void write_line(struct server *server, const struct strbuf *line)
{
    bool was_cut = atomic_exchange_explicit(&server->access_log_cut, false, memory_order_relaxed);
    size_t skipped = was_cut ? 0 : 1, bytes = line->size - skipped;
    ssize_t written = line->failed ? -1 : write(server->access_log, line->data + skipped, bytes);

    if (!line->failed && written == (ssize_t)bytes)
        return;
    if (was_cut ? written != 1 : written > 0)
        atomic_store_explicit(&server->access_log_cut, true, memory_order_relaxed);
    if (line->failed || written < (ssize_t)bytes - 1) /* more than the end of the line is missing */
        (void)atomic_fetch_add_explicit(&server->counts->lost_records, 1, memory_order_relaxed);
}

void access_log_write(const struct request *request, const access_entry *entry)
{
    const struct model *model = request->job.model;
    struct strbuf line = { .data = NULL };

    if (request->server->access_log < 0)
        return;
    strbuf_text(&line, "\n"); /* of write_line() */
    add_time(&line);
    add_client(&line, &request->client.address.any);
    strbuf_text(&line, ",\"method\":");
    strbuf_json(&line, entry->method, strlen(entry->method));
    strbuf_text(&line, ",\"path\":");
    strbuf_json(&line, entry->path, strlen(entry->path));
    strbuf_format(&line, ",\"status\":%d", entry->status);
    if (entry->grpc_status >= 0)
        strbuf_format(&line, ",\"grpc_status\":%d", entry->grpc_status);
    strbuf_format(&line, ",\"bytes_in\":%zu,\"bytes_out\":%zu,\"us\":%llu", entry->bytes_in, entry->bytes_out,
                  us(clock_ns() - request->arrived_ns));
    if (request->received_ns > 0)
        strbuf_format(&line, ",\"receive_us\":%llu", us(request->received_ns - request->arrived_ns));
    if (model != NULL)
        strbuf_format(&line, ",\"model\":\"%s\",\"version\":\"%s\"", model->name, model->version);
    if (request->run_rows > 0)
        strbuf_format(&line, ",\"queue_us\":%llu,\"compute_us\":%llu,\"batch\":%llu", us(request->queue_ns),
                      us(request->compute_ns), (unsigned long long)request->run_rows);
    add_trace(&line, request);
    strbuf_text(&line, "}\n");
    write_line(request->server, &line);
    strbuf_deinit(&line);
}
