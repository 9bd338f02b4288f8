/* POST /v1/embeddings: embeddings by models whose output is a vector per text or a vector per token. */
#include "serve/chat/embedding.h"
#include "inlay/check.h"
#include "serve/model/text.h"
#include "serve/base/json.h"
#include "serve/repository/repository.h"
#include "serve/exchange/watch.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXTS = 256 };

struct embedding {
    struct exchange *exchange;
    char model[FOLDER_MAX_NAME + 2];
    char *texts[MAX_TEXTS]; /* in the body */
    uint32_t count, done;
    int64_t *tokens, *ones, *zeros, *positions; /* of the current text */
    size_t token_count, all_tokens;
    infer_tensor inputs[4];
    infer_wanted wanted;
};

static void release(struct exchange *exchange)
{
    struct embedding *embedding = exchange->embedding;

    free(embedding->tokens);
    free(embedding->ones);
    free(embedding);
}

/* ------------------------------------------------------------------ the request */

static bool read_inputs(json_reader *reader, struct embedding *embedding)
{
    bool list = reader_peek(reader) == '[';

    if (list && !reader_open(reader, '['))
        return false;
    while (!list || reader_element(reader)) {
        if (embedding->count == MAX_TEXTS)
            return reader_fail(reader, "more than 256 texts");
        if (!reader_c_string(reader, &embedding->texts[embedding->count]))
            return false;
        embedding->count++;
        if (!list)
            return true;
    }
    return reader->error == NULL;
}

static bool read_request(struct exchange *exchange, struct embedding *embedding)
{
    json_reader reader = reader_begin(exchange->body, exchange->body_bytes);
    json_text key, ignored;
    char *text = NULL, why[200];

    if (reader_open(&reader, '{')) {
        while (reader_member(&reader, &key)) {
            if (text_is(key, "input") && embedding->count == 0) {
                (void)read_inputs(&reader, embedding);
            } else if (text_is(key, "model")) {
                if (reader_c_string(&reader, &text))
                    (void)snprintf(embedding->model, sizeof embedding->model, "%s", text);
            } else if (text_is(key, "encoding_format")) {
                if (reader_c_string(&reader, &text) && strcmp(text, "float") != 0)
                    (void)reader_fail(&reader, "an encoding_format other than float");
            } else {
                (void)reader_skip(&reader, &ignored);
            }
        }
    }
    if (reader_end(&reader) && embedding->count > 0 && embedding->model[0] != '\0')
        return true;
    if (reader.error != NULL)
        (void)snprintf(why, sizeof why, "the request's JSON, byte %zu: %s", (size_t)(reader.at - reader.start),
                       reader.error);
    else
        (void)snprintf(why, sizeof why, "the request has no %s", embedding->count == 0 ? "input" : "model");
    exchange_fail(exchange, HTTP_BAD_REQUEST, why);
    return false;
}

/* ------------------------------------------------------------------ one run per text */

/* The callback of sched_submit(): the connection is already suspended. */
static void keep_suspended(void *user)
{
    (void)user;
}

static void add_input(struct embedding *embedding, const char *name, uint32_t input, int64_t *data)
{
    if (input == INLAY_NONE)
        return;
    embedding->inputs[embedding->exchange->request.input_count++] =
        (infer_tensor){ .name = name,
                        .dtype = INLAY_INT64,
                        .rank = 2,
                        .dims = { 1, (int64_t)embedding->token_count },
                        .count = embedding->token_count,
                        .bytes = embedding->token_count * sizeof *data,
                        .data = data };
}

/* Sets the inputs of the next text: tokens, a mask of ones, positions, token types of zero. */
static bool make_inputs(struct embedding *embedding, inlay_diag *diag)
{
    const text_model *model = embedding->exchange->job.model->text;
    INLAY_CHECK(embedding->done < embedding->count);
    free(embedding->tokens);
    free(embedding->ones);
    embedding->tokens = embedding->ones = NULL;
    embedding->token_count = 0;
    if (!tokenizer_encode(model->tokenizer, embedding->texts[embedding->done], true, &embedding->tokens,
                          &embedding->token_count) ||
        embedding->token_count == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input %u has no tokens", embedding->done) == INLAY_OK;
    embedding->ones = calloc(3 * embedding->token_count, sizeof *embedding->ones);
    if (embedding->ones == NULL)
        return no_memory(diag, "for the tokens") == INLAY_OK;
    embedding->zeros = embedding->ones + embedding->token_count;
    embedding->positions = embedding->zeros + embedding->token_count;
    for (size_t i = 0; i < embedding->token_count; i++) {
        embedding->ones[i] = 1;
        embedding->positions[i] = (int64_t)i;
    }
    embedding->all_tokens += embedding->token_count;
    embedding->exchange->request.input_count = 0;
    add_input(embedding, "input_ids", model->ids, embedding->tokens);
    add_input(embedding, "attention_mask", model->mask, embedding->ones);
    add_input(embedding, "token_type_ids", model->types, embedding->zeros);
    add_input(embedding, "position_ids", model->positions, embedding->positions);
    return true;
}

static bool submit(struct embedding *embedding, inlay_diag *diag)
{
    struct exchange *exchange = embedding->exchange;

    exchange->job.bytes = 0;
    if (!make_inputs(embedding, diag) || model_check(&exchange->job, diag) != INLAY_OK)
        return false;
    exchange->job.arrived_ns = exchange->job.received_ns = clock_ns();
    if (!exchange->watched)
        watch_add(exchange->server->watch, exchange);
    return sched_submit(exchange->server->sched, &exchange->job, keep_suspended, NULL) != SCHED_FULL ||
           inlay_fail(diag, INLAY_BUSY, "the model's queue is full; try again later") == INLAY_OK;
}

/* Writes the mean over the tokens, normalized to length 1. */
static bool write_vector(struct embedding *embedding, const infer_output *output, inlay_diag *diag)
{
    struct strbuf *to = &embedding->exchange->reply;
    const float *data = output->data;
    size_t size = output->rank >= 2 ? (size_t)output->dims[output->rank - 1] : 0,
           rows = size > 0 ? (size_t)output->count / size : 0;
    double *sum, norm = 0;

    if (output->dtype != INLAY_FLOAT || rows == 0 || output->rank > 3)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "'%s' is not a float tensor of vectors", output->name) == INLAY_OK;
    sum = calloc(size, sizeof *sum);
    if (sum == NULL)
        return no_memory(diag, "for the vector") == INLAY_OK;
    for (size_t row = 0; row < rows; row++)
        for (size_t i = 0; i < size; i++)
            sum[i] += (double)data[row * size + i];
    for (size_t i = 0; i < size; i++)
        norm += sum[i] * sum[i];
    norm = norm > 0 && isfinite(norm) ? sqrt(norm) : 1;
    strbuf_format(to, "%s{\"object\":\"embedding\",\"index\":%u,\"embedding\":[", embedding->done > 0 ? "," : "",
                  embedding->done);
    for (size_t i = 0; i < size; i++) {
        double value = sum[i] / norm;

        strbuf_format(to, isfinite(value) ? "%s%.8g" : "%snull", i > 0 ? "," : "", value);
    }
    strbuf_text(to, "]}");
    free(sum);
    return true;
}

/* Called when the run of a text ends. Any thread. */
static void step(struct job *job, const inlay_diag *failure, const infer_output *outputs, uint32_t output_count)
{
    struct exchange *exchange = job->user;
    struct embedding *embedding = exchange->embedding;
    inlay_diag diag = INLAY_DIAG_INIT;

    exchange->compute_ns += failure == NULL ? job->compute_ns : 0;
    exchange->run_rows = 1;
    if (failure != NULL)
        diag = *failure;
    else if (output_count != 1)
        (void)inlay_fail(&diag, INLAY_UNSUPPORTED, "the run did not return exactly one output");
    else if (write_vector(embedding, &outputs[0], &diag) && ++embedding->done < embedding->count &&
             submit(embedding, &diag))
        return;
    watch_remove(exchange->server->watch, exchange);
    if (diag.code != INLAY_OK) {
        exchange_fail_diag(exchange, &diag);
        stats_add_error(job->model->stats, stats_error_of(diag.code), clock_ns() - exchange->arrived_ns);
    } else {
        strbuf_format(&exchange->reply, "],\"model\":\"%s\",\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu}}",
                      job->model->name, embedding->all_tokens, embedding->all_tokens);
        exchange->code = HTTP_OK;
        stats_add_time(&job->model->stats->request, clock_ns() - exchange->arrived_ns);
        (void)atomic_fetch_add_explicit(&job->model->stats->prompt_tokens, embedding->all_tokens, memory_order_relaxed);
    }
    exchange_wake(exchange);
}

/* Computes the vectors with job.model. The exchange may be suspended already, because it waited for its model. */
static void compute(struct exchange *exchange)
{
    struct embedding *embedding = exchange->embedding;
    inlay_diag diag = INLAY_DIAG_INIT;

    if (exchange->job.model->text == NULL || exchange->job.model->text->vectors == INLAY_NONE) {
        exchange_fail(exchange, HTTP_BAD_REQUEST,
                      "not an embedding model; that needs an output sentence_embedding or last_hidden_state and a "
                      "tokenizer.json");
        if (exchange->suspended)
            exchange_wake(exchange);
        return;
    }
    embedding->wanted =
        (infer_wanted){ .name = exchange->job.model->outputs[exchange->job.model->text->vectors].name, .binary = -1 };
    exchange->request.id = "";
    exchange->request.inputs = embedding->inputs;
    exchange->request.outputs = &embedding->wanted;
    exchange->request.output_count = 1;
    exchange->job.request = &exchange->request;
    exchange->job.finish = step;
    exchange->job.user = exchange;
    strbuf_text(&exchange->reply, "{\"object\":\"list\",\"data\":[");
    if (!exchange->suspended)
        exchange_suspend(exchange);
    if (submit(embedding, &diag))
        return;
    watch_remove(exchange->server->watch, exchange);
    exchange_fail_diag(exchange, &diag);
    exchange_wake(exchange);
}

/* The model that the request waited for is loaded, or its load failed. */
static void model_loaded(void *user, const inlay_diag *failure)
{
    struct exchange *exchange = user;

    if (exchange_take_model(exchange, failure))
        compute(exchange);
    else
        exchange_wake(exchange);
}

void answer_embeddings(struct exchange *exchange)
{
    struct embedding *embedding = calloc(1, sizeof *embedding);
    bool deferred;

    if (embedding == NULL) {
        exchange_fail(exchange, HTTP_SERVICE_UNAVAILABLE, "no memory for the texts");
        return;
    }
    embedding->exchange = exchange;
    exchange->embedding = embedding;
    exchange->release = release;
    if (!read_request(exchange, embedding))
        return;
    exchange->job.model =
        repository_acquire(exchange->server->repository, embedding->model, strlen(embedding->model), 0, &deferred);
    if (deferred)
        exchange_load_model(exchange, embedding->model, strlen(embedding->model), 0, model_loaded);
    else if (exchange->job.model == NULL)
        exchange_fail(exchange, HTTP_NOT_FOUND, "no such model is loaded; GET v1/models lists the models for texts");
    else
        compute(exchange);
}
