/* api/rows_api.c - inlay.h: texts of different lengths as rows of a context's states. */
#include "api/context.h"
#include "base/memory.h"
#include "base/sized_struct.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

static bool keeps_rows(const inlay_context *context)
{
    return context->rows.info.struct_size != 0;
}

static bool is_input(const inlay_context *context, uint32_t input, bool optional)
{
    return (optional && input == INLAY_NONE) || input < inlay_session_input_count(context->session);
}

inlay_status inlay_context_keep_rows(inlay_context *context, const inlay_rows_info *info, uint64_t tokens,
                                     inlay_diag *diag)
{
    inlay_rows_info known;
    inlay_status status;

    sized_struct_read(&known, sizeof known, info, info->struct_size);
    if (!INLAY_HAS(info, logits) || known.layout > INLAY_ROWS_RIGHT || !is_input(context, known.tokens, false) ||
        !is_input(context, known.mask, true) || !is_input(context, known.positions, true))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "inlay_rows_info was not filled by inlay_session_rows for this session");
    status = inlay_context_keep_states(context, tokens, diag);
    if (status != INLAY_OK)
        return status;
    known.struct_size = sizeof known;
    context->rows.info = known;
    return INLAY_OK;
}

static inlay_status check_row(const inlay_context *context, const inlay_row *row, uint32_t i, inlay_diag *diag)
{
    const context_rows *rows = row->context != NULL ? &row->context->rows : NULL;

    if (row->reserved != 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "rows[%u].reserved is not 0", i);
    if (rows == NULL && row->length != 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "rows[%u] has %lld tokens, but no context to copy them from", i,
                          (long long)row->length);
    if (rows == NULL)
        return INLAY_OK;
    if (!keeps_rows(row->context) || row->context->session != context->session)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "the context of rows[%u] keeps no rows, or belongs to another session", i);
    if (row->row >= rows->count || row->length < 0 || row->length > rows->lengths[row->row])
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "rows[%u] is the first %lld tokens of row %u, but the context has %u rows, and that one has "
                          "%lld tokens",
                          i, (long long)row->length, row->row, rows->count,
                          (long long)inlay_context_row_length(row->context, row->row));
    if (row->length != 0 && row->length != rows->lengths[row->row] && run_states_fixed(context->states))
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "rows[%u] cannot be rewound to %lld tokens: the model has states that do not grow; keep a "
                          "copy of the row",
                          i, (long long)row->length);
    return INLAY_OK;
}

/* Can the rows be formed by dropping the last entries of the context's states? *out_length: the entries that remain. */
static bool only_rewinds(const inlay_context *context, const inlay_row *rows, uint32_t count, int64_t *out_length)
{
    const context_rows *had = &context->rows;
    bool equally = true;

    *out_length = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (count != had->count || rows[i].context != context || rows[i].row != i)
            return false;
        equally &= had->lengths[i] - rows[i].length == had->lengths[0] - rows[0].length;
        *out_length = rows[i].length > *out_length ? rows[i].length : *out_length;
    }
    return count > 0 && (equally || (had->info.layout == INLAY_ROWS_RIGHT && !run_states_fixed(context->states)));
}

static inlay_status join(inlay_context *context, const inlay_row *rows, uint32_t count, inlay_diag *diag)
{
    states_row *from = calloc(count + (size_t)1, sizeof *from);
    inlay_status status;

    if (from == NULL)
        return no_memory(diag, "for %u rows of a context", count);
    for (uint32_t i = 0; i < count; i++)
        if (rows[i].context != NULL)
            from[i] = (states_row){ .from = rows[i].context->states,
                                    .row = rows[i].row,
                                    .rows = rows[i].context->rows.count,
                                    .length = rows[i].context->rows.lengths[rows[i].row],
                                    .kept = rows[i].length };
    status = run_states_join(context->states, context->rows.info.layout == INLAY_ROWS_LEFT, from, count, diag);
    free(from);
    return status;
}

inlay_status inlay_context_set_rows(inlay_context *context, const inlay_row *rows, uint32_t count, inlay_diag *diag)
{
    int64_t *lengths, left;
    inlay_status status = INLAY_OK;

    if (!keeps_rows(context))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "the context keeps no rows; call inlay_context_keep_rows first");
    if (count > 1 && context->rows.info.layout == INLAY_ROWS_ALONE)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "the model does not tell rows of different lengths apart: a context keeps one row of it, not "
                          "%u",
                          count);
    for (uint32_t i = 0; status == INLAY_OK && i < count; i++)
        status = check_row(context, &rows[i], i, diag);
    if (status != INLAY_OK)
        return status;
    lengths = calloc(count + (size_t)1, sizeof *lengths);
    if (lengths == NULL)
        return no_memory(diag, "for %u rows of a context", count);
    for (uint32_t i = 0; i < count; i++)
        lengths[i] = rows[i].length;
    status = !only_rewinds(context, rows, count, &left) ? join(context, rows, count, diag)
             : left < run_states_length(context->states) || (left == 0 && run_states_fixed(context->states))
                 ? run_states_rewind(context->states, left, diag)
                 : INLAY_OK;
    if (status != INLAY_OK) {
        free(lengths);
        return status;
    }
    for (uint32_t i = 0; i < count; i++)
        run_states_shorten(context->states, i, lengths[i]);
    context_end_rows(context, false);
    free(context->rows.lengths);
    context->rows.lengths = lengths;
    context->rows.count = count;
    return INLAY_OK;
}

uint32_t inlay_context_row_count(const inlay_context *context)
{
    return context->rows.count;
}

int64_t inlay_context_row_length(const inlay_context *context, uint32_t row)
{
    return row < context->rows.count ? context->rows.lengths[row] : 0;
}

static inlay_status bind_numbers(inlay_context *context, uint32_t input, int64_t columns, int64_t *numbers,
                                 inlay_diag *diag)
{
    const int64_t dims[2] = { context->rows.count, columns };
    inlay_value *value = NULL;
    inlay_status status;

    if (input == INLAY_NONE)
        return INLAY_OK;
    status = inlay_value_borrow(INLAY_INT64, 2, dims, numbers, (uint64_t)(dims[0] * columns) * sizeof *numbers, &value,
                                diag);
    if (status == INLAY_OK)
        status = inlay_context_set_input(context, input, value, diag);
    inlay_value_unref(value);
    return status;
}

/* Writes the tokens [rows, count], their positions [rows, count] and the mask [rows, width] behind each other. */
static void write_numbers(const context_rows *rows, const int64_t *tokens, int64_t count, int64_t width)
{
    int64_t *positions = rows->numbers + rows->count * count, *mask = positions + rows->count * count;

    memcpy(rows->numbers, tokens, (size_t)(rows->count * count) * sizeof *tokens);
    for (uint32_t i = 0; i < rows->count; i++) {
        const int64_t length = rows->lengths[i] + count;

        for (int64_t k = 0; k < count; k++)
            positions[i * count + k] = rows->lengths[i] + k;
        for (int64_t k = 0; k < width; k++)
            mask[i * width + k] = rows->info.layout == INLAY_ROWS_LEFT ? k >= width - length : k < length;
    }
}

inlay_status inlay_context_set_tokens(inlay_context *context, const int64_t *tokens, int64_t count, inlay_diag *diag)
{
    context_rows *rows = &context->rows;
    int64_t width = 0;
    uint64_t room;
    inlay_status status;

    if (rows->count == 0 || count <= 0 || count > INT32_MAX)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%lld tokens cannot be added to each of %u rows",
                          (long long)count, rows->count);
    for (uint32_t i = 0; i < rows->count; i++)
        width = rows->lengths[i] + count > width ? rows->lengths[i] + count : width;
    context_end_rows(context, false);
    room = rows->count * (2 * (uint64_t)count + (uint64_t)width);
    if (rows->number_room < room) {
        int64_t *more = room <= SIZE_MAX / 2 / sizeof *more ? malloc((size_t)(2 * room) * sizeof *more) : NULL;

        if (more == NULL)
            return no_memory(diag, "for %lld tokens of %u rows", (long long)count, rows->count);
        free(rows->numbers);
        rows->numbers = more;
        rows->number_room = 2 * room;
    }
    write_numbers(rows, tokens, count, width);
    status = bind_numbers(context, rows->info.tokens, count, rows->numbers, diag);
    if (status == INLAY_OK)
        status = bind_numbers(context, rows->info.positions, count, rows->numbers + rows->count * count, diag);
    if (status == INLAY_OK)
        status = bind_numbers(context, rows->info.mask, width, rows->numbers + 2 * rows->count * count, diag);
    if (status == INLAY_OK)
        rows->added = count;
    else
        context_end_rows(context, false);
    return status;
}
