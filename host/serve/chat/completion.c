#include "serve/chat/completion.h"
#include "inlay/check.h"
#include "serve/chat/completion_request.h"
#include "serve/model/sequence.h"
#include "serve/model/text.h"
#include "serve/repository/repository.h"
#include "serve/exchange/watch.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CHAT_TOKENS = 1024 };

struct completion {
    struct exchange *exchange;
    uint64_t id;
    completion_request asked;
    bool streams;
    bool began; /* the first event of a stream was written */

    int64_t *tokens, *mask, *positions;     /* [room] */
    size_t room, count, prompt_count, read; /* tokens: capacity, number, in the prompt, processed by the model */
    infer_tensor inputs[3];
    infer_wanted wanted;
    struct strbuf text;  /* generated, not yet written to the reply */
    struct strbuf whole; /* text of a reply that is not a stream */
    const char *reason;

    pthread_mutex_t lock; /* guards the fields below */
    struct strbuf out;    /* events */
    bool waiting;         /* the exchange is suspended until `out` has events */
    bool done;            /* the text is complete */
};

static void release(struct exchange *exchange)
{
    struct completion *completion = exchange->completion;

    free(completion->tokens);
    free(completion->mask);
    free(completion->positions);
    completion_request_deinit(&completion->asked);
    strbuf_deinit(&completion->text);
    strbuf_deinit(&completion->whole);
    strbuf_deinit(&completion->out);
    (void)pthread_mutex_destroy(&completion->lock);
    free(completion);
}

/* ------------------------------------------------------------------ output */

/* Writes the first members of a reply or of a stream's event. */
static void write_head(const struct completion *completion, struct strbuf *to)
{
    const char *kind = !completion->asked.chat ? "text_completion"
                       : completion->streams   ? "chat.completion.chunk"
                                               : "chat.completion";

    strbuf_format(to,
                  "{\"id\":\"%s-%llu\",\"object\":\"%s\",\"created\":%lld,\"model\":\"%s\",\"choices\":[{\"index\":0,",
                  completion->asked.chat ? "chatcmpl" : "cmpl", (unsigned long long)completion->id, kind,
                  (long long)time(NULL), completion->exchange->job.model->name);
}

static void write_choice(struct completion *completion, struct strbuf *to, const char *text, size_t bytes,
                         const char *reason)
{
    write_head(completion, to);
    if (!completion->asked.chat)
        strbuf_text(to, "\"text\":");
    else if (completion->streams)
        strbuf_text(to,
                    completion->began ? "\"delta\":{\"content\":" : "\"delta\":{\"role\":\"assistant\",\"content\":");
    else
        strbuf_text(to, "\"message\":{\"role\":\"assistant\",\"content\":");
    completion->began = true;
    strbuf_json(to, text, bytes);
    strbuf_format(to, "%s,\"logprobs\":null,\"finish_reason\":%s%s%s}]", completion->asked.chat ? "}" : "",
                  reason != NULL ? "\"" : "", reason != NULL ? reason : "null", reason != NULL ? "\"" : "");
}

/* Resumes the exchange, which has data to send. The caller holds the lock. */
static void wake(struct completion *completion)
{
    if (!completion->waiting)
        return;
    completion->waiting = false;
    exchange_wake(completion->exchange);
}

/* Moves the first `bytes` bytes of the text to the reply; reason NULL: more text follows. */
static void emit(struct completion *completion, size_t bytes, const char *reason)
{
    INLAY_CHECK(bytes <= completion->text.size);
    if (!completion->streams) {
        strbuf_add(&completion->whole, completion->text.data, bytes);
    } else if (bytes > 0 || reason != NULL) {
        (void)pthread_mutex_lock(&completion->lock);
        strbuf_text(&completion->out, "data: ");
        write_choice(completion, &completion->out, completion->text.data, bytes, reason);
        strbuf_text(&completion->out, "}\n\n");
        wake(completion);
        (void)pthread_mutex_unlock(&completion->lock);
    }
    if (bytes > 0)
        memmove(completion->text.data, completion->text.data + bytes, completion->text.size - bytes);
    completion->text.size -= bytes;
}

/* Number of bytes at the end of the text that may begin a stop word or a character. */
static size_t held_back(const struct completion *completion)
{
    size_t held = 0;

    for (size_t length = 1; length <= 3 && length <= completion->text.size; length++) {
        unsigned char byte = (unsigned char)completion->text.data[completion->text.size - length];

        if (byte >> 6 == 3 && length < (byte >> 5 == 6 ? 2u : byte >> 4 == 14 ? 3u : 4u))
            held = length;
        if (byte >> 6 != 2)
            break;
    }
    for (uint32_t i = 0; i < completion->asked.stop_count; i++)
        for (size_t length = strlen(completion->asked.stops[i]) - 1; length > held; length--)
            if (length <= completion->text.size &&
                memcmp(completion->text.data + completion->text.size - length, completion->asked.stops[i], length) == 0)
                held = length;
    return held;
}

/* Cuts the text at the first stop word; false: it has none. */
static bool find_stop(struct completion *completion)
{
    size_t first = SIZE_MAX;

    for (uint32_t i = 0; i < completion->asked.stop_count && completion->text.size > 0; i++) {
        const char *at = memmem(completion->text.data, completion->text.size, completion->asked.stops[i],
                                strlen(completion->asked.stops[i]));

        if (at != NULL && (size_t)(at - completion->text.data) < first)
            first = (size_t)(at - completion->text.data);
    }
    if (first != SIZE_MAX)
        completion->text.size = first;
    return first != SIZE_MAX;
}

/* Ends the reply with a failure or with completion->reason. */
static void finish(struct completion *completion, const inlay_diag *failure)
{
    struct exchange *exchange = completion->exchange;

    watch_remove(exchange->server->watch, exchange);
    sequence_leave(&exchange->job); /* before the reply, so that the client's next text can use the sequence */
    if (failure != NULL)
        stats_add_error(exchange->job.model->stats, stats_error_of(failure->code), clock_ns() - exchange->arrived_ns);
    else
        stats_add_time(&exchange->job.model->stats->request, clock_ns() - exchange->arrived_ns);
    if (!completion->streams) {
        if (failure != NULL) {
            exchange_fail_diag(exchange, failure);
        } else {
            emit(completion, completion->text.size, completion->reason);
            write_choice(completion, &exchange->reply, completion->whole.data != NULL ? completion->whole.data : "",
                         completion->whole.size, completion->reason);
            strbuf_format(&exchange->reply,
                          ",\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,\"total_tokens\":%zu}}",
                          completion->prompt_count, completion->count - completion->prompt_count, completion->count);
            exchange->code = HTTP_OK;
        }
        completion->done = true;
        exchange_wake(exchange);
        return;
    }
    if (failure == NULL)
        emit(completion, completion->text.size, completion->reason);
    (void)pthread_mutex_lock(&completion->lock);
    if (failure != NULL) {
        strbuf_text(&completion->out, "data: {\"error\":");
        strbuf_json(&completion->out, failure->text, strlen(failure->text));
        strbuf_text(&completion->out, "}\n\n");
    } else {
        strbuf_text(&completion->out, "data: [DONE]\n\n");
    }
    completion->done = true;
    wake(completion);
    (void)pthread_mutex_unlock(&completion->lock); /* from here another thread may free the exchange */
}

completion_state completion_take(struct completion *completion, struct strbuf *to)
{
    completion_state state = COMPLETION_SENDS;

    (void)pthread_mutex_lock(&completion->lock);
    *to = completion->out;
    completion->out = (struct strbuf){ .failed = to->failed };
    if (completion->done || to->failed) {
        state = completion->done ? COMPLETION_DONE : COMPLETION_WAITS; /* without memory, step() ends the text */
    } else if (to->size == 0) {
        state = COMPLETION_WAITS;
    }
    if (state == COMPLETION_WAITS) {
        completion->waiting = true;
        exchange_suspend(completion->exchange);
    }
    (void)pthread_mutex_unlock(&completion->lock);
    return state;
}

/* ------------------------------------------------------------------ generation */

static bool make_room(struct completion *completion, size_t count)
{
    size_t room = completion->room;

    if (count <= room)
        return true;
    room = count + 256;
    for (int i = 0; i < 3; i++) {
        int64_t **at = i == 0   ? &completion->tokens
                       : i == 1 ? &completion->mask
                                : &completion->positions,
                *more = realloc(*at, room * sizeof *more);

        if (more == NULL)
            return false;
        *at = more;
        for (size_t k = completion->room; k < room && i > 0; k++)
            more[k] = i == 1 ? 1 : (int64_t)k;
    }
    completion->room = room;
    return true;
}

static void set_input(infer_tensor *tensor, const char *name, uint32_t input, int64_t *data, size_t count)
{
    *tensor = (infer_tensor){ .name = name,
                              .dtype = INLAY_INT64,
                              .rank = 2,
                              .dims = { 1, (int64_t)count },
                              .count = count,
                              .bytes = count * sizeof *data,
                              .data = data,
                              .input = input };
}

/* The callback of sched_submit(): the connection is already suspended, or has its response. */
static void keep_suspended(void *user)
{
    (void)user;
}

/* Queues a run over the tokens that the model has not processed yet. false: diag says why that failed. */
static bool submit(struct completion *completion, inlay_diag *diag)
{
    struct exchange *exchange = completion->exchange;
    const text_model *model = exchange->job.model->text;
    infer_request *request = &exchange->request;
    size_t count = completion->count - completion->read;

    INLAY_CHECK(completion->read < completion->count && completion->count <= completion->room);
    request->input_count = 0;
    set_input(&completion->inputs[request->input_count++], "input_ids", model->ids,
              completion->tokens + completion->read, count);
    if (model->mask != INLAY_NONE)
        set_input(&completion->inputs[request->input_count++], "attention_mask", model->mask, completion->mask,
                  completion->count);
    if (model->positions != INLAY_NONE)
        set_input(&completion->inputs[request->input_count++], "position_ids", model->positions,
                  completion->positions + completion->read, count);
    request->sequence_start = completion->read == 0;
    request->sequence_end = true; /* no other request uses this sequence; it is held until the job ends */
    exchange->job.bytes = 0;
    if (completion->read == 0 && model_check(&exchange->job, diag) != INLAY_OK)
        return false;
    exchange->job.bytes = count * sizeof(int64_t);
    exchange->job.arrived_ns = exchange->job.received_ns = clock_ns();
    completion->read = completion->count;
    if (completion->count == completion->prompt_count)
        watch_add(exchange->server->watch, exchange);
    if (sched_submit(exchange->server->sched, &exchange->job, keep_suspended, NULL) != SCHED_FULL)
        return true;
    watch_remove(exchange->server->watch, exchange);
    return inlay_fail(diag, INLAY_BUSY, "the model's queue is full; try again later") == INLAY_OK;
}

static void count_token(const struct completion *completion)
{
    const struct exchange *exchange = completion->exchange;
    model_stats *stats = exchange->job.model->stats;

    (void)atomic_fetch_add_explicit(&stats->generated_tokens, 1, memory_order_relaxed);
    if (completion->count != completion->prompt_count + 1)
        return;
    (void)atomic_fetch_add_explicit(&stats->prompt_tokens, completion->prompt_count, memory_order_relaxed);
    stats_add_time(&stats->first_token, clock_ns() - exchange->received_ns);
}

/* Chooses the next token from the logits of the last one. false: the text is complete, or diag says why none was
 * chosen. */
static bool take_token(struct completion *completion, const infer_output *output, inlay_diag *diag)
{
    const text_model *model = completion->exchange->job.model->text;
    size_t vocabulary = output->rank == 3 ? (size_t)output->dims[2] : 0, bytes = 0;
    bool special = false, stopped;
    const char *text;
    int64_t token;

    if (vocabulary == 0 || output->count < vocabulary || output->dtype != INLAY_FLOAT)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "'logits' is not a float tensor [1, tokens, vocabulary]") ==
               INLAY_OK;
    token = sampler_next(&completion->asked.sampler, (float *)(uintptr_t)output->data + (output->count - vocabulary),
                         vocabulary, completion->tokens, completion->count);
    if (token < 0 || !make_room(completion, completion->count + 1))
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no token could be chosen") == INLAY_OK;
    completion->tokens[completion->count++] = token;
    count_token(completion);
    completion->reason = "stop";
    if (text_model_is_end(model, token))
        return false;
    text = tokenizer_bytes(model->tokenizer, token, &bytes, &special);
    if (text != NULL && !special)
        strbuf_add(&completion->text, text, bytes);
    stopped = find_stop(completion);
    if (stopped)
        return false;
    completion->reason = "length";
    if (completion->count - completion->prompt_count == completion->asked.max_tokens)
        return false;
    emit(completion, completion->text.size - held_back(completion), NULL);
    return true;
}

/* Called when a run ends. Any thread. */
static void step(struct job *job, const inlay_diag *failure, const infer_output *outputs, uint32_t output_count)
{
    struct exchange *exchange = job->user;
    struct completion *completion = exchange->completion;
    inlay_diag diag = INLAY_DIAG_INIT;

    exchange->compute_ns += failure == NULL ? job->compute_ns : 0;
    exchange->run_rows = 1;
    if (failure != NULL) {
        finish(completion, failure);
    } else if (output_count != 1 || !take_token(completion, &outputs[0], &diag)) {
        finish(completion, diag.code != INLAY_OK ? &diag : NULL);
    } else if (job->cancelled || completion->text.failed || completion->whole.failed || completion->out.failed) {
        (void)inlay_fail(&diag, job->cancelled ? INLAY_CANCELLED : INLAY_OUT_OF_MEMORY, "the text was not finished");
        finish(completion, &diag);
    } else if (!submit(completion, &diag)) {
        finish(completion, &diag);
    }
}

/* Tokenizes the prompt, or the messages rendered with the model's template. false: the failure is in the reply. */
static bool read_prompt(struct exchange *exchange, struct completion *completion)
{
    const text_model *model = exchange->job.model->text;
    const struct chat chat = { model->chat_template, model->begin, model->end, completion->asked.messages,
                               completion->asked.message_count };
    inlay_diag diag = INLAY_DIAG_INIT;
    char *rendered = NULL;
    bool good;

    if (completion->asked.chat && model->chat_template == NULL)
        (void)inlay_fail(&diag, INLAY_INVALID_ARGUMENT,
                         "the model has no chat_template (tokenizer_config.json in its folder); use v1/completions");
    else if (completion->asked.chat && chat_render(&chat, &rendered, &diag) == INLAY_UNSUPPORTED)
        diag.code = INLAY_INVALID_ARGUMENT; /* the model's template is the cause, not the server */
    if (diag.code != INLAY_OK) {
        exchange_fail_diag(exchange, &diag);
        return false;
    }
    good = tokenizer_encode(model->tokenizer, rendered != NULL ? rendered : completion->asked.prompt, rendered == NULL,
                            &completion->tokens, &completion->count) &&
           completion->count > 0;
    free(rendered);
    if (!good)
        exchange_fail(exchange, HTTP_BAD_REQUEST, "the prompt has no tokens");
    return good;
}

static bool begin(struct exchange *exchange, struct completion *completion)
{
    static atomic_uint_fast64_t ids;
    inlay_diag diag = INLAY_DIAG_INIT;
    char id[32];

    if (exchange->job.model->text == NULL || exchange->job.model->text->logits == INLAY_NONE) {
        exchange_fail(exchange, HTTP_BAD_REQUEST,
                      "not a model for texts; that needs a decoder with states and a tokenizer.json in its folder");
        return false;
    }
    if (!read_prompt(exchange, completion))
        return false;
    completion->prompt_count = completion->count;
    completion->id = atomic_fetch_add(&ids, 1) + 1;
    (void)snprintf(id, sizeof id, "\1completion %llu",
                   (unsigned long long)completion->id); /* no client can send this id */
    (void)infer_set_sequence(&exchange->request, id, strlen(id));
    exchange->request.id = "";
    exchange->request.inputs = completion->inputs;
    exchange->request.outputs = &completion->wanted;
    exchange->request.output_count = 1;
    completion->wanted = (infer_wanted){ .name = "logits", .binary = -1 };
    exchange->job.request = &exchange->request;
    exchange->job.finish = step;
    exchange->job.user = exchange;
    if (completion->asked.sampler.temperature > 0 && completion->asked.sampler.state == 0)
        completion->asked.sampler.state = clock_ns() ^ completion->id;
    if (!make_room(completion, completion->count + 1)) {
        (void)no_memory(&diag, "for the text");
        exchange_fail_diag(exchange, &diag);
        return false;
    }
    return true;
}

/* Generates the text with job.model. If the exchange is suspended already, because it waited for its model, it is
 * resumed when there is something to send. */
static void generate(struct exchange *exchange)
{
    struct completion *completion = exchange->completion;
    bool was_suspended = exchange->suspended;
    inlay_diag diag = INLAY_DIAG_INIT;

    if (!begin(exchange, completion)) {
        if (was_suspended)
            exchange_wake(exchange);
        return;
    }
    completion->done = false;
    completion->streams = completion->asked.streams;
    completion->waiting = was_suspended && completion->streams;
    if (completion->streams) {
        exchange->code = HTTP_OK;
        exchange->type = "text/event-stream";
    } else if (!was_suspended) {
        exchange_suspend(exchange);
    }
    if (submit(completion, &diag))
        return;
    completion->done = true;
    completion->streams = completion->waiting = false;
    exchange_fail_diag(exchange, &diag);
    if (exchange->suspended)
        exchange_wake(exchange);
}

/* The model that the request waited for is loaded, or its load failed. */
static void model_loaded(void *user, const inlay_diag *failure)
{
    struct exchange *exchange = user;

    if (exchange_take_model(exchange, failure))
        generate(exchange);
    else
        exchange_wake(exchange);
}

void answer_completions(struct exchange *exchange)
{
    struct completion *completion = calloc(1, sizeof *completion);
    bool deferred;
    char why[200];

    if (completion == NULL) {
        exchange_fail(exchange, HTTP_SERVICE_UNAVAILABLE, "no memory for the text");
        return;
    }
    *completion =
        (struct completion){ .exchange = exchange,
                             .asked = { .chat = exchange->route.kind == ROUTE_CHAT, .sampler = SAMPLER_INIT } };
    completion->asked.max_tokens =
        completion->asked.chat ? CHAT_TOKENS : 16; /* OpenAI's default is 16; chats have none */
    completion->asked.sampler.temperature = 1;
    (void)pthread_mutex_init(&completion->lock, NULL);
    completion->done = true; /* until the first run is queued */
    exchange->completion = completion;
    exchange->release = release;
    if (!completion_request_read(&completion->asked, exchange->body, exchange->body_bytes, why, sizeof why)) {
        exchange_fail(exchange, HTTP_BAD_REQUEST, why);
        return;
    }
    exchange->job.model = repository_acquire(exchange->server->repository, completion->asked.model,
                                             strlen(completion->asked.model), 0, &deferred);
    if (deferred)
        exchange_load_model(exchange, completion->asked.model, strlen(completion->asked.model), 0, model_loaded);
    else if (exchange->job.model == NULL)
        exchange_fail(exchange, HTTP_NOT_FOUND, "no such model is loaded; GET v1/models lists the models for texts");
    else
        generate(exchange);
}

/* ------------------------------------------------------------------ GET /v1/models */

typedef struct model_list {
    struct strbuf *to;
    uint32_t count;
} model_list;

static void add_model(void *user, const repository_entry *entry)
{
    model_list *list = user;

    if (entry->is_text)
        strbuf_format(list->to, "%s{\"id\":\"%s\",\"object\":\"model\",\"created\":0,\"owned_by\":\"inlay\"}",
                      list->count++ > 0 ? "," : "", entry->name);
}

void answer_models(struct exchange *exchange)
{
    model_list list = { &exchange->reply, 0 };

    strbuf_text(&exchange->reply, "{\"object\":\"list\",\"data\":[");
    repository_each(exchange->server->repository, add_model, &list);
    strbuf_text(&exchange->reply, "]}");
    exchange->code = HTTP_OK;
}
