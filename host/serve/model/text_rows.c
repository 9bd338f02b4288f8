#include "serve/model/text_rows.h"
#include "inlay/check.h"
#include "serve/model/text.h"
#include "serve/request/datatype.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROWS = 64 /* initial capacity of states that grow; it doubles */ };

/* ------------------------------------------------------------------ rows */

/* Copies a row of a state, of which `own` of the axis's entries are its tokens' (axis INLAY_NONE: all of it). */
static void copy_row(text_form form, uint32_t axis, int64_t own, const inlay_value *from, uint32_t from_row,
                     inlay_value *to, uint32_t to_row)
{
    const int64_t *from_dims = inlay_value_dims(from), *to_dims = inlay_value_dims(to);
    const uint32_t rank = inlay_value_rank(from);
    int64_t blocks = 1, entry = (int64_t)datatype_bytes(inlay_value_dtype(from)), had = 1, has = 1;
    const char *source = inlay_value_data(from);
    char *target = inlay_value_data(to);

    for (uint32_t d = 1; d < rank; d++) {
        if (axis != INLAY_NONE && d < axis)
            blocks *= from_dims[d];
        else if (d != axis)
            entry *= from_dims[d];
    }
    if (axis != INLAY_NONE) {
        had = from_dims[axis];
        has = to_dims[axis];
    } else {
        own = 1;
    }
    INLAY_CHECK(own <= had && own <= has);
    source += (from_row * blocks * had + (form == TEXT_LEFT ? had - own : 0)) * entry;
    target += (to_row * blocks * has + (form == TEXT_LEFT ? has - own : 0)) * entry;
    for (int64_t block = 0; block < blocks && own > 0; block++)
        memcpy(target + block * has * entry, source + block * had * entry, (size_t)(own * entry));
}

static inlay_status join_state(text_form form, uint32_t state, uint32_t axis, inlay_context *into, const text_row *rows,
                               uint32_t count, inlay_diag *diag)
{
    inlay_value *from = NULL, *to = NULL;
    int64_t dims[INLAY_MAX_RANK] = { 0 }, longest = 0;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < count; i++)
        longest = rows[i].length > longest ? rows[i].length : longest;
    for (uint32_t i = 0; status == INLAY_OK && i < count; i++) {
        if (i == 0 || rows[i].context != rows[i - 1].context) {
            inlay_value_unref(from);
            status = inlay_context_state_get(rows[i].context, state, &from, diag);
        }
        if (status == INLAY_OK && to == NULL) {
            memcpy(dims, inlay_value_dims(from), inlay_value_rank(from) * sizeof *dims);
            dims[0] = count;
            if (axis != INLAY_NONE)
                dims[axis] = longest;
            status = inlay_value_create(inlay_value_dtype(from), inlay_value_rank(from), dims, &to, diag);
        }
        if (status == INLAY_OK)
            copy_row(form, axis, rows[i].length, from, rows[i].row, to, i);
    }
    if (status == INLAY_OK)
        status = inlay_context_state_set(into, state, to, diag);
    inlay_value_unref(from);
    inlay_value_unref(to);
    return status;
}

inlay_status text_rows_join(const struct model *model, text_form form, inlay_context *into, const text_row *rows,
                            uint32_t count, inlay_diag *diag)
{
    inlay_state_info info = { .struct_size = sizeof info };
    inlay_status status = INLAY_OK;

    INLAY_CHECK(count > 0);
    for (uint32_t i = 0; status == INLAY_OK && inlay_session_state(model->session, i, &info) == INLAY_OK; i++)
        status = join_state(form, i, info.axis, into, rows, count, diag);
    return status;
}

void text_rows_mask(text_form form, const int64_t *lengths, uint32_t count, int64_t width, int64_t *out_mask)
{
    for (uint32_t i = 0; i < count; i++)
        for (int64_t k = 0; k < width; k++)
            out_mask[i * width + k] = form == TEXT_LEFT ? k >= width - lengths[i] : k < lengths[i];
}

void text_rows_bytes(const struct model *model, uint64_t *out_token_bytes, uint64_t *out_fixed_bytes)
{
    inlay_state_info info = { .struct_size = sizeof info };

    *out_token_bytes = *out_fixed_bytes = 0;
    for (uint32_t i = 0; inlay_session_state(model->session, i, &info) == INLAY_OK; i++) {
        const inlay_io_info *io = &model->inputs[info.input];
        uint64_t bytes = datatype_bytes(io->dtype);

        for (uint32_t d = 1; d < io->rank; d++)
            bytes *= d != info.axis && io->dims[d] > 0 ? (uint64_t)io->dims[d] : 1;
        *(info.axis == INLAY_NONE ? out_fixed_bytes : out_token_bytes) += bytes;
    }
}

/* ------------------------------------------------------------------ the form of a model */

enum { LONG = 6, SHORT = 2, TRIED = 3 /* contexts */, PART = 4 /* of the long text, as the first of two */ };
static const double tolerance = 1e-3; /* kernels may depend on the shape */
static const int64_t long_text[LONG + 1] = { 5, 1, 7, 2, 6, 3, 4 }, short_text[SHORT + 1] = { 3, 6, 2 };

static inlay_status bind_numbers(inlay_context *context, uint32_t input, uint32_t rows, int64_t columns, int64_t *data,
                                 inlay_diag *diag)
{
    const int64_t dims[2] = { rows, columns };
    inlay_value *value = NULL;
    inlay_status status =
        input == INLAY_NONE
            ? INLAY_OK
            : inlay_value_borrow(INLAY_INT64, 2, dims, data, (uint64_t)(rows * columns) * sizeof *data, &value, diag);

    if (value != NULL)
        status = inlay_context_set_input(context, input, value, diag);
    inlay_value_unref(value);
    return status;
}

/* Runs `count` further tokens of each row. lengths: with them. *out_logits: those of the last tokens, [rows,
 * *out_words], borrowed from the context. */
static inlay_status run_rows(const struct model *model, inlay_context *context, text_form form, const int64_t *tokens,
                             uint32_t rows, int64_t count, const int64_t *lengths, const float **out_logits,
                             size_t *out_words)
{
    enum { MOST = 2 * (LONG + 1) };
    const text_model *text = model->text;
    int64_t ids[MOST], mask[MOST], positions[MOST], width = 0;
    inlay_run_options options = INLAY_RUN_OPTIONS_INIT;
    inlay_status status;

    for (uint32_t r = 0; r < rows; r++) {
        width = lengths[r] > width ? lengths[r] : width;
        for (int64_t k = 0; k < count; k++) {
            ids[r * count + k] = tokens[r * count + k];
            positions[r * count + k] = lengths[r] - count + k;
        }
    }
    text_rows_mask(form, lengths, rows, width, mask);
    options.cancel = model->settings.stop;
    status = bind_numbers(context, text->ids, rows, count, ids, NULL);
    if (status == INLAY_OK)
        status = bind_numbers(context, text->mask, rows, width, mask, NULL);
    if (status == INLAY_OK)
        status = bind_numbers(context, text->positions, rows, count, positions, NULL);
    if (status == INLAY_OK)
        status = inlay_context_run(context, &options, NULL);
    for (uint32_t k = 0; k < model->input_count; k++)
        (void)inlay_context_set_input(context, k, NULL, NULL);
    if (status == INLAY_OK) {
        const inlay_value *logits = inlay_context_output(context, text->logits);
        const int64_t *dims = logits != NULL ? inlay_value_dims(logits) : NULL;

        if (dims == NULL || inlay_value_rank(logits) != 3 || dims[0] != rows ||
            inlay_value_dtype(logits) != INLAY_FLOAT || inlay_value_data(logits) == NULL || (rows > 1 && dims[1] != 1))
            return INLAY_UNSUPPORTED;
        *out_words = (size_t)dims[2];
        *out_logits = (const float *)inlay_value_data(logits) + (dims[1] - 1) * dims[2];
    }
    return status;
}

static bool are_close(const float *left, const float *right, size_t count)
{
    size_t most = 0, other = 0;

    for (size_t i = 0; i < count; i++) {
        if (!(fabs((double)left[i] - (double)right[i]) <= tolerance * fmax(1, fabs((double)left[i]))))
            return false;
        most = left[i] > left[most] ? i : most;
        other = right[i] > right[other] ? i : other;
    }
    return most == other || left[most] - left[other] < 1e-4f;
}

/* Whether a long and a short text have the same logits together as alone. */
static bool holds_together(const struct model *model, inlay_context *contexts[TRIED], text_form form)
{
    const int64_t lengths[2] = { LONG, SHORT }, grown[2] = { LONG + 1, SHORT + 1 };
    const int64_t next[2] = { long_text[LONG], short_text[SHORT] };
    const text_row rows[2] = { { contexts[0], 0, LONG }, { contexts[1], 0, SHORT } };
    const float *alone[2], *both;
    size_t words, others;

    for (uint32_t i = 0; i < 2; i++) {
        (void)inlay_context_state_rewind(contexts[i], 0, NULL);
        if (run_rows(model, contexts[i], form, i == 0 ? long_text : short_text, 1, lengths[i], &lengths[i], &alone[i],
                     &words) != INLAY_OK)
            return false;
    }
    if (text_rows_join(model, form, contexts[2], rows, 2, NULL) != INLAY_OK)
        return false;
    for (uint32_t i = 0; i < 2; i++)
        if (run_rows(model, contexts[i], form, &next[i], 1, 1, &grown[i], &alone[i], &words) != INLAY_OK)
            return false;
    return run_rows(model, contexts[2], form, next, 2, 1, grown, &both, &others) == INLAY_OK && words == others &&
           are_close(alone[0], both, words) && are_close(alone[1], both + words, words);
}

/* Whether a text has the same logits if its second part is read after its first one. */
static bool reads_parts(const struct model *model, inlay_context *contexts[TRIED])
{
    const int64_t part = PART, whole = LONG;
    const float *at_once, *in_parts;
    size_t words, others;

    (void)inlay_context_state_rewind(contexts[0], 0, NULL);
    (void)inlay_context_state_rewind(contexts[1], 0, NULL);
    return run_rows(model, contexts[0], TEXT_ALONE, long_text, 1, LONG, &whole, &at_once, &words) == INLAY_OK &&
           run_rows(model, contexts[1], TEXT_ALONE, long_text, 1, PART, &part, &in_parts, &others) == INLAY_OK &&
           run_rows(model, contexts[1], TEXT_ALONE, long_text + PART, 1, LONG - PART, &whole, &in_parts, &others) ==
               INLAY_OK &&
           words == others && are_close(at_once, in_parts, words);
}

/* Whether rows can be more than one by the shapes that the model declares. */
static bool may_have_rows(const struct model *model)
{
    inlay_state_info info = { .struct_size = sizeof info };
    const inlay_io_info *ids = &model->inputs[model->text->ids];
    bool grows = false;

    if (ids->rank != 2 || ids->dims[0] >= 0)
        return false;
    for (uint32_t i = 0; inlay_session_state(model->session, i, &info) == INLAY_OK; i++) {
        const inlay_io_info *io = &model->inputs[info.input];

        if (io->rank == INLAY_RANK_UNKNOWN || io->rank == 0 || io->dims[0] >= 0 || info.axis == 0)
            return false;
        grows |= info.axis != INLAY_NONE;
    }
    return !grows || model->text->mask != INLAY_NONE;
}

text_form text_rows_find_form(const struct model *model, bool *out_chunks)
{
    inlay_context *contexts[TRIED] = { NULL };
    text_form form = TEXT_ALONE;
    bool good = true;

    for (uint32_t i = 0; good && i < TRIED; i++)
        good = inlay_context_create(model->session, &contexts[i], NULL) == INLAY_OK &&
               inlay_context_keep_states(contexts[i], FIRST_ROWS, NULL) == INLAY_OK;
    *out_chunks = good && reads_parts(model, contexts);
    if (good && may_have_rows(model))
        form = holds_together(model, contexts, TEXT_RIGHT)  ? TEXT_RIGHT
               : holds_together(model, contexts, TEXT_LEFT) ? TEXT_LEFT
                                                            : TEXT_ALONE;
    for (uint32_t i = 0; i < TRIED; i++)
        inlay_context_destroy(contexts[i]);
    return form;
}
