/* exec/values/value.c - creates, shares and frees values. */
#include "exec/values/value.h"
#include "base/checked.h"
#include "base/memory.h"
#include "base/provider_calls.h"
#include "exec/values/run_memory.h"
#include "inlay/check.h"
#include "plugin/plugin.h"
#include "threads/fence.h"
#include <stdlib.h>
#include <string.h>

enum { VALUE_ALIGN = 64 };

static void free_own_memory(void *owner, inlay_value *value)
{
    run_memory_give(value->from, value->of_states, owner, value->capacity);
    run_memory_unref(value->from);
}

static inlay_status check_shape(inlay_dtype dtype, uint32_t rank, const int64_t *dims, int64_t *out_count,
                                size_t *out_bytes, inlay_diag *diag)
{
    *out_count = 0;
    *out_bytes = 0;
    if (inlay_dtype_bits(dtype) == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "element type %d does not exist; see INLAY_DTYPE_LIST",
                          (int)dtype);
    if (rank > INLAY_MAX_RANK)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "rank %u is above the limit of %d", rank, INLAY_MAX_RANK);
    if (rank > 0 && dims == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "dims is NULL for a tensor of rank %u", rank);
    for (uint32_t i = 0; i < rank; i++)
        if (dims[i] < 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "dims[%u] is %lld; a size can't be negative", i,
                              (long long)dims[i]);
    if (!dims_count(dims, rank, out_count) || !dtype_bytes(dtype, *out_count, out_bytes) ||
        *out_bytes > (size_t)PTRDIFF_MAX - 2 * VALUE_ALIGN)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "a tensor of this shape has more bytes than memory can hold");
    return INLAY_OK;
}

static inlay_value *new_tensor(inlay_dtype dtype, uint32_t rank, const int64_t *dims, int64_t count)
{
    inlay_value *value = calloc(1, sizeof *value);

    if (value == NULL)
        return NULL;
    value->references = 1;
    value->kind = INLAY_KIND_TENSOR;
    value->dtype = dtype;
    value->rank = rank;
    if (rank > 0)
        memcpy(value->dims, dims, rank * sizeof *dims);
    value->count = count;
    return value;
}

inlay_status value_describe(inlay_dtype dtype, uint32_t rank, const int64_t *dims, inlay_value **out_value,
                            inlay_diag *diag)
{
    int64_t count;
    size_t bytes;
    inlay_status status = check_shape(dtype, rank, dims, &count, &bytes, diag);

    *out_value = status == INLAY_OK ? new_tensor(dtype, rank, dims, count) : NULL;
    if (status != INLAY_OK)
        return status;
    if (*out_value == NULL)
        return no_memory(diag, "for a tensor header");
    (*out_value)->buffer.bytes = bytes;
    return INLAY_OK;
}

static inlay_status create(run_memory *from, bool of_states, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                           bool zeroed, inlay_value **out_value, inlay_diag *diag)
{
    inlay_status status;
    int64_t count;
    size_t bytes, room;
    inlay_value *value;
    void *memory;

    *out_value = NULL;
    status = check_shape(dtype, rank, dims, &count, &bytes, diag);
    if (status != INLAY_OK)
        return status;
    room = bytes == 0 ? VALUE_ALIGN : (bytes + VALUE_ALIGN - 1) / VALUE_ALIGN * VALUE_ALIGN;
    value = new_tensor(dtype, rank, dims, count);
    if (value == NULL)
        return no_memory(diag, "for a tensor of %zu bytes", bytes);
    status = run_memory_take(from, of_states, room, VALUE_ALIGN, &memory, diag);
    if (status != INLAY_OK) {
        free(value);
        return status == INLAY_OUT_OF_MEMORY ? inlay_fail(diag, status, "no memory for a tensor of %zu bytes", bytes)
                                             : status;
    }
    /* String elements are always cleared: a kernel that fails half-way must not leave invalid pointers that are copied
     * later. */
    if (zeroed || dtype == INLAY_STRING)
        memset(memory, 0, room);
    value->buffer = (inlay_buffer){ .handle = (uintptr_t)memory, .bytes = bytes };
    value->capacity = room;
    value->owner = memory;
    value->free_memory = free_own_memory;
    value->from = run_memory_ref(from);
    value->of_states = of_states;
    *out_value = value;
    return INLAY_OK;
}

inlay_status value_create_from(run_memory *from, inlay_dtype dtype, uint32_t rank, const int64_t *dims, bool zeroed,
                               inlay_value **out_value, inlay_diag *diag)
{
    return create(from, false, dtype, rank, dims, zeroed, out_value, diag);
}

inlay_status value_create_state(run_memory *from, inlay_dtype dtype, uint32_t rank, const int64_t *dims, bool zeroed,
                                inlay_value **out_value, inlay_diag *diag)
{
    return create(from, true, dtype, rank, dims, zeroed, out_value, diag);
}

inlay_status value_create(inlay_dtype dtype, uint32_t rank, const int64_t *dims, bool zeroed, inlay_value **out_value,
                          inlay_diag *diag)
{
    return value_create_from(NULL, dtype, rank, dims, zeroed, out_value, diag);
}

bool value_is_reusable(const inlay_value *value)
{
    return value->kind == INLAY_KIND_TENSOR && value->free_memory == free_own_memory &&
           value->buffer.handle % VALUE_ALIGN == 0 && __atomic_load_n(&value->references, __ATOMIC_ACQUIRE) == 1;
}

bool value_reshape(inlay_value *value, inlay_dtype dtype, uint32_t rank, const int64_t *dims)
{
    int64_t count;
    size_t bytes;

    if (check_shape(dtype, rank, dims, &count, &bytes, NULL) != INLAY_OK || bytes > value->capacity)
        return false;
    /* An equal shape is not written: a run that waits for this one on a stream may read it meanwhile. */
    if (value->dtype == dtype && value->rank == rank &&
        (rank == 0 || memcmp(value->dims, dims, rank * sizeof *dims) == 0))
        return true;
    value->dtype = dtype;
    value->rank = rank;
    if (rank > 0)
        memmove(value->dims, dims, rank * sizeof *dims);
    value->count = count;
    value->buffer.bytes = bytes;
    return true;
}

static size_t element_alignment(inlay_dtype dtype)
{
    size_t bytes = inlay_dtype_bits(dtype) / 8;

    if (dtype == INLAY_COMPLEX64)
        return sizeof(float);
    return bytes > 8 ? 8 : bytes > 0 ? bytes : 1; /* complex128 and strings are pairs of eight bytes */
}

inlay_status value_borrow(inlay_dtype dtype, uint32_t rank, const int64_t *dims, void *data, uint64_t bytes,
                          inlay_value **out_value, inlay_diag *diag)
{
    inlay_status status;
    int64_t count;
    size_t need;
    inlay_value *value;

    *out_value = NULL;
    status = check_shape(dtype, rank, dims, &count, &need, diag);
    if (status != INLAY_OK)
        return status;
    if (bytes < need)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the buffer has %llu bytes; this shape needs %zu",
                          (unsigned long long)bytes, need);
    if (data == NULL && need > 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "data is NULL for a tensor of %zu bytes", need);
    if (need > 0 && (uintptr_t)data % element_alignment(dtype) != 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "data is not aligned to its elements: %s needs a multiple of "
                          "%zu; copy it into inlay_value_create()'s memory",
                          inlay_dtype_name(dtype), element_alignment(dtype));
    value = new_tensor(dtype, rank, dims, count);
    if (value == NULL)
        return no_memory(diag, "for a tensor header");
    value->buffer = (inlay_buffer){ .handle = (uintptr_t)data, .bytes = need };
    value->capacity = bytes;
    *out_value = value;
    return INLAY_OK;
}

/* The text follows the elements in the same block. */
inlay_status value_create_strings(uint32_t rank, const int64_t *dims, const inlay_str *texts, inlay_value **out_value,
                                  inlay_diag *diag)
{
    inlay_status status;
    int64_t count;
    size_t bytes, total;
    inlay_value *value;
    inlay_str *elements;
    char *text;

    *out_value = NULL;
    status = check_shape(INLAY_STRING, rank, dims, &count, &bytes, diag);
    if (status != INLAY_OK)
        return status;
    total = bytes;
    for (int64_t i = 0; i < count; i++)
        if (!add_size(&total, texts[i].bytes) || !add_size(&total, 1))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the texts have more bytes than memory can hold");
    value = new_tensor(INLAY_STRING, rank, dims, count);
    elements = malloc(total + 1);
    if (value == NULL || elements == NULL) {
        free(value);
        free(elements);
        return no_memory(diag, "for %zu bytes of text", total);
    }
    text = (char *)elements + bytes;
    for (int64_t i = 0; i < count; i++) {
        if (texts[i].bytes > 0)
            memcpy(text, texts[i].data, texts[i].bytes);
        text[texts[i].bytes] = '\0';
        elements[i] = (inlay_str){ text, texts[i].bytes };
        text += texts[i].bytes + 1;
    }
    value->buffer = (inlay_buffer){ .handle = (uintptr_t)elements, .bytes = bytes };
    value->capacity = bytes;
    value->owner = elements;
    value->free_memory = free_own_memory;
    *out_value = value;
    return INLAY_OK;
}

/* Items of lists that begin with the same items: a sequence to which a loop appends shares them with the sequence after
 * it, so that appending takes constant time. */
struct value_items {
    uint32_t references, used; /* atomic; used: items that exist, of all lists */
    uint32_t capacity;
    inlay_value *items[];
};

static struct value_items *items_create(inlay_value *const *items, uint32_t count, uint32_t capacity)
{
    struct value_items *list = calloc(1, sizeof *list + ((size_t)capacity + 1) * sizeof(inlay_value *));

    if (list == NULL)
        return NULL;
    list->references = 1;
    list->used = count;
    list->capacity = capacity;
    for (uint32_t i = 0; i < count; i++)
        list->items[i] = value_ref(items[i]);
    return list;
}

static void items_unref(struct value_items *list)
{
    if (list == NULL || __atomic_sub_fetch(&list->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (uint32_t i = 0; i < list->used; i++)
        value_unref(list->items[i]);
    free(list);
}

/* Takes over the reference to list. NULL: out of memory. */
static inlay_value *create_from_items(uint32_t kind, inlay_dtype dtype, struct value_items *list, uint32_t count)
{
    inlay_value *value = list == NULL ? NULL : calloc(1, sizeof *value);

    if (value == NULL) {
        items_unref(list);
        return NULL;
    }
    value->references = 1;
    value->kind = kind;
    value->dtype = dtype;
    value->count = count;
    value->list = list;
    value->items = list->items;
    return value;
}

inlay_status value_append(const inlay_value *list, inlay_value *item, inlay_value **out_value, inlay_diag *diag)
{
    const uint32_t count = (uint32_t)list->count;
    struct value_items *items = list->list;
    uint32_t expected = count;

    if (count < items->capacity &&
        __atomic_compare_exchange_n(&items->used, &expected, count + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        (void)__atomic_add_fetch(&items->references, 1, __ATOMIC_RELAXED);
    } else {
        items = items_create(list->items, count, 2 * count + 4);
        if (items != NULL)
            items->used = count + 1;
    }
    if (items != NULL)
        items->items[count] = value_ref(item);
    *out_value = create_from_items(list->kind, list->dtype, items, count + 1);
    return *out_value != NULL ? INLAY_OK : no_memory(diag, "for a list of %u values", count + 1);
}

inlay_status value_create_list(uint32_t kind, inlay_dtype dtype, inlay_value *const *items, uint32_t count,
                               inlay_value **out_value, inlay_diag *diag)
{
    *out_value = create_from_items(kind, dtype, items_create(items, count, count), count);
    return *out_value != NULL ? INLAY_OK : no_memory(diag, "for a list of %u values", count);
}

inlay_value *value_ref(inlay_value *value)
{
    INLAY_CHECK(value == NULL || __atomic_load_n(&value->references, __ATOMIC_RELAXED) > 0);
    if (value != NULL)
        (void)__atomic_add_fetch(&value->references, 1, __ATOMIC_RELAXED);
    return value;
}

void value_end_import(struct value_import *import)
{
    if (import->provider != NULL) {
        call_free(import->provider->table, import->provider->state, &import->buffer);
        provider_close(import->provider);
    }
    free(import);
}

void value_unref(inlay_value *value)
{
    INLAY_CHECK(value == NULL || __atomic_load_n(&value->references, __ATOMIC_RELAXED) > 0);
    if (value == NULL || __atomic_sub_fetch(&value->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    items_unref(value->list);
    if (value->import != NULL)
        value_end_import(value->import);
    if (value->free_memory != NULL)
        value->free_memory(value->owner, value);
    if (value->streams.timeline != 0)
        timeline_destroy(value->streams.timeline);
    free(value);
}

void *value_data(const inlay_value *value)
{
    bool on_host = value->kind == INLAY_KIND_TENSOR && value->buffer.domain == INLAY_DOMAIN_HOST;

    return on_host ? inlay_buffer_host(&value->buffer) : NULL;
}
