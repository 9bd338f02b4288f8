#include "serve/chat/completion_internal.h"
#include "inlay/check.h"
#include "serve/exchange/watch.h"
#include "serve/model/text.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void log_deinit(token_log *log)
{
    strbuf_deinit(&log->tokens);
    strbuf_deinit(&log->values);
    strbuf_deinit(&log->tops);
    strbuf_deinit(&log->offsets);
}

void completion_choice_deinit(completion_choice *choice)
{
    text_choice_deinit(&choice->base);
    strbuf_deinit(&choice->text);
    strbuf_deinit(&choice->thought);
    strbuf_deinit(&choice->thoughts);
    tool_reader_deinit(&choice->calls);
    log_deinit(&choice->log);
    strbuf_deinit(&choice->prompt_log);
}

/* ln(sum of e^logit). */
static double log_sum(const float *logits, size_t count)
{
    float most = -FLT_MAX;
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        if (logits[i] > most)
            most = logits[i];
    for (size_t i = 0; i < count; i++)
        if (!isnan(logits[i]))
            sum += (double)expf(logits[i] - most);
    return (double)most + log(sum);
}

/* The tokens with the largest logits, in descending order. Returns their number. */
static uint32_t most_probable(const float *logits, size_t count, uint32_t limit, int64_t out[MAX_TOP])
{
    uint32_t found = 0;

    for (size_t i = 0; i < count && limit > 0; i++) {
        uint32_t at = found;

        if (isnan(logits[i]) || (found == limit && !(logits[i] > logits[out[found - 1]])))
            continue;
        if (found < limit)
            found++;
        else
            at--;
        for (; at > 0 && logits[i] > logits[out[at - 1]]; at--)
            out[at] = out[at - 1];
        out[at] = (int64_t)i;
    }
    return found;
}

/* JSON has no infinity; OpenAI's API has -9999 for tokens that are impossible. */
static void write_log(struct strbuf *to, double value)
{
    strbuf_format(to, "%.9g", value > -9999 ? value : -9999.0);
}

static void write_comma(struct strbuf *to)
{
    if (to->size > 0)
        strbuf_text(to, ",");
}

/* "token", "logprob" and "bytes" of a chat's token. */
static void write_entry(struct strbuf *to, const struct tokenizer *tokenizer, int64_t token, double value)
{
    size_t bytes = 0;
    bool special = false;
    const char *text = tokenizer_bytes(tokenizer, token, &bytes, &special);

    strbuf_text(to, "{\"token\":");
    strbuf_json(to, text != NULL ? text : "", text != NULL ? bytes : 0);
    strbuf_text(to, ",\"logprob\":");
    write_log(to, value);
    strbuf_text(to, ",\"bytes\":[");
    for (size_t i = 0; text != NULL && i < bytes; i++)
        strbuf_format(to, "%s%u", i > 0 ? "," : "", (unsigned char)text[i]);
    strbuf_text(to, "]");
}

static void write_text(struct strbuf *to, const struct tokenizer *tokenizer, int64_t token)
{
    size_t bytes = 0;
    bool special = false;
    const char *text = tokenizer_bytes(tokenizer, token, &bytes, &special);

    strbuf_json(to, text != NULL ? text : "", text != NULL ? bytes : 0);
}

static size_t characters(const char *text, size_t bytes)
{
    size_t count = 0;

    for (size_t i = 0; i < bytes; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

/* The most probable tokens as members of an object, most probable first. Of tokens with the same text (parts of
 * characters, ids without text), it has one, the most probable: readers keep one of two members of the same name. */
static void write_tops(struct strbuf *to, const struct tokenizer *tokenizer, const int64_t *top, uint32_t count,
                       const float *logits, double total)
{
    size_t begins[MAX_TOP], sizes[MAX_TOP];
    uint32_t written = 0;

    strbuf_text(to, "{");
    for (uint32_t i = 0; i < count && !to->failed; i++) {
        const size_t before = to->size;
        uint32_t k = 0;

        strbuf_text(to, written > 0 ? "," : "");
        begins[written] = to->size;
        write_text(to, tokenizer, top[i]);
        sizes[written] = to->size - begins[written];
        while (k < written && (sizes[k] != sizes[written] || to->failed ||
                               memcmp(to->data + begins[k], to->data + begins[written], sizes[k]) != 0))
            k++;
        if (k < written) {
            to->size = before;
            continue;
        }
        written++;
        strbuf_text(to, ":");
        write_log(to, (double)logits[top[i]] - total);
    }
    strbuf_text(to, "}");
}

/* Adds a token to the log. logits: [count] by which it was chosen; NULL: it is the first one of the prompt. */
static void log_token(completion_choice *choice, int64_t token, const float *logits, size_t count, double total)
{
    const completion_request *asked = &choice->completion->asked;
    const struct tokenizer *tokenizer = choice->base.model->tokenizer;
    token_log *log = &choice->log;
    size_t bytes = 0;
    bool special = false;
    const char *text = tokenizer_bytes(tokenizer, token, &bytes, &special);
    int64_t top[MAX_TOP];
    const uint32_t found = logits != NULL ? most_probable(logits, count, asked->logs.top, top) : 0;

    write_comma(&log->tokens);
    if (asked->chat) {
        write_entry(&log->tokens, tokenizer, token, (double)logits[token] - total);
        strbuf_text(&log->tokens, ",\"top_logprobs\":[");
        for (uint32_t i = 0; i < found; i++) {
            strbuf_text(&log->tokens, i > 0 ? "," : "");
            write_entry(&log->tokens, tokenizer, top[i], (double)logits[top[i]] - total);
            strbuf_text(&log->tokens, "}");
        }
        strbuf_text(&log->tokens, "]}");
        return;
    }
    write_text(&log->tokens, tokenizer, token);
    write_comma(&log->values);
    write_comma(&log->offsets);
    strbuf_uint(&log->offsets, choice->characters);
    choice->characters += text != NULL && !special ? characters(text, bytes) : 0;
    write_comma(&log->tops);
    if (logits == NULL) {
        strbuf_text(&log->values, "null");
        strbuf_text(&log->tops, "null");
    } else {
        write_log(&log->values, (double)logits[token] - total);
        write_tops(&log->tops, tokenizer, top, found, logits, total);
    }
}

void completion_log_token(completion_choice *choice, int64_t token, const float *logits, size_t count)
{
    const completion_request *asked = &choice->completion->asked;
    double total;

    if (!asked->logs.wanted && asked->candidates == asked->choices)
        return;
    total = log_sum(logits, count);
    choice->log_probability += (double)logits[token] - total;
    if (asked->logs.wanted)
        log_token(choice, token, logits, count, total);
}

/* A member of an element of prompt_logprobs. */
static void write_ranked(struct strbuf *to, const struct tokenizer *tokenizer, int64_t token, double value, size_t rank)
{
    strbuf_format(to, "\"%lld\":{\"logprob\":", (long long)token);
    write_log(to, value);
    strbuf_format(to, ",\"rank\":%zu,\"decoded_token\":", rank);
    write_text(to, tokenizer, token);
    strbuf_text(to, "}");
}

/* The most probable tokens, and the prompt's own one. */
static void write_prompt_token(completion_choice *choice, int64_t token, const float *logits, size_t count,
                               double total)
{
    const struct tokenizer *tokenizer = choice->base.model->tokenizer;
    struct strbuf *to = &choice->prompt_log;
    int64_t top[MAX_TOP];
    const uint32_t found = most_probable(logits, count, (uint32_t)choice->completion->asked.logs.prompt, top);
    size_t rank = 1;

    for (size_t i = 0; i < count; i++)
        rank += logits[i] > logits[token];
    strbuf_text(to, "{");
    for (uint32_t i = 0; i < found; i++)
        if (top[i] != token) {
            write_ranked(to, tokenizer, top[i], (double)logits[top[i]] - total, i + 1);
            strbuf_text(to, ",");
        }
    write_ranked(to, tokenizer, token, (double)logits[token] - total, rank);
    strbuf_text(to, "}");
}

void completion_log_prompt(completion_choice *choice, const float *logits, size_t count)
{
    const completion_request *asked = &choice->completion->asked;
    const int64_t token = choice->base.tokens[choice->scored++];
    const double total = logits != NULL ? log_sum(logits, count) : 0;

    if (asked->echoes && asked->logs.wanted)
        log_token(choice, token, logits, count, total);
    if (asked->logs.prompt < 0)
        return;
    write_comma(&choice->prompt_log);
    if (logits == NULL)
        strbuf_text(&choice->prompt_log, "null");
    else
        write_prompt_token(choice, token, logits, count, total);
}

static void add(struct strbuf *to, const struct strbuf *from)
{
    strbuf_add(to, from->data, from->size);
    to->failed |= from->failed;
}

/* Writes the member "logprobs" and empties the log. */
static void write_logprobs(const struct completion *completion, struct strbuf *to, token_log *log)
{
    if (!completion->asked.logs.wanted) {
        strbuf_text(to, "\"logprobs\":null");
        return;
    }
    strbuf_text(to, completion->asked.chat ? "\"logprobs\":{\"content\":[" : "\"logprobs\":{\"tokens\":[");
    add(to, &log->tokens);
    if (completion->asked.chat) {
        strbuf_text(to, "],\"refusal\":null}");
    } else {
        strbuf_text(to, "],\"token_logprobs\":[");
        add(to, &log->values);
        strbuf_text(to, "],\"top_logprobs\":");
        if (completion->asked.logs.top > 0) {
            strbuf_text(to, "[");
            add(to, &log->tops);
            strbuf_text(to, "]");
        } else {
            strbuf_text(to, "null");
        }
        strbuf_text(to, ",\"text_offset\":[");
        add(to, &log->offsets);
        strbuf_text(to, "]}");
    }
    log_deinit(log);
}

/* Writes the first members of a reply or of a stream's event. */
static void write_head(const struct completion *completion, struct strbuf *to)
{
    const char *kind = !completion->asked.chat ? "text_completion"
                       : completion->streams   ? "chat.completion.chunk"
                                               : "chat.completion";

    strbuf_format(to, "{\"id\":\"%s-%llu\",\"object\":\"%s\",\"created\":%lld,\"model\":\"%s\",",
                  completion->asked.chat ? "chatcmpl" : "cmpl", (unsigned long long)completion->id, kind,
                  (long long)time(NULL), completion->asked.model);
    tool_set_write_warnings(&completion->asked.calls.tools, to);
    strbuf_text(to, "\"choices\":[");
}

/* A call with its first `bytes` arguments. */
static void write_call(struct strbuf *to, const tool_call *call, size_t bytes)
{
    strbuf_format(to, "\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":\"%s\",\"arguments\":", call->id,
                  call->name);
    strbuf_json(to, call->arguments.data != NULL ? call->arguments.data : "", bytes);
    strbuf_text(to, "}}");
    to->failed |= call->arguments.failed;
}

/* The message of a chat's reply. A model that refuses says so in its content. */
static void write_message(struct strbuf *to, const completion_choice *choice, const char *text, size_t bytes)
{
    strbuf_text(to, "\"message\":{\"role\":\"assistant\",\"refusal\":null,\"content\":");
    if (choice->calls.count > 0 && bytes == 0)
        strbuf_text(to, "null");
    else
        strbuf_json(to, text, bytes);
    if (choice->thoughts.size > 0) {
        strbuf_text(to, ",\"reasoning_content\":");
        strbuf_json(to, choice->thoughts.data, choice->thoughts.size);
    }
    for (uint32_t i = 0; i < choice->calls.count; i++) {
        strbuf_text(to, i == 0 ? ",\"tool_calls\":[{" : ",{");
        write_call(to, &choice->calls.calls[i], choice->calls.calls[i].arguments.size);
    }
    strbuf_text(to, choice->calls.count > 0 ? "]}," : "},");
}

/* What an event adds to the message. */
static void write_delta(struct strbuf *to, const completion_choice *choice, const char *text, size_t bytes)
{
    strbuf_text(to, choice->began ? "\"delta\":{" : "\"delta\":{\"role\":\"assistant\",");
    if (bytes > 0 || !choice->calling) {
        strbuf_text(to, "\"content\":");
        strbuf_json(to, text, bytes);
    } else if (!choice->began) {
        strbuf_text(to, "\"content\":null");
    }
    strbuf_text(to, "},");
}

static void write_reason(struct strbuf *to, const char *reason)
{
    strbuf_format(to, ",\"finish_reason\":%s%s%s}", reason != NULL ? "\"" : "", reason != NULL ? reason : "null",
                  reason != NULL ? "\"" : "");
}

/* Writes the member "prompt_logprobs", if it is wanted. */
static void write_prompt_logprobs(const completion_choice *choice, struct strbuf *to)
{
    if (choice->completion->asked.logs.prompt < 0)
        return;
    strbuf_text(to, ",\"prompt_logprobs\":[");
    add(to, &choice->prompt_log);
    strbuf_text(to, "]");
}

static void write_choice(const struct completion *completion, completion_choice *choice, struct strbuf *to,
                         uint32_t index, const char *text, size_t bytes, const char *reason)
{
    strbuf_format(to, "{\"index\":%u,", index);
    if (completion->asked.chat && completion->streams) {
        write_delta(to, choice, text, bytes);
    } else if (completion->asked.chat) {
        write_message(to, choice, text, bytes);
    } else {
        strbuf_text(to, "\"text\":");
        strbuf_json(to, text, bytes);
        strbuf_text(to, ",");
    }
    choice->began = true;
    write_logprobs(completion, to, &choice->log);
    if (!completion->asked.chat)
        write_prompt_logprobs(choice, to);
    write_reason(to, reason);
}

static void write_usage(const struct completion *completion, struct strbuf *to)
{
    strbuf_format(to,
                  ",\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,\"total_tokens\":%zu,"
                  "\"prompt_tokens_details\":{\"cached_tokens\":%zu}}",
                  completion->tokens.prompt, completion->tokens.generated,
                  completion->tokens.prompt + completion->tokens.generated, completion->tokens.cached);
}

/* Counts the events that were added. */
static void count_events(struct completion *completion)
{
    struct request *request = &completion->exchange->request;
    const uint64_t more = completion->events.out.size - completion->events.counted;

    if (completion->events.counted > COMPLETION_UNREAD_BYTES ||
        !server_hold(request->server, request->held_bytes + completion->events.counted, more))
        completion->events.is_unread = true;
    else
        completion->events.counted += more;
}

/* Resumes the exchange, which has data to send. The caller holds the lock. */
static void wake(struct completion *completion)
{
    if (!completion->events.is_unread)
        count_events(completion);
    if (!completion->waiting)
        return;
    completion->waiting = false;
    request_wake(&completion->exchange->request);
}

/* Ends the event of a choice. */
static void end_event(const struct completion *completion, struct strbuf *to)
{
    strbuf_text(to, completion->asked.stream_usage ? "],\"usage\":null}\n\n" : "]}\n\n");
}

/* The event of a call: its id and name, then parts of its arguments. */
static void write_call_event(struct completion *completion, completion_choice *choice, uint32_t index, size_t bytes)
{
    struct strbuf *to = &completion->events.out;
    tool_call *call = &choice->calls.calls[index];

    strbuf_text(to, "data: ");
    write_head(completion, to);
    strbuf_format(to, "{\"index\":%u,\"delta\":{%s\"tool_calls\":[{\"index\":%u,",
                  (uint32_t)(choice - completion->choices),
                  choice->began ? "" : "\"role\":\"assistant\",\"content\":null,", index);
    if (!call->began) {
        write_call(to, call, 0);
    } else {
        strbuf_text(to, "\"function\":{\"arguments\":");
        strbuf_json(to, call->arguments.data + call->sent, bytes);
        strbuf_text(to, "}}");
    }
    strbuf_text(to, "]},");
    write_logprobs(completion, to, &choice->log);
    write_reason(to, NULL);
    end_event(completion, to);
    choice->began = true;
}

void completion_emit_calls(completion_choice *choice)
{
    struct completion *completion = choice->completion;

    for (uint32_t i = 0; i < choice->calls.count && completion->streams; i++) {
        tool_call *call = &choice->calls.calls[i];

        for (;;) {
            size_t bytes = call->arguments.size - text_incomplete(call->arguments.data, call->arguments.size);

            bytes = call->began ? bytes - call->sent : 0;
            if (!call->named || (call->began && bytes == 0))
                break;
            (void)pthread_mutex_lock(&completion->lock);
            if (completion->reply != NULL)
                completion->reply->write_call(completion, i, bytes);
            else
                write_call_event(completion, choice, i, bytes);
            call->began = true;
            call->sent += bytes;
            wake(completion);
            (void)pthread_mutex_unlock(&completion->lock);
        }
    }
}

static void write_thought_event(struct completion *completion, completion_choice *choice)
{
    struct strbuf *to = &completion->events.out;

    strbuf_text(to, "data: ");
    write_head(completion, to);
    strbuf_format(to, "{\"index\":%u,\"delta\":{%s\"reasoning_content\":", (uint32_t)(choice - completion->choices),
                  choice->began ? "" : "\"role\":\"assistant\",\"content\":null,");
    strbuf_json(to, choice->thought.data, choice->thought.size);
    strbuf_text(to, "},");
    write_logprobs(completion, to, &choice->log);
    write_reason(to, NULL);
    end_event(completion, to);
    choice->began = true;
}

void completion_emit_thought(completion_choice *choice)
{
    struct completion *completion = choice->completion;

    if (choice->thought.size == 0)
        return;
    add(&choice->thoughts, &choice->thought);
    if (completion->streams) {
        (void)pthread_mutex_lock(&completion->lock);
        if (completion->reply != NULL)
            completion->reply->write_thought(completion, choice->thought.data, choice->thought.size);
        else
            write_thought_event(completion, choice);
        wake(completion);
        (void)pthread_mutex_unlock(&completion->lock);
    }
    choice->thought.size = 0;
}

void completion_emit(completion_choice *choice, size_t bytes, const char *reason)
{
    struct completion *completion = choice->completion;
    struct strbuf *unsent = &choice->base.unsent;

    INLAY_CHECK(bytes <= unsent->size);
    for (size_t i = 0; i < bytes; i++)
        choice->said |= strchr(" \n\t\r", unsent->data[i]) == NULL;
    if (!completion->streams || completion->reply != NULL)
        strbuf_add(&choice->text, unsent->data, bytes);
    if (completion->streams && (bytes > 0 || reason != NULL)) {
        const char *text = unsent->data != NULL ? unsent->data : "";

        (void)pthread_mutex_lock(&completion->lock);
        if (completion->reply != NULL) {
            completion->reply->write_part(completion, text, bytes);
        } else {
            strbuf_text(&completion->events.out, "data: ");
            write_head(completion, &completion->events.out);
            write_choice(completion, choice, &completion->events.out, (uint32_t)(choice - completion->choices), text,
                         bytes, reason);
            end_event(completion, &completion->events.out);
        }
        wake(completion);
        (void)pthread_mutex_unlock(&completion->lock);
    }
    if (bytes > 0)
        memmove(unsent->data, unsent->data + bytes, unsent->size - bytes);
    unsent->size -= bytes;
}

static double mean_log(const completion_choice *choice)
{
    return choice->base.token_count > 0 ? choice->log_probability / (double)choice->base.token_count : 0;
}

/* Orders the candidates of a prompt by descending mean log probability of their tokens. */
static int by_probability(const void *left, const void *right)
{
    double a = mean_log(left), b = mean_log(right);

    return (a < b) - (a > b);
}

static void write_choices(struct completion *completion, struct strbuf *to)
{
    const completion_request *asked = &completion->asked;
    uint32_t index = 0;

    for (uint32_t first = 0; first < completion->choice_count; first += asked->candidates) {
        if (asked->candidates > asked->choices)
            qsort(&completion->choices[first], asked->candidates, sizeof *completion->choices, by_probability);
        for (uint32_t i = first; i < first + asked->choices; i++) {
            completion_choice *choice = &completion->choices[i];

            strbuf_text(to, index > 0 ? "," : "");
            write_choice(completion, choice, to, index++, choice->text.data != NULL ? choice->text.data : "",
                         choice->text.size, choice->reason);
            to->failed |= choice->text.failed;
        }
    }
}

void completion_reply(struct completion *completion, const inlay_diag *failure)
{
    struct exchange *exchange = completion->exchange;

    watch_remove(exchange->request.server->watch, &exchange->request);
    if (failure != NULL)
        stats_add_error(exchange->request.job.model->metrics.stats, stats_error_of(failure->code),
                        clock_ns() - exchange->request.arrived_ns);
    else
        stats_add_time(&exchange->request.job.model->metrics.stats->request, clock_ns() - exchange->request.arrived_ns);
    if (!completion->streams) {
        if (failure != NULL) {
            exchange_fail_diag(exchange, failure);
        } else if (completion->reply != NULL) {
            completion->reply->write(completion, &exchange->reply);
            exchange->code = HTTP_OK;
        } else {
            write_head(completion, &exchange->reply);
            write_choices(completion, &exchange->reply);
            strbuf_text(&exchange->reply, "]");
            if (completion->asked.chat)
                write_prompt_logprobs(&completion->choices[0], &exchange->reply);
            write_usage(completion, &exchange->reply);
            strbuf_text(&exchange->reply, "}");
            exchange->code = HTTP_OK;
        }
        completion->done = true;
        request_wake(&exchange->request);
        return;
    }
    (void)pthread_mutex_lock(&completion->lock);
    if (completion->reply != NULL && failure != NULL) {
        completion->reply->write_failure(completion, failure);
    } else if (completion->reply != NULL) {
        completion->reply->write_end(completion);
    } else if (failure != NULL) {
        strbuf_text(&completion->events.out, "data: ");
        exchange_write_error(exchange, &completion->events.out, exchange_code_of(failure->code), failure->text, NULL,
                             NULL);
        strbuf_text(&completion->events.out, "\n\n");
    } else {
        if (completion->asked.stream_usage) {
            strbuf_text(&completion->events.out, "data: ");
            write_head(completion, &completion->events.out);
            strbuf_text(&completion->events.out, "]");
            write_usage(completion, &completion->events.out);
            strbuf_text(&completion->events.out, "}\n\n");
        }
        strbuf_text(&completion->events.out, "data: [DONE]\n\n");
    }
    completion->done = true;
    wake(completion);
    (void)pthread_mutex_unlock(&completion->lock); /* from here another thread may free the exchange */
}
