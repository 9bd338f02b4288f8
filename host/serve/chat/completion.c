#include "serve/chat/completion_internal.h"
#include "inlay/check.h"
#include "serve/exchange/watch.h"
#include "serve/model/sequence.h"
#include "serve/model/text.h"
#include "serve/repository/repository.h"
#include <stdlib.h>
#include <string.h>

static void release(struct exchange *exchange)
{
    struct completion *completion = exchange->completion;

    free(completion->tokens);
    free(completion->mask);
    free(completion->positions);
    free(completion->logits);
    free(completion->allowed);
    for (uint32_t i = 0; i < completion->choice_count; i++)
        completion_choice_deinit(&completion->choices[i]);
    free(completion->choices);
    completion_request_deinit(&completion->asked);
    strbuf_deinit(&completion->text);
    strbuf_deinit(&completion->out);
    (void)pthread_mutex_destroy(&completion->lock);
    free(completion);
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
    if (!exchange->watched)
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
    if (completion->current == 0)
        stats_add_time(&stats->first_token, clock_ns() - exchange->received_ns);
}

/* Copies the logits of the last token, which the sampler changes. false: out of memory. */
static bool copy_logits(struct completion *completion, const float *logits, size_t count)
{
    if (completion->logit_room < count) {
        free(completion->logits);
        completion->logit_room = 0;
        completion->logits = malloc(count * sizeof *completion->logits);
        if (completion->logits == NULL)
            return false;
        completion->logit_room = count;
    }
    memcpy(completion->logits, logits, count * sizeof *logits);
    return true;
}

/* Sets the tokens that the form of the text allows next, and those that end a text if it may end here. false: none,
 * so that the text ends, or diag says why they are unknown. */
static bool choose_allowed(struct completion *completion, size_t vocabulary, inlay_diag *diag)
{
    const text_model *model = completion->exchange->job.model->text;
    struct grammar *form = completion->asked.form;
    size_t count = form != NULL ? token_index_count(model->index) : 0;
    bool any = false, ends;
    const uint64_t *mask;

    if (form == NULL)
        return true;
    count = count > vocabulary ? count : vocabulary;
    if (completion->allowed == NULL)
        completion->allowed = calloc(count / 64 + 1, sizeof *completion->allowed);
    mask = completion->state != GRAMMAR_DEAD ? token_index_mask(model->index, form, completion->state, &any) : NULL;
    if (completion->allowed == NULL || (mask == NULL && completion->state != GRAMMAR_DEAD) || grammar_failed(form))
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "the text's grammar needs more states than there may be") ==
               INLAY_OK;
    ends = grammar_accepts(form, completion->state);
    completion->choices[completion->current].reason = ends ? "stop" : "length";
    if (!any && (!ends || model->end_count == 0))
        return false;
    memcpy(completion->allowed, mask, (token_index_count(model->index) / 64 + 1) * sizeof *mask);
    for (uint32_t i = 0; ends && i < model->end_count; i++)
        if (model->ends[i] >= 0 && (size_t)model->ends[i] < count)
            completion->allowed[model->ends[i] / 64] |= UINT64_C(1) << model->ends[i] % 64;
    completion->asked.sampler.allowed = completion->allowed;
    return true;
}

/* Chooses the next token from the logits of the last one. false: the text is complete, or diag says why none was
 * chosen. */
static bool take_token(struct completion *completion, const infer_output *output, inlay_diag *diag)
{
    const text_model *model = completion->exchange->job.model->text;
    completion_choice *choice = &completion->choices[completion->current];
    size_t vocabulary = output->rank == 3 ? (size_t)output->dims[2] : 0, bytes = 0;
    const float *logits = output->data;
    bool special = false;
    const char *text;
    int64_t token;

    if (vocabulary == 0 || output->count < vocabulary || output->dtype != INLAY_FLOAT)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "'logits' is not a float tensor [1, tokens, vocabulary]") ==
               INLAY_OK;
    logits += output->count - vocabulary;
    if (!choose_allowed(completion, vocabulary, diag))
        return false;
    token = copy_logits(completion, logits, vocabulary)
                ? sampler_next(&completion->asked.sampler, completion->logits, vocabulary, completion->tokens,
                               completion->count)
                : -1;
    if (token < 0 || !make_room(completion, completion->count + 1))
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no token could be chosen") == INLAY_OK;
    completion->tokens[completion->count++] = token;
    choice->token_count++;
    completion->generated_tokens++;
    count_token(completion);
    choice->reason = "stop";
    if (text_model_is_end(model, token))
        return false;
    if (completion->asked.form != NULL)
        completion->state = token_index_next(model->index, completion->asked.form, completion->state, token);
    completion_log_token(completion, token, logits, vocabulary);
    text = tokenizer_bytes(model->tokenizer, token, &bytes, &special);
    if (text != NULL && !special)
        strbuf_add(&completion->text, text, bytes);
    if (find_stop(completion))
        return false;
    choice->reason = "length";
    if (choice->token_count == completion->asked.max_tokens ||
        (model->context > 0 && completion->count >= model->context))
        return false;
    completion_emit(completion, completion->text.size - held_back(completion), NULL);
    choice->reason = NULL;
    return true;
}

/* Prepares the generation of the current choice. false: out of memory. */
static bool begin_choice(struct completion *completion)
{
    struct exchange *exchange = completion->exchange;
    const completion_prompt *prompt = &completion->asked.prompts[completion->current / completion->asked.candidates];
    char id[48];

    if (!make_room(completion, prompt->token_count + 1))
        return false;
    memcpy(completion->tokens, prompt->tokens, prompt->token_count * sizeof *prompt->tokens);
    completion->count = completion->prompt_count = prompt->token_count;
    completion->read = 0;
    completion->text.size = 0;
    completion->state = completion->asked.form != NULL ? grammar_start(completion->asked.form) : 0;
    completion->asked.sampler.prompt_count = prompt->token_count;
    completion->asked.sampler.state = completion->seed + completion->current;
    (void)snprintf(id, sizeof id, "\1completion %llu %u", (unsigned long long)completion->id,
                   completion->current); /* no client can send this id */
    (void)infer_set_sequence(&exchange->request, id, strlen(id));
    return true;
}

/* Continues with the next choice after the end of one. false: that was the last one, or diag says why it cannot. */
static bool next_choice(struct completion *completion, inlay_diag *diag)
{
    completion_emit(completion, completion->text.size, completion->choices[completion->current].reason);
    if (completion->current + 1 == completion->choice_count)
        return false;
    sequence_leave(&completion->exchange->job);
    completion->current++;
    if (begin_choice(completion))
        return true;
    return no_memory(diag, "for the text") == INLAY_OK;
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
        completion_reply(completion, failure);
        return;
    }
    if (output_count != 1)
        (void)inlay_fail(&diag, INLAY_UNSUPPORTED, "the run did not return exactly one output");
    else if ((take_token(completion, &outputs[0], &diag) ||
              (diag.code == INLAY_OK && next_choice(completion, &diag)))) {
        if (job->cancelled || completion->text.failed || completion->out.failed)
            (void)inlay_fail(&diag, job->cancelled ? INLAY_CANCELLED : INLAY_OUT_OF_MEMORY,
                             "the text was not finished");
        else if (submit(completion, &diag))
            return;
    }
    completion_reply(completion, diag.code != INLAY_OK ? &diag : NULL);
}

/* Renders the messages with the model's template, as the request's only prompt. */
static bool render_chat(struct completion *completion, char **out_text, inlay_diag *diag)
{
    const text_model *model = completion->exchange->job.model->text;
    const struct chat chat = { model->chat_template, model->begin, model->end, completion->asked.messages,
                               completion->asked.message_count };

    if (model->chat_template == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "the model has no chat_template (tokenizer_config.json in its folder); use v1/completions") ==
               INLAY_OK;
    if (chat_render(&chat, out_text, diag) == INLAY_UNSUPPORTED)
        diag->code = INLAY_INVALID_ARGUMENT; /* the model's template is the cause, not the server */
    completion->asked.prompts = diag->code == INLAY_OK ? calloc(1, sizeof *completion->asked.prompts) : NULL;
    if (completion->asked.prompts == NULL)
        return diag->code == INLAY_OK && no_memory(diag, "for the prompt") == INLAY_OK;
    completion->asked.prompt_count = 1;
    completion->asked.prompts[0].text = *out_text;
    return true;
}

/* Tokenizes a prompt, or checks its tokens. */
static bool read_prompt(const struct completion *completion, completion_prompt *prompt, body_error *error)
{
    const text_model *model = completion->exchange->job.model->text;
    bool special;
    size_t bytes;

    if (prompt->text != NULL && !tokenizer_encode(model->tokenizer, prompt->text, !completion->asked.chat,
                                                  &prompt->tokens, &prompt->token_count))
        return body_fail(error, "out of memory for the prompt's tokens");
    for (size_t i = 0; prompt->text == NULL && i < prompt->token_count; i++)
        if (tokenizer_bytes(model->tokenizer, prompt->tokens[i], &bytes, &special) == NULL)
            return body_fail(error, "the model has no token %lld", (long long)prompt->tokens[i]);
    if (prompt->token_count == 0)
        return body_fail(error, "the prompt has no tokens");
    if (model->context > 0 && prompt->token_count >= model->context) {
        error->code = "context_length_exceeded";
        return body_fail(error, "the prompt has %zu tokens, and the model's context, with the reply, %zu",
                         prompt->token_count, model->context);
    }
    return true;
}

static bool read_prompts(struct exchange *exchange, struct completion *completion)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    body_error error = { .code = NULL };
    char *rendered = NULL;
    bool good = !completion->asked.chat || render_chat(completion, &rendered, &diag);

    if (!good)
        exchange_fail_diag(exchange, &diag);
    for (uint32_t i = 0; good && i < completion->asked.prompt_count; i++) {
        completion_prompt *prompt = &completion->asked.prompts[i];

        good = read_prompt(completion, prompt, &error);
        if (!good)
            exchange_fail_parameter(exchange, HTTP_BAD_REQUEST, error.text,
                                    completion->asked.response ? "input"
                                    : completion->asked.chat   ? "messages"
                                                               : "prompt",
                                    error.code);
        completion->prompt_tokens += prompt->token_count;
        prompt->text = NULL; /* the tokens are used from here on */
    }
    free(rendered);
    return good;
}

static const char *text_of_token(const void *user, int64_t token, size_t *bytes)
{
    bool special = false;
    const char *text = tokenizer_bytes(user, token, bytes, &special);

    return special ? NULL : text;
}

/* Makes the model's index of tokens, unless another request has. false: out of memory. */
static bool make_index(text_model *model)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    bool good;

    (void)pthread_mutex_lock(&lock);
    if (model->index == NULL)
        model->index = token_index_create(text_of_token, model->tokenizer, tokenizer_count(model->tokenizer));
    good = model->index != NULL;
    (void)pthread_mutex_unlock(&lock);
    return good;
}

static bool begin(struct exchange *exchange, struct completion *completion)
{
    static atomic_uint_fast64_t ids;
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t choices;

    if (exchange->job.model->text == NULL || exchange->job.model->text->logits == INLAY_NONE) {
        exchange_fail_parameter(exchange, HTTP_BAD_REQUEST,
                                "not a model for texts; that needs a decoder with states and a tokenizer.json in its "
                                "folder",
                                "model", NULL);
        return false;
    }
    if (!read_prompts(exchange, completion))
        return false;
    choices = completion->asked.prompt_count * completion->asked.candidates;
    completion->choices = calloc(choices, sizeof *completion->choices);
    completion->choice_count = completion->choices != NULL ? choices : 0;
    completion->id = atomic_fetch_add(&ids, 1) + 1;
    completion->seed = completion->asked.seeded ? completion->asked.sampler.state : clock_ns() ^ completion->id;
    exchange->request.id = "";
    exchange->request.inputs = completion->inputs;
    exchange->request.outputs = &completion->wanted;
    exchange->request.output_count = 1;
    completion->wanted = (infer_wanted){ .name = "logits", .binary = -1 };
    exchange->job.request = &exchange->request;
    exchange->job.finish = step;
    exchange->job.user = exchange;
    if (completion->choices == NULL || !begin_choice(completion) ||
        (completion->asked.form != NULL && !make_index(exchange->job.model->text))) {
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
    body_error error;
    bool deferred;

    if (completion == NULL) {
        exchange_fail(exchange, HTTP_SERVICE_UNAVAILABLE, "no memory for the text");
        return;
    }
    *completion = (struct completion){ .exchange = exchange,
                                       .asked = { .chat = exchange->route.kind != ROUTE_COMPLETIONS,
                                                  .response = exchange->route.kind == ROUTE_RESPONSES } };
    (void)pthread_mutex_init(&completion->lock, NULL);
    completion->done = true; /* until the first run is queued */
    exchange->completion = completion;
    exchange->release = release;
    if (!completion_request_read(&completion->asked, exchange, &error)) {
        body_refuse(exchange, &error);
        return;
    }
    exchange->job.model = repository_acquire(exchange->server->repository, completion->asked.model,
                                             strlen(completion->asked.model), 0, &deferred);
    if (deferred)
        exchange_load_model(exchange, completion->asked.model, strlen(completion->asked.model), 0, model_loaded);
    else if (exchange->job.model == NULL)
        exchange_fail_parameter(exchange, HTTP_NOT_FOUND,
                                "no such model is loaded; GET v1/models lists the models for texts", "model",
                                "model_not_found");
    else
        generate(exchange);
}
