/* inlay_text_model_embed(). */
#include "base/memory.h"
#include "texts/api/api.h"
#include "texts/model/pooling.h"
#include <stdlib.h>

/* Binds an input [1, count]: the given tokens, or, if these are NULL, first, first + step, ... */
static inlay_status set_input(inlay_text_model *model, uint32_t input, const int64_t *tokens, int64_t first,
                              int64_t step, size_t count, inlay_diag *diag)
{
    const int64_t dims[] = { 1, (int64_t)count };
    inlay_value *value = NULL;
    inlay_status status;
    int64_t *to;

    if (input == INLAY_NONE)
        return INLAY_OK;
    status = inlay_value_create(INLAY_INT64, 2, dims, &value, diag);
    if (status != INLAY_OK)
        return status;
    to = inlay_value_data(value);
    for (size_t i = 0; i < count; i++)
        to[i] = tokens != NULL ? tokens[i] : first + (int64_t)i * step;
    status = inlay_context_set_input(model->embedding, input, value, diag);
    inlay_value_unref(value);
    return status;
}

static inlay_status run(inlay_text_model *model, const int64_t *tokens, size_t count, inlay_diag *diag)
{
    const text_model *text = model->model.text;
    inlay_status status =
        model->embedding != NULL ? INLAY_OK : inlay_context_create(model->model.session, &model->embedding, diag);

    if (status == INLAY_OK)
        status = set_input(model, text->decode.ids, tokens, 0, 0, count, diag);
    if (status == INLAY_OK)
        status = set_input(model, text->decode.mask, NULL, 1, 0, count, diag);
    if (status == INLAY_OK)
        status = set_input(model, text->decode.positions, NULL, 0, 1, count, diag);
    if (status == INLAY_OK)
        status = set_input(model, text->types, NULL, 0, 0, count, diag);
    return status == INLAY_OK ? inlay_context_run(model->embedding, NULL, diag) : status;
}

/* Computes the embedding from the output: a vector, or one for each of the tokens. */
static inlay_status take_vector(inlay_text_model *model, size_t tokens, inlay_diag *diag)
{
    const text_model *text = model->model.text;
    inlay_value *output = inlay_context_output(model->embedding, text->vectors);
    const uint32_t rank = inlay_value_rank(output);
    const size_t size = rank >= 2 && rank <= 3 ? (size_t)inlay_value_dims(output)[rank - 1] : 0;
    const size_t count = size > 0 ? (size_t)inlay_value_count(output) / size : 0;

    if (inlay_value_dtype(output) != INLAY_FLOAT || (count != 1 && count != tokens))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%.200s: its output is not a float tensor of embeddings",
                          model->model.path);
    if (size != model->vector_size) {
        free(model->vector);
        free(model->sums);
        model->vector = malloc(size * sizeof *model->vector);
        model->sums = malloc(size * sizeof *model->sums);
        model->vector_size = model->vector != NULL && model->sums != NULL ? size : 0;
    }
    if (model->vector_size == 0)
        return no_memory(diag, "for the embedding");
    text_model_pool(text, inlay_value_data(output), count, size, model->sums, model->vector);
    return INLAY_OK;
}

inlay_status inlay_text_model_embed(inlay_text_model *model, const char *text, size_t bytes, const float **out_vector,
                                    size_t *out_size, inlay_diag *diag)
{
    const size_t context = model->model.text->decode.context;
    int64_t *tokens = NULL;
    inlay_status status;
    size_t count;

    *out_vector = NULL;
    *out_size = 0;
    if (model->model.text->vectors == INLAY_NONE)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "%.200s makes no embeddings: it has no output sentence_embedding or last_hidden_state",
                          model->model.path);
    INLAY_TRY(inlay_text_model_tokenize(model, text, bytes, 0, NULL, 0, &count, diag));
    if (count == 0 || (context > 0 && count > context)) {
        status = count == 0 ? inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the text has no tokens")
                            : inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                                         "the text has %zu tokens; the model's context has %zu", count, context);
        goto done;
    }
    tokens = malloc(count * sizeof *tokens);
    if (tokens == NULL) {
        status = no_memory(diag, "for the tokens");
        goto done;
    }
    INLAY_TRY(inlay_text_model_tokenize(model, text, bytes, 0, tokens, count, &count, diag));
    INLAY_TRY(run(model, tokens, count, diag));
    INLAY_TRY(take_vector(model, count, diag));
    *out_vector = model->vector;
    *out_size = model->vector_size;
done:
    free(tokens);
    return status;
}
