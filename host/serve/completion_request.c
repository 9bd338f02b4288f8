#include "serve/completion_request.h"
#include "base/memory.h"
#include "serve/json.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_stops(json_reader *r, completion_request *c)
{
    bool list = reader_peek(r) == '[';
    json_text ignored;
    char *text = NULL;

    if (reader_peek(r) == 'n')
        return reader_skip(r, &ignored);
    if (list && !reader_open(r, '['))
        return false;
    while (!list || reader_element(r)) {
        if (c->stop_count == MAX_STOPS)
            return reader_fail(r, "more than 4 texts to stop at");
        if (!reader_c_string(r, &text))
            return false;
        if (text[0] != '\0')
            c->stops[c->stop_count++] = text;
        if (!list)
            return true;
    }
    return r->error == NULL;
}

/* "content": a text, null, or parts {"type": "text", "text": ...}, which are joined where they lie. */
static bool read_content(json_reader *r, char **out)
{
    json_text key, ignored;
    char *part = NULL, *end = NULL;
    static char none[1];

    *out = none;
    if (reader_peek(r) == 'n')
        return reader_skip(r, &ignored);
    if (reader_peek(r) == '"')
        return reader_c_string(r, out);
    if (!reader_open(r, '['))
        return false;
    while (reader_element(r)) {
        if (!reader_open(r, '{'))
            return false;
        part = NULL;
        while (reader_member(r, &key))
            if (!(text_is(key, "text") ? reader_c_string(r, &part) : reader_skip(r, &ignored)))
                return false;
        if (part == NULL)
            return r->error == NULL && reader_fail(r, "a part of a message that is no text");
        if (end == NULL) {
            *out = part;
            end = part + strlen(part);
        } else { /* it lies behind the one before */
            size_t bytes = strlen(part);

            memmove(end, part, bytes + 1);
            end += bytes;
        }
    }
    return r->error == NULL;
}

static bool read_message(json_reader *r, chat_message *out)
{
    json_text key, ignored;
    char *role = NULL, *content = NULL;

    if (!reader_open(r, '{'))
        return false;
    while (reader_member(r, &key)) {
        if (text_is(key, "role")      ? !reader_c_string(r, &role)
            : text_is(key, "content") ? !read_content(r, &content)
                                      : !reader_skip(r, &ignored))
            return false;
    }
    if (r->error == NULL && (role == NULL || content == NULL))
        return reader_fail(r, "a message without role or content");
    *out = (chat_message){ role, content };
    return r->error == NULL;
}

static bool read_messages(json_reader *r, completion_request *c)
{
    if (c->messages != NULL)
        return reader_fail(r, "messages twice");
    if (!reader_open(r, '['))
        return false;
    while (reader_element(r)) {
        uint32_t n = c->message_count;

        if (n == MAX_MESSAGES)
            return reader_fail(r, "more than 4096 messages");
        if (!LIST_GROW(c->messages, n))
            return reader_fail(r, "more messages than there is memory for");
        if (!read_message(r, &c->messages[n]))
            return false;
        c->message_count++;
    }
    return r->error == NULL;
}

static bool read_number(json_reader *r, double least, double most, double *out)
{
    json_text number;

    if (!reader_number(r, &number))
        return false;
    if (!text_to_double(number, out) || !(*out >= least && *out <= most))
        return reader_fail(r, "a number that is too small or too large");
    return true;
}

static bool read_member(json_reader *r, completion_request *c, json_text key)
{
    json_text ignored;
    double number;
    char *text = NULL;
    bool on;

    if (text_is(key, c->chat ? "messages" : "prompt"))
        return c->chat ? read_messages(r, c) : reader_c_string(r, &c->prompt);
    if (text_is(key, "stop"))
        return read_stops(r, c);
    if (text_is(key, "stream"))
        return reader_bool(r, &c->streams);
    if (text_is(key, "model")) {
        if (!reader_c_string(r, &text))
            return false;
        (void)snprintf(c->model, sizeof c->model, "%s", text);
        return true;
    }
    if (text_is(key, "echo"))
        return reader_bool(r, &on) && (!on || reader_fail(r, "echo is not supported"));
    if (reader_peek(r) == 'n')
        return reader_skip(r, &ignored);
    if (text_is(key, "max_tokens") || (c->chat && text_is(key, "max_completion_tokens"))) {
        if (!read_number(r, 1, MAX_TOKENS, &number))
            return false;
        c->max_tokens = (uint64_t)number;
        return true;
    }
    if (text_is(key, "temperature") || text_is(key, "top_p")) {
        bool top = text_is(key, "top_p");

        if (!read_number(r, 0, top ? 1 : 2, &number))
            return false;
        *(top ? &c->sampler.top_p : &c->sampler.temperature) = (float)number;
        return true;
    }
    if (text_is(key, "seed")) {
        if (!read_number(r, -9e15, 9e15, &number))
            return false;
        c->sampler.state = (uint64_t)(int64_t)number;
        return true;
    }
    if (text_is(key, "n") || text_is(key, "best_of"))
        return read_number(r, 1, 1, &number);
    if (c->chat && (text_is(key, "tools") || text_is(key, "functions") || text_is(key, "response_format")))
        return reader_fail(r, "tools and response_format are not supported");
    return reader_skip(r, &ignored);
}

bool completion_request_read(completion_request *q, char *body, size_t body_bytes, char *why, size_t bytes)
{
    json_reader r = reader_begin(body, body_bytes);
    bool has_text;
    json_text key;

    if (reader_open(&r, '{'))
        while (reader_member(&r, &key) && read_member(&r, q, key))
            ;
    has_text = q->chat ? q->message_count > 0 : q->prompt != NULL;
    if (reader_end(&r) && has_text && q->model[0] != '\0')
        return true;
    if (r.error != NULL)
        (void)snprintf(why, bytes, "the request's JSON, byte %zu: %s", (size_t)(r.at - r.start), r.error);
    else
        (void)snprintf(why, bytes, "the request has no %s",
                       has_text  ? "model"
                       : q->chat ? "messages"
                                 : "prompt that is a text");
    return false;
}

void completion_request_deinit(completion_request *q)
{
    free(q->messages);
    sampler_deinit(&q->sampler);
}
