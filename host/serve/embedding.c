/* POST /v1/embeddings: vectors of texts, by models whose output is a vector a text or a vector a token. */
#include "serve/embedding.h"
#include "serve/text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXTS = 256 };

struct embedding {
    struct exchange *x;
    char model[FOLDER_MAX_NAME + 2];
    char *texts[MAX_TEXTS]; /* in the body */
    uint32_t count, done;
    int64_t *tokens, *ones, *zeros, *positions; /* of the text at work */
    size_t token_count, all_tokens;
    infer_tensor inputs[4];
    infer_wanted wanted;
};

void embedding_destroy(struct embedding *e)
{
    if (e == NULL)
        return;
    free(e->tokens);
    free(e->ones);
    free(e);
}

/* ------------------------------------------------------------------ the request */

static bool read_inputs(json_reader *r, struct embedding *e)
{
    bool list = reader_peek(r) == '[';

    if (list && !reader_open(r, '['))
        return false;
    while (!list || reader_element(r)) {
        if (e->count == MAX_TEXTS)
            return reader_fail(r, "more than 256 texts");
        if (!reader_c_string(r, &e->texts[e->count]))
            return false;
        e->count++;
        if (!list)
            return true;
    }
    return r->error == NULL;
}

static bool read_request(struct exchange *x, struct embedding *e)
{
    json_reader r = reader_begin(x->body, x->body_bytes);
    json_text key, ignored;
    char *text = NULL, why[200];

    if (reader_open(&r, '{')) {
        while (reader_member(&r, &key)) {
            if (text_is(key, "input") && e->count == 0) {
                (void)read_inputs(&r, e);
            } else if (text_is(key, "model")) {
                if (reader_c_string(&r, &text))
                    (void)snprintf(e->model, sizeof e->model, "%s", text);
            } else if (text_is(key, "encoding_format")) {
                if (reader_c_string(&r, &text) && strcmp(text, "float") != 0)
                    (void)reader_fail(&r, "an encoding_format other than float");
            } else {
                (void)reader_skip(&r, &ignored);
            }
        }
    }
    if (reader_end(&r) && e->count > 0 && e->model[0] != '\0')
        return true;
    if (r.error != NULL)
        (void)snprintf(why, sizeof why, "the request's JSON, byte %zu: %s", (size_t)(r.at - r.start), r.error);
    else
        (void)snprintf(why, sizeof why, "the request has no %s", e->count == 0 ? "input" : "model");
    exchange_fail(x, MHD_HTTP_BAD_REQUEST, why);
    return false;
}

/* ------------------------------------------------------------------ text by text */

static void stay(void *user)
{
    (void)user;
}

static void add_input(struct embedding *e, const char *name, uint32_t input, int64_t *data)
{
    if (input == INLAY_NONE)
        return;
    e->inputs[e->x->request.input_count++] = (infer_tensor){ .name = name,
                                                             .dtype = INLAY_INT64,
                                                             .rank = 2,
                                                             .dims = { 1, (int64_t)e->token_count },
                                                             .count = e->token_count,
                                                             .bytes = e->token_count * sizeof *data,
                                                             .data = data };
}

/* The tokens of the next text, and what goes with them: a mask of ones, positions, types of zero. */
static bool make_inputs(struct embedding *e, inlay_diag *diag)
{
    const text_model *t = e->x->job.model->text;

    free(e->tokens);
    free(e->ones);
    e->tokens = e->ones = NULL;
    e->token_count = 0;
    if (!tokenizer_encode(t->tokenizer, e->texts[e->done], true, &e->tokens, &e->token_count) || e->token_count == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input %u has no tokens", e->done) == INLAY_OK;
    e->ones = calloc(3 * e->token_count, sizeof *e->ones);
    if (e->ones == NULL)
        return no_memory(diag, "for the tokens") == INLAY_OK;
    e->zeros = e->ones + e->token_count;
    e->positions = e->zeros + e->token_count;
    for (size_t i = 0; i < e->token_count; i++) {
        e->ones[i] = 1;
        e->positions[i] = (int64_t)i;
    }
    e->all_tokens += e->token_count;
    e->x->request.input_count = 0;
    add_input(e, "input_ids", t->ids, e->tokens);
    add_input(e, "attention_mask", t->mask, e->ones);
    add_input(e, "token_type_ids", t->types, e->zeros);
    add_input(e, "position_ids", t->positions, e->positions);
    return true;
}

static bool submit(struct embedding *e, inlay_diag *diag)
{
    struct exchange *x = e->x;

    x->job.bytes = 0;
    if (!make_inputs(e, diag) || model_check(&x->job, diag) != INLAY_OK)
        return false;
    x->job.arrived_ns = clock_ns();
    if (!x->watched)
        watch_add(x->server->watch, x);
    return sched_submit(x->server->sched, &x->job, stay, NULL) != SCHED_FULL ||
           inlay_fail(diag, INLAY_BUSY, "the model's queue is full; try again later") == INLAY_OK;
}

/* The mean over the tokens, of length 1. */
static bool write_vector(struct embedding *e, const infer_output *o, inlay_diag *diag)
{
    struct strbuf *to = &e->x->reply;
    const float *data = o->data;
    size_t size = o->rank >= 2 ? (size_t)o->dims[o->rank - 1] : 0, rows = size > 0 ? (size_t)o->count / size : 0;
    double *sum, norm = 0;

    if (o->dtype != INLAY_FLOAT || rows == 0 || o->rank > 3)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "'%s' is no float tensor of vectors", o->name) == INLAY_OK;
    sum = calloc(size, sizeof *sum);
    if (sum == NULL)
        return no_memory(diag, "for the vector") == INLAY_OK;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < size; i++)
            sum[i] += (double)data[r * size + i];
    for (size_t i = 0; i < size; i++)
        norm += sum[i] * sum[i];
    norm = norm > 0 && isfinite(norm) ? sqrt(norm) : 1;
    strbuf_format(to, "%s{\"object\":\"embedding\",\"index\":%u,\"embedding\":[", e->done > 0 ? "," : "", e->done);
    for (size_t i = 0; i < size; i++) {
        double value = sum[i] / norm;

        strbuf_format(to, isfinite(value) ? "%s%.8g" : "%snull", i > 0 ? "," : "", value);
    }
    strbuf_text(to, "]}");
    free(sum);
    return true;
}

/* A text's run is over. Any thread. */
static void step(struct job *j, const inlay_diag *failure, const infer_output *outputs, uint32_t output_count)
{
    struct exchange *x = j->user;
    struct embedding *e = x->embedding;
    inlay_diag diag = INLAY_DIAG_INIT;

    x->compute_ns += failure == NULL ? j->compute_ns : 0;
    x->run_rows = 1;
    if (failure != NULL)
        diag = *failure;
    else if (output_count != 1)
        (void)inlay_fail(&diag, INLAY_UNSUPPORTED, "the model has another output");
    else if (write_vector(e, &outputs[0], &diag) && ++e->done < e->count && submit(e, &diag))
        return;
    watch_remove(x->server->watch, x);
    if (diag.code != INLAY_OK) {
        exchange_fail_diag(x, &diag);
        stats_add_error(&j->model->stats, stats_error_of(diag.code), clock_ns() - x->arrived_ns);
    } else {
        strbuf_format(&x->reply, "],\"model\":\"%s\",\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu}}",
                      j->model->name, e->all_tokens, e->all_tokens);
        x->code = MHD_HTTP_OK;
        stats_add_time(&j->model->stats.request, clock_ns() - x->arrived_ns);
    }
    exchange_wake(x);
}

void answer_embeddings(struct exchange *x)
{
    struct embedding *e = calloc(1, sizeof *e);
    inlay_diag diag = INLAY_DIAG_INIT;

    if (e == NULL) {
        exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "no memory for the texts");
        return;
    }
    e->x = x;
    x->embedding = e;
    if (!read_request(x, e))
        return;
    x->job.model = repository_find(x->server->repository, e->model, strlen(e->model), 0);
    if (x->job.model == NULL) {
        exchange_fail(x, MHD_HTTP_NOT_FOUND, "no such model is loaded; GET v1/models lists those for texts");
        return;
    }
    if (x->job.model->text == NULL || x->job.model->text->vectors == INLAY_NONE) {
        exchange_fail(x, MHD_HTTP_BAD_REQUEST,
                      "the model makes no vectors: sentence_embedding or last_hidden_state, tokenizer.json beside it");
        return;
    }
    e->wanted = (infer_wanted){ .name = x->job.model->outputs[x->job.model->text->vectors].name, .binary = -1 };
    x->request.id = "";
    x->request.inputs = e->inputs;
    x->request.outputs = &e->wanted;
    x->request.output_count = 1;
    x->job.request = &x->request;
    x->job.finish = step;
    x->job.user = x;
    strbuf_text(&x->reply, "{\"object\":\"list\",\"data\":[");
    exchange_suspend(x);
    if (submit(e, &diag))
        return;
    watch_remove(x->server->watch, x);
    exchange_fail_diag(x, &diag);
    exchange_wake(x);
}
