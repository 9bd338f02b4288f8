#include "head.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool complain(const struct head *head, const inlay_diag *diag)
{
    fprintf(stderr, "generate: %s: %s\n", head->draft->path, diag->text);
    return false;
}

static bool out_of_memory(void)
{
    fprintf(stderr, "generate: out of memory\n");
    return false;
}

bool head_open(struct model *draft, const struct model *model, size_t words, struct head *head)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    text_head *roles = &head->roles;

    head->draft = draft;
    if (text_head_find((head_model){ draft->session, draft->path }, (head_model){ model->session, model->path }, words,
                       NULL, roles, &diag) != INLAY_OK)
        return complain(head, &diag);
    draft->ids = roles->ids;
    draft->mask = roles->mask;
    draft->positions = roles->positions;
    draft->last_logits = roles->last_logits;
    draft->logits = roles->logits;
    head->last = calloc(1, roles->own_bytes);
    if (head->last == NULL)
        return out_of_memory();
    return inlay_session_state_count(draft->session) == 0 || model_keep(draft);
}

void head_close(struct head *head)
{
    text_head_deinit(&head->roles);
    free(head->rows);
    free(head->last);
    free(head->zeros);
    free(head->logits);
}

bool head_keep(struct head *head, const struct model *model, size_t first, size_t count)
{
    const text_head *roles = &head->roles;
    unsigned char *more = realloc(head->rows, (head->count + count) * roles->hidden_bytes + 1);
    size_t at = 0;

    if (more == NULL)
        return out_of_memory();
    head->rows = more;
    if (head->count == 0)
        head->first = first;
    for (uint32_t i = 0; i < roles->source_count; i++) {
        const inlay_value *states = inlay_context_output(model->context, roles->sources[i]);
        const int64_t *dims = states != NULL && inlay_value_rank(states) == 3 ? inlay_value_dims(states) : NULL;
        const size_t bytes = dims != NULL ? (size_t)dims[2] * roles->number_bytes : 0;

        if (dims == NULL || dims[1] < (int64_t)count || inlay_value_dtype(states) != roles->dtype ||
            at + bytes > roles->hidden_bytes) {
            fprintf(stderr, "generate: an output of hidden states has not one for each token\n");
            return false;
        }
        for (size_t t = 0; t < count; t++)
            memcpy(head->rows + (head->count + t) * roles->hidden_bytes + at,
                   (const unsigned char *)inlay_value_data(states) + t * bytes, bytes);
        at += bytes;
    }
    head->count += count;
    return true;
}

bool head_rewind(struct head *head)
{
    return inlay_session_state_count(head->draft->session) == 0 || model_rewind(head->draft, head->read);
}

static bool set_hidden(struct head *head, uint32_t input, const void *data, size_t reads, size_t bytes)
{
    const text_head *roles = &head->roles;
    const int64_t dims[] = { 1, (int64_t)reads, (int64_t)(bytes / roles->number_bytes) };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value = NULL;
    bool ok;

    if (input == INLAY_NONE)
        return true;
    ok = inlay_value_borrow(roles->dtype, 3, dims, (void *)(uintptr_t)data, reads * bytes, &value, &diag) == INLAY_OK &&
         inlay_context_set_input(head->draft->context, input, value, &diag) == INLAY_OK;
    inlay_value_unref(value);
    return ok || complain(head, &diag);
}

/* Binds the hidden states of rows of the text, or of a guess: where the head has two inputs, the other one gets
 * zeros. */
static bool bind_hidden(struct head *head, bool of_text, size_t reads)
{
    const text_head *roles = &head->roles;
    const unsigned char *rows = head->rows + (head->read - head->first) * roles->hidden_bytes;
    const size_t wider = roles->hidden_bytes > roles->own_bytes ? roles->hidden_bytes : roles->own_bytes;

    if (roles->own == INLAY_NONE)
        return set_hidden(head, roles->hidden, of_text ? rows : head->last, reads, roles->hidden_bytes);
    if (reads * wider > head->zero_bytes) {
        free(head->zeros);
        head->zeros = calloc(reads, wider);
        head->zero_bytes = head->zeros != NULL ? reads * wider : 0;
        if (head->zeros == NULL)
            return out_of_memory();
    }
    return set_hidden(head, roles->hidden, of_text ? rows : head->zeros, reads, roles->hidden_bytes) &&
           set_hidden(head, roles->own, of_text ? head->zeros : head->last, reads, roles->own_bytes);
}

/* Keeps the hidden state of the last row, and the table of tokens if the head returns one. */
static bool take_others(struct head *head)
{
    text_head *roles = &head->roles;
    const inlay_value *table =
        roles->table != INLAY_NONE ? inlay_context_output(head->draft->context, roles->table) : NULL;
    inlay_diag diag = INLAY_DIAG_INIT;

    if (roles->next != INLAY_NONE) {
        const inlay_value *next = inlay_context_output(head->draft->context, roles->next);

        memcpy(head->last, (const unsigned char *)inlay_value_data(next) + inlay_value_bytes(next) - roles->own_bytes,
               roles->own_bytes);
    }
    return roles->targets != NULL || table == NULL ||
           text_head_set_targets(roles, inlay_value_dtype(table), inlay_value_data(table),
                                 (size_t)inlay_value_count(table), &diag) == INLAY_OK ||
           complain(head, &diag);
}

/* Maps the logits of the head to the tokens of the model. The other tokens are never chosen. */
static bool map_logits(struct head *head, float **logits, size_t *vocabulary)
{
    const text_head *roles = &head->roles;

    if (roles->targets == NULL)
        return true;
    if (head->logits == NULL && (head->logits = malloc(roles->words * sizeof *head->logits)) == NULL)
        return out_of_memory();
    for (size_t i = 0; i < roles->words; i++)
        head->logits[i] = -INFINITY;
    for (size_t i = 0; i < roles->target_count && i < *vocabulary; i++)
        head->logits[roles->targets[i]] = (*logits)[i];
    *logits = head->logits;
    *vocabulary = roles->words;
    return true;
}

bool head_read(struct head *head, const int64_t *tokens, size_t count, const int64_t *guesses, size_t found,
               float **logits, size_t *vocabulary)
{
    const bool of_text = found == 0;
    const size_t reads = of_text ? count - 1 - head->read : 1;

    if (!of_text && head->roles.next == INLAY_NONE) /* it makes one guess */
        return false;
    if (!bind_hidden(head, of_text, reads) ||
        !model_read_at(head->draft, of_text ? tokens + head->read + 1 : &guesses[found - 1],
                       (int64_t)(of_text ? head->read : head->read + found - 1), (int64_t)reads, 0, logits,
                       vocabulary) ||
        !take_others(head))
        return false;
    if (of_text) {
        head->read += reads;
        head->count = 0;
    }
    return map_logits(head, logits, vocabulary);
}
