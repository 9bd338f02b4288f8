#include "serve/chat/completion_request.h"
#include "inlay/check.h"
#include "base/memory.h"
#include "serve/base/json.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_stops(json_reader *reader, completion_request *request)
{
    bool list = reader_peek(reader) == '[';
    json_text ignored;
    char *text = NULL;

    if (reader_peek(reader) == 'n')
        return reader_skip(reader, &ignored);
    if (list && !reader_open(reader, '['))
        return false;
    while (!list || reader_element(reader)) {
        if (request->stop_count == MAX_STOPS)
            return reader_fail(reader, "more than 4 stop texts");
        if (!reader_c_string(reader, &text))
            return false;
        if (text[0] != '\0')
            request->stops[request->stop_count++] = text;
        if (!list)
            return true;
    }
    return reader->error == NULL;
}

/* "content": a text, null, or parts {"type": "text", "text": ...}, which are concatenated in place. */
static bool read_content(json_reader *reader, char **out)
{
    json_text key, ignored;
    char *part = NULL, *end = NULL;
    static char none[1];

    *out = none;
    if (reader_peek(reader) == 'n')
        return reader_skip(reader, &ignored);
    if (reader_peek(reader) == '"')
        return reader_c_string(reader, out);
    if (!reader_open(reader, '['))
        return false;
    while (reader_element(reader)) {
        if (!reader_open(reader, '{'))
            return false;
        part = NULL;
        while (reader_member(reader, &key))
            if (!(text_is(key, "text") ? reader_c_string(reader, &part) : reader_skip(reader, &ignored)))
                return false;
        if (part == NULL)
            return reader->error == NULL && reader_fail(reader, "a message part that is not a text");
        if (end == NULL) {
            *out = part;
            end = part + strlen(part);
        } else { /* it comes after the previous part in the body */
            INLAY_CHECK(end < part);
            size_t bytes = strlen(part);

            memmove(end, part, bytes + 1);
            end += bytes;
        }
    }
    return reader->error == NULL;
}

static bool read_message(json_reader *reader, chat_message *out)
{
    json_text key, ignored;
    char *role = NULL, *content = NULL;

    if (!reader_open(reader, '{'))
        return false;
    while (reader_member(reader, &key)) {
        if (text_is(key, "role")      ? !reader_c_string(reader, &role)
            : text_is(key, "content") ? !read_content(reader, &content)
                                      : !reader_skip(reader, &ignored))
            return false;
    }
    if (reader->error == NULL && (role == NULL || content == NULL))
        return reader_fail(reader, "a message without role or content");
    *out = (chat_message){ role, content };
    return reader->error == NULL;
}

static bool read_messages(json_reader *reader, completion_request *request)
{
    if (request->messages != NULL)
        return reader_fail(reader, "messages given twice");
    if (!reader_open(reader, '['))
        return false;
    while (reader_element(reader)) {
        uint32_t index = request->message_count;

        if (index == MAX_MESSAGES)
            return reader_fail(reader, "more than 4096 messages");
        if (!LIST_GROW(request->messages, index))
            return reader_fail(reader, "out of memory for the messages");
        if (!read_message(reader, &request->messages[index]))
            return false;
        request->message_count++;
    }
    return reader->error == NULL;
}

static bool read_number(json_reader *reader, double least, double most, double *out)
{
    json_text number;

    if (!reader_number(reader, &number))
        return false;
    if (!text_to_double(number, out) || !(*out >= least && *out <= most))
        return reader_fail(reader, "a number that is too small or too large");
    return true;
}

static bool read_member(json_reader *reader, completion_request *request, json_text key)
{
    json_text ignored;
    double number;
    char *text = NULL;
    bool on;

    if (text_is(key, request->chat ? "messages" : "prompt"))
        return request->chat ? read_messages(reader, request) : reader_c_string(reader, &request->prompt);
    if (text_is(key, "stop"))
        return read_stops(reader, request);
    if (text_is(key, "stream"))
        return reader_bool(reader, &request->streams);
    if (text_is(key, "model")) {
        if (!reader_c_string(reader, &text))
            return false;
        (void)snprintf(request->model, sizeof request->model, "%s", text);
        return true;
    }
    if (text_is(key, "echo"))
        return reader_bool(reader, &on) && (!on || reader_fail(reader, "echo is not supported"));
    if (reader_peek(reader) == 'n')
        return reader_skip(reader, &ignored);
    if (text_is(key, "max_tokens") || (request->chat && text_is(key, "max_completion_tokens"))) {
        if (!read_number(reader, 1, MAX_TOKENS, &number))
            return false;
        request->max_tokens = (uint64_t)number;
        return true;
    }
    if (text_is(key, "temperature") || text_is(key, "top_p")) {
        bool top = text_is(key, "top_p");

        if (!read_number(reader, 0, top ? 1 : 2, &number))
            return false;
        *(top ? &request->sampler.top_p : &request->sampler.temperature) = (float)number;
        return true;
    }
    if (text_is(key, "seed")) {
        if (!read_number(reader, -9e15, 9e15, &number))
            return false;
        request->sampler.state = (uint64_t)(int64_t)number;
        return true;
    }
    if (text_is(key, "n") || text_is(key, "best_of"))
        return read_number(reader, 1, 1, &number);
    if (request->chat && (text_is(key, "tools") || text_is(key, "functions") || text_is(key, "response_format")))
        return reader_fail(reader, "tools and response_format are not supported");
    return reader_skip(reader, &ignored);
}

bool completion_request_read(completion_request *request, char *body, size_t body_bytes, char *why, size_t bytes)
{
    json_reader reader = reader_begin(body, body_bytes);
    bool has_text;
    json_text key;

    if (reader_open(&reader, '{'))
        while (reader_member(&reader, &key) && read_member(&reader, request, key))
            ;
    has_text = request->chat ? request->message_count > 0 : request->prompt != NULL;
    if (reader_end(&reader) && has_text && request->model[0] != '\0')
        return true;
    if (reader.error != NULL)
        (void)snprintf(why, bytes, "the request's JSON, byte %zu: %s", (size_t)(reader.at - reader.start),
                       reader.error);
    else
        (void)snprintf(why, bytes, "the request has no %s",
                       has_text        ? "model"
                       : request->chat ? "messages"
                                       : "prompt (a text)");
    return false;
}

void completion_request_deinit(completion_request *request)
{
    free(request->messages);
    sampler_deinit(&request->sampler);
}
