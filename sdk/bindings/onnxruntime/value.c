/* Values: tensors in memory of inlay, of the program, or of the program's allocator. */
#include "ort.h"
#include "dlpack.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

OrtStatus *ort_value_bare(ONNXType type, OrtValue **out)
{
    *out = ort_value_alloc();
    if (*out == NULL)
        return ort_no_memory();
    (*out)->references = 1;
    (*out)->type = type;
    (*out)->memory = &ort_cpu_memory;
    return NULL;
}

OrtStatus *ort_value_wrap(inlay_value *value, OrtValue **out)
{
    ONNXType type = ort_kind_of(inlay_value_kind(value));
    OrtStatus *failed;
    INLAY_CHECK(value != NULL);

    /* ONNX Runtime returns the content of an optional, not the optional. */
    if (type == ONNX_TYPE_OPTIONAL && inlay_value_count(value) == 1) {
        inlay_value *item = inlay_value_ref((inlay_value *)(uintptr_t)inlay_value_item(value, 0));

        inlay_value_unref(value);
        return ort_value_wrap(item, out);
    }
    failed = ort_value_bare(type, out);
    if (failed != NULL) {
        inlay_value_unref(value);
        return failed;
    }
    (*out)->value = value;
    (*out)->element = inlay_value_dtype(value);
    return NULL;
}

OrtValue *ort_value_ref(OrtValue *value)
{
    INLAY_CHECK(__atomic_load_n(&value->references, __ATOMIC_RELAXED) > 0);
    (void)__atomic_add_fetch(&value->references, 1, __ATOMIC_RELAXED);
    return value;
}

void ort_ReleaseValue(OrtValue *value)
{
    if (value == NULL)
        return;
    INLAY_CHECK(__atomic_load_n(&value->references, __ATOMIC_RELAXED) > 0);
    if (__atomic_sub_fetch(&value->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    ort_strings_free(value);
    inlay_value_unref(value->value);
    for (size_t i = 0; i < value->item_count; i++)
        ort_ReleaseValue(value->items[i]);
    free(value->items);
    ort_sparse_free(value->sparse);
    value->value = NULL;
    value->items = NULL;
    value->item_count = 0;
    value->sparse = NULL;
    ort_value_free(value);
}

OrtStatus *ort_check_shape(const int64_t *shape, size_t rank, size_t *out_count)
{
    *out_count = 1;
    if (rank > INLAY_MAX_RANK)
        return ort_fail(ORT_INVALID_ARGUMENT, "rank %zu is above the limit of %d", rank, INLAY_MAX_RANK);
    if (rank > 0)
        ORT_NEED(shape);
    for (size_t i = 0; i < rank; i++) {
        if (shape[i] < 0)
            return ort_fail(ORT_INVALID_ARGUMENT,
                            "tried creating tensor with negative value in shape: dimension %zu is "
                            "%lld",
                            i, (long long)shape[i]);
        if (__builtin_mul_overflow(*out_count, (size_t)shape[i], out_count) || *out_count > (size_t)PTRDIFF_MAX / 16)
            return ort_fail(ORT_INVALID_ARGUMENT, "a tensor of this shape has more bytes than memory can hold");
    }
    return NULL;
}

static OrtStatus *check_tensor(const int64_t *shape, size_t rank, ONNXTensorElementDataType type, size_t *out_bytes)
{
    size_t count = 0, bits = inlay_dtype_bits(ort_dtype(type));

    *out_bytes = 0;
    if (bits == 0)
        return ort_fail(ORT_NOT_IMPLEMENTED, "tensor type %d is not supported", type);
    ORT_TRY(ort_check_shape(shape, rank, &count));
    *out_bytes = bits < 8 ? (count * bits + 7) / 8 : count * (bits / 8);
    return NULL;
}

typedef struct held_memory {
    struct DLManagedTensor tensor; /* first */
    OrtAllocator *allocator;
    int64_t dims[INLAY_MAX_RANK];
} held_memory;

static void free_held(struct DLManagedTensor *self)
{
    held_memory *held = (held_memory *)(void *)self;

    if (held->tensor.data != NULL && held->allocator != NULL)
        held->allocator->Free(held->allocator, held->tensor.data);
    free(held);
}

/* Sets the type of a DLPack tensor; bits 0: DLPack has no such type. */
static void dlpack_type(struct DLManagedTensor *tensor, inlay_dtype dtype)
{
    enum { INT = 0, UINT = 1, FLOAT = 2, BFLOAT = 4, COMPLEX = 5, BOOL = 6 };
    static const uint8_t codes[INLAY_DTYPE_COUNT] = {
        [INLAY_FLOAT] = FLOAT, [INLAY_DOUBLE] = FLOAT,      [INLAY_FLOAT16] = FLOAT,      [INLAY_UINT8] = UINT,
        [INLAY_UINT16] = UINT, [INLAY_UINT32] = UINT,       [INLAY_UINT64] = UINT,        [INLAY_BFLOAT16] = BFLOAT,
        [INLAY_BOOL] = BOOL,   [INLAY_COMPLEX64] = COMPLEX, [INLAY_COMPLEX128] = COMPLEX,
    };

    INLAY_CHECK(dtype < INLAY_DTYPE_COUNT);
    tensor->dtype.code = codes[dtype];
    tensor->dtype.bits = (uint8_t)inlay_dtype_bits(dtype);
    tensor->dtype.lanes = 1;
    if (dtype >= INLAY_FLOAT8E4M3FN || tensor->dtype.bits < 8)
        tensor->dtype.bits = 0;
}

/* A tensor in memory that allocator->Free releases with the value; on failure the caller keeps the memory. */
static OrtStatus *hold_memory(OrtAllocator *allocator, void *memory, const int64_t *shape, size_t rank,
                              ONNXTensorElementDataType type, OrtValue **out)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    held_memory *held = calloc(1, sizeof *held);
    inlay_value *value = NULL;
    inlay_status status;
    OrtStatus *failed;
    INLAY_CHECK(rank <= INLAY_MAX_RANK);

    if (held == NULL)
        return ort_no_memory();
    held->allocator = allocator;
    held->tensor.data = memory;
    held->tensor.device.type = 1;
    held->tensor.rank = (int32_t)rank;
    held->tensor.dims = held->dims;
    held->tensor.deleter = free_held;
    if (rank > 0)
        memcpy(held->dims, shape, rank * sizeof *shape);
    dlpack_type(&held->tensor, ort_dtype(type));
    if (held->tensor.dtype.bits == 0) {
        free(held);
        return ort_fail(ORT_NOT_IMPLEMENTED,
                        "tensors of %s in memory of an allocator other than the default one are "
                        "not implemented in inlay",
                        ort_type_text(ort_dtype(type)));
    }
    status = inlay_value_from_dlpack(&held->tensor, &value, &diag);
    if (status != INLAY_OK) {
        free(held);
        return ort_from(status, &diag);
    }
    (void)inlay_value_ref(value);
    failed = ort_value_wrap(value, out);
    if (failed != NULL)
        held->allocator = NULL; /* the caller keeps the memory */
    inlay_value_unref(value);
    if (failed == NULL && allocator->Info != NULL && allocator->Info(allocator) != NULL) {
        (*out)->info = *allocator->Info(allocator);
        (*out)->memory = &(*out)->info;
    }
    return failed;
}

OrtStatus *ort_CreateTensorAsOrtValue(OrtAllocator *allocator, const int64_t *shape, size_t shape_len,
                                      ONNXTensorElementDataType type, OrtValue **out)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value = NULL;
    OrtStatus *failed;
    inlay_status status;
    size_t bytes;
    void *memory;

    ORT_NEED(allocator);
    ORT_NEED(out);
    *out = NULL;
    ORT_TRY(check_tensor(shape, shape_len, type, &bytes));
    if (ort_dtype(type) == INLAY_STRING)
        return ort_strings_new(shape, shape_len, out);
    if (allocator == ort_allocator()) {
        status = inlay_value_create(ort_dtype(type), (uint32_t)shape_len, shape, &value, &diag);
        return status == INLAY_OK ? ort_value_wrap(value, out) : ort_from(status, &diag);
    }
    memory = bytes > 0 ? allocator->Alloc(allocator, bytes) : NULL;
    if (memory == NULL && bytes > 0)
        return ort_fail(ORT_FAIL, "the allocator has no memory for a tensor of %zu bytes", bytes);
    failed = hold_memory(allocator, memory, shape, shape_len, type, out);
    if (failed != NULL && memory != NULL && *out == NULL)
        allocator->Free(allocator, memory);
    return failed;
}

static OrtStatus *check_capacity(size_t bytes, const void *data, size_t capacity)
{
    if (capacity < bytes)
        return ort_fail(ORT_INVALID_ARGUMENT, "not enough space: expected %zu, got %zu", bytes, capacity);
    if (data == NULL && bytes > 0)
        return ort_fail(ORT_INVALID_ARGUMENT, "p_data is NULL for a tensor of %zu bytes", bytes);
    return NULL;
}

OrtStatus *ort_CreateTensorWithDataAsOrtValue(const OrtMemoryInfo *info, void *p_data, size_t p_data_len,
                                              const int64_t *shape, size_t shape_len, ONNXTensorElementDataType type,
                                              OrtValue **out)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value = NULL;
    inlay_status status;
    size_t bytes;

    ORT_NEED(info);
    ORT_NEED(out);
    *out = NULL;
    ORT_TRY(check_tensor(shape, shape_len, type, &bytes));
    if (ort_dtype(type) == INLAY_STRING)
        return ort_fail(ORT_INVALID_ARGUMENT, "a tensor of strings cannot use the program's memory; use "
                                              "CreateTensorAsOrtValue and FillStringTensor");
    if (info->device_type != 0)
        return ort_fail(ORT_INVALID_ARGUMENT, "memory '%s' is not host memory; tensors must be in host memory",
                        info->name);
    ORT_TRY(check_capacity(bytes, p_data, p_data_len));
    status = inlay_value_borrow(ort_dtype(type), (uint32_t)shape_len, shape, p_data, p_data_len, &value, &diag);
    if (status != INLAY_OK)
        return ort_from(status, &diag);
    ORT_TRY(ort_value_wrap(value, out));
    (*out)->info = *info;
    (*out)->memory = &(*out)->info;
    return NULL;
}

OrtStatus *ort_CreateTensorWithDataAndDeleterAsOrtValue(OrtAllocator *deleter, void *p_data, size_t p_data_len,
                                                        const int64_t *shape, size_t shape_len,
                                                        ONNXTensorElementDataType type, OrtValue **out)
{
    size_t bytes;

    ORT_NEED(deleter);
    ORT_NEED(out);
    *out = NULL;
    ORT_TRY(check_tensor(shape, shape_len, type, &bytes));
    ORT_TRY(check_capacity(bytes, p_data, p_data_len));
    return hold_memory(deleter, p_data, shape, shape_len, type, out);
}

/* Returns the tensor of a value, or an error. */
static OrtStatus *tensor_of(const OrtValue *value, inlay_value **out)
{
    ORT_NEED(value);
    if (value->type != ONNX_TYPE_TENSOR || value->value == NULL)
        return ort_fail(ORT_FAIL, "the value is not a tensor");
    *out = value->value;
    return NULL;
}

ORT_GETTER(ort_IsTensor, const OrtValue *, value, int, out, value->type == ONNX_TYPE_TENSOR)
ORT_GETTER(ort_IsSparseTensor, const OrtValue *, value, int, out, value->type == ONNX_TYPE_SPARSETENSOR)

OrtStatus *ort_HasValue(const OrtValue *value, int *out)
{
    ORT_NEED(value);
    ORT_NEED(out);
    *out =
        value->type != ONNX_TYPE_OPTIONAL && (value->value != NULL || value->item_count > 0 || value->sparse != NULL);
    return NULL;
}

ORT_GETTER(ort_GetValueType, const OrtValue *, value, ONNXType, out, value->type)

OrtStatus *ort_GetTensorMutableData(OrtValue *value, void **out)
{
    inlay_value *tensor;

    ORT_NEED(out);
    *out = NULL;
    ORT_TRY(tensor_of(value, &tensor));
    if (inlay_value_dtype(tensor) == INLAY_STRING)
        return ort_strings_objects(value, out);
    *out = inlay_value_data(tensor);
    return NULL;
}

OrtStatus *ort_GetTensorData(const OrtValue *value, const void **out)
{
    void *data;

    ORT_NEED(out);
    ORT_TRY(ort_GetTensorMutableData((OrtValue *)(uintptr_t)value, &data));
    *out = data;
    return NULL;
}

OrtStatus *ort_TensorAt(OrtValue *value, const int64_t *location_values, size_t location_values_count, void **out)
{
    inlay_value *tensor;
    int64_t at = 0;
    size_t bits;
    void *data;

    ORT_NEED(out);
    *out = NULL;
    ORT_TRY(tensor_of(value, &tensor));
    bits = inlay_dtype_bits(inlay_value_dtype(tensor));
    if (inlay_value_dtype(tensor) == INLAY_STRING)
        return ort_fail(ORT_INVALID_ARGUMENT, "this API does not support strings");
    if (location_values_count != inlay_value_rank(tensor))
        return ort_fail(ORT_INVALID_ARGUMENT, "location dimensions do not match shape size: %zu for rank %u",
                        location_values_count, inlay_value_rank(tensor));
    if (bits % 8 != 0)
        return ort_fail(ORT_INVALID_ARGUMENT, "elements of %s have no addresses, because they share bytes",
                        ort_type_text(inlay_value_dtype(tensor)));
    if (location_values_count > 0)
        ORT_NEED(location_values);
    for (size_t i = 0; i < location_values_count; i++) {
        int64_t size = inlay_value_dims(tensor)[i];

        if (location_values[i] < 0 || location_values[i] >= size)
            return ort_fail(ORT_INVALID_ARGUMENT, "invalid location range: index %zu is %lld of %lld", i,
                            (long long)location_values[i], (long long)size);
        at = at * size + location_values[i];
    }
    INLAY_CHECK(at >= 0 && (at < inlay_value_count(tensor) || location_values_count == 0));
    ORT_TRY(ort_GetTensorMutableData(value, &data));
    *out = (char *)data + (size_t)at * (bits / 8);
    return NULL;
}

OrtStatus *ort_GetTensorTypeAndShape(const OrtValue *value, OrtTensorTypeAndShapeInfo **out)
{
    inlay_value *tensor;

    ORT_NEED(value);
    ORT_NEED(out);
    if (value->sparse != NULL) {
        *out = ort_sparse_shape(value);
    } else {
        *out = NULL;
        ORT_TRY(tensor_of(value, &tensor));
        *out = ort_shape_new(ort_type_of(inlay_value_dtype(tensor)), true, inlay_value_rank(tensor),
                             inlay_value_dims(tensor), NULL);
    }
    return *out != NULL ? NULL : ort_no_memory();
}

OrtStatus *ort_GetTensorElementTypeAndShapeDataReference(const OrtValue *value, ONNXTensorElementDataType *elem_type,
                                                         const int64_t **shape_data, size_t *shape_data_count)
{
    inlay_value *tensor;

    ORT_NEED(elem_type);
    ORT_NEED(shape_data);
    ORT_NEED(shape_data_count);
    ORT_TRY(tensor_of(value, &tensor));
    *elem_type = ort_type_of(inlay_value_dtype(tensor));
    *shape_data_count = inlay_value_rank(tensor);
    *shape_data = *shape_data_count > 0 ? inlay_value_dims(tensor) : NULL;
    return NULL;
}

OrtStatus *ort_GetTensorSizeInBytes(const OrtValue *ort_value, size_t *size)
{
    inlay_value *tensor;

    ORT_NEED(size);
    ORT_TRY(tensor_of(ort_value, &tensor));
    if (inlay_value_dtype(tensor) == INLAY_STRING)
        return ort_fail(ORT_INVALID_ARGUMENT, "String tensors are not supported");
    *size = (size_t)inlay_value_bytes(tensor);
    return NULL;
}

ORT_GETTER(ort_GetTensorMemoryInfo, const OrtValue *, value, const OrtMemoryInfo *, mem_info, value->memory)

OrtStatus *ort_GetTypeInfo(const OrtValue *value, OrtTypeInfo **out)
{
    OrtTensorTypeAndShapeInfo *shape = NULL;
    uint32_t kind = INLAY_KIND_TENSOR;

    ORT_NEED(value);
    ORT_NEED(out);
    *out = NULL;
    if (value->type == ONNX_TYPE_TENSOR || value->type == ONNX_TYPE_SPARSETENSOR) {
        ORT_TRY(ort_GetTensorTypeAndShape(value, &shape));
    } else if (value->type == ONNX_TYPE_MAP) {
        inlay_value *values, *keys;

        INLAY_CHECK(value->item_count == 2);
        values = value->items[1]->value;
        keys = value->items[0]->value;

        kind = INLAY_KIND_MAP;
        shape = ort_shape_new(ort_type_of(inlay_value_dtype(values)), true, 0, NULL, NULL);
        *out = ort_type_new(kind, shape);
        if (*out != NULL)
            (*out)->map->key = ort_type_of(inlay_value_dtype(keys));
        return *out != NULL ? NULL : ort_no_memory();
    } else {
        kind = value->type == ONNX_TYPE_SEQUENCE ? INLAY_KIND_SEQUENCE : INLAY_KIND_OPTIONAL;
        shape = ort_shape_new(ort_type_of(value->element), false, 0, NULL, NULL);
    }
    *out = ort_type_new(kind, shape);
    if (*out == NULL)
        return ort_no_memory();
    if (value->type == ONNX_TYPE_SPARSETENSOR)
        (*out)->type = ONNX_TYPE_SPARSETENSOR;
    return NULL;
}

OrtStatus *ort_CopyTensors(const OrtEnv *env, const OrtValue *const *src_tensors, OrtValue *const *dst_tensors,
                           OrtSyncStream *stream, size_t num_tensors)
{
    (void)stream;
    ORT_NEED(env);
    if (num_tensors > 0) {
        ORT_NEED(src_tensors);
        ORT_NEED(dst_tensors);
    }
    for (size_t i = 0; i < num_tensors; i++) {
        inlay_value *from, *to;

        ORT_TRY(tensor_of(src_tensors[i], &from));
        ORT_TRY(tensor_of(dst_tensors[i], &to));
        if (inlay_value_dtype(from) != inlay_value_dtype(to) || inlay_value_count(from) != inlay_value_count(to))
            return ort_fail(ORT_INVALID_ARGUMENT, "tensor %zu: source and target differ in type or size", i);
        if (inlay_value_dtype(from) != INLAY_STRING) {
            memcpy(inlay_value_data(to), inlay_value_data(from), (size_t)inlay_value_bytes(from));
            continue;
        }
        ort_strings_sync(src_tensors[i]);
        for (int64_t k = 0; k < inlay_value_count(from); k++) {
            const inlay_str *text = (const inlay_str *)inlay_value_data(from) + k;

            ORT_TRY(ort_strings_set(dst_tensors[i], (size_t)k, text->data, (size_t)text->bytes));
        }
    }
    return NULL;
}
