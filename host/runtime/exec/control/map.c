/* exec/control/map.c - maps (ai.onnx.ml): ZipMap, CastMap, DictVectorizer. A map is two tensors of rank 1, keys and
 * values. The host runs these operators, because they only move rows and look up keys; providers never receive a
 * map. */
#include "exec/control/host_node.h"
#include "base/c_locale.h"
#include "inlay/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES = 64 /* room for a number as text */, MAX_ELEMENTS = 1 << 28 };

static const inlay_attr_info *attr(const host_call *call, const char *name)
{
    const inlay_attr_info *attribute = graph_attr(call->node, name);

    return attribute != NULL && attribute->count > 0 ? attribute : NULL;
}

/* Creates a tensor of rank 1 from a list attribute. */
static inlay_status from_list(const host_call *call, const inlay_attr_info *attribute, inlay_value **out)
{
    const int64_t count = attribute->count;
    inlay_status status;

    if (attribute->kind == INLAY_ATTR_STRINGS)
        return value_create_strings(1, &count, attribute->strings, out, call->diag);
    status = value_create(INLAY_INT64, 1, &count, false, out, call->diag);
    if (status == INLAY_OK)
        memcpy(value_data(*out), attribute->ints, (size_t)count * sizeof *attribute->ints);
    return status;
}

/* Sets output 0 if status is INLAY_OK; takes over the reference in any case. Returns status. */
static inlay_status set_output(host_call *call, inlay_status status, inlay_value *value)
{
    host_set_value(call,
                   status == INLAY_OK && call->node->info.output_count > 0 ? call->node->info.outputs[0] : INLAY_NONE,
                   value);
    return status;
}

/* Converts each row of X to a map whose keys are the class labels. */
static inlay_status run_zip(host_call *call)
{
    const inlay_attr_info *labels = attr(call, "classlabels_int64s");
    const run_value value = host_value(call, call->node->info.inputs[0]);
    int64_t columns, rows;
    inlay_value *keys = NULL, *values = NULL, *list = NULL, **maps = NULL;
    inlay_status status = INLAY_OK;

    labels = labels != NULL ? labels : attr(call, "classlabels_strings");
    if (labels == NULL || value.kind != INLAY_KIND_TENSOR || value.rank < 1 || value.rank > 2)
        return host_fail(call, INLAY_INVALID_MODEL, "class labels and a tensor of rank 1 or 2 are required");
    columns = value.dims[value.rank - 1];
    rows = value.rank == 2 ? value.dims[0] : 1;
    if (columns != (int64_t)labels->count)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "ZipMap node '%s': %u labels for %lld columns",
                          call->node->info.name.data, labels->count, (long long)columns);
    maps = calloc((size_t)rows + 1, sizeof(inlay_value *));
    if (maps == NULL)
        return host_fail(call, INLAY_OUT_OF_MEMORY, "no memory for the maps");
    INLAY_TRY(from_list(call, labels, &keys));
    for (int64_t row = 0; row < rows; row++) {
        INLAY_TRY(value_create_from(call->runner->shared->tensors.memory, value.dtype, 1, &columns, false, &values,
                                    call->diag));
        memcpy(value_data(values), (const char *)inlay_buffer_host(&value.buffer) + row * (int64_t)values->buffer.bytes,
               (size_t)values->buffer.bytes);
        INLAY_TRY(value_create_list(INLAY_KIND_MAP, value.dtype, (inlay_value *[]){ keys, values }, 2, &maps[row],
                                    call->diag));
        value_unref(values);
        values = NULL;
    }
    status = value_create_list(INLAY_KIND_SEQUENCE, value.dtype, maps, (uint32_t)rows, &list, call->diag);
    status = set_output(call, status, list);
done:
    for (int64_t row = 0; row < rows; row++)
        value_unref(maps[row]);
    free(maps);
    value_unref(keys);
    value_unref(values);
    return status;
}

/* A result of shape [1, count]. Numbers are written to the result; strings are copied to it when all are known. */
struct row {
    inlay_value *numbers;
    inlay_str *texts; /* [count] elements of a string result; numbers is NULL until it is complete */
    char *room;       /* [count * NUMBER_BYTES] text of numbers that are converted to strings */
    int64_t count;
    inlay_dtype dtype;
};

static inlay_status row_begin(const host_call *call, inlay_dtype dtype, int64_t count, struct row *out)
{
    const int64_t dims[2] = { 1, count };

    *out = (struct row){ .count = count, .dtype = dtype };
    if (count > MAX_ELEMENTS)
        return host_fail(call, INLAY_LIMIT_EXCEEDED, "the result has more than 2^28 elements");
    if (dtype != INLAY_STRING)
        return value_create_from(call->runner->shared->tensors.memory, dtype, 2, dims, true, &out->numbers, call->diag);
    out->texts = calloc((size_t)count + 1, sizeof *out->texts);
    out->room = calloc((size_t)count + 1, NUMBER_BYTES);
    for (int64_t i = 0; out->texts != NULL && i < count; i++)
        out->texts[i].data = "";
    return out->texts == NULL || out->room == NULL ? host_fail(call, INLAY_OUT_OF_MEMORY, "no memory for its result")
                                                   : INLAY_OK;
}

static inlay_status row_end(host_call *call, inlay_status status, struct row *row)
{
    const int64_t dims[2] = { 1, row->count };

    if (status == INLAY_OK && row->dtype == INLAY_STRING)
        status = value_create_strings(2, dims, row->texts, &row->numbers, call->diag);
    free(row->texts);
    free(row->room);
    return set_output(call, status, row->numbers);
}

/* As Cast of the reference provider: truncated and clamped; NaN becomes 0. */
static int64_t to_int64(float number)
{
    if (number >= 0x1p63f)
        return INT64_MAX;
    return number >= -0x1p63f ? (int64_t)number : number < 0 ? INT64_MIN : 0;
}

/* Sets element `at` of the row to element `from` of the values, converted to the row's type. */
static void row_put(struct row *row, int64_t at, const inlay_value *values, int64_t from)
{
    const void *data = value_data(values);
    const inlay_str *text = values->dtype == INLAY_STRING ? (const inlay_str *)data + from : NULL;
    void *to = row->numbers != NULL ? value_data(row->numbers) : NULL;

    INLAY_CHECK(at >= 0 && at < row->count);
    if (row->dtype == values->dtype && text == NULL) {
        const size_t bytes = inlay_dtype_bits(row->dtype) / 8;

        memcpy((char *)to + (size_t)at * bytes, (const char *)data + (size_t)from * bytes, bytes);
    } else if (row->dtype == INLAY_STRING && text != NULL) {
        row->texts[at] = *text;
    } else if (row->dtype == INLAY_STRING) {
        char *room = row->room + at * NUMBER_BYTES;
        const locale_t before = c_locale_begin();
        const int length = snprintf(room, NUMBER_BYTES, "%f", (double)((const float *)data)[from]);

        c_locale_end(before);
        row->texts[at] = (inlay_str){ room, (uint64_t)(length < NUMBER_BYTES ? length : NUMBER_BYTES - 1) };
    } else {
        char copy[NUMBER_BYTES] = "";
        const locale_t before = c_locale_begin();

        if (text != NULL)
            memcpy(copy, text->data, text->bytes < NUMBER_BYTES ? (size_t)text->bytes : NUMBER_BYTES - 1);
        if (row->dtype == INLAY_FLOAT)
            ((float *)to)[at] = strtof(copy, NULL);
        else
            ((int64_t *)to)[at] = text != NULL ? strtoll(copy, NULL, 10) : to_int64(((const float *)data)[from]);
        c_locale_end(before);
    }
}

static inlay_status read_map(const host_call *call, const inlay_value **out_keys, const inlay_value **out_values)
{
    const run_value value = host_value(call, call->node->info.inputs[0]);

    if (value.kind != INLAY_KIND_MAP || value.owner == NULL || value.owner->count != 2)
        return host_fail(call, INLAY_INVALID_MODEL, "input 0 must be a map");
    *out_keys = value.owner->items[0];
    *out_values = value.owner->items[1];
    return INLAY_OK;
}

static int by_key(const void *a, const void *b, void *keys)
{
    const int64_t x = ((const int64_t *)keys)[*(const int64_t *)a], y = ((const int64_t *)keys)[*(const int64_t *)b];

    return (x > y) - (x < y);
}

/* Writes the values in the order of their keys (DENSE), or each at the index given by its key (SPARSE). */
static inlay_status run_cast(host_call *call)
{
    const inlay_attr_info *to = graph_attr(call->node, "cast_to"), *form = graph_attr(call->node, "map_form");
    const inlay_attr_info *most = graph_attr(call->node, "max_map");
    const bool sparse = form != NULL && strcmp(form->s.data, "SPARSE") == 0;
    const inlay_dtype dtype = to == NULL || strcmp(to->s.data, "TO_FLOAT") == 0 ? INLAY_FLOAT
                              : strcmp(to->s.data, "TO_STRING") == 0            ? INLAY_STRING
                                                                                : INLAY_INT64;
    const inlay_value *keys, *values;
    const int64_t *key;
    int64_t *order;
    inlay_status status = read_map(call, &keys, &values);
    struct row row;

    if (status != INLAY_OK)
        return status;
    if (keys->dtype != INLAY_INT64 || (values->dtype != INLAY_FLOAT && values->dtype != INLAY_STRING))
        return host_fail(call, INLAY_INVALID_ARGUMENT, "the map must have int64 keys and float or string values");
    if (sparse && most != NULL && most->i < 0)
        return host_fail(call, INLAY_INVALID_MODEL, "max_map is negative");
    key = value_data(keys);
    order = calloc((size_t)keys->count + 1, sizeof *order);
    status = row_begin(call, dtype, sparse && most != NULL ? most->i : sparse ? 1 : keys->count, &row);
    if (status == INLAY_OK && order == NULL)
        status = host_fail(call, INLAY_OUT_OF_MEMORY, "no memory for its keys");
    for (int64_t i = 0; status == INLAY_OK && i < keys->count; i++)
        order[i] = i;
    if (status == INLAY_OK)
        qsort_r(order, (size_t)keys->count, sizeof *order, by_key, (void *)(uintptr_t)key);
    for (int64_t i = 0; status == INLAY_OK && i < keys->count; i++) {
        const int64_t at = sparse ? key[order[i]] : i;

        if (at < 0 || at >= row.count)
            status = inlay_fail(call->diag, INLAY_INVALID_ARGUMENT,
                                "CastMap node '%s': key %lld is outside [0, %lld), the range of max_map",
                                call->node->info.name.data, (long long)at, (long long)row.count);
        else
            row_put(&row, at, values, order[i]);
    }
    free(order);
    return row_end(call, status, &row);
}

static bool is_key(const inlay_value *keys, int64_t i, const inlay_attr_info *words, uint32_t word)
{
    const inlay_str *text;

    if (keys->dtype == INLAY_INT64)
        return ((const int64_t *)value_data(keys))[i] == words->ints[word];
    text = (const inlay_str *)value_data(keys) + i;
    return text->bytes == words->strings[word].bytes && memcmp(text->data, words->strings[word].data, text->bytes) == 0;
}

/* Writes the values of the vocabulary's words in its order; 0 or "" for words that the map does not have. */
static inlay_status run_vectorize(host_call *call)
{
    const inlay_value *keys, *values;
    const inlay_attr_info *words;
    inlay_status status = read_map(call, &keys, &values);
    struct row row;

    if (status != INLAY_OK)
        return status;
    words = attr(call, keys->dtype == INLAY_INT64 ? "int64_vocabulary" : "string_vocabulary");
    if (words == NULL)
        return host_fail(call, INLAY_INVALID_ARGUMENT,
                         keys->dtype == INLAY_INT64 ? "int64 keys require attribute int64_vocabulary"
                                                    : "string keys require attribute string_vocabulary");
    status = row_begin(call, values->dtype, words->count, &row);
    for (uint32_t word = 0; status == INLAY_OK && word < words->count; word++)
        for (int64_t i = 0; i < keys->count; i++)
            if (is_key(keys, i, words, word)) {
                row_put(&row, word, values, i);
                break;
            }
    return row_end(call, status, &row);
}

inlay_status map_run(host_call *call, bool *out_handled)
{
    const char *op = call->node->info.op_type.data;

    *out_handled = true;
    if (strcmp(op, "ZipMap") == 0)
        return run_zip(call);
    if (strcmp(op, "CastMap") == 0)
        return run_cast(call);
    if (strcmp(op, "DictVectorizer") == 0)
        return run_vectorize(call);
    *out_handled = false;
    return INLAY_OK;
}
