/* POST /v1/embeddings: embeddings by models whose output is a vector per text or a vector per token. */
#include "serve/chat/embedding.h"
#include "inlay/check.h"
#include "serve/chat/body.h"
#include "serve/model/text.h"
#include "serve/repository/repository.h"
#include "serve/exchange/watch.h"
#include <gnutls/gnutls.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_TEXTS = 2048, /* as OpenAI's API */
    RUN_TOKENS = 1024 /* most tokens of a run with several texts: more are not faster */
};

typedef struct embedded_text {
    const char *text; /* in the request; NULL: tokens were given */
    int64_t *tokens;  /* [token_count], owned */
    size_t token_count;
} embedded_text;

struct embedding {
    struct exchange *exchange;
    json_t *body; /* owned; model and texts point into it */
    const char *model;
    embedded_text *texts; /* [count], owned */
    uint32_t count, done;
    bool is_base64;
    uint32_t dimensions; /* of the vectors in the reply; 0: all */

    uint32_t *order; /* [count] texts by ascending length */
    uint32_t rows;   /* texts order[done .. done + rows) are in the current run */
    size_t longest;  /* tokens of the longest one */
    int64_t *memory; /* its inputs */
    float *vectors;  /* [count x size], after the first run */
    double *sums;    /* [size] scratch */
    size_t size;
    infer_tensor inputs[4];
    infer_wanted wanted;
};

static void release(struct exchange *exchange)
{
    struct embedding *embedding = exchange->embedding;

    for (uint32_t i = 0; i < embedding->count; i++)
        free(embedding->texts[i].tokens);
    free(embedding->texts);
    free(embedding->order);
    free(embedding->memory);
    free(embedding->vectors);
    free(embedding->sums);
    json_decref(embedding->body);
    free(embedding);
}

/* ------------------------------------------------------------------ the request */

static bool read_model(void *user, json_t *value, body_error *error)
{
    struct embedding *embedding = user;

    embedding->model = json_string_value(value);
    return embedding->model != NULL || body_fail(error, "not a text");
}

static bool add_text(struct embedding *embedding, const json_t *value, body_error *error)
{
    embedded_text *text;

    if (embedding->count == MAX_TEXTS)
        return body_fail(error, "more than %d texts", MAX_TEXTS);
    if (!LIST_GROW(embedding->texts, embedding->count))
        return body_fail(error, "out of memory for the texts");
    text = &embedding->texts[embedding->count];
    *text = (embedded_text){ .text = json_string_value(value) };
    if (text->text == NULL && !json_is_array(value))
        return body_fail(error, "neither a text nor tokens");
    embedding->count++;
    return text->text != NULL || body_tokens(value, &text->tokens, &text->token_count, error);
}

/* A text, token ids, or an array of either. */
static bool read_input(void *user, json_t *value, body_error *error)
{
    bool many = json_is_array(value) && !json_is_integer(json_array_get(value, 0));

    if (!many)
        return add_text(user, value, error);
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!add_text(user, json_array_get(value, i), error))
            return false;
    return true;
}

static bool read_encoding(void *user, json_t *value, body_error *error)
{
    static const char *const encodings[] = { "float", "base64", NULL };
    uint32_t which = 0;

    if (!body_choice(value, encodings, &which, error))
        return false;
    ((struct embedding *)user)->is_base64 = which == 1;
    return true;
}

static bool read_dimensions(void *user, json_t *value, body_error *error)
{
    double number;

    if (!body_number(value, 1, 65536, true, &number, error))
        return false;
    ((struct embedding *)user)->dimensions = (uint32_t)number;
    return true;
}

static const body_parameter parameters[] = {
    { "model", read_model },           { "input", read_input }, { "encoding_format", read_encoding },
    { "dimensions", read_dimensions }, { "user", NULL },
};

static bool read_request(struct exchange *exchange, struct embedding *embedding)
{
    body_error error;

    embedding->body = body_read(exchange, parameters, sizeof parameters / sizeof *parameters, embedding, &error);
    if (embedding->body == NULL)
        body_refuse(exchange, &error);
    else if (embedding->count == 0 || embedding->model == NULL)
        exchange_fail_parameter(exchange, HTTP_BAD_REQUEST,
                                embedding->count == 0 ? "the request has no input" : "the request has no model",
                                embedding->count == 0 ? "input" : "model", NULL);
    return exchange->code == 0;
}

static int by_length(const void *left, const void *right, void *user)
{
    const struct embedding *embedding = user;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    size_t length_a = embedding->texts[a].token_count, length_b = embedding->texts[b].token_count;

    return length_a != length_b ? (length_a > length_b) - (length_a < length_b) : (a > b) - (a < b);
}

/* Tokenizes the texts, or checks their tokens, and orders them by length. false: the reply says why that failed. */
static bool tokenize(struct exchange *exchange, struct embedding *embedding)
{
    const text_model *model = exchange->job.model->text;
    body_error error = { .code = NULL };

    embedding->order = calloc(embedding->count, sizeof *embedding->order);
    if (embedding->order == NULL)
        (void)body_fail(&error, "out of memory for the texts");
    for (uint32_t i = 0; i < embedding->count && error.text[0] == '\0'; i++) {
        embedded_text *text = &embedding->texts[i];
        bool special;
        size_t bytes;

        embedding->order[i] = i;
        if (text->text != NULL &&
            !tokenizer_encode(model->tokenizer, text->text, true, &text->tokens, &text->token_count))
            (void)body_fail(&error, "out of memory for the tokens of input %u", i);
        for (size_t k = 0; text->text == NULL && k < text->token_count; k++)
            if (tokenizer_bytes(model->tokenizer, text->tokens[k], &bytes, &special) == NULL)
                (void)body_fail(&error, "input %u: the model has no token %lld", i, (long long)text->tokens[k]);
        if (text->token_count == 0 && error.text[0] == '\0')
            (void)body_fail(&error, "input %u has no tokens", i);
        if (model->context > 0 && text->token_count > model->context) {
            (void)body_fail(&error, "input %u has %zu tokens, and the model's context %zu", i, text->token_count,
                            model->context);
            error.code = "context_length_exceeded";
        }
    }
    if (error.text[0] != '\0') {
        exchange_fail_parameter(exchange, HTTP_BAD_REQUEST, error.text, "input", error.code);
        return false;
    }
    qsort_r(embedding->order, embedding->count, sizeof *embedding->order, by_length, embedding);
    return true;
}

/* ------------------------------------------------------------------ runs */

/* The callback of sched_submit(): the connection is already suspended. */
static void keep_suspended(void *user)
{
    (void)user;
}

static void add_input(struct embedding *embedding, const char *name, uint32_t input, int64_t *data)
{
    size_t count = embedding->rows * embedding->longest;

    if (input == INLAY_NONE)
        return;
    embedding->inputs[embedding->exchange->request.input_count++] =
        (infer_tensor){ .name = name,
                        .dtype = INLAY_INT64,
                        .rank = 2,
                        .dims = { embedding->rows, (int64_t)embedding->longest },
                        .count = count,
                        .bytes = count * sizeof *data,
                        .data = data };
}

/* The next texts that share a run: few enough, and of similar lengths, so that at most a quarter is padding. Their
 * padding is masked, so only a model with a mask can have several. */
static void choose_rows(struct embedding *embedding)
{
    const struct model *model = embedding->exchange->job.model;
    bool joins = model->batchable && model->text->mask != INLAY_NONE && model->inputs[model->text->ids].rank == 2 &&
                 model->inputs[model->text->ids].dims[1] < 0;
    size_t sum = 0;

    embedding->rows = 0;
    for (uint32_t i = embedding->done; i < embedding->count && (joins || embedding->rows == 0); i++) {
        size_t longest = embedding->texts[embedding->order[i]].token_count;
        size_t padded = (embedding->rows + 1) * longest;

        sum += longest;
        if (embedding->rows > 0 && (padded > RUN_TOKENS || 4 * sum < 3 * padded))
            return;
        embedding->rows++;
        embedding->longest = longest;
    }
}

/* Sets the inputs of the next run: tokens, a mask, positions, token types of zero. */
static bool make_inputs(struct embedding *embedding, inlay_diag *diag)
{
    const text_model *model = embedding->exchange->job.model->text;
    size_t count;
    int64_t *tokens, *mask, *positions, *types;

    INLAY_CHECK(embedding->done < embedding->count);
    choose_rows(embedding);
    count = embedding->rows * embedding->longest;
    free(embedding->memory);
    embedding->memory = calloc(4 * count, sizeof *embedding->memory);
    if (embedding->memory == NULL)
        return no_memory(diag, "for the tokens") == INLAY_OK;
    tokens = embedding->memory;
    mask = tokens + count;
    positions = mask + count;
    types = positions + count;
    for (uint32_t row = 0; row < embedding->rows; row++) {
        const embedded_text *text = &embedding->texts[embedding->order[embedding->done + row]];

        for (size_t i = 0; i < embedding->longest; i++) {
            size_t at = row * embedding->longest + i;

            tokens[at] = i < text->token_count ? text->tokens[i] : 0;
            mask[at] = i < text->token_count;
            positions[at] = (int64_t)i;
        }
    }
    embedding->exchange->request.input_count = 0;
    add_input(embedding, "input_ids", model->ids, tokens);
    add_input(embedding, "attention_mask", model->mask, mask);
    add_input(embedding, "token_type_ids", model->types, types);
    add_input(embedding, "position_ids", model->positions, positions);
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

/* ------------------------------------------------------------------ vectors */

/* Makes the vector of a text of those of its tokens. sums: [size] scratch. */
static void pool(const text_model *model, const float *tokens, size_t count, size_t size, double *sums, float *out)
{
    const float *first = model->pooling == POOL_LAST ? tokens + (count - 1) * size : tokens;
    double norm = 0;

    for (size_t i = 0; i < size; i++)
        sums[i] = (double)first[i];
    for (size_t k = 1; k < count && (model->pooling == POOL_MEAN || model->pooling == POOL_MAX); k++)
        for (size_t i = 0; i < size; i++) {
            double next = (double)tokens[k * size + i];

            sums[i] = model->pooling == POOL_MEAN ? sums[i] + next : fmax(sums[i], next);
        }
    if (model->pooling == POOL_MEAN)
        for (size_t i = 0; i < size; i++)
            sums[i] /= (double)count;
    for (size_t i = 0; i < size; i++)
        norm += sums[i] * sums[i];
    norm = model->is_normalized && norm > 0 && isfinite(norm) ? sqrt(norm) : 1;
    for (size_t i = 0; i < size; i++)
        out[i] = (float)(sums[i] / norm);
}

/* Stores the vectors of the texts of a run. */
static bool take_vectors(struct embedding *embedding, const infer_output *output, inlay_diag *diag)
{
    const text_model *model = embedding->exchange->job.model->text;
    const float *data = output->data;
    size_t size = output->rank >= 2 ? (size_t)output->dims[output->rank - 1] : 0;
    size_t vectors = size > 0 ? (size_t)output->count / size / embedding->rows : 0;

    if (output->dtype != INLAY_FLOAT || output->rank > 3 || (vectors != 1 && vectors != embedding->longest) ||
        output->count != (uint64_t)vectors * size * embedding->rows ||
        (embedding->vectors != NULL && size != embedding->size))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "'%s' is not a float tensor of vectors", output->name) == INLAY_OK;
    if (embedding->vectors == NULL) {
        embedding->vectors = malloc(embedding->count * size * sizeof *embedding->vectors);
        embedding->sums = malloc(size * sizeof *embedding->sums);
    }
    embedding->size = size;
    if (embedding->vectors == NULL || embedding->sums == NULL)
        return no_memory(diag, "for the vectors") == INLAY_OK;
    for (uint32_t row = 0; row < embedding->rows; row++) {
        uint32_t index = embedding->order[embedding->done + row];

        pool(model, data + row * vectors * size, output->rank == 2 ? 1 : embedding->texts[index].token_count, size,
             embedding->sums, embedding->vectors + index * size);
    }
    embedding->done += embedding->rows;
    return true;
}

/* A vector with fewer dimensions is normalized again, as OpenAI's API does. */
static size_t shorten(const struct embedding *embedding, float *vector)
{
    size_t size = embedding->dimensions > 0 ? embedding->dimensions : embedding->size;
    double norm = 0;

    if (size == embedding->size)
        return size;
    for (size_t i = 0; i < size; i++)
        norm += (double)vector[i] * (double)vector[i];
    norm = sqrt(norm);
    for (size_t i = 0; norm > 0 && isfinite(norm) && i < size; i++)
        vector[i] = (float)((double)vector[i] / norm);
    return size;
}

static void write_vector(struct strbuf *to, float *vector, size_t size, bool is_base64)
{
    const gnutls_datum_t raw = { (unsigned char *)vector, (unsigned)(size * sizeof *vector) };
    gnutls_datum_t coded = { NULL, 0 };

    if (is_base64) { /* little-endian floats, as every supported machine has them */
        strbuf_text(to, "\"");
        if (gnutls_base64_encode2(&raw, &coded) == 0)
            strbuf_add(to, coded.data, coded.size);
        else
            to->failed = true;
        strbuf_text(to, "\"");
        gnutls_free(coded.data);
        return;
    }
    strbuf_text(to, "[");
    for (size_t i = 0; i < size; i++)
        strbuf_format(to, isfinite(vector[i]) ? "%s%.9g" : "%snull", i > 0 ? "," : "", (double)vector[i]);
    strbuf_text(to, "]");
}

static void write_reply(struct embedding *embedding)
{
    struct exchange *exchange = embedding->exchange;
    struct strbuf *to = &exchange->reply;
    size_t tokens = 0;

    strbuf_text(to, "{\"object\":\"list\",\"data\":[");
    for (uint32_t i = 0; i < embedding->count; i++) {
        float *vector = embedding->vectors + i * embedding->size;

        tokens += embedding->texts[i].token_count;
        strbuf_format(to, "%s{\"object\":\"embedding\",\"index\":%u,\"embedding\":", i > 0 ? "," : "", i);
        write_vector(to, vector, shorten(embedding, vector), embedding->is_base64);
        strbuf_text(to, "}");
    }
    strbuf_format(to, "],\"model\":\"%s\",\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu}}",
                  exchange->job.model->name, tokens, tokens);
    exchange->code = HTTP_OK;
    (void)atomic_fetch_add_explicit(&exchange->job.model->stats->prompt_tokens, tokens, memory_order_relaxed);
}

/* Called when a run ends. Any thread. */
static void step(struct job *job, const inlay_diag *failure, const infer_output *outputs, uint32_t output_count)
{
    struct exchange *exchange = job->user;
    struct embedding *embedding = exchange->embedding;
    inlay_diag diag = INLAY_DIAG_INIT;

    exchange->compute_ns += failure == NULL ? job->compute_ns : 0;
    exchange->run_rows = embedding->rows;
    if (failure != NULL)
        diag = *failure;
    else if (output_count != 1)
        (void)inlay_fail(&diag, INLAY_UNSUPPORTED, "the run did not return exactly one output");
    else if (take_vectors(embedding, &outputs[0], &diag)) {
        if (embedding->dimensions > embedding->size)
            (void)inlay_fail(&diag, INLAY_INVALID_ARGUMENT, "dimensions: the model's vectors have %zu",
                             embedding->size);
        else if (embedding->done < embedding->count && submit(embedding, &diag))
            return;
    }
    watch_remove(exchange->server->watch, exchange);
    if (diag.code != INLAY_OK) {
        exchange_fail_diag(exchange, &diag);
        stats_add_error(job->model->stats, stats_error_of(diag.code), clock_ns() - exchange->arrived_ns);
    } else {
        write_reply(embedding);
        stats_add_time(&job->model->stats->request, clock_ns() - exchange->arrived_ns);
    }
    exchange_wake(exchange);
}

/* Computes the vectors with job.model. The exchange may be suspended already, because it waited for its model. */
static void compute(struct exchange *exchange)
{
    struct embedding *embedding = exchange->embedding;
    inlay_diag diag = INLAY_DIAG_INIT;

    if (exchange->job.model->text == NULL || exchange->job.model->text->vectors == INLAY_NONE)
        exchange_fail_parameter(exchange, HTTP_BAD_REQUEST,
                                "not an embedding model; that needs an output sentence_embedding or last_hidden_state "
                                "and a tokenizer.json",
                                "model", NULL);
    if (exchange->code != 0 || !tokenize(exchange, embedding)) {
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
        exchange_fail_parameter(exchange, HTTP_NOT_FOUND,
                                "no such model is loaded; GET v1/models lists the models for texts", "model",
                                "model_not_found");
    else
        compute(exchange);
}
