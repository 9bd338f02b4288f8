/* POST /v1/rerank and /v1/score: the similarity of texts, by the cosine of their vectors, or by the score of a model
 * that reads two texts together. */
#include "serve/chat/embedding_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A text, or an object with one. */
static bool add_text(struct embedding *embedding, const json_t *value, const char *parameter, body_error *error)
{
    const json_t *text = json_is_object(value) ? json_object_get(value, "text") : value;

    if (!json_is_string(text))
        return body_fail_parameter(error, parameter, "an element is not a text");
    return input_list_add(&embedding->inputs, text, EMBEDDING_MAX_TEXTS, error);
}

static bool add_texts(struct embedding *embedding, const json_t *value, const char *parameter, body_error *error)
{
    if (!json_is_array(value))
        return add_text(embedding, value, parameter, error);
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!add_text(embedding, json_array_get(value, i), parameter, error))
            return false;
    return true;
}

bool similarity_texts(struct embedding *embedding, body_error *error)
{
    const bool ranks = embedding->exchange->route.kind == ROUTE_RERANK;
    const char *first = ranks ? "query" : "text_1", *second = ranks ? "documents" : "text_2";

    *error = (body_error){ .code = NULL };
    if (embedding->query == NULL || embedding->documents == NULL)
        return body_fail_parameter(error, embedding->query == NULL ? first : second,
                                   "the request needs two parameters with texts");
    if (!add_texts(embedding, embedding->query, first, error))
        return false;
    embedding->query_count = embedding->inputs.count;
    if (!add_texts(embedding, embedding->documents, second, error))
        return false;
    if (embedding->query_count > 1 && embedding->inputs.count != 2 * embedding->query_count)
        return body_fail_parameter(error, second, "text_1 must have one text, or as many texts as text_2");
    return true;
}

void similarity_join(struct embedding *embedding)
{
    input_text *texts = embedding->inputs.texts;
    const uint32_t queries = embedding->query_count, count = embedding->inputs.count - queries;

    for (uint32_t i = 0; i < count; i++)
        texts[queries + i].second = texts[queries + i].text;
    for (uint32_t i = 0; i < count; i++)
        texts[queries + i].text = texts[queries > 1 ? i : 0].text;
    memmove(texts, texts + queries, count * sizeof *texts);
    embedding->inputs.count = count;
    embedding->query_count = 0;
    embedding->is_joined = true;
}

static double cosine(const struct embedding *embedding, uint32_t left, uint32_t right)
{
    const float *a = embedding->vectors + left * embedding->size, *b = embedding->vectors + right * embedding->size;
    double product = 0, a_norm = 0, b_norm = 0;

    for (size_t i = 0; i < embedding->size; i++) {
        product += (double)a[i] * (double)b[i];
        a_norm += (double)a[i] * (double)a[i];
        b_norm += (double)b[i] * (double)b[i];
    }
    return a_norm > 0 && b_norm > 0 ? product / sqrt(a_norm * b_norm) : 0;
}

/* How similar text i is to its query. */
static double score_of(const struct embedding *embedding, uint32_t i)
{
    return embedding->is_joined ? (double)embedding->vectors[i]
                                : cosine(embedding, embedding->query_count > 1 ? i : 0, embedding->query_count + i);
}

typedef struct scored_text {
    uint32_t index;
    double score;
} scored_text;

static int by_score(const void *left, const void *right)
{
    const scored_text *a = left, *b = right;

    return a->score != b->score ? (a->score < b->score) - (a->score > b->score)
                                : (a->index > b->index) - (a->index < b->index);
}

static void write_score(struct strbuf *to, double score)
{
    strbuf_format(to, isfinite(score) ? "%.9g" : "null", score);
}

static void write_ranks(const struct embedding *embedding, const scored_text *scores, uint32_t count, struct strbuf *to)
{
    strbuf_text(to, "\"results\":[");
    for (uint32_t i = 0; i < count && (embedding->top == 0 || i < embedding->top); i++) {
        const input_text *input = &embedding->inputs.texts[embedding->query_count + scores[i].index];
        const char *text = input->second != NULL ? input->second : input->text;

        strbuf_format(to, "%s{\"index\":%u,", i > 0 ? "," : "", scores[i].index);
        if (!embedding->hides_documents) {
            strbuf_text(to, "\"document\":{\"text\":");
            strbuf_json(to, text, strlen(text));
            strbuf_text(to, "},");
        }
        strbuf_text(to, "\"relevance_score\":");
        write_score(to, scores[i].score);
        strbuf_text(to, "}");
    }
    strbuf_text(to, "]");
}

static void write_scores(const scored_text *scores, uint32_t count, struct strbuf *to)
{
    strbuf_text(to, "\"object\":\"list\",\"data\":[");
    for (uint32_t i = 0; i < count; i++) {
        strbuf_format(to, "%s{\"index\":%u,\"object\":\"score\",\"score\":", i > 0 ? "," : "", i);
        write_score(to, scores[i].score);
        strbuf_text(to, "}");
    }
    strbuf_text(to, "]");
}

void similarity_write(struct embedding *embedding)
{
    struct exchange *exchange = embedding->exchange;
    const uint32_t count = embedding->inputs.count - embedding->query_count;
    scored_text *scores = malloc((count + 1u) * sizeof *scores);
    struct strbuf *to = &exchange->reply;
    const size_t tokens = input_list_tokens(&embedding->inputs);

    if (scores == NULL) {
        exchange_fail(exchange, HTTP_SERVICE_UNAVAILABLE, "no memory for the texts");
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        scores[i] = (scored_text){ i, score_of(embedding, i) };
    strbuf_text(to, "{\"model\":");
    strbuf_json(to, embedding->model, strlen(embedding->model));
    strbuf_format(to, ",\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu},", tokens, tokens);
    if (exchange->route.kind == ROUTE_RERANK) {
        qsort(scores, count, sizeof *scores, by_score);
        write_ranks(embedding, scores, count, to);
    } else {
        write_scores(scores, count, to);
    }
    strbuf_text(to, "}");
    free(scores);
    exchange->code = HTTP_OK;
    (void)atomic_fetch_add_explicit(&exchange->request.job.model->metrics.stats->prompt_tokens, tokens,
                                    memory_order_relaxed);
}
