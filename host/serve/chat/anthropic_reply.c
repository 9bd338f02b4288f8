/* The replies and events of /v1/messages: a message of blocks, one of the thought, one of text and one for each call
 * of a tool. */
#include "serve/chat/completion_internal.h"
#include <string.h>

static const completion_choice *choice_of(const struct completion *completion)
{
    return &completion->choices[0];
}

static const char *reason_of(const completion_choice *choice)
{
    return strcmp(choice->reason, "length") == 0       ? "max_tokens"
           : strcmp(choice->reason, "tool_calls") == 0 ? "tool_use"
           : choice->base.stop != NULL                 ? "stop_sequence"
                                                       : "end_turn";
}

/* "stop_reason" and "stop_sequence". */
static void write_reason(const completion_choice *choice, struct strbuf *to)
{
    if (choice->reason == NULL) {
        strbuf_text(to, "\"stop_reason\":null,\"stop_sequence\":null");
        return;
    }
    strbuf_format(to, "\"stop_reason\":\"%s\",\"stop_sequence\":", reason_of(choice));
    if (choice->base.stop != NULL)
        strbuf_json(to, choice->base.stop, strlen(choice->base.stop));
    else
        strbuf_text(to, "null");
}

static void write_usage(const struct completion *completion, struct strbuf *to)
{
    strbuf_format(to, "\"usage\":{\"input_tokens\":%zu,\"cache_read_input_tokens\":%zu,\"output_tokens\":%zu}",
                  completion->tokens.prompt - completion->tokens.cached, completion->tokens.cached,
                  completion->tokens.generated);
}

static void write_call_block(const tool_call *call, struct strbuf *to, bool with_input)
{
    json_t *input =
        with_input ? json_loadb(call->arguments.data != NULL ? call->arguments.data : "", call->arguments.size, 0, NULL)
                   : NULL;

    strbuf_format(to, "{\"type\":\"tool_use\",\"id\":\"%s\",\"name\":\"%s\",\"input\":", call->id, call->name);
    if (input != NULL) /* otherwise the text was cut */
        strbuf_add(to, call->arguments.data, call->arguments.size);
    else
        strbuf_text(to, "{}");
    strbuf_text(to, "}");
    json_decref(input);
}

/* The message without its end. */
static void begin_message(const struct completion *completion, struct strbuf *to)
{
    strbuf_format(to, "{\"id\":\"msg_%llu\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"%s\",",
                  (unsigned long long)completion->id, completion->asked.model);
    tool_set_write_warnings(&completion->asked.calls.tools, to);
    strbuf_text(to, "\"content\":[");
}

static void end_message(const struct completion *completion, const completion_choice *choice, struct strbuf *to)
{
    strbuf_text(to, "],");
    write_reason(choice, to);
    strbuf_text(to, ",");
    write_usage(completion, to);
    strbuf_text(to, "}");
}

static void write_whole(struct completion *completion, struct strbuf *to)
{
    const completion_choice *choice = choice_of(completion);
    const bool has_thought = choice->thoughts.size > 0;
    const bool has_text = choice->text.size > 0 || (choice->calls.count == 0 && !has_thought);

    begin_message(completion, to);
    if (has_thought) {
        strbuf_text(to, "{\"type\":\"thinking\",\"thinking\":");
        strbuf_json(to, choice->thoughts.data, choice->thoughts.size);
        strbuf_text(to, ",\"signature\":\"\"}");
    }
    if (has_text) {
        strbuf_text(to, has_thought ? "," : "");
        strbuf_text(to, "{\"type\":\"text\",\"text\":");
        strbuf_json(to, choice->text.data != NULL ? choice->text.data : "", choice->text.size);
        strbuf_text(to, "}");
    }
    for (uint32_t i = 0; i < choice->calls.count; i++) {
        strbuf_text(to, has_thought || has_text || i > 0 ? "," : "");
        write_call_block(&choice->calls.calls[i], to, true);
        to->failed |= choice->calls.calls[i].arguments.failed;
    }
    end_message(completion, choice, to);
    to->failed |= choice->text.failed || choice->thoughts.failed;
}

static struct strbuf *begin_event(struct completion *completion, const char *type)
{
    strbuf_format(&completion->events.out, "event: %s\ndata: {\"type\":\"%s\"", type, type);
    completion->events.count++;
    return &completion->events.out;
}

static void end_event(struct completion *completion)
{
    strbuf_text(&completion->events.out, "}\n\n");
}

static void begin_events(struct completion *completion)
{
    const completion_choice unfinished = { .reason = NULL };
    struct strbuf *to;

    if (completion->events.count > 0)
        return;
    to = begin_event(completion, "message_start");
    strbuf_text(to, ",\"message\":");
    begin_message(completion, to);
    end_message(completion, &unfinished, to);
    end_event(completion);
}

static void end_block(struct completion *completion, uint32_t index)
{
    strbuf_format(begin_event(completion, "content_block_stop"), ",\"index\":%u", index);
    end_event(completion);
}

/* A part of a block, in a member of the event. */
static void write_delta(struct completion *completion, uint32_t block, const char *type, const char *member,
                        const char *text, size_t bytes)
{
    struct strbuf *to = begin_event(completion, "content_block_delta");

    strbuf_format(to, ",\"index\":%u,\"delta\":{\"type\":\"%s\",\"%s\":", block, type, member);
    strbuf_json(to, text, bytes);
    strbuf_text(to, "}");
    end_event(completion);
}

static void end_thought(struct completion *completion)
{
    if (!completion->events.thought_began || completion->events.thought_ended)
        return;
    completion->events.thought_ended = true;
    write_delta(completion, 0, "signature_delta", "signature", "", 0);
    end_block(completion, 0);
}

static void end_text(struct completion *completion)
{
    end_thought(completion);
    if (!completion->events.message_began || completion->events.message_ended)
        return;
    completion->events.message_ended = true;
    end_block(completion, completion->events.thought_began);
}

static void write_thought(struct completion *completion, const char *text, size_t bytes)
{
    begin_events(completion);
    if (!completion->events.thought_began) {
        completion->events.thought_began = true;
        strbuf_text(begin_event(completion, "content_block_start"),
                    ",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}");
        end_event(completion);
    }
    write_delta(completion, 0, "thinking_delta", "thinking", text, bytes);
}

static void write_part(struct completion *completion, const char *text, size_t bytes)
{
    const uint32_t block = completion->events.thought_began;

    begin_events(completion);
    if (bytes == 0)
        return;
    end_thought(completion);
    if (!completion->events.message_began) {
        completion->events.message_began = true;
        strbuf_format(begin_event(completion, "content_block_start"),
                      ",\"index\":%u,\"content_block\":{\"type\":\"text\",\"text\":\"\"}", block);
        end_event(completion);
    }
    write_delta(completion, block, "text_delta", "text", text, bytes);
}

static void write_call(struct completion *completion, uint32_t index, size_t bytes)
{
    const tool_call *call = &choice_of(completion)->calls.calls[index];
    const uint32_t block = index + completion->events.thought_began + completion->events.message_began;
    struct strbuf *to;

    begin_events(completion);
    end_text(completion);
    if (!call->began) {
        if (index > 0)
            end_block(completion, block - 1);
        to = begin_event(completion, "content_block_start");
        strbuf_format(to, ",\"index\":%u,\"content_block\":", block);
        write_call_block(call, to, false);
        end_event(completion);
        return;
    }
    write_delta(completion, block, "input_json_delta", "partial_json", call->arguments.data + call->sent, bytes);
}

static void write_end(struct completion *completion)
{
    const completion_choice *choice = choice_of(completion);
    struct strbuf *to;

    end_text(completion);
    if (choice->calls.count > 0 && choice->calls.calls[0].began)
        end_block(completion,
                  choice->calls.count - 1 + completion->events.thought_began + completion->events.message_began);
    to = begin_event(completion, "message_delta");
    strbuf_text(to, ",\"delta\":{");
    write_reason(choice, to);
    strbuf_text(to, "},");
    write_usage(completion, to);
    end_event(completion);
    (void)begin_event(completion, "message_stop");
    end_event(completion);
}

static void write_failure(struct completion *completion, const inlay_diag *failure)
{
    strbuf_text(&completion->events.out, "event: error\ndata: ");
    exchange_write_error(completion->exchange, &completion->events.out, exchange_code_of(failure->code), failure->text,
                         NULL, NULL);
    strbuf_text(&completion->events.out, "\n\n");
}

const reply_form anthropic_reply = {
    write_whole, write_part, write_call, write_end, write_failure, write_thought, NULL
};
