#include "serve/completion.h"
#include "serve/completion_request.h"
#include "serve/sequence.h"
#include "serve/text.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CHAT_TOKENS = 1024 };

struct completion {
    struct exchange *x;
    uint64_t id;
    completion_request asked;
    bool streams;
    bool began; /* a stream has had its first event */

    int64_t *tokens, *mask, *positions; /* [room] */
    size_t room, count, prompt_count, read;
    infer_tensor inputs[3];
    infer_wanted wanted;
    struct strbuf text;  /* made, and not given out yet */
    struct strbuf whole; /* of an answer that is no stream */
    const char *reason;

    pthread_mutex_t lock; /* of what follows */
    struct strbuf out;    /* events that the client has not got yet, from `taken` on */
    size_t taken;
    bool waiting; /* the connection sleeps until there are some */
    bool done, left;
};

void completion_destroy(struct completion *c)
{
    if (c == NULL)
        return;
    free(c->tokens);
    free(c->mask);
    free(c->positions);
    completion_request_deinit(&c->asked);
    strbuf_deinit(&c->text);
    strbuf_deinit(&c->whole);
    strbuf_deinit(&c->out);
    (void)pthread_mutex_destroy(&c->lock);
    free(c);
}

/* ------------------------------------------------------------------ what is sent */

/* What an answer, or an event of a stream, begins with. */
static void write_head(const struct completion *c, struct strbuf *to)
{
    const char *kind = !c->asked.chat ? "text_completion" : c->streams ? "chat.completion.chunk" : "chat.completion";

    strbuf_format(to,
                  "{\"id\":\"%s-%llu\",\"object\":\"%s\",\"created\":%lld,\"model\":\"%s\",\"choices\":[{\"index\":0,",
                  c->asked.chat ? "chatcmpl" : "cmpl", (unsigned long long)c->id, kind, (long long)time(NULL),
                  c->x->job.model->name);
}

static void write_choice(struct completion *c, struct strbuf *to, const char *text, size_t bytes, const char *reason)
{
    write_head(c, to);
    if (!c->asked.chat)
        strbuf_text(to, "\"text\":");
    else if (c->streams)
        strbuf_text(to, c->began ? "\"delta\":{\"content\":" : "\"delta\":{\"role\":\"assistant\",\"content\":");
    else
        strbuf_text(to, "\"message\":{\"role\":\"assistant\",\"content\":");
    c->began = true;
    strbuf_json(to, text, bytes);
    strbuf_format(to, "%s,\"logprobs\":null,\"finish_reason\":%s%s%s}]", c->asked.chat ? "}" : "",
                  reason != NULL ? "\"" : "", reason != NULL ? reason : "null", reason != NULL ? "\"" : "");
}

/* Under the lock: there is something for the connection to send. */
static void wake(struct completion *c)
{
    if (!c->waiting)
        return;
    c->waiting = false;
    MHD_resume_connection(c->x->connection);
    (void)atomic_fetch_sub(&c->x->server->suspended, 1);
}

/* Gives out the first bytes of the text; reason NULL: it goes on. */
static void emit(struct completion *c, size_t bytes, const char *reason)
{
    if (!c->streams) {
        strbuf_add(&c->whole, c->text.data, bytes);
    } else if (bytes > 0 || reason != NULL) {
        (void)pthread_mutex_lock(&c->lock);
        strbuf_text(&c->out, "data: ");
        write_choice(c, &c->out, c->text.data, bytes, reason);
        strbuf_text(&c->out, "}\n\n");
        wake(c);
        (void)pthread_mutex_unlock(&c->lock);
    }
    if (bytes > 0)
        memmove(c->text.data, c->text.data + bytes, c->text.size - bytes);
    c->text.size -= bytes;
}

/* Bytes at the end that may be the beginning of a stop word, or of a character. */
static size_t held_back(const struct completion *c)
{
    size_t held = 0;

    for (size_t n = 1; n <= 3 && n <= c->text.size; n++) {
        unsigned char byte = (unsigned char)c->text.data[c->text.size - n];

        if (byte >> 6 == 3 && n < (byte >> 5 == 6 ? 2u : byte >> 4 == 14 ? 3u : 4u))
            held = n;
        if (byte >> 6 != 2)
            break;
    }
    for (uint32_t i = 0; i < c->asked.stop_count; i++)
        for (size_t n = strlen(c->asked.stops[i]) - 1; n > held; n--)
            if (n <= c->text.size && memcmp(c->text.data + c->text.size - n, c->asked.stops[i], n) == 0)
                held = n;
    return held;
}

/* The text up to the first stop word, if there is one. */
static bool find_stop(struct completion *c)
{
    size_t first = SIZE_MAX;

    for (uint32_t i = 0; i < c->asked.stop_count && c->text.size > 0; i++) {
        const char *at = memmem(c->text.data, c->text.size, c->asked.stops[i], strlen(c->asked.stops[i]));

        if (at != NULL && (size_t)(at - c->text.data) < first)
            first = (size_t)(at - c->text.data);
    }
    if (first != SIZE_MAX)
        c->text.size = first;
    return first != SIZE_MAX;
}

/* Ends the answer: with a failure, or with c->reason. Frees the exchange where its connection is gone. */
static void finish(struct completion *c, const inlay_diag *failure)
{
    struct exchange *x = c->x;
    bool left;

    watch_remove(x->server->watch, x);
    sequence_leave(&x->job); /* before the client knows: its next text finds the place free */
    if (failure != NULL)
        stats_add_error(&x->job.model->stats, stats_error_of(failure->code), clock_ns() - x->arrived_ns);
    else
        stats_add_time(&x->job.model->stats.request, clock_ns() - x->arrived_ns);
    if (!c->streams) {
        if (failure != NULL) {
            exchange_fail_diag(x, failure);
        } else {
            emit(c, c->text.size, c->reason);
            write_choice(c, &x->reply, c->whole.data != NULL ? c->whole.data : "", c->whole.size, c->reason);
            strbuf_format(&x->reply,
                          ",\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,\"total_tokens\":%zu}}",
                          c->prompt_count, c->count - c->prompt_count, c->count);
            x->code = MHD_HTTP_OK;
        }
        c->done = true;
        exchange_wake(x);
        return;
    }
    if (failure == NULL)
        emit(c, c->text.size, c->reason);
    (void)pthread_mutex_lock(&c->lock);
    if (failure != NULL) {
        strbuf_text(&c->out, "data: {\"error\":");
        strbuf_json(&c->out, failure->text, strlen(failure->text));
        strbuf_text(&c->out, "}\n\n");
    } else {
        strbuf_text(&c->out, "data: [DONE]\n\n");
    }
    left = c->left;
    c->done = true;
    wake(c);
    (void)pthread_mutex_unlock(&c->lock); /* from here the exchange may be gone, unless it is left to us */
    if (left)
        exchange_release(x);
}

static ssize_t read_events(void *user, uint64_t position, char *to, size_t room)
{
    struct completion *c = user;
    size_t bytes;
    bool done;

    (void)position;
    (void)pthread_mutex_lock(&c->lock);
    bytes = c->out.size - c->taken;
    bytes = bytes < room ? bytes : room;
    if (bytes > 0)
        memcpy(to, c->out.data + c->taken, bytes);
    c->taken += bytes;
    if (c->taken == c->out.size)
        c->out.size = c->taken = 0;
    done = c->done || c->out.failed;
    if (bytes == 0 && !done) {
        c->waiting = true;
        (void)atomic_fetch_add(&c->x->server->suspended, 1);
        watch_busy(c->x->peer, true);
        MHD_suspend_connection(c->x->connection);
    } else {
        watch_busy(c->x->peer, false); /* the client's turn to take it */
    }
    (void)pthread_mutex_unlock(&c->lock);
    return bytes > 0 ? (ssize_t)bytes : done ? MHD_CONTENT_READER_END_OF_STREAM : 0;
}

struct MHD_Response *completion_response(struct completion *c)
{
    return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read_events, c, NULL);
}

bool completion_leave(struct exchange *x)
{
    struct completion *c = x->completion;
    inlay_diag diag = INLAY_DIAG_INIT;
    bool left;

    if (c == NULL)
        return false;
    watch_remove(x->server->watch, x);
    (void)pthread_mutex_lock(&c->lock);
    left = !c->done;
    (void)pthread_mutex_unlock(&c->lock);
    if (left && sched_cancel(x->server->sched, &x->job)) {
        (void)inlay_fail(&diag, INLAY_CANCELLED, "the client went away");
        finish(c, &diag);
    }
    (void)pthread_mutex_lock(&c->lock);
    left = c->left = !c->done;
    (void)pthread_mutex_unlock(&c->lock);
    return left;
}

/* ------------------------------------------------------------------ token by token */

static bool make_room(struct completion *c, size_t count)
{
    size_t room = c->room;

    if (count <= room)
        return true;
    room = count + 256;
    for (int i = 0; i < 3; i++) {
        int64_t **at = i == 0   ? &c->tokens
                       : i == 1 ? &c->mask
                                : &c->positions,
                *more = realloc(*at, room * sizeof *more);

        if (more == NULL)
            return false;
        *at = more;
        for (size_t k = c->room; k < room && i > 0; k++)
            more[k] = i == 1 ? 1 : (int64_t)k;
    }
    c->room = room;
    return true;
}

static void set_input(infer_tensor *t, const char *name, uint32_t input, int64_t *data, size_t count)
{
    *t = (infer_tensor){ .name = name,
                         .dtype = INLAY_INT64,
                         .rank = 2,
                         .dims = { 1, (int64_t)count },
                         .count = count,
                         .bytes = count * sizeof *data,
                         .data = data,
                         .input = input };
}

/* The connection sleeps already, or has its answer. */
static void stay(void *user)
{
    (void)user;
}

/* Queues the run that reads the tokens so far; false: it could not be. */
static bool submit(struct completion *c, inlay_diag *diag)
{
    struct exchange *x = c->x;
    const text_model *t = x->job.model->text;
    infer_request *q = &x->request;
    size_t count = c->count - c->read;

    q->input_count = 0;
    set_input(&c->inputs[q->input_count++], "input_ids", t->ids, c->tokens + c->read, count);
    if (t->mask != INLAY_NONE)
        set_input(&c->inputs[q->input_count++], "attention_mask", t->mask, c->mask, c->count);
    if (t->positions != INLAY_NONE)
        set_input(&c->inputs[q->input_count++], "position_ids", t->positions, c->positions + c->read, count);
    q->sequence_start = c->read == 0;
    q->sequence_end = true; /* nobody else finds it; the place is kept until the job is over */
    x->job.bytes = 0;
    if (c->read == 0 && model_check(&x->job, diag) != INLAY_OK)
        return false;
    x->job.bytes = count * sizeof(int64_t);
    x->job.arrived_ns = clock_ns();
    c->read = c->count;
    if (c->count == c->prompt_count)
        watch_add(x->server->watch, x);
    if (sched_submit(x->server->sched, &x->job, stay, NULL) != SCHED_FULL)
        return true;
    watch_remove(x->server->watch, x);
    return inlay_fail(diag, INLAY_BUSY, "the model's queue is full; try again later") == INLAY_OK;
}

/* The next token from the logits behind the last one. false: the text is at its end, or diag says why there is none. */
static bool take_token(struct completion *c, const infer_output *o, inlay_diag *diag)
{
    const text_model *t = c->x->job.model->text;
    size_t vocabulary = o->rank == 3 ? (size_t)o->dims[2] : 0, bytes = 0;
    bool special = false, stopped;
    const char *text;
    int64_t token;

    if (vocabulary == 0 || o->count < vocabulary || o->dtype != INLAY_FLOAT)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "'logits' is no float tensor [1, tokens, vocabulary]") == INLAY_OK;
    token = sampler_next(&c->asked.sampler, (float *)(uintptr_t)o->data + (o->count - vocabulary), vocabulary,
                         c->tokens, c->count);
    if (token < 0 || !make_room(c, c->count + 1))
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no token could be chosen") == INLAY_OK;
    c->tokens[c->count++] = token;
    c->reason = "stop";
    if (text_is_end(t, token))
        return false;
    text = tokenizer_bytes(t->tokenizer, token, &bytes, &special);
    if (text != NULL && !special)
        strbuf_add(&c->text, text, bytes);
    stopped = find_stop(c);
    if (stopped)
        return false;
    c->reason = "length";
    if (c->count - c->prompt_count == c->asked.max_tokens)
        return false;
    emit(c, c->text.size - held_back(c), NULL);
    return true;
}

/* A run is over. Any thread. */
static void step(struct job *j, const inlay_diag *failure, const infer_output *outputs, uint32_t output_count)
{
    struct exchange *x = j->user;
    struct completion *c = x->completion;
    inlay_diag diag = INLAY_DIAG_INIT;

    x->compute_ns += failure == NULL ? j->compute_ns : 0;
    x->run_rows = 1;
    if (failure != NULL) {
        finish(c, failure);
    } else if (output_count != 1 || !take_token(c, &outputs[0], &diag)) {
        finish(c, diag.code != INLAY_OK ? &diag : NULL);
    } else if (j->cancelled || c->text.failed || c->whole.failed || c->out.failed) {
        (void)inlay_fail(&diag, j->cancelled ? INLAY_CANCELLED : INLAY_OUT_OF_MEMORY, "the text was not finished");
        finish(c, &diag);
    } else if (!submit(c, &diag)) {
        finish(c, &diag);
    }
}

/* The tokens of the prompt, or of the messages as the model's template has them; false: it is answered. */
static bool read_prompt(struct exchange *x, struct completion *c)
{
    const text_model *t = x->job.model->text;
    const struct chat form = { t->chat_form, t->begin, t->end, c->asked.messages, c->asked.message_count };
    inlay_diag diag = INLAY_DIAG_INIT;
    char *made = NULL;
    bool good;

    if (c->asked.chat && t->chat_form == NULL)
        (void)inlay_fail(&diag, INLAY_INVALID_ARGUMENT,
                         "the model has no chat_template in a tokenizer_config.json beside it; ask v1/completions");
    else if (c->asked.chat && chat_render(&form, &made, &diag) == INLAY_UNSUPPORTED)
        diag.code = INLAY_INVALID_ARGUMENT; /* no failure of the server's */
    if (diag.code != INLAY_OK) {
        exchange_fail_diag(x, &diag);
        return false;
    }
    good = tokenizer_encode(t->tokenizer, made != NULL ? made : c->asked.prompt, made == NULL, &c->tokens, &c->count) &&
           c->count > 0;
    free(made);
    if (!good)
        exchange_fail(x, MHD_HTTP_BAD_REQUEST, "the prompt has no tokens");
    return good;
}

static bool begin(struct exchange *x, struct completion *c)
{
    static atomic_uint_fast64_t ids;
    inlay_diag diag = INLAY_DIAG_INIT;
    char id[32];

    x->job.model = repository_find(x->server->repository, c->asked.model, strlen(c->asked.model), 0);
    if (x->job.model == NULL) {
        exchange_fail(x, MHD_HTTP_NOT_FOUND, "no such model is loaded; GET v1/models lists those for texts");
        return false;
    }
    if (x->job.model->text == NULL || x->job.model->text->logits == INLAY_NONE) {
        exchange_fail(x, MHD_HTTP_BAD_REQUEST,
                      "the model is none for texts: a decoder with states, tokenizer.json beside it");
        return false;
    }
    if (!read_prompt(x, c))
        return false;
    c->prompt_count = c->count;
    c->id = atomic_fetch_add(&ids, 1) + 1;
    (void)snprintf(id, sizeof id, "\1completion %llu", (unsigned long long)c->id); /* no client's */
    (void)infer_set_sequence(&x->request, id, strlen(id));
    x->request.id = "";
    x->request.inputs = c->inputs;
    x->request.outputs = &c->wanted;
    x->request.output_count = 1;
    c->wanted = (infer_wanted){ .name = "logits", .binary = -1 };
    x->job.request = &x->request;
    x->job.finish = step;
    x->job.user = x;
    if (c->asked.sampler.temperature > 0 && c->asked.sampler.state == 0)
        c->asked.sampler.state = clock_ns() ^ c->id;
    if (!make_room(c, c->count + 1)) {
        (void)no_memory(&diag, "for the text");
        exchange_fail_diag(x, &diag);
        return false;
    }
    return true;
}

void answer_completions(struct exchange *x)
{
    struct completion *c = calloc(1, sizeof *c);
    inlay_diag diag = INLAY_DIAG_INIT;
    char why[200];

    if (c == NULL) {
        exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "no memory for the text");
        return;
    }
    *c = (struct completion){ .x = x, .asked = { .chat = x->route.kind == ROUTE_CHAT, .sampler = SAMPLER_INIT } };
    c->asked.max_tokens = c->asked.chat ? CHAT_TOKENS : 16; /* OpenAI's; a chat has none there */
    c->asked.sampler.temperature = 1;
    (void)pthread_mutex_init(&c->lock, NULL);
    c->done = true; /* until there is a run */
    x->completion = c;
    if (!completion_request_read(&c->asked, x->body, x->body_bytes, why, sizeof why)) {
        exchange_fail(x, MHD_HTTP_BAD_REQUEST, why);
        return;
    }
    if (!begin(x, c))
        return;
    c->done = false;
    c->streams = c->asked.streams;
    if (c->streams) {
        x->code = MHD_HTTP_OK;
        x->type = "text/event-stream";
    } else {
        exchange_suspend(x);
    }
    if (submit(c, &diag))
        return;
    c->done = true;
    exchange_fail_diag(x, &diag);
    if (!c->streams)
        exchange_wake(x);
    c->streams = false;
}

/* ------------------------------------------------------------------ GET /v1/models */

typedef struct model_list {
    struct strbuf *to;
    uint32_t count;
} model_list;

static void add_model(void *user, const repository_entry *e)
{
    model_list *list = user;

    if (e->loaded != NULL && e->loaded->text != NULL)
        strbuf_format(list->to, "%s{\"id\":\"%s\",\"object\":\"model\",\"created\":0,\"owned_by\":\"inlay\"}",
                      list->count++ > 0 ? "," : "", e->name);
}

void answer_models(struct exchange *x)
{
    model_list list = { &x->reply, 0 };

    strbuf_text(&x->reply, "{\"object\":\"list\",\"data\":[");
    repository_each(x->server->repository, add_model, &list);
    strbuf_text(&x->reply, "]}");
    x->code = MHD_HTTP_OK;
}
