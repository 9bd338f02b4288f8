/* The replies and events of /v1/responses: a response with one message of one text, the thought before it, and calls of
 * tools after it. */
#include "serve/chat/completion_internal.h"
#include "serve/model/model.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of a response, or of its message. */
static const char *status_of(const completion_choice *choice)
{
    return choice->reason == NULL ? "in_progress" : strcmp(choice->reason, "length") == 0 ? "incomplete" : "completed";
}

static void write_content(const completion_choice *choice, struct strbuf *to)
{
    strbuf_text(to, "{\"type\":\"output_text\",\"text\":");
    strbuf_json(to, choice->text.data != NULL ? choice->text.data : "", choice->text.size);
    strbuf_text(to, ",\"annotations\":[],\"logprobs\":[]}");
    to->failed |= choice->text.failed;
}

static void write_message(const struct completion *completion, struct strbuf *to, bool with_content)
{
    strbuf_format(to,
                  "{\"type\":\"message\",\"id\":\"msg_%llu\",\"status\":\"%s\",\"role\":\"assistant\",\"content\":[",
                  (unsigned long long)completion->id, status_of(&completion->choices[0]));
    if (with_content)
        write_content(&completion->choices[0], to);
    strbuf_text(to, "]}");
}

static void write_thought_part(const completion_choice *choice, struct strbuf *to)
{
    strbuf_text(to, "{\"type\":\"reasoning_text\",\"text\":");
    strbuf_json(to, choice->thoughts.data != NULL ? choice->thoughts.data : "", choice->thoughts.size);
    strbuf_text(to, "}");
    to->failed |= choice->thoughts.failed;
}

/* The item of the thought, with its text or before it. */
static void write_thought_item(const struct completion *completion, struct strbuf *to, bool with_content)
{
    const completion_choice *choice = &completion->choices[0];

    strbuf_format(to, "{\"type\":\"reasoning\",\"id\":\"rs_%llu\",\"status\":\"%s\",\"summary\":[],\"content\":[",
                  (unsigned long long)completion->id,
                  !with_content                      ? "in_progress"
                  : choice->thinking == THOUGHT_RUNS ? "incomplete"
                                                     : "completed");
    if (with_content)
        write_thought_part(choice, to);
    strbuf_text(to, "]}");
}

/* Whether the response has a message; calls may come without. */
static bool has_message(const struct completion *completion)
{
    const completion_choice *choice = &completion->choices[0];

    return completion->events.message_began || choice->text.size > 0 || !choice->calling;
}

static void write_call_item(const struct completion *completion, struct strbuf *to, uint32_t index, bool done)
{
    const tool_call *call = &completion->choices[0].calls.calls[index];

    strbuf_format(
        to,
        "{\"type\":\"function_call\",\"id\":\"fc_%llu_%u\",\"call_id\":\"%s\",\"name\":\"%s\",\"status\":\"%s\","
        "\"arguments\":",
        (unsigned long long)completion->id, index, call->id, call->name,
        done ? status_of(&completion->choices[0]) : "in_progress");
    strbuf_json(to, call->arguments.data != NULL && done ? call->arguments.data : "", done ? call->arguments.size : 0);
    strbuf_text(to, "}");
    to->failed |= call->arguments.failed;
}

static void write_items(const struct completion *completion, struct strbuf *to)
{
    const completion_choice *choice = &completion->choices[0];
    bool message = has_message(completion), thought = choice->thoughts.size > 0;

    if (thought)
        write_thought_item(completion, to, true);
    strbuf_text(to, thought && message ? "," : "");
    if (message)
        write_message(completion, to, true);
    for (uint32_t i = 0; i < choice->calls.count; i++) {
        strbuf_text(to, thought || message || i > 0 ? "," : "");
        write_call_item(completion, to, i, true);
    }
}

static void write_json(struct strbuf *to, const json_t *value, const char *otherwise)
{
    char *text = value != NULL ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

    to->failed |= value != NULL && text == NULL;
    strbuf_text(to, text != NULL ? text : otherwise);
    free(text);
}

static void write_response(const struct completion *completion, struct strbuf *to, const inlay_diag *failure)
{
    const completion_request *asked = &completion->asked;
    const completion_choice *choice = &completion->choices[0];
    bool incomplete = choice->reason != NULL && strcmp(choice->reason, "length") == 0;

    strbuf_format(to, "{\"id\":\"resp_%llu\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\",\"error\":",
                  (unsigned long long)completion->id, (long long)time(NULL),
                  failure != NULL ? "failed" : status_of(choice));
    if (failure != NULL) {
        strbuf_text(to, "{\"code\":\"server_error\",\"message\":");
        strbuf_json(to, failure->text, strlen(failure->text));
        strbuf_text(to, "}");
    } else {
        strbuf_text(to, "null");
    }
    strbuf_format(
        to, ",\"incomplete_details\":%s,\"instructions\":", incomplete ? "{\"reason\":\"max_output_tokens\"}" : "null");
    if (asked->dialog.instructions != NULL)
        strbuf_json(to, asked->dialog.instructions, strlen(asked->dialog.instructions));
    else
        strbuf_text(to, "null");
    strbuf_format(to, ",\"max_output_tokens\":%llu,\"model\":\"%s\",\"output\":[",
                  (unsigned long long)asked->ends.max_tokens, asked->model);
    if (choice->reason != NULL)
        write_items(completion, to);
    strbuf_format(to,
                  "],\"parallel_tool_calls\":%s,\"previous_response_id\":null,\"reasoning\":{\"effort\":null,"
                  "\"summary\":null},\"store\":false,\"temperature\":%.9g,\"text\":{\"format\":",
                  asked->calls.tools.single ? "false" : "true", (double)asked->sampler.temperature);
    write_json(to, asked->format, "{\"type\":\"text\"}");
    strbuf_text(to, "},\"tool_choice\":");
    write_json(to, asked->calls.tools.given_choice, "\"auto\"");
    strbuf_text(to, ",\"tools\":");
    write_json(to, asked->calls.tools.given, "[]");
    strbuf_format(to, ",\"top_p\":%.9g,\"truncation\":\"disabled\",", (double)asked->sampler.top_p);
    tool_set_write_warnings(&asked->calls.tools, to);
    strbuf_text(to, "\"usage\":");
    if (choice->reason != NULL)
        strbuf_format(to,
                      "{\"input_tokens\":%zu,\"input_tokens_details\":{\"cached_tokens\":%zu,"
                      "\"cache_write_tokens\":%zu},\"output_tokens\":%zu,"
                      "\"output_tokens_details\":{\"reasoning_tokens\":%zu},\"total_tokens\":%zu}",
                      completion->tokens.prompt, completion->tokens.cached, completion->tokens.kept,
                      completion->tokens.generated, choice->thought_tokens,
                      completion->tokens.prompt + completion->tokens.generated);
    else
        strbuf_text(to, "null");
    strbuf_text(to, ",\"metadata\":");
    write_json(to, asked->metadata, "{}");
    strbuf_text(to, "}");
}

static void response_write(struct completion *completion, struct strbuf *to)
{
    write_response(completion, to, NULL);
}

static void begin_event(struct completion *completion, const char *type)
{
    strbuf_format(&completion->events.out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%u", type, type,
                  completion->events.count++);
}

/* Writes the members that name a place in the response: that of the message's text, or that of the thought. */
static void write_place(struct completion *completion, bool thought)
{
    strbuf_format(&completion->events.out, ",\"item_id\":\"%s_%llu\",\"output_index\":%u,\"content_index\":0",
                  thought ? "rs" : "msg", (unsigned long long)completion->id,
                  thought ? 0 : completion->events.thought_began);
}

static void end_event(struct completion *completion)
{
    strbuf_text(&completion->events.out, "}\n\n");
}

static void write_response_event(struct completion *completion, const char *type, const inlay_diag *failure)
{
    begin_event(completion, type);
    strbuf_text(&completion->events.out, ",\"response\":");
    write_response(completion, &completion->events.out, failure);
    end_event(completion);
}

static void begin_events(struct completion *completion)
{
    if (completion->events.count > 0)
        return;
    write_response_event(completion, "response.created", NULL);
    write_response_event(completion, "response.in_progress", NULL);
}

/* The event that an item, the message or the thought, was added, or that it is done. */
static void write_item_event(struct completion *completion, const char *type, bool thought, bool done)
{
    begin_event(completion, type);
    strbuf_format(&completion->events.out,
                  ",\"output_index\":%u,\"item\":", thought ? 0 : completion->events.thought_began);
    if (thought)
        write_thought_item(completion, &completion->events.out, done);
    else
        write_message(completion, &completion->events.out, done);
    end_event(completion);
}

static void response_write_thought(struct completion *completion, const char *text, size_t bytes)
{
    completion_choice *choice = &completion->choices[0];
    const char *reason = choice->reason;

    choice->reason = NULL;
    begin_events(completion);
    choice->reason = reason;
    if (!completion->events.thought_began) {
        completion->events.thought_began = true;
        write_item_event(completion, "response.output_item.added", true, false);
        begin_event(completion, "response.content_part.added");
        write_place(completion, true);
        strbuf_text(&completion->events.out, ",\"part\":{\"type\":\"reasoning_text\",\"text\":\"\"}");
        end_event(completion);
    }
    begin_event(completion, "response.reasoning_text.delta");
    write_place(completion, true);
    strbuf_text(&completion->events.out, ",\"delta\":");
    strbuf_json(&completion->events.out, text, bytes);
    end_event(completion);
}

static void end_thought(struct completion *completion)
{
    const completion_choice *choice = &completion->choices[0];

    if (!completion->events.thought_began || completion->events.thought_ended)
        return;
    completion->events.thought_ended = true;
    begin_event(completion, "response.reasoning_text.done");
    write_place(completion, true);
    strbuf_text(&completion->events.out, ",\"text\":");
    strbuf_json(&completion->events.out, choice->thoughts.data, choice->thoughts.size);
    end_event(completion);
    begin_event(completion, "response.content_part.done");
    write_place(completion, true);
    strbuf_text(&completion->events.out, ",\"part\":");
    write_thought_part(choice, &completion->events.out);
    end_event(completion);
    write_item_event(completion, "response.output_item.done", true, true);
}

static void begin_message(struct completion *completion)
{
    struct strbuf *to = &completion->events.out;

    if (completion->events.message_began)
        return;
    end_thought(completion);
    completion->events.message_began = true;
    write_item_event(completion, "response.output_item.added", false, false);
    begin_event(completion, "response.content_part.added");
    write_place(completion, false);
    strbuf_text(to, ",\"part\":{\"type\":\"output_text\",\"text\":\"\",\"annotations\":[],\"logprobs\":[]}");
    end_event(completion);
}

static void response_write_part(struct completion *completion, const char *text, size_t bytes)
{
    completion_choice *choice = &completion->choices[0];
    const char *reason = choice->reason;

    choice->reason = NULL; /* the text is not complete before its end is written */
    begin_events(completion);
    if (bytes > 0 || (reason != NULL && !choice->calling))
        begin_message(completion);
    choice->reason = reason;
    if (bytes == 0)
        return;
    begin_event(completion, "response.output_text.delta");
    write_place(completion, false);
    strbuf_text(&completion->events.out, ",\"logprobs\":[],\"delta\":");
    strbuf_json(&completion->events.out, text, bytes);
    end_event(completion);
}

static void end_message(struct completion *completion)
{
    const completion_choice *choice = &completion->choices[0];
    struct strbuf *to = &completion->events.out;

    end_thought(completion);
    if (!completion->events.message_began || completion->events.message_ended)
        return;
    completion->events.message_ended = true;
    begin_event(completion, "response.output_text.done");
    write_place(completion, false);
    strbuf_text(to, ",\"logprobs\":[],\"text\":");
    strbuf_json(to, choice->text.data != NULL ? choice->text.data : "", choice->text.size);
    end_event(completion);
    begin_event(completion, "response.content_part.done");
    write_place(completion, false);
    strbuf_text(to, ",\"part\":");
    write_content(choice, to);
    end_event(completion);
    write_item_event(completion, "response.output_item.done", false, true);
}

/* The index of a call among the items of the response. */
static uint32_t item_of(const struct completion *completion, uint32_t call)
{
    return call + completion->events.thought_began + completion->events.message_began;
}

/* The members that name the call's place in the response. */
static void write_call_place(struct completion *completion, uint32_t index)
{
    strbuf_format(&completion->events.out, ",\"item_id\":\"fc_%llu_%u\",\"output_index\":%u",
                  (unsigned long long)completion->id, index, item_of(completion, index));
}

static void write_call_event(struct completion *completion, const char *type, uint32_t index, bool done)
{
    begin_event(completion, type);
    strbuf_format(&completion->events.out, ",\"output_index\":%u,\"item\":", item_of(completion, index));
    write_call_item(completion, &completion->events.out, index, done);
    end_event(completion);
}

static void response_write_call(struct completion *completion, uint32_t index, size_t bytes)
{
    completion_choice *choice = &completion->choices[0];
    const tool_call *call = &choice->calls.calls[index];
    const char *reason = choice->reason;

    choice->reason = NULL;
    begin_events(completion);
    choice->reason = "stop"; /* the message is complete */
    end_message(completion);
    choice->reason = reason;
    if (!call->began) {
        write_call_event(completion, "response.output_item.added", index, false);
        return;
    }
    begin_event(completion, "response.function_call_arguments.delta");
    write_call_place(completion, index);
    strbuf_text(&completion->events.out, ",\"delta\":");
    strbuf_json(&completion->events.out, call->arguments.data + call->sent, bytes);
    end_event(completion);
}

static void end_call(struct completion *completion, uint32_t index)
{
    const tool_call *call = &completion->choices[0].calls.calls[index];

    begin_event(completion, "response.function_call_arguments.done");
    write_call_place(completion, index);
    strbuf_format(&completion->events.out, ",\"name\":\"%s\",\"arguments\":", call->name);
    strbuf_json(&completion->events.out, call->arguments.data != NULL ? call->arguments.data : "",
                call->arguments.size);
    end_event(completion);
    write_call_event(completion, "response.output_item.done", index, true);
}

static void response_write_end(struct completion *completion)
{
    const completion_choice *choice = &completion->choices[0];

    end_message(completion);
    for (uint32_t i = 0; i < choice->calls.count; i++)
        if (choice->calls.calls[i].began)
            end_call(completion, i);
    write_response_event(completion,
                         strcmp(choice->reason, "length") == 0 ? "response.incomplete" : "response.completed", NULL);
}

static void response_write_failure(struct completion *completion, const inlay_diag *failure)
{
    completion->choices[0].reason = NULL;
    write_response_event(completion, "response.failed", failure);
}

const reply_form response_reply = { response_write,
                                    response_write_part,
                                    response_write_call,
                                    response_write_end,
                                    response_write_failure,
                                    response_write_thought,
                                    NULL };
