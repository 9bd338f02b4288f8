/* The status line and the header of a reply over HTTP/1.1. */
#include "serve/protocol/http1_reply.h"
#include <time.h>

static const char *reason_of(int code)
{
    static const struct {
        int code;
        const char *reason;
    } reasons[] = { { 200, "OK" },
                    { 400, "Bad Request" },
                    { 401, "Unauthorized" },
                    { 403, "Forbidden" },
                    { 404, "Not Found" },
                    { 405, "Method Not Allowed" },
                    { 413, "Content Too Large" },
                    { 414, "URI Too Long" },
                    { 415, "Unsupported Media Type" },
                    { 417, "Expectation Failed" },
                    { 429, "Too Many Requests" },
                    { 431, "Request Header Fields Too Large" },
                    { 500, "Internal Server Error" },
                    { 501, "Not Implemented" },
                    { 503, "Service Unavailable" },
                    { 504, "Gateway Timeout" },
                    { 505, "HTTP Version Not Supported" } };

    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].code == code)
            return reasons[i].reason;
    return "";
}

/* Adds "Date: ...", which is formatted once a second. */
static void add_date(struct strbuf *to)
{
    static _Thread_local char line[64];
    static _Thread_local time_t formatted;
    time_t now = time(NULL);

    if (now != formatted) {
        struct tm parts;

        (void)gmtime_r(&now, &parts);
        (void)strftime(line, sizeof line, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &parts);
        formatted = now;
    }
    strbuf_text(to, line);
}

static void add_field(struct strbuf *to, const char *name, const char *value)
{
    strbuf_text(to, name);
    strbuf_text(to, ": ");
    strbuf_text(to, value);
    strbuf_text(to, "\r\n");
}

void http1_write_head(struct strbuf *to, const exchange_reply *reply, bool is_1_0, bool keep_alive)
{
    strbuf_text(to, "HTTP/1.1 ");
    strbuf_int(to, reply->code);
    strbuf_text(to, " ");
    strbuf_text(to, reason_of(reply->code));
    strbuf_text(to, "\r\n");
    add_date(to);
    for (uint32_t i = 0; i < reply->field_count; i++)
        add_field(to, reply->fields[i].name, reply->fields[i].value);
    if (!reply->streams) {
        strbuf_text(to, "Content-Length: ");
        strbuf_uint(to, reply->body_bytes);
        strbuf_text(to, "\r\n");
    } else if (!is_1_0) {
        add_field(to, "Transfer-Encoding", "chunked");
    }
    if (!keep_alive)
        add_field(to, "Connection", "close");
    else if (is_1_0)
        add_field(to, "Connection", "keep-alive");
    strbuf_text(to, "\r\n");
}
