/* exec/control/sequence.c - sequences (opset 11) and optionals (opset 15, 18). The host runs these operators, because
 * most of them only move references; only SplitToSequence and ConcatFromSequence copy data. */
#include "base/checked.h"
#include "exec/control/host_node.h"
#include <stdlib.h>
#include <string.h>

typedef inlay_status (*host_fn)(host_call *call);

static run_value input(const host_call *call, uint32_t i)
{
    return host_value(call, i < call->node->info.input_count ? call->node->info.inputs[i] : INLAY_NONE);
}

/* Sets the output; takes over the reference. */
static inlay_status set_output(host_call *call, uint32_t output, inlay_value *value)
{
    host_set_value(call, output < call->node->info.output_count ? call->node->info.outputs[output] : INLAY_NONE, value);
    return INLAY_OK;
}

static inlay_status set_list_output(host_call *call, uint32_t kind, inlay_dtype dtype, inlay_value *const *items,
                                    uint32_t count)
{
    inlay_value *list = NULL;
    inlay_status status = value_create_list(kind, dtype, items, count, &list, call->diag);

    return status == INLAY_OK ? set_output(call, 0, list) : status;
}

static inlay_status set_scalar_output(host_call *call, inlay_dtype dtype, const void *element)
{
    inlay_value *value = NULL;
    inlay_status status = value_create(dtype, 0, NULL, false, &value, call->diag);

    if (status != INLAY_OK)
        return status;
    memcpy(value_data(value), element, (size_t)value->buffer.bytes);
    return set_output(call, 0, value);
}

/* The integer scalar of input i, or `otherwise` if it is omitted. */
static inlay_status read_index(const host_call *call, uint32_t i, int64_t otherwise, int64_t *out)
{
    run_value value = input(call, i);
    int32_t narrow;

    *out = otherwise;
    if (value.kind == 0)
        return INLAY_OK;
    if (value.kind != INLAY_KIND_TENSOR || run_value_count(&value) != 1 ||
        (value.dtype != INLAY_INT64 && value.dtype != INLAY_INT32))
        return host_fail(call, INLAY_SHAPE_MISMATCH, "the position must be one int32 or int64");
    if (value.dtype == INLAY_INT64) {
        memcpy(out, inlay_buffer_host(&value.buffer), sizeof *out);
    } else {
        memcpy(&narrow, inlay_buffer_host(&value.buffer), sizeof narrow);
        *out = narrow;
    }
    return INLAY_OK;
}

static inlay_status read_sequence(const host_call *call, inlay_value **out_list)
{
    run_value value = input(call, 0);

    if (value.kind != INLAY_KIND_SEQUENCE || value.owner == NULL)
        return host_fail(call, INLAY_INVALID_MODEL, "input 0 must be a sequence");
    *out_list = value.owner;
    return INLAY_OK;
}

static inlay_status run_empty(host_call *call)
{
    return set_list_output(call, INLAY_KIND_SEQUENCE, (inlay_dtype)graph_attr_int(call->node, "dtype", INLAY_FLOAT),
                           NULL, 0);
}

static inlay_status run_construct(host_call *call)
{
    uint32_t count = call->node->info.input_count;
    inlay_value **items = calloc((size_t)count + 1, sizeof(inlay_value *));
    inlay_status status = INLAY_OK;

    if (items == NULL)
        return host_fail(call, INLAY_OUT_OF_MEMORY, "no memory for the list");
    for (uint32_t i = 0; i < count; i++) {
        run_value value = input(call, i);
        if (value.kind == 0) {
            status = host_fail(call, INLAY_INVALID_MODEL, "an item is missing");
            goto done;
        }
        INLAY_TRY(run_value_to_object(&value, &items[i], call->diag));
    }
    status = set_list_output(call, INLAY_KIND_SEQUENCE, count > 0 ? items[0]->dtype : INLAY_FLOAT, items, count);
done:
    for (uint32_t i = 0; i < count; i++)
        value_unref(items[i]);
    free(items);
    return status;
}

/* Inserts the item at position `at`; item NULL: erases the item there. Negative positions count from the end. */
static inlay_status edit(host_call *call, inlay_value *list, inlay_value *item, int64_t at)
{
    int64_t count = list->count, limit = item != NULL ? count : count - 1;
    inlay_value **items, *longer = NULL;
    inlay_status status;

    at += at < 0 ? count : 0;
    if (at < 0 || at > limit)
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT,
                          "%s node '%s': position %lld is outside a sequence of %lld", call->node->info.op_type.data,
                          call->node->info.name.data, (long long)at, (long long)count);
    if (item != NULL && at == count) {
        status = value_append(list, item, &longer, call->diag);
        return status == INLAY_OK ? set_output(call, 0, longer) : status;
    }
    items = calloc((size_t)count + 2, sizeof(inlay_value *));
    if (items == NULL)
        return host_fail(call, INLAY_OUT_OF_MEMORY, "no memory for the list");
    memcpy(items, list->items, (size_t)at * sizeof(inlay_value *));
    if (item != NULL)
        items[at] = item;
    memcpy(items + at + (item != NULL), list->items + at + (item == NULL),
           (size_t)(count - at - (item == NULL)) * sizeof(inlay_value *));
    status = set_list_output(call, INLAY_KIND_SEQUENCE, list->dtype, items,
                             (uint32_t)(item != NULL ? count + 1 : count - 1));
    free(items);
    return status;
}

static inlay_status run_insert(host_call *call)
{
    inlay_value *list = NULL, *item = NULL;
    run_value value = input(call, 1);
    int64_t at = 0;
    inlay_status status = read_sequence(call, &list);

    if (status != INLAY_OK)
        return status;
    status = read_index(call, 2, list->count, &at);
    if (status == INLAY_OK)
        status = run_value_to_object(&value, &item, call->diag);
    if (status == INLAY_OK)
        status = edit(call, list, item, at);
    value_unref(item);
    return status;
}

static inlay_status run_erase(host_call *call)
{
    inlay_value *list = NULL;
    int64_t at = 0;
    inlay_status status = read_sequence(call, &list);

    if (status == INLAY_OK)
        status = read_index(call, 1, list->count - 1, &at);
    return status == INLAY_OK ? edit(call, list, NULL, at) : status;
}

static inlay_status run_at(host_call *call)
{
    inlay_value *list = NULL;
    int64_t at = 0;
    inlay_status status = read_sequence(call, &list);

    if (status == INLAY_OK)
        status = read_index(call, 1, 0, &at);
    if (status != INLAY_OK)
        return status;
    at += at < 0 ? list->count : 0;
    if (at < 0 || at >= list->count)
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT,
                          "SequenceAt node '%s': position %lld is outside a sequence "
                          "of %lld",
                          call->node->info.name.data, (long long)at, (long long)list->count);
    return set_output(call, 0, value_ref(list->items[at]));
}

static inlay_status run_length(host_call *call)
{
    inlay_value *list = NULL;
    inlay_status status = read_sequence(call, &list);

    return status == INLAY_OK ? set_scalar_output(call, INLAY_INT64, &list->count) : status;
}

/* A tensor viewed as [outer, axis, inner bytes]. */
typedef struct axis_view {
    int64_t outer, length;
    size_t inner;
} axis_view;

static inlay_status view_axis(const host_call *call, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                              int64_t axis, axis_view *out)
{
    if (axis < 0 || axis >= (int64_t)rank)
        return host_fail(call, INLAY_INVALID_ARGUMENT, "axis is out of range");
    if (inlay_dtype_bits(dtype) < 8)
        return host_fail(call, INLAY_UNSUPPORTED, "elements smaller than a byte are not supported");
    *out = (axis_view){ 1, dims[axis], inlay_dtype_bits(dtype) / 8 };
    for (int64_t d = 0; d < (int64_t)rank; d++) {
        if (d < axis)
            out->outer *= dims[d];
        else if (d > axis)
            out->inner *= (size_t)dims[d];
    }
    return INLAY_OK;
}

/* Computes the lengths of the parts. The caller frees *out_lengths. */
static inlay_status split_lengths(const host_call *call, const run_value *split, int64_t total, int64_t **out_lengths,
                                  int64_t *out_count)
{
    int64_t each = 1, count, sum = 0, *lengths;
    bool list = split->kind != 0 && split->rank == 1;

    if (split->kind != 0 && split->dtype != INLAY_INT64 && split->dtype != INLAY_INT32)
        return host_fail(call, INLAY_INVALID_MODEL, "split must be int32 or int64");
    if (!list) {
        inlay_status status = read_index(call, 1, 1, &each);
        if (status != INLAY_OK)
            return status;
        if (each <= 0)
            return host_fail(call, INLAY_INVALID_ARGUMENT, "split must be positive");
    }
    count = list ? split->dims[0] : total / each + (total % each != 0);
    /* Limits the number of items, which take memory even if the tensor has no elements. */
    if (count > UINT32_MAX / 64)
        return inlay_fail(call->diag, INLAY_LIMIT_EXCEEDED,
                          "%s node '%s': the axis splits into %lld parts, more than %u", call->node->info.op_type.data,
                          call->node->info.name.data, (long long)count, UINT32_MAX / 64);
    lengths = calloc((size_t)count + 1, sizeof *lengths);
    if (lengths == NULL)
        return host_fail(call, INLAY_OUT_OF_MEMORY, "no memory for the list");
    for (int64_t i = 0; i < count; i++) {
        const char *data = list ? inlay_buffer_host(&split->buffer) : NULL;
        int32_t narrow;
        if (!list) {
            lengths[i] = total - i * each < each ? total - i * each : each;
        } else if (split->dtype == INLAY_INT64) {
            memcpy(&lengths[i], data + i * 8, 8);
        } else {
            memcpy(&narrow, data + i * 4, 4);
            lengths[i] = narrow;
        }
        if (lengths[i] < 0 || sum > total - lengths[i]) {
            free(lengths);
            return host_fail(call, INLAY_INVALID_ARGUMENT, "the parts of split don't add up to the axis");
        }
        sum += lengths[i];
    }
    if (sum != total) {
        free(lengths);
        return host_fail(call, INLAY_INVALID_ARGUMENT, "the parts of split don't add up to the axis");
    }
    *out_lengths = lengths;
    *out_count = count;
    return INLAY_OK;
}

/* If *value is a string tensor, replaces it by a deep copy, because its elements still point to the source's text. */
static inlay_status copy_strings_deeply(const host_call *call, inlay_value **value)
{
    run_value view = run_value_of(*value);
    inlay_value *deep = NULL;
    inlay_status status;

    if ((*value)->dtype != INLAY_STRING)
        return INLAY_OK;
    status = run_value_to_object(&view, &deep, call->diag);
    if (status != INLAY_OK)
        return status;
    value_unref(*value);
    *value = deep;
    return INLAY_OK;
}

static inlay_status run_split(host_call *call)
{
    run_value value = input(call, 0), split = input(call, 1);
    int64_t axis = graph_attr_int(call->node, "axis", 0), count = 0, *lengths = NULL, at = 0;
    bool keep = graph_attr_int(call->node, "keepdims", 1) != 0 || split.kind != 0;
    inlay_value **items = NULL;
    inlay_status status = INLAY_OK;
    axis_view view;

    if (value.kind != INLAY_KIND_TENSOR)
        return host_fail(call, INLAY_INVALID_MODEL, "input 0 must be a tensor");
    axis += axis < 0 ? (int64_t)value.rank : 0;
    INLAY_TRY(view_axis(call, value.dtype, value.rank, value.dims, axis, &view));
    INLAY_TRY(split_lengths(call, &split, view.length, &lengths, &count));
    items = calloc((size_t)count + 1, sizeof(inlay_value *));
    if (items == NULL) {
        status = host_fail(call, INLAY_OUT_OF_MEMORY, "no memory for the list");
        goto done;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t dims[INLAY_MAX_RANK];
        uint32_t rank = 0;
        size_t part = (size_t)lengths[i] * view.inner;

        for (uint32_t d = 0; d < value.rank; d++)
            if (d != axis || keep)
                dims[rank++] = d == axis ? lengths[i] : value.dims[d];
        INLAY_TRY(value_create_from(call->runner->shared->tensors.memory, value.dtype, rank, dims, false, &items[i],
                                    call->diag));
        for (int64_t block = 0; block < view.outer; block++)
            memcpy((char *)value_data(items[i]) + (size_t)block * part,
                   (const char *)inlay_buffer_host(&value.buffer) + ((size_t)(block * view.length + at)) * view.inner,
                   part);
        INLAY_TRY(copy_strings_deeply(call, &items[i]));
        at += lengths[i];
    }
    status = set_list_output(call, INLAY_KIND_SEQUENCE, value.dtype, items, (uint32_t)count);
done:
    for (int64_t i = 0; items != NULL && i < count; i++)
        value_unref(items[i]);
    free(items);
    free(lengths);
    return status;
}

static inlay_status run_concat(host_call *call)
{
    inlay_value *list = NULL, *out = NULL;
    int64_t axis = graph_attr_int(call->node, "axis", 0), dims[INLAY_MAX_RANK], at = 0;
    bool new_axis = graph_attr_int(call->node, "new_axis", 0) != 0;
    const inlay_value *first;
    uint32_t rank;
    axis_view whole;
    inlay_status status = read_sequence(call, &list);

    if (status != INLAY_OK)
        return status;
    if (list->count == 0)
        return host_fail(call, INLAY_INVALID_ARGUMENT, "an empty sequence has no shape");
    first = list->items[0];
    rank = first->rank + new_axis;
    if (first->kind != INLAY_KIND_TENSOR || rank > INLAY_MAX_RANK)
        return host_fail(call, INLAY_INVALID_MODEL, "the items must be tensors");
    axis += axis < 0 ? (int64_t)rank : 0;
    if (axis < 0 || axis >= (int64_t)rank)
        return host_fail(call, INLAY_INVALID_ARGUMENT, "axis is out of range");
    for (uint32_t d = 0, k = 0; d < rank; d++)
        dims[d] = d == axis ? 0 : first->dims[new_axis ? k++ : d];
    for (int64_t i = 0; i < list->count; i++) {
        const inlay_value *item = list->items[i];
        bool fits = item->kind == INLAY_KIND_TENSOR && item->dtype == first->dtype && item->rank == first->rank;
        for (uint32_t d = 0; fits && d < item->rank; d++)
            fits = (!new_axis && d == axis) || item->dims[d] == first->dims[d];
        if (!fits || __builtin_add_overflow(dims[axis], new_axis ? 1 : item->dims[axis], &dims[axis]))
            return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "%s node '%s': item %lld has another shape than item 0",
                              call->node->info.op_type.data, call->node->info.name.data, (long long)i);
    }
    INLAY_TRY(view_axis(call, first->dtype, rank, dims, axis, &whole));
    INLAY_TRY(pool_take(call->runner->shared, first->dtype, rank, dims, &out, call->diag));
    for (int64_t i = 0; i < list->count; i++) {
        int64_t length = new_axis ? 1 : list->items[i]->dims[axis];
        size_t part = (size_t)length * whole.inner;
        for (int64_t block = 0; block < whole.outer; block++)
            memcpy((char *)value_data(out) + ((size_t)(block * whole.length + at)) * whole.inner,
                   (const char *)value_data(list->items[i]) + (size_t)block * part, part);
        at += length;
    }
    INLAY_TRY(copy_strings_deeply(call, &out));
    return set_output(call, 0, out);
done:
    value_unref(out);
    return status;
}

static inlay_status run_optional(host_call *call)
{
    run_value value = input(call, 0);
    inlay_value *item = NULL;
    inlay_status status;

    if (value.kind == 0)
        return set_list_output(call, INLAY_KIND_OPTIONAL,
                               call->node->type_attr != NULL ? call->node->type_attr->info.dtype : INLAY_FLOAT, NULL,
                               0);
    status = run_value_to_object(&value, &item, call->diag);
    if (status == INLAY_OK)
        status = set_list_output(call, INLAY_KIND_OPTIONAL, item->dtype, &item, 1);
    value_unref(item);
    return status;
}

static inlay_status run_has_element(host_call *call)
{
    run_value value = input(call, 0);
    uint8_t has = value.kind == INLAY_KIND_OPTIONAL ? value.owner->count > 0 : value.kind != 0;

    return set_scalar_output(call, INLAY_BOOL, &has);
}

static inlay_status run_get_element(host_call *call)
{
    run_value value = input(call, 0);
    inlay_value *item = NULL;
    inlay_status status;

    if (value.kind == INLAY_KIND_OPTIONAL) {
        if (value.owner->count == 0)
            return host_fail(call, INLAY_INVALID_ARGUMENT, "the optional is empty");
        return set_output(call, 0, value_ref(value.owner->items[0]));
    }
    if (value.kind == 0)
        return host_fail(call, INLAY_INVALID_ARGUMENT, "the optional is empty");
    status = run_value_to_object(&value, &item, call->diag);
    return status == INLAY_OK ? set_output(call, 0, item) : status;
}

static inlay_status run_identity(host_call *call)
{
    run_value value = input(call, 0);
    inlay_value *copy = NULL;
    inlay_status status;

    if (value.kind == 0)
        return set_list_output(call, INLAY_KIND_OPTIONAL, INLAY_FLOAT, NULL, 0);
    status = run_value_to_object(&value, &copy, call->diag);
    return status == INLAY_OK ? set_output(call, 0, copy) : status;
}

inlay_status sequence_run(host_call *call, bool *out_handled)
{
    static const struct {
        const char *op;
        host_fn run;
    } table[] = {
        { "SequenceEmpty", run_empty },
        { "SequenceConstruct", run_construct },
        { "SequenceInsert", run_insert },
        { "SequenceErase", run_erase },
        { "SequenceAt", run_at },
        { "SequenceLength", run_length },
        { "SplitToSequence", run_split },
        { "ConcatFromSequence", run_concat },
        { "Optional", run_optional },
        { "OptionalHasElement", run_has_element },
        { "OptionalGetElement", run_get_element },
        { "Identity", run_identity },
    };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(call->node->info.op_type.data, table[i].op) == 0) {
            *out_handled = true;
            return table[i].run(call);
        }
    }
    *out_handled = false;
    return INLAY_OK;
}
