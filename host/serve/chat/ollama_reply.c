/* The replies of Ollama's API: one object, or a line of JSON for each part of a text; and the list of its models. */
#include "serve/chat/completion_internal.h"
#include "serve/chat/models.h"
#include "serve/repository/repository.h"
#include <string.h>
#include <time.h>

static const completion_choice *choice_of(const struct completion *completion)
{
    return &completion->choices[0];
}

static bool is_chat(const struct completion *completion)
{
    return completion->exchange->route.kind == ROUTE_OLLAMA_CHAT;
}

static void write_text(struct strbuf *to, const char *name, const char *text, size_t bytes)
{
    strbuf_format(to, "\"%s\":", name);
    strbuf_json(to, text != NULL ? text : "", bytes);
}

static void begin_object(const struct completion *completion, struct strbuf *to)
{
    struct timespec now;
    struct tm parts;
    char text[32];

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &parts);
    (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    strbuf_format(to, "{\"model\":\"%s\",\"created_at\":\"%s.%06ldZ\",", completion->asked.model, text,
                  now.tv_nsec / 1000);
    tool_set_write_warnings(&completion->asked.calls.tools, to);
}

static void write_calls(const completion_choice *choice, struct strbuf *to)
{
    for (uint32_t i = 0; i < choice->calls.count; i++) {
        const tool_call *call = &choice->calls.calls[i];
        json_t *arguments =
            call->arguments.size > 0 ? json_loadb(call->arguments.data, call->arguments.size, 0, NULL) : NULL;

        strbuf_format(to, "%s{\"function\":{\"name\":\"%s\",\"arguments\":", i > 0 ? "," : ",\"tool_calls\":[",
                      call->name);
        if (arguments != NULL) /* otherwise the text was cut */
            strbuf_add(to, call->arguments.data, call->arguments.size);
        else
            strbuf_text(to, "{}");
        strbuf_text(to, "}}");
        to->failed |= call->arguments.failed;
        json_decref(arguments);
    }
    strbuf_text(to, choice->calls.count > 0 ? "]" : "");
}

/* The text and the thought, or parts of them; calls: and the calls of tools. */
static void write_said(const struct completion *completion, struct strbuf *to, const char *text, size_t bytes,
                       const struct strbuf *thought, bool calls)
{
    if (is_chat(completion))
        strbuf_text(to, "\"message\":{\"role\":\"assistant\",");
    write_text(to, is_chat(completion) ? "content" : "response", text, bytes);
    if (thought != NULL && thought->size > 0) {
        strbuf_text(to, ",");
        write_text(to, "thinking", thought->data, thought->size);
    }
    if (calls)
        write_calls(choice_of(completion), to);
    strbuf_text(to, is_chat(completion) ? "}," : ",");
}

static void end_object(const struct completion *completion, struct strbuf *to)
{
    const completion_choice *choice = choice_of(completion);
    const struct request *request = &completion->exchange->request;
    const uint64_t first = choice->first_token_ns > 0 ? choice->first_token_ns : clock_ns();
    const uint64_t last = choice->token_ns > first ? choice->token_ns : first;

    strbuf_format(to,
                  "\"done\":true,\"done_reason\":\"%s\",\"total_duration\":%llu,\"load_duration\":0,"
                  "\"prompt_eval_count\":%zu,\"prompt_eval_duration\":%llu,\"eval_count\":%zu,\"eval_duration\":%llu}",
                  strcmp(choice->reason, "length") == 0 ? "length" : "stop",
                  (unsigned long long)(clock_ns() - request->arrived_ns), completion->tokens.prompt,
                  (unsigned long long)(first - request->received_ns), completion->tokens.generated,
                  (unsigned long long)(last - first));
}

static void write_whole(struct completion *completion, struct strbuf *to)
{
    const completion_choice *choice = choice_of(completion);

    begin_object(completion, to);
    write_said(completion, to, choice->text.data, choice->text.size, &choice->thoughts, true);
    end_object(completion, to);
    to->failed |= choice->text.failed;
}

static void write_line(struct completion *completion, const char *text, size_t bytes, const struct strbuf *thought)
{
    begin_object(completion, &completion->events.out);
    write_said(completion, &completion->events.out, text, bytes, thought, false);
    strbuf_text(&completion->events.out, "\"done\":false}\n");
}

static void write_part(struct completion *completion, const char *text, size_t bytes)
{
    if (bytes > 0)
        write_line(completion, text, bytes, NULL);
}

static void write_thought(struct completion *completion, const char *text, size_t bytes)
{
    const struct strbuf thought = { .data = (char *)(uintptr_t)text, .size = bytes };

    write_line(completion, "", 0, &thought);
}

/* Clients expect whole calls: write_end() has them. */
static void write_call(struct completion *completion, uint32_t index, size_t bytes)
{
    (void)completion;
    (void)index;
    (void)bytes;
}

static void write_end(struct completion *completion)
{
    begin_object(completion, &completion->events.out);
    write_said(completion, &completion->events.out, "", 0, NULL, true);
    end_object(completion, &completion->events.out);
    strbuf_text(&completion->events.out, "\n");
}

static void write_failure(struct completion *completion, const inlay_diag *failure)
{
    exchange_write_error(completion->exchange, &completion->events.out, exchange_code_of(failure->code), failure->text,
                         NULL, NULL);
    strbuf_text(&completion->events.out, "\n");
}

const reply_form ollama_reply = {
    write_whole, write_part, write_call, write_end, write_failure, write_thought, "application/x-ndjson"
};

typedef struct tag_list {
    struct strbuf *to;
    char last[MODELS_NAME_BYTES]; /* a model has an entry for each version */
} tag_list;

static void add_tag(void *user, const repository_entry *entry)
{
    tag_list *list = user;

    if (entry->purposes == 0 || strcmp(list->last, entry->name) == 0)
        return;
    strbuf_format(list->to, "%s{\"name\":\"%s\",\"model\":\"%s\"}", list->last[0] != '\0' ? "," : "", entry->name,
                  entry->name);
    (void)snprintf(list->last, sizeof list->last, "%s", entry->name);
}

void answer_tags(struct exchange *exchange)
{
    tag_list list = { .to = &exchange->reply };

    strbuf_text(&exchange->reply, "{\"models\":[");
    repository_each(exchange->request.server->repository, add_tag, &list);
    strbuf_text(&exchange->reply, "]}");
    exchange->code = HTTP_OK;
}
