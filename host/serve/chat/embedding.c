/* POST /v1/embeddings: embeddings by models whose output is a vector per text or a vector per token. */
#include "serve/chat/embedding_internal.h"
#include "inlay/check.h"
#include "serve/chat/body.h"
#include "serve/chat/models.h"
#include "serve/model/text.h"
#include "serve/exchange/watch.h"
#include "serve/schedule/encoding.h"
#include "texts/model/pooling.h"
#include <gnutls/gnutls.h>
#include <math.h>
#include <stdlib.h>

static void release(struct exchange *exchange)
{
    struct embedding *embedding = exchange->embedding;

    input_list_deinit(&embedding->inputs);
    free(embedding->texts);
    free(embedding->vectors);
    free(embedding->sums);
    json_decref(embedding->body);
    free(embedding);
}

static bool read_model(void *user, json_t *value, body_error *error)
{
    struct embedding *embedding = user;

    embedding->model = json_string_value(value);
    return embedding->model != NULL || body_fail(error, "not a text");
}

static bool read_input(void *user, json_t *value, body_error *error)
{
    return input_list_read(&((struct embedding *)user)->inputs, value, EMBEDDING_MAX_TEXTS, error);
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

static bool read_query(void *user, json_t *value, body_error *error)
{
    ((struct embedding *)user)->query = value;
    return json_is_string(value) || body_fail(error, "not a text");
}

static bool read_documents(void *user, json_t *value, body_error *error)
{
    ((struct embedding *)user)->documents = value;
    return (json_is_array(value) && json_array_size(value) > 0) || body_fail(error, "not an array of texts");
}

/* A text, or an array of texts. */
static bool is_texts(const json_t *value, body_error *error)
{
    return json_is_string(value) || (json_is_array(value) && json_array_size(value) > 0) ||
           body_fail(error, "neither a text nor an array of texts");
}

static bool read_first_texts(void *user, json_t *value, body_error *error)
{
    ((struct embedding *)user)->query = value;
    return is_texts(value, error);
}

static bool read_second_texts(void *user, json_t *value, body_error *error)
{
    ((struct embedding *)user)->documents = value;
    return is_texts(value, error);
}

static bool read_top(void *user, json_t *value, body_error *error)
{
    double number;

    if (!body_number(value, 1, EMBEDDING_MAX_TEXTS, true, &number, error))
        return false;
    ((struct embedding *)user)->top = (uint32_t)number;
    return true;
}

static bool read_shows_documents(void *user, json_t *value, body_error *error)
{
    bool shows = true;
    const bool good = body_bool(value, &shows, error);

    ((struct embedding *)user)->hides_documents = !shows;
    return good;
}

static const body_parameter rank_rows[] = {
    { "model", read_model },
    { "query", read_query },
    { "documents", read_documents },
    { "top_n", read_top },
    { "return_documents", read_shows_documents },
    { "user", NULL },
};
static const body_table rank_table = { rank_rows, sizeof rank_rows / sizeof *rank_rows, NULL };

static const body_parameter score_rows[] = {
    { "model", read_model },
    { "text_1", read_first_texts },
    { "text_2", read_second_texts },
    { "user", NULL },
};
static const body_table score_table = { score_rows, sizeof score_rows / sizeof *score_rows, NULL };

static const body_parameter embed_rows[] = {
    { "model", read_model },           { "input", read_input }, { "encoding_format", read_encoding },
    { "dimensions", read_dimensions }, { "user", NULL },
};
static const body_table embed_table = { embed_rows, sizeof embed_rows / sizeof *embed_rows, NULL };

static bool read_request(struct exchange *exchange, struct embedding *embedding)
{
    const route_kind kind = exchange->route.kind;
    body_error error;

    embedding->body = body_read(exchange,
                                kind == ROUTE_RERANK  ? &rank_table
                                : kind == ROUTE_SCORE ? &score_table
                                                      : &embed_table,
                                embedding, &error);
    if (embedding->body == NULL ||
        ((kind == ROUTE_RERANK || kind == ROUTE_SCORE) && !similarity_texts(embedding, &error)))
        body_refuse(exchange, &error);
    else if (embedding->inputs.count == 0)
        exchange_fail_parameter(exchange, HTTP_BAD_REQUEST, "the request has no input", "input", NULL);
    return exchange->code == 0;
}

/* Computes the embedding of a text from `vectors`, which are the embedding itself or the vectors of its tokens. */
static void store_vector(embedded_text *text, const float *vectors, size_t count, size_t size, inlay_diag *diag)
{
    struct embedding *embedding = text->embedding;

    if (embedding->vectors == NULL) {
        embedding->vectors = malloc(embedding->inputs.count * size * sizeof *embedding->vectors);
        embedding->sums = malloc(size * sizeof *embedding->sums);
        embedding->size = size;
    }
    if (embedding->vectors == NULL || embedding->sums == NULL)
        (void)no_memory(diag, "for the vectors");
    else if (size != embedding->size)
        (void)inlay_fail(diag, INLAY_UNSUPPORTED, "the model's embeddings have different sizes");
    else if (embedding->is_joined) /* of size 1 */
        embedding->vectors[text - embedding->texts] = vectors[0];
    else if (embedding->dimensions > size)
        (void)inlay_fail(diag, INLAY_INVALID_ARGUMENT, "dimensions: the model's embeddings have %zu", size);
    else
        text_model_pool(embedding->exchange->request.job.model->text, vectors, count, size, embedding->sums,
                        embedding->vectors + (size_t)(text - embedding->texts) * size);
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
    const size_t tokens = input_list_tokens(&embedding->inputs);

    strbuf_text(to, "{\"object\":\"list\",\"data\":[");
    for (uint32_t i = 0; i < embedding->inputs.count; i++) {
        float *vector = embedding->vectors + i * embedding->size;

        strbuf_format(to, "%s{\"object\":\"embedding\",\"index\":%u,\"embedding\":", i > 0 ? "," : "", i);
        write_vector(to, vector, shorten(embedding, vector), embedding->is_base64);
        strbuf_text(to, "}");
    }
    strbuf_format(to, "],\"model\":\"%s\",\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu}}",
                  exchange->request.job.model->name, tokens, tokens);
    exchange->code = HTTP_OK;
    (void)atomic_fetch_add_explicit(&exchange->request.job.model->metrics.stats->prompt_tokens, tokens,
                                    memory_order_relaxed);
}

/* The callbacks of encoding_text. */

static bool take_vectors(encoding_text *encoding, const float *vectors, size_t count, size_t size,
                         const inlay_diag *failure)
{
    embedded_text *text = (embedded_text *)encoding;
    struct embedding *embedding = text->embedding;
    struct exchange *exchange = embedding->exchange;
    inlay_diag diag = INLAY_DIAG_INIT;

    if (failure != NULL)
        diag = *failure;
    else if (embedding->failure.code == INLAY_OK)
        store_vector(text, vectors, count, size, &diag);
    if (diag.code != INLAY_OK && embedding->failure.code == INLAY_OK) {
        embedding->failure = diag;
        exchange->request.job.cancelled = true; /* its other texts need not run */
    }
    exchange->request.compute_ns += encoding->rows > 0 ? encoding->compute_ns / encoding->rows : 0;
    exchange->request.run_rows =
        encoding->rows > exchange->request.run_rows ? encoding->rows : exchange->request.run_rows;
    INLAY_CHECK(embedding->done < embedding->inputs.count);
    return ++embedding->done == embedding->inputs.count;
}

static void end_texts(encoding_text *encoding)
{
    struct embedding *embedding = ((embedded_text *)encoding)->embedding;
    struct exchange *exchange = embedding->exchange;
    model_stats *stats = exchange->request.job.model->metrics.stats;

    watch_remove(exchange->request.server->watch, &exchange->request);
    if (embedding->failure.code != INLAY_OK) {
        exchange_fail_diag(exchange, &embedding->failure);
        stats_add_error(stats, stats_error_of(embedding->failure.code), clock_ns() - exchange->request.arrived_ns);
    } else {
        if (exchange->route.kind == ROUTE_EMBEDDINGS)
            write_reply(embedding);
        else
            similarity_write(embedding);
        stats_add_time(&stats->request, clock_ns() - exchange->request.arrived_ns);
    }
    request_wake(&exchange->request);
}

/* Makes the tokens of the texts. false: the reply says why that failed. */
static bool tokenize(struct exchange *exchange, struct embedding *embedding)
{
    const text_model *model = exchange->request.job.model->text;
    body_error error = { .code = NULL };
    bool good = true;

    for (uint32_t i = 0; i < embedding->inputs.count && good; i++) {
        input_text *text = &embedding->inputs.texts[i];
        char name[32];

        (void)snprintf(name, sizeof name, "input %u", i);
        good =
            input_text_tokenize(text, model, true, name, &error) && input_text_check(text, model, false, name, &error);
    }
    if (!good)
        exchange_fail_parameter(exchange, HTTP_BAD_REQUEST, error.text, "input", error.code);
    embedding->texts = good ? calloc(embedding->inputs.count, sizeof *embedding->texts) : NULL;
    if (good && embedding->texts == NULL)
        exchange_fail(exchange, HTTP_SERVICE_UNAVAILABLE, "no memory for the texts");
    return embedding->texts != NULL;
}

/* Computes the vectors with job.model. The exchange may be suspended already, because it waited for its model. */
static void compute(struct exchange *exchange)
{
    struct embedding *embedding = exchange->embedding;
    const text_model *text = exchange->request.job.model->text;
    inlay_diag diag = INLAY_DIAG_INIT;

    if (text != NULL && text->vectors == INLAY_NONE && text->scores != INLAY_NONE &&
        exchange->route.kind != ROUTE_EMBEDDINGS)
        similarity_join(embedding);
    else if (text != NULL && text->vectors == INLAY_NONE && text->scores != INLAY_NONE)
        exchange_fail_parameter(exchange, HTTP_BAD_REQUEST,
                                "not an embedding model: it reads two texts together, for /v1/rerank and /v1/score",
                                "model", NULL);
    else if (text == NULL || text->vectors == INLAY_NONE)
        exchange_fail_parameter(exchange, HTTP_BAD_REQUEST,
                                "not an embedding model; that needs an output sentence_embedding or last_hidden_state "
                                "and a tokenizer.json",
                                "model", NULL);
    if (exchange->code == 0 && tokenize(exchange, embedding) && !request_goes_on(&exchange->request, &diag))
        exchange_fail_diag(exchange, &diag);
    if (exchange->code != 0) {
        exchange_drop(exchange);
        if (exchange->request.suspended)
            request_wake(&exchange->request);
        return;
    }
    for (uint32_t i = 0; i < embedding->inputs.count; i++) {
        embedded_text *one = &embedding->texts[i];
        const input_text *input = &embedding->inputs.texts[i];

        one->embedding = embedding;
        one->encoding = (encoding_text){ .request = &exchange->request.job,
                                         .tokens = input->tokens,
                                         .count = input->token_count,
                                         .second = input->second_begin,
                                         .next = i + 1 < embedding->inputs.count ? &one[1].encoding : NULL,
                                         .take = take_vectors,
                                         .end = end_texts };
    }
    request_suspend(&exchange->request);
    watch_add(exchange->request.server->watch, &exchange->request);
    if (encoding_add(exchange->request.server->sched, exchange->request.job.model, &embedding->texts[0].encoding,
                     &diag) == INLAY_OK)
        return;
    watch_remove(exchange->request.server->watch, &exchange->request);
    exchange_fail_diag(exchange, &diag);
    request_wake(&exchange->request);
}

/* The model that the request waited for is loaded, or its load failed. */
static void model_loaded(void *user, const inlay_diag *failure)
{
    exchange_model_loaded(user, failure, compute);
}

void answer_embeddings(struct exchange *exchange)
{
    struct embedding *embedding = calloc(1, sizeof *embedding);
    char only[MODELS_NAME_BYTES];
    const char *name;

    if (embedding == NULL) {
        exchange_fail(exchange, HTTP_SERVICE_UNAVAILABLE, "no memory for the texts");
        return;
    }
    embedding->exchange = exchange;
    exchange->embedding = embedding;
    exchange->release = release;
    if (!read_request(exchange, embedding)) {
        exchange_drop(exchange);
        return;
    }
    name = embedding->model;
    if (models_stand_in(exchange->request.server->repository, name, TEXT_EMBEDS, only))
        name = only;
    if (name == NULL) {
        exchange_fail_parameter(exchange, HTTP_BAD_REQUEST, "the request has no model", "model", NULL);
        exchange_drop(exchange);
    } else if (models_acquire(exchange, name, NULL, model_loaded) == ACQUIRED_MODEL) {
        compute(exchange);
    }
}
