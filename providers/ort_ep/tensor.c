/* Tensors in host memory, with the functions that inlay.h declares for them. A plug-in does not link to libinlay, but
 * the code that it shares with sdk/bindings/onnxruntime calls these functions. The linker script hides their names.
 *
 * Structs of tensors and shapes are reused, so that a run, which creates a few for its inputs and outputs, needs no
 * heap.
 */
#include "dlpack.h"
#include "ort_ep/provider.h"
#include <stdlib.h>
#include <string.h>

struct inlay_value {
    uint32_t references; /* atomic */
    uint32_t rank;
    inlay_dtype dtype;
    int64_t count;
    uint64_t bytes;
    void *data;
    void *owned;                    /* malloc; NULL: borrowed */
    struct DLManagedTensor *tensor; /* whose memory it is; NULL: none */
    int64_t dims[INLAY_MAX_RANK];
};

/* A list of released structs; each begins with a pointer to the next one. */
struct pool {
    pthread_mutex_t lock;
    void *first;
    size_t bytes; /* of a struct */
};
static struct pool tensor_structs = { .lock = PTHREAD_MUTEX_INITIALIZER, .bytes = sizeof(inlay_value) };
static struct pool value_structs = { .lock = PTHREAD_MUTEX_INITIALIZER, .bytes = sizeof(OrtValue) };
static struct pool shape_structs = { .lock = PTHREAD_MUTEX_INITIALIZER, .bytes = sizeof(OrtTensorTypeAndShapeInfo) };

static void *take(struct pool *pool)
{
    void *item;

    (void)pthread_mutex_lock(&pool->lock);
    item = pool->first;
    if (item != NULL)
        memcpy(&pool->first, item, sizeof pool->first);
    (void)pthread_mutex_unlock(&pool->lock);
    if (item == NULL)
        return calloc(1, pool->bytes);
    memset(item, 0, pool->bytes);
    return item;
}

static void give(struct pool *pool, void *item)
{
    (void)pthread_mutex_lock(&pool->lock);
    memcpy(item, &pool->first, sizeof pool->first);
    pool->first = item;
    (void)pthread_mutex_unlock(&pool->lock);
}

static void empty(struct pool *pool)
{
    while (pool->first != NULL) {
        void *item = pool->first;

        memcpy(&pool->first, item, sizeof pool->first);
        free(item);
    }
}

OrtValue *ort_value_alloc(void)
{
    return take(&value_structs);
}

/* Libraries do not use values that they have released. */
void ort_value_free(OrtValue *value)
{
    give(&value_structs, value);
}

OrtTensorTypeAndShapeInfo *ort_shape_alloc(void)
{
    return take(&shape_structs);
}

void ort_shape_free(OrtTensorTypeAndShapeInfo *info)
{
    give(&shape_structs, info);
}

static uint32_t users; /* open providers */

void ep_tensors_open(void)
{
    users++;
}

void ep_tensors_close(void)
{
    if (--users > 0)
        return;
    empty(&tensor_structs);
    empty(&value_structs);
    empty(&shape_structs);
}

/* Lets a pool have at least `count` structs. */
static bool reserve(struct pool *pool, size_t count)
{
    enum { MOST = 64 };
    void *items[MOST];
    bool ok = true;

    count = count < MOST ? count : MOST;
    for (size_t i = 0; i < count; i++)
        ok = (items[i] = take(pool)) != NULL && ok;
    for (size_t i = 0; i < count; i++)
        if (items[i] != NULL)
            give(pool, items[i]);
    return ok;
}

bool ep_tensors_reserve(size_t count)
{
    return reserve(&value_structs, count) && reserve(&tensor_structs, count) && reserve(&shape_structs, count);
}

static inlay_status make(inlay_dtype dtype, uint32_t rank, const int64_t *dims, inlay_value **out, inlay_diag *diag)
{
    const uint64_t bits = dtype == INLAY_STRING ? sizeof(inlay_str) * 8 : inlay_dtype_bits(dtype);
    inlay_value *value;
    int64_t count = 1, all_bits;

    *out = NULL;
    if (rank > INLAY_MAX_RANK || bits == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "a tensor of type %d and rank %u is not possible", dtype, rank);
    for (uint32_t d = 0; d < rank; d++)
        if (dims[d] < 0 || __builtin_mul_overflow(count, dims[d], &count))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "dimension %u of a tensor is %lld", d, (long long)dims[d]);
    if (__builtin_mul_overflow(count, (int64_t)bits, &all_bits))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "a tensor has more bytes than memory can hold");
    value = take(&tensor_structs);
    if (value == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a tensor");
    value->references = 1;
    value->dtype = dtype;
    value->rank = rank;
    value->count = count;
    value->bytes = ((uint64_t)all_bits + 7) / 8;
    if (rank > 0)
        memcpy(value->dims, dims, rank * sizeof *dims);
    *out = value;
    return INLAY_OK;
}

inlay_status inlay_value_borrow(inlay_dtype dtype, uint32_t rank, const int64_t *dims, void *data, uint64_t bytes,
                                inlay_value **out_value, inlay_diag *diag)
{
    inlay_status status = make(dtype, rank, dims, out_value, diag);

    if (status != INLAY_OK)
        return status;
    if ((*out_value)->bytes > bytes) {
        inlay_value_unref(*out_value);
        *out_value = NULL;
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "a tensor needs more than the %llu bytes of its memory",
                          (unsigned long long)bytes);
    }
    (*out_value)->data = data;
    return INLAY_OK;
}

inlay_status inlay_value_create(inlay_dtype dtype, uint32_t rank, const int64_t *dims, inlay_value **out_value,
                                inlay_diag *diag)
{
    inlay_status status = make(dtype, rank, dims, out_value, diag);
    size_t bytes;

    if (status != INLAY_OK)
        return status;
    bytes = ((size_t)(*out_value)->bytes + 64) / 64 * 64;
    (*out_value)->owned = (*out_value)->data = aligned_alloc(64, bytes);
    if ((*out_value)->owned == NULL) {
        inlay_value_unref(*out_value);
        *out_value = NULL;
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a tensor of %zu bytes", bytes);
    }
    memset((*out_value)->owned, 0, bytes);
    return INLAY_OK;
}

/* The texts follow the elements in one block. */
inlay_status inlay_value_create_strings(uint32_t rank, const int64_t *dims, const inlay_str *texts,
                                        inlay_value **out_value, inlay_diag *diag)
{
    inlay_status status = make(INLAY_STRING, rank, dims, out_value, diag);
    size_t bytes;
    inlay_str *to;
    char *at;

    if (status != INLAY_OK)
        return status;
    bytes = (size_t)(*out_value)->bytes + 1;
    for (int64_t i = 0; i < (*out_value)->count; i++)
        bytes += (size_t)texts[i].bytes + 1;
    to = malloc(bytes);
    if (to == NULL) {
        inlay_value_unref(*out_value);
        *out_value = NULL;
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a tensor of strings");
    }
    (*out_value)->owned = (*out_value)->data = to;
    at = (char *)(to + (*out_value)->count);
    for (int64_t i = 0; i < (*out_value)->count; i++) {
        if (texts[i].bytes > 0)
            memcpy(at, texts[i].data, (size_t)texts[i].bytes);
        at[texts[i].bytes] = '\0';
        to[i] = (inlay_str){ at, texts[i].bytes };
        at += texts[i].bytes + 1;
    }
    return INLAY_OK;
}

inlay_status inlay_value_from_dlpack(struct DLManagedTensor *tensor, inlay_value **out_value, inlay_diag *diag)
{
    static const struct {
        uint8_t code, bits;
        inlay_dtype dtype;
    } types[] = { { 0, 8, INLAY_INT8 },    { 0, 16, INLAY_INT16 },     { 0, 32, INLAY_INT32 },
                  { 0, 64, INLAY_INT64 },  { 1, 8, INLAY_UINT8 },      { 1, 16, INLAY_UINT16 },
                  { 1, 32, INLAY_UINT32 }, { 1, 64, INLAY_UINT64 },    { 2, 16, INLAY_FLOAT16 },
                  { 2, 32, INLAY_FLOAT },  { 2, 64, INLAY_DOUBLE },    { 4, 16, INLAY_BFLOAT16 },
                  { 6, 8, INLAY_BOOL },    { 5, 64, INLAY_COMPLEX64 }, { 5, 128, INLAY_COMPLEX128 } };
    inlay_dtype dtype = INLAY_UNDEFINED;
    inlay_status status;

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].code == tensor->dtype.code && types[i].bits == tensor->dtype.bits)
            dtype = types[i].dtype;
    status = make(dtype, (uint32_t)tensor->rank, tensor->dims, out_value, diag);
    if (status != INLAY_OK)
        return status;
    (*out_value)->data = (char *)tensor->data + tensor->byte_offset;
    (*out_value)->tensor = tensor;
    return INLAY_OK;
}

/* Nodes with such values are not candidates of a provider, so a library has no use for the three functions below. */
inlay_status inlay_value_create_list(uint32_t kind, inlay_dtype dtype, inlay_value *const *items, uint32_t count,
                                     inlay_value **out_value, inlay_diag *diag)
{
    (void)kind, (void)dtype, (void)items, (void)count, (void)out_value;
    return inlay_fail(diag, INLAY_UNSUPPORTED, "sequences and maps are not passed to execution providers");
}

inlay_status inlay_value_from_sparse(const inlay_value *values, const inlay_value *indices, uint32_t rank,
                                     const int64_t *dims, inlay_value **out_value, inlay_diag *diag)
{
    (void)values, (void)indices, (void)rank, (void)dims, (void)out_value;
    return inlay_fail(diag, INLAY_UNSUPPORTED, "sparse tensors are not passed to execution providers");
}

inlay_status inlay_value_to_sparse(const inlay_value *value, inlay_value **out_values, inlay_value **out_indices,
                                   inlay_diag *diag)
{
    (void)value, (void)out_values, (void)out_indices;
    return inlay_fail(diag, INLAY_UNSUPPORTED, "sparse tensors are not passed to execution providers");
}

inlay_value *inlay_value_ref(inlay_value *value)
{
    if (value != NULL)
        (void)__atomic_add_fetch(&value->references, 1, __ATOMIC_RELAXED);
    return value;
}

void inlay_value_unref(inlay_value *value)
{
    if (value == NULL || __atomic_sub_fetch(&value->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    if (value->tensor != NULL)
        value->tensor->deleter(value->tensor);
    free(value->owned);
    give(&tensor_structs, value);
}

uint32_t inlay_value_kind(const inlay_value *value)
{
    (void)value;
    return INLAY_KIND_TENSOR;
}

inlay_dtype inlay_value_dtype(const inlay_value *value)
{
    return value->dtype;
}

uint32_t inlay_value_rank(const inlay_value *value)
{
    return value->rank;
}

const int64_t *inlay_value_dims(const inlay_value *value)
{
    return value->dims;
}

int64_t inlay_value_count(const inlay_value *value)
{
    return value->count;
}

void *inlay_value_data(const inlay_value *value)
{
    return value->data;
}

uint64_t inlay_value_bytes(const inlay_value *value)
{
    return value->bytes;
}

const inlay_value *inlay_value_item(const inlay_value *value, uint32_t index)
{
    (void)value, (void)index;
    return NULL;
}
