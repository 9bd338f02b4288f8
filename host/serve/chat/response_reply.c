/* The replies and events of /v1/responses: a response with one message of one text. */
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

static void write_json(struct strbuf *to, const json_t *value, const char *otherwise)
{
    char *text = value != NULL ? json_dumps(value, JSON_COMPACT) : NULL;

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
    if (asked->instructions != NULL)
        strbuf_json(to, asked->instructions, strlen(asked->instructions));
    else
        strbuf_text(to, "null");
    strbuf_format(to, ",\"max_output_tokens\":%llu,\"model\":\"%s\",\"output\":[",
                  (unsigned long long)asked->max_tokens, completion->exchange->job.model->name);
    if (choice->reason != NULL)
        write_message(completion, to, true);
    strbuf_format(to,
                  "],\"parallel_tool_calls\":true,\"previous_response_id\":null,\"reasoning\":{\"effort\":null,"
                  "\"summary\":null},\"store\":false,\"temperature\":%.9g,\"text\":{\"format\":",
                  (double)asked->sampler.temperature);
    write_json(to, asked->format, "{\"type\":\"text\"}");
    strbuf_format(to, "},\"tool_choice\":\"auto\",\"tools\":[],\"top_p\":%.9g,\"truncation\":\"disabled\",\"usage\":",
                  (double)asked->sampler.top_p);
    if (choice->reason != NULL)
        strbuf_format(to,
                      "{\"input_tokens\":%zu,\"input_tokens_details\":{\"cached_tokens\":0},\"output_tokens\":%zu,"
                      "\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":%zu}",
                      completion->prompt_tokens, completion->generated_tokens,
                      completion->prompt_tokens + completion->generated_tokens);
    else
        strbuf_text(to, "null");
    strbuf_text(to, ",\"user\":null,\"metadata\":");
    write_json(to, asked->metadata, "{}");
    strbuf_text(to, "}");
}

void response_write(struct completion *completion, struct strbuf *to)
{
    write_response(completion, to, NULL);
}

/* ------------------------------------------------------------------ events */

static void begin_event(struct completion *completion, const char *type)
{
    strbuf_format(&completion->out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%u", type, type,
                  completion->event_count++);
}

/* The members that name the text's place in the response. */
static void write_place(struct completion *completion)
{
    strbuf_format(&completion->out, ",\"item_id\":\"msg_%llu\",\"output_index\":0,\"content_index\":0",
                  (unsigned long long)completion->id);
}

static void end_event(struct completion *completion)
{
    strbuf_text(&completion->out, "}\n\n");
}

static void write_response_event(struct completion *completion, const char *type, const inlay_diag *failure)
{
    begin_event(completion, type);
    strbuf_text(&completion->out, ",\"response\":");
    write_response(completion, &completion->out, failure);
    end_event(completion);
}

static void begin_events(struct completion *completion)
{
    struct strbuf *to = &completion->out;

    if (completion->event_count > 0)
        return;
    write_response_event(completion, "response.created", NULL);
    write_response_event(completion, "response.in_progress", NULL);
    begin_event(completion, "response.output_item.added");
    strbuf_text(to, ",\"output_index\":0,\"item\":");
    write_message(completion, to, false);
    end_event(completion);
    begin_event(completion, "response.content_part.added");
    write_place(completion);
    strbuf_text(to, ",\"part\":{\"type\":\"output_text\",\"text\":\"\",\"annotations\":[],\"logprobs\":[]}");
    end_event(completion);
}

void response_write_part(struct completion *completion, const char *text, size_t bytes)
{
    const char *reason = completion->choices[0].reason;

    completion->choices[0].reason = NULL; /* the text is not complete before its end is written */
    begin_events(completion);
    completion->choices[0].reason = reason;
    if (bytes == 0)
        return;
    begin_event(completion, "response.output_text.delta");
    write_place(completion);
    strbuf_text(&completion->out, ",\"logprobs\":[],\"delta\":");
    strbuf_json(&completion->out, text, bytes);
    end_event(completion);
}

void response_write_end(struct completion *completion)
{
    const completion_choice *choice = &completion->choices[0];
    struct strbuf *to = &completion->out;

    begin_event(completion, "response.output_text.done");
    write_place(completion);
    strbuf_text(to, ",\"logprobs\":[],\"text\":");
    strbuf_json(to, choice->text.data != NULL ? choice->text.data : "", choice->text.size);
    end_event(completion);
    begin_event(completion, "response.content_part.done");
    write_place(completion);
    strbuf_text(to, ",\"part\":");
    write_content(choice, to);
    end_event(completion);
    begin_event(completion, "response.output_item.done");
    strbuf_text(to, ",\"output_index\":0,\"item\":");
    write_message(completion, to, true);
    end_event(completion);
    write_response_event(completion,
                         strcmp(choice->reason, "length") == 0 ? "response.incomplete" : "response.completed", NULL);
}

void response_write_failure(struct completion *completion, const inlay_diag *failure)
{
    completion->choices[0].reason = NULL;
    write_response_event(completion, "response.failed", failure);
}
