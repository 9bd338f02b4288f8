/* The replies and events of llama-server's /completion and /infill, and of KServe's generate: one text. */
#include "serve/chat/completion_internal.h"
#include "serve/model/model.h"
#include <string.h>

/* The object of a part of the text; reason: of the last one, NULL: more follow. */
static void write_llama(const struct completion *completion, struct strbuf *to, const char *text, size_t bytes,
                        const char *reason)
{
    const completion_choice *choice = &completion->choices[0];

    strbuf_text(to, "{\"index\":0,");
    tool_set_write_warnings(&completion->asked.calls.tools, to);
    strbuf_text(to, "\"content\":");
    strbuf_json(to, text, bytes);
    strbuf_format(to, ",\"stop\":%s", reason != NULL ? "true" : "false");
    if (reason != NULL)
        strbuf_format(to,
                      ",\"model\":\"%s\",\"stop_type\":\"%s\",\"tokens_predicted\":%zu,\"tokens_evaluated\":%zu,"
                      "\"tokens_cached\":%zu,\"truncated\":false,\"stopping_word\":",
                      completion->asked.model,
                      strcmp(reason, "length") == 0 ? "limit"
                      : choice->base.stop != NULL   ? "word"
                                                    : "eos",
                      completion->tokens.generated, completion->tokens.prompt, completion->tokens.cached);
    if (reason != NULL)
        strbuf_json(to, choice->base.stop != NULL ? choice->base.stop : "",
                    choice->base.stop != NULL ? strlen(choice->base.stop) : 0);
    strbuf_text(to, "}");
}

static void write_generated(const struct completion *completion, struct strbuf *to, const char *text, size_t bytes,
                            const char *reason)
{
    const struct model *model = completion->exchange->request.job.model;

    strbuf_format(to, "{\"model_name\":\"%s\",\"model_version\":\"%s\",\"text_output\":", model->name, model->version);
    strbuf_json(to, text, bytes);
    if (reason != NULL)
        strbuf_format(to, ",\"details\":{\"finish_reason\":\"%s\",\"generated_tokens\":%zu}",
                      strcmp(reason, "length") == 0              ? "length"
                      : completion->choices[0].base.stop != NULL ? "stop_sequence"
                                                                 : "eos_token",
                      completion->tokens.generated);
    strbuf_text(to, "}");
}

static void write_object(const struct completion *completion, struct strbuf *to, const char *text, size_t bytes,
                         const char *reason)
{
    if (completion->reply == &llama_reply)
        write_llama(completion, to, text, bytes, reason);
    else
        write_generated(completion, to, text, bytes, reason);
}

static void write_whole(struct completion *completion, struct strbuf *to)
{
    const completion_choice *choice = &completion->choices[0];

    write_object(completion, to, choice->text.data != NULL ? choice->text.data : "", choice->text.size, choice->reason);
    to->failed |= choice->text.failed;
}

static void write_event(struct completion *completion, const char *text, size_t bytes, const char *reason)
{
    strbuf_text(&completion->events.out, "data: ");
    write_object(completion, &completion->events.out, text, bytes, reason);
    strbuf_text(&completion->events.out, "\n\n");
}

static void write_part(struct completion *completion, const char *text, size_t bytes)
{
    if (bytes > 0)
        write_event(completion, text, bytes, NULL);
}

static void write_end(struct completion *completion)
{
    write_event(completion, "", 0, completion->choices[0].reason);
}

static void write_failure(struct completion *completion, const inlay_diag *failure)
{
    strbuf_text(&completion->events.out, "data: ");
    exchange_write_error(completion->exchange, &completion->events.out, exchange_code_of(failure->code), failure->text,
                         NULL, NULL);
    strbuf_text(&completion->events.out, "\n\n");
}

const reply_form llama_reply = { write_whole, write_part, NULL, write_end, write_failure, NULL, NULL };
const reply_form generate_reply = { write_whole, write_part, NULL, write_end, write_failure, NULL, NULL };
