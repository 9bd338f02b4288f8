/* GET and POST of /v2/trace/setting, /v2/models/NAME/trace/setting and /v2/logging: settings that can be changed while
 * the server runs. */
#include "serve/log.h"
#include "serve/server.h"
#include "serve/trace.h"
#include <string.h>

enum { MAX_VALUES = 8 };

static bool read_text(json_reader *r, const char **out)
{
    char *text = NULL;

    if (!reader_c_string(r, &text))
        return false;
    *out = text;
    return true;
}

/* A member's key: the colon behind it is read, so it can be ended with NUL. */
static bool end_key(json_reader *r, json_text key)
{
    if (memchr(key.data, '\0', key.bytes) != NULL)
        return reader_fail(r, "a key with NUL in it");
    key.data[key.bytes] = '\0';
    return true;
}

static void fail_json(struct exchange *x, const json_reader *r, const inlay_diag *diag)
{
    char text[256];

    (void)snprintf(text, sizeof text, "the request's JSON, byte %zu: %s", (size_t)(r->at - r->start),
                   r->error != NULL ? r->error : "expected an object");
    if (diag->code != INLAY_OK)
        exchange_fail_diag(x, diag);
    else
        exchange_fail(x, MHD_HTTP_BAD_REQUEST, text);
}

/* ------------------------------------------------------------------ trace */

/* A text, a number, an array of these, or null. Numbers are copied, for they have no end of their own. */
static bool read_values(json_reader *r, const char *values[MAX_VALUES], char numbers[MAX_VALUES][32], uint32_t *count)
{
    json_text text;
    bool list = reader_peek(r) == '[';

    *count = 0;
    if (reader_peek(r) == 'n')
        return reader_skip(r, &text);
    if (list && !reader_open(r, '['))
        return false;
    while (!list || reader_element(r)) {
        if (*count == MAX_VALUES)
            return reader_fail(r, "too many values");
        if (reader_peek(r) == '"') {
            if (!read_text(r, &values[*count]))
                return false;
        } else {
            if (!reader_number(r, &text))
                return false;
            (void)snprintf(numbers[*count], sizeof numbers[0], "%.*s", text.bytes < 31 ? (int)text.bytes : 31,
                           text.data);
            values[*count] = numbers[*count];
        }
        ++*count;
        if (!list)
            return true;
    }
    return r->error == NULL;
}

static bool change_trace(struct exchange *x, const char *name)
{
    json_reader r = reader_begin(x->body, x->body_bytes);
    trace_change change = { .given = { false } };
    inlay_diag diag = INLAY_DIAG_INIT;
    json_text key;

    if (reader_open(&r, '{')) {
        while (reader_member(&r, &key) && end_key(&r, key)) {
            const char *values[MAX_VALUES];
            char numbers[MAX_VALUES][32];
            uint32_t count;

            if (!read_values(&r, values, numbers, &count) ||
                trace_change_add(x->server->trace, &change, key.data, values, count, &diag) != INLAY_OK)
                break;
        }
    }
    if (diag.code == INLAY_OK && reader_end(&r) && trace_apply(x->server->trace, name, &change, &diag) == INLAY_OK)
        return true;
    fail_json(x, &r, &diag);
    return false;
}

void answer_trace(struct exchange *x)
{
    trace_setting now[TRACE_SETTINGS];
    const char *name = NULL;

    if (x->route.name != NULL) {
        x->job.model = repository_find(x->server->repository, x->route.name, x->route.name_bytes, 0);
        if (x->job.model == NULL) {
            exchange_fail(x, MHD_HTTP_NOT_FOUND, "no such model is loaded; POST v2/repository/index lists them");
            return;
        }
        name = x->job.model->name;
    }
    if (strcmp(x->method, "POST") == 0 && !change_trace(x, name))
        return;
    trace_read(x->server->trace, name, now);
    for (uint32_t i = 0; i < TRACE_SETTINGS; i++) {
        strbuf_format(&x->reply, "%s\"%s\":%s", i > 0 ? "," : "{", now[i].key, now[i].is_list ? "[" : "");
        strbuf_json(&x->reply, now[i].value, strlen(now[i].value));
        strbuf_text(&x->reply, now[i].is_list ? "]" : "");
    }
    strbuf_text(&x->reply, "}");
    x->code = MHD_HTTP_OK;
}

/* ------------------------------------------------------------------ log */

static bool read_log_value(json_reader *r, log_setting *out)
{
    char kind = reader_peek(r);
    json_text number;
    bool on = false;

    out->text = "";
    if (kind == '"') {
        out->kind = LOG_TEXT;
        return read_text(r, &out->text);
    }
    if (kind == 't' || kind == 'f') {
        out->kind = LOG_BOOL;
        if (!reader_bool(r, &on))
            return false;
        out->number = on;
        return true;
    }
    out->kind = LOG_NUMBER;
    return reader_number(r, &number) &&
           (text_to_uint64(number, &out->number) || reader_fail(r, "expected a whole number"));
}

static bool change_log(struct exchange *x)
{
    json_reader r = reader_begin(x->body, x->body_bytes);
    log_setting changes[LOG_SETTINGS] = { { .key = "" } };
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t count = 0;
    json_text key;

    if (reader_open(&r, '{')) {
        while (reader_member(&r, &key) && end_key(&r, key)) {
            if (count == LOG_SETTINGS) {
                (void)reader_fail(&r, "too many settings");
                break;
            }
            changes[count].key = key.data;
            if (!read_log_value(&r, &changes[count]))
                break;
            count++;
        }
    }
    if (reader_end(&r) && log_settings_change(changes, count, &diag) == INLAY_OK)
        return true;
    fail_json(x, &r, &diag);
    return false;
}

void answer_logging(struct exchange *x)
{
    log_setting now[LOG_SETTINGS];

    if (strcmp(x->method, "POST") == 0 && !change_log(x))
        return;
    log_settings_read(now);
    for (uint32_t i = 0; i < LOG_SETTINGS; i++) {
        strbuf_format(&x->reply, "%s\"%s\":", i > 0 ? "," : "{", now[i].key);
        if (now[i].kind == LOG_TEXT)
            strbuf_json(&x->reply, now[i].text, strlen(now[i].text));
        else if (now[i].kind == LOG_BOOL)
            strbuf_text(&x->reply, now[i].number != 0 ? "true" : "false");
        else
            strbuf_uint(&x->reply, now[i].number);
    }
    strbuf_text(&x->reply, "}");
    x->code = MHD_HTTP_OK;
}
