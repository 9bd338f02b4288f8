#include "texts/decode/head_rows.h"
#include "base/memory.h"
#include "inlay/check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_TOKENS = 256 /* initial capacity of the states; it doubles */
};

struct head_rows {
    const decode_model *model;
    uint64_t order;       /* of the text whose states these are; 0: none */
    size_t first;         /* token of their first row */
    size_t length;        /* rows with hidden states of the model */
    size_t chained;       /* rows of guesses after them */
    size_t reads;         /* rows of the prepared run */
    bool of_text;         /* they are rows of the text */
    int64_t *numbers;     /* tokens, positions and mask; owned */
    size_t number_room;   /* of numbers */
    unsigned char *last;  /* [own_bytes] hidden state of the last row; owned */
    unsigned char *zeros; /* [zero_bytes] owned */
    size_t zero_bytes;
    float *logits; /* [text_head.words] in the tokens of the model; owned; NULL: none so far */
};

struct head_rows *head_rows_create(const decode_model *model)
{
    struct head_rows *rows = calloc(1, sizeof *rows);

    if (rows == NULL)
        return NULL;
    rows->model = model;
    rows->last = calloc(1, model->head->own_bytes);
    if (rows->last != NULL)
        return rows;
    head_rows_destroy(rows);
    return NULL;
}

void head_rows_destroy(struct head_rows *rows)
{
    if (rows == NULL)
        return;
    free(rows->numbers);
    free(rows->last);
    free(rows->zeros);
    free(rows->logits);
    free(rows);
}

inlay_status head_rows_keep(const struct head_rows *rows, inlay_context *context, inlay_diag *diag)
{
    return rows->model->has_states ? inlay_context_keep_states(context, FIRST_TOKENS, diag) : INLAY_OK;
}

bool head_rows_can_begin(const decoding_text *text)
{
    const hidden_states *hidden = &text->hidden;

    return hidden->count > 0 && hidden->first + hidden->count + 1 == text->count;
}

bool head_rows_begin(struct head_rows *rows, inlay_context *context, const decoding_text *text)
{
    const hidden_states *hidden = &text->hidden;
    const size_t last = text->count - 2; /* the last token with a hidden state */

    INLAY_CHECK(head_rows_can_begin(text));
    if (rows->order == text->order && rows->first + rows->length > last)
        rows->length = last > rows->first ? last - rows->first : 0; /* its row is read again, for its logits */
    if (rows->order != text->order || rows->first + rows->length < hidden->first || rows->first > last) {
        rows->order = text->order;
        rows->first = hidden->first;
        rows->length = 0;
    }
    rows->chained = 0;
    if (!rows->model->has_states) { /* the other rows have no effect */
        rows->first = last;
        rows->length = 0;
        return true;
    }
    return inlay_context_state_length(context) <= (int64_t)rows->length ||
           inlay_context_state_rewind(context, (int64_t)rows->length, NULL) == INLAY_OK;
}

/* Makes room for the numbers of a run, and for zeros. */
static bool make_room(struct head_rows *rows, size_t reads, size_t length)
{
    const text_head *head = rows->model->head;
    const size_t numbers = 2 * reads + length,
                 wider = head->hidden_bytes > head->own_bytes ? head->hidden_bytes : head->own_bytes;

    if (numbers > rows->number_room) {
        int64_t *more = malloc(2 * numbers * sizeof *more);

        if (more == NULL)
            return false;
        free(rows->numbers);
        rows->numbers = more;
        rows->number_room = 2 * numbers;
    }
    if (head->own != INLAY_NONE && reads * wider > rows->zero_bytes) {
        unsigned char *more = calloc(reads, wider);

        if (more == NULL)
            return false;
        free(rows->zeros);
        rows->zeros = more;
        rows->zero_bytes = reads * wider;
    }
    return true;
}

/* Binds an input [1, count] or [1, count, width]; INLAY_NONE: nothing. */
static bool bind(const decode_step *step, uint32_t input, inlay_dtype dtype, size_t count, size_t width, void *data,
                 size_t bytes)
{
    const int64_t dims[] = { 1, (int64_t)count, (int64_t)width };
    inlay_value *value = NULL;
    inlay_status status;

    if (input == INLAY_NONE)
        return true;
    status = inlay_value_borrow(dtype, width > 0 ? 3 : 2, dims, data, bytes, &value, NULL);
    if (status == INLAY_OK)
        status = inlay_context_set_input(step->context, input, value, NULL);
    inlay_value_unref(value);
    return status == INLAY_OK;
}

static bool bind_numbers(const decode_step *step, uint32_t input, int64_t *numbers, size_t count)
{
    return bind(step, input, INLAY_INT64, count, 0, numbers, count * sizeof *numbers);
}

/* Binds `reads` rows of hidden states, each of `bytes` bytes. */
static bool bind_hidden(const decode_step *step, uint32_t input, void *data, size_t reads, size_t bytes)
{
    const text_head *head = step->model->head;

    return bind(step, input, head->dtype, reads, bytes / head->number_bytes, data, reads * bytes);
}

void head_rows_want(const struct head_rows *rows, decode_step *step)
{
    const text_head *head = rows->model->head;

    step->output_count = 0;
    step->outputs[step->output_count++] = rows->model->logits;
    if (head->next != INLAY_NONE)
        step->outputs[step->output_count++] = head->next;
    if (head->targets == NULL && head->table != INLAY_NONE)
        step->outputs[step->output_count++] = head->table;
}

size_t head_rows_prepare(struct head_rows *rows, const decoding_text *text, const int64_t *guesses, uint32_t count,
                         size_t most, decode_step *step)
{
    const decode_model *model = rows->model;
    const text_head *head = model->head;
    const size_t read = rows->first + rows->length, from = rows->length + rows->chained;
    const size_t left = text->count - 1 - read, reads = count > 0 ? 1 : left < most ? left : most;
    unsigned char *of_model, *of_head;
    int64_t *tokens, *positions, *mask;

    INLAY_CHECK(reads > 0 && (count > 0 || read >= text->hidden.first));
    if (!make_room(rows, reads, from + reads))
        return 0;
    tokens = rows->numbers;
    positions = tokens + reads;
    mask = positions + reads;
    for (size_t i = 0; i < reads; i++) {
        tokens[i] = count > 0 ? guesses[count - 1] : text->tokens[read + i + 1];
        positions[i] = (int64_t)(rows->first + from + i);
    }
    for (size_t i = 0; i < from + reads; i++)
        mask[i] = 1;
    rows->reads = reads;
    rows->of_text = count == 0;
    of_model = rows->of_text ? text->hidden.rows + (read - text->hidden.first) * head->hidden_bytes : rows->zeros;
    of_head = rows->of_text ? rows->zeros : rows->last;
    head_rows_want(rows, step);
    if (!bind_numbers(step, model->ids, tokens, reads) || !bind_numbers(step, model->positions, positions, reads) ||
        !bind_numbers(step, model->mask, mask, from + reads) ||
        !bind_hidden(step, head->hidden, head->own == INLAY_NONE && !rows->of_text ? of_head : of_model, reads,
                     head->own == INLAY_NONE && !rows->of_text ? head->own_bytes : head->hidden_bytes) ||
        (head->own != INLAY_NONE && !bind_hidden(step, head->own, of_head, reads, head->own_bytes)))
        return 0;
    return reads;
}

/* Maps the logits of the head to the tokens of the model. The other tokens are never chosen. */
static const float *map_logits(struct head_rows *rows, const float *logits)
{
    const text_head *head = rows->model->head;

    if (rows->logits == NULL && (rows->logits = malloc(head->words * sizeof *rows->logits)) == NULL)
        return NULL;
    for (size_t i = 0; i < head->words; i++)
        rows->logits[i] = -INFINITY;
    for (size_t i = 0; i < head->target_count; i++)
        rows->logits[head->targets[i]] = logits[i];
    return rows->logits;
}

/* Keeps the hidden state of the last row, and the table if the head has not got it yet. */
static inlay_status take_others(struct head_rows *rows, const decode_output *outputs, uint32_t count, inlay_diag *diag)
{
    text_head *head = rows->model->head;

    if (head->next != INLAY_NONE) {
        const decode_output *next = &outputs[1];
        const size_t bytes =
            next->rank == 3 && next->dtype == head->dtype ? (size_t)next->dims[2] * head->number_bytes : 0;

        if (bytes != head->own_bytes || next->dims[1] < 1)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "its output has not the hidden state of each token");
        memcpy(rows->last, (const unsigned char *)next->data + ((size_t)next->dims[1] - 1) * bytes, bytes);
    }
    return head->targets == NULL && head->table != INLAY_NONE
               ? text_head_set_targets(head, outputs[count - 1].dtype, outputs[count - 1].data,
                                       (size_t)outputs[count - 1].count, diag)
               : INLAY_OK;
}

inlay_status head_rows_read(struct head_rows *rows, decoding_text *text, const decode_output *outputs, uint32_t count,
                            const float **out_logits, size_t *out_words, inlay_diag *diag)
{
    const text_head *head = rows->model->head;
    const decode_output *logits = &outputs[0];
    size_t words;
    inlay_status status;

    *out_logits = NULL;
    if (logits->rank != 3 || logits->dims[2] < 1 || logits->count < (uint64_t)logits->dims[2] ||
        logits->dtype != INLAY_FLOAT)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "'logits' is not a float tensor [1, tokens, vocabulary]");
    status = take_others(rows, outputs, count, diag);
    if (status != INLAY_OK)
        return status;
    *(rows->of_text ? &rows->length : &rows->chained) += rows->reads;
    if (rows->of_text)
        hidden_drop(&text->hidden, head, rows->first + rows->length - 1);
    if (rows->first + rows->length + 1 < text->count)
        return INLAY_OK;
    words = (size_t)logits->dims[2];
    *out_words = head->targets != NULL ? head->words : words;
    *out_logits = (const float *)logits->data + logits->count - words;
    if (head->targets == NULL)
        return INLAY_OK;
    if (words != head->target_count)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "'logits' has %zu tokens, and d2t %zu", words, head->target_count);
    *out_logits = map_logits(rows, *out_logits);
    return *out_logits != NULL ? INLAY_OK : no_memory(diag, "for the logits of a head");
}
