/* GET and POST of /v2/trace/setting, /v2/models/NAME/trace/setting and /v2/logging: settings that requests change. */
#include "serve/base/log.h"
#include "serve/routes/answers.h"
#include "codecs/json.h"
#include "serve/schedule/trace.h"
#include "serve/repository/repository.h"
#include <string.h>

enum { MAX_VALUES = 8 };

static bool read_text(json_reader *reader, const char **out)
{
    char *text = NULL;

    if (!reader_c_string(reader, &text))
        return false;
    *out = text;
    return true;
}

/* Terminates a member's key with NUL: the colon after it was read already. */
static bool end_key(json_reader *reader, json_text key)
{
    if (memchr(key.data, '\0', key.bytes) != NULL)
        return reader_fail(reader, "a key with a NUL character");
    key.data[key.bytes] = '\0';
    return true;
}

static void fail_json(struct exchange *exchange, const json_reader *reader, const inlay_diag *diag)
{
    char text[256];

    (void)snprintf(text, sizeof text, "the request's JSON, byte %zu: %s", (size_t)(reader->at - reader->start),
                   reader->error != NULL ? reader->error : "expected an object");
    if (diag->code != INLAY_OK)
        exchange_fail_diag(exchange, diag);
    else
        exchange_fail(exchange, HTTP_BAD_REQUEST, text);
}

/* Reads a text, a number, an array of these, or null. Numbers are copied, since they cannot be terminated in place. */
static bool read_values(json_reader *reader, const char *values[MAX_VALUES], char numbers[MAX_VALUES][32],
                        uint32_t *count)
{
    json_text text;
    bool list = reader_peek(reader) == '[';

    *count = 0;
    if (reader_peek(reader) == 'n')
        return reader_skip(reader, &text);
    if (list && !reader_open(reader, '['))
        return false;
    while (!list || reader_element(reader)) {
        if (*count == MAX_VALUES)
            return reader_fail(reader, "more than 8 values");
        if (reader_peek(reader) == '"') {
            if (!read_text(reader, &values[*count]))
                return false;
        } else {
            if (!reader_number(reader, &text))
                return false;
            (void)snprintf(numbers[*count], sizeof numbers[0], "%.*s", text.bytes < 31 ? (int)text.bytes : 31,
                           text.data);
            values[*count] = numbers[*count];
        }
        ++*count;
        if (!list)
            return true;
    }
    return reader->error == NULL;
}

static bool change_trace(struct exchange *exchange, const char *name)
{
    json_reader reader;
    trace_change change = { .given = { false } };
    inlay_diag diag = INLAY_DIAG_INIT;
    json_text key;

    reader_begin(&reader, exchange->body, exchange->body_bytes);
    if (reader_open(&reader, '{')) {
        while (reader_member(&reader, &key) && end_key(&reader, key)) {
            const char *values[MAX_VALUES];
            char numbers[MAX_VALUES][32];
            uint32_t count;

            if (!read_values(&reader, values, numbers, &count) ||
                trace_change_add(exchange->request.server->trace, &change, key.data, values, count, &diag) != INLAY_OK)
                break;
        }
    }
    if (diag.code == INLAY_OK && reader_end(&reader) &&
        trace_apply(exchange->request.server->trace, name, &change, &diag) == INLAY_OK)
        return true;
    fail_json(exchange, &reader, &diag);
    return false;
}

void answer_trace(struct exchange *exchange)
{
    trace_setting settings[TRACE_SETTINGS];
    const char *name = NULL;

    if (exchange->route.name != NULL) {
        exchange->request.job.model =
            repository_find(exchange->request.server->repository, exchange->route.name, exchange->route.name_bytes, 0);
        if (exchange->request.job.model == NULL) {
            exchange_fail(exchange, HTTP_NOT_FOUND, "no such model is loaded; POST v2/repository/index lists them");
            return;
        }
        name = exchange->request.job.model->name;
    }
    if (strcmp(exchange->method, "POST") == 0 && !change_trace(exchange, name))
        return;
    trace_read(exchange->request.server->trace, name, settings);
    for (uint32_t i = 0; i < TRACE_SETTINGS; i++) {
        strbuf_format(&exchange->reply, "%s\"%s\":%s", i > 0 ? "," : "{", settings[i].key,
                      settings[i].is_list ? "[" : "");
        strbuf_json(&exchange->reply, settings[i].value, strlen(settings[i].value));
        strbuf_text(&exchange->reply, settings[i].is_list ? "]" : "");
    }
    strbuf_text(&exchange->reply, "}");
    exchange->code = HTTP_OK;
}

static bool read_log_value(json_reader *reader, log_setting *out)
{
    char kind = reader_peek(reader);
    json_text number;
    bool on = false;

    out->text = "";
    if (kind == '"') {
        out->kind = LOG_TEXT;
        return read_text(reader, &out->text);
    }
    if (kind == 't' || kind == 'f') {
        out->kind = LOG_BOOL;
        if (!reader_bool(reader, &on))
            return false;
        out->number = on;
        return true;
    }
    out->kind = LOG_NUMBER;
    return reader_number(reader, &number) &&
           (text_to_uint64(number, &out->number) || reader_fail(reader, "expected a non-negative integer"));
}

static bool change_log(struct exchange *exchange)
{
    json_reader reader;
    log_setting changes[LOG_SETTINGS] = { { .key = "" } };
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t count = 0;
    json_text key;

    reader_begin(&reader, exchange->body, exchange->body_bytes);
    if (reader_open(&reader, '{')) {
        while (reader_member(&reader, &key) && end_key(&reader, key)) {
            if (count == LOG_SETTINGS) {
                (void)reader_fail(&reader, "more than 6 settings");
                break;
            }
            changes[count].key = key.data;
            if (!read_log_value(&reader, &changes[count]))
                break;
            count++;
        }
    }
    if (reader_end(&reader) && log_settings_change(changes, count, &diag) == INLAY_OK)
        return true;
    fail_json(exchange, &reader, &diag);
    return false;
}

void answer_logging(struct exchange *exchange)
{
    log_setting settings[LOG_SETTINGS];

    if (strcmp(exchange->method, "POST") == 0 && !change_log(exchange))
        return;
    log_settings_read(settings);
    for (uint32_t i = 0; i < LOG_SETTINGS; i++) {
        strbuf_format(&exchange->reply, "%s\"%s\":", i > 0 ? "," : "{", settings[i].key);
        if (settings[i].kind == LOG_TEXT)
            strbuf_json(&exchange->reply, settings[i].text, strlen(settings[i].text));
        else if (settings[i].kind == LOG_BOOL)
            strbuf_text(&exchange->reply, settings[i].number != 0 ? "true" : "false");
        else
            strbuf_uint(&exchange->reply, settings[i].number);
    }
    strbuf_text(&exchange->reply, "}");
    exchange->code = HTTP_OK;
}
