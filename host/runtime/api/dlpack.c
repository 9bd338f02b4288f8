/* api/dlpack.c - tensors to and from DLPack, 0.6 and 1.x. The structs follow its specification. */
#include "api/context.h"
#include "base/memory.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

enum { DL_CPU = 1, DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_COMPLEX = 5, DL_BOOL = 6 };

typedef struct dl_device {
    int32_t type;
    int32_t id;
} dl_device;

typedef struct dl_type {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
} dl_type;

typedef struct dl_tensor {
    void *data;
    dl_device device;
    int32_t rank;
    dl_type type;
    int64_t *dims;
    int64_t *strides; /* in elements; NULL = dense row-major */
    uint64_t offset;  /* bytes */
} dl_tensor;

struct DLManagedTensor {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct DLManagedTensor *self);
};

/* DLPack 1.x. */
enum { DL_MAJOR = 1, DL_READ_ONLY = 1 << 0 };
struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    dl_tensor tensor;
};

static const struct {
    inlay_dtype dtype;
    dl_type type;
} types[] = {
    { INLAY_FLOAT, { DL_FLOAT, 32, 1 } },
    { INLAY_DOUBLE, { DL_FLOAT, 64, 1 } },
    { INLAY_FLOAT16, { DL_FLOAT, 16, 1 } },
    { INLAY_BFLOAT16, { DL_BFLOAT, 16, 1 } },
    { INLAY_INT8, { DL_INT, 8, 1 } },
    { INLAY_INT16, { DL_INT, 16, 1 } },
    { INLAY_INT32, { DL_INT, 32, 1 } },
    { INLAY_INT64, { DL_INT, 64, 1 } },
    { INLAY_UINT8, { DL_UINT, 8, 1 } },
    { INLAY_UINT16, { DL_UINT, 16, 1 } },
    { INLAY_UINT32, { DL_UINT, 32, 1 } },
    { INLAY_UINT64, { DL_UINT, 64, 1 } },
    { INLAY_BOOL, { DL_BOOL, 8, 1 } },
    { INLAY_COMPLEX64, { DL_COMPLEX, 64, 1 } },
    { INLAY_COMPLEX128, { DL_COMPLEX, 128, 1 } },
};

static void call_deleter(void *owner, inlay_value *value)
{
    struct DLManagedTensor *managed = owner;

    (void)value;
    if (managed->deleter != NULL)
        managed->deleter(managed);
}

static void call_versioned_deleter(void *owner, inlay_value *value)
{
    struct DLManagedTensorVersioned *managed = owner;

    (void)value;
    if (managed->deleter != NULL)
        managed->deleter(managed);
}

static bool is_dense(const dl_tensor *tensor)
{
    int64_t stride = 1;

    for (int32_t d = 0; d < tensor->rank; d++)
        if (tensor->dims[d] == 0)
            return true;
    for (int32_t d = tensor->rank; tensor->strides != NULL && d-- > 0;) {
        if (tensor->dims[d] != 1 && tensor->strides[d] != stride)
            return false;
        stride *= tensor->dims[d];
    }
    return true;
}

/* Checks that a tensor can be imported. */
static inlay_status check(const dl_tensor *tensor, inlay_dtype *out_dtype, inlay_diag *diag)
{
    *out_dtype = INLAY_UNDEFINED;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].type.code == tensor->type.code && types[i].type.bits == tensor->type.bits &&
            tensor->type.lanes == 1)
            *out_dtype = types[i].dtype;
    if (*out_dtype == INLAY_UNDEFINED)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "DLPack type code %u with %u bits and %u lanes has no ONNX type",
                          tensor->type.code, tensor->type.bits, tensor->type.lanes);
    if (tensor->rank < 0 || tensor->rank > INLAY_MAX_RANK || (tensor->rank > 0 && tensor->dims == NULL))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the DLPack tensor has %d dimensions; the limit is %d",
                          (int)tensor->rank, INLAY_MAX_RANK);
    if (!is_dense(tensor))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the DLPack tensor is strided; make it contiguous first");
    return INLAY_OK;
}

/* owner: the managed tensor, which free_memory releases. */
static inlay_status import_tensor(const dl_tensor *tensor, void *owner,
                                  void (*free_memory)(void *owner, inlay_value *value), inlay_value **out_value,
                                  inlay_diag *diag)
{
    inlay_dtype dtype;
    inlay_status status = check(tensor, &dtype, diag);

    *out_value = NULL;
    if (status != INLAY_OK)
        return status;
    if (tensor->device.type != DL_CPU)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "the DLPack tensor is on device type %d; copy it to the CPU, or use "
                          "inlay_session_value_from_dlpack()",
                          (int)tensor->device.type);
    status = inlay_value_borrow(dtype, (uint32_t)tensor->rank, tensor->dims,
                                tensor->data == NULL ? NULL : (char *)tensor->data + tensor->offset, UINT64_MAX,
                                out_value, diag);
    if (status == INLAY_OK) {
        (*out_value)->capacity = (*out_value)->buffer.bytes;
        (*out_value)->owner = owner;
        (*out_value)->free_memory = free_memory;
    }
    return status;
}

inlay_status inlay_value_from_dlpack(struct DLManagedTensor *tensor, inlay_value **out_value, inlay_diag *diag)
{
    return import_tensor(&tensor->tensor, tensor, call_deleter, out_value, diag);
}

static inlay_status check_version(const struct DLManagedTensorVersioned *tensor, inlay_diag *diag)
{
    if (tensor->major != DL_MAJOR)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the tensor has DLPack version %u.%u; this library supports 1.x",
                          tensor->major, tensor->minor);
    if ((tensor->flags & DL_READ_ONLY) != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the DLPack tensor is read-only; copy it first");
    return INLAY_OK;
}

inlay_status inlay_value_from_dlpack_versioned(struct DLManagedTensorVersioned *tensor, inlay_value **out_value,
                                               inlay_diag *diag)
{
    inlay_status status = check_version(tensor, diag);

    *out_value = NULL;
    return status == INLAY_OK ? import_tensor(&tensor->tensor, tensor, call_versioned_deleter, out_value, diag)
                              : status;
}

static void release_versioned(void *arg)
{
    call_versioned_deleter(arg, NULL);
}

inlay_status inlay_session_value_from_dlpack(inlay_session *session, const char *provider_name,
                                             struct DLManagedTensorVersioned *tensor, inlay_value **out_value,
                                             inlay_diag *diag)
{
    const dl_tensor *source = &tensor->tensor;
    inlay_native_memory memory = { .struct_size = sizeof memory,
                                   .handle = (uintptr_t)source->data,
                                   .offset = source->offset,
                                   .device_type = source->device.type,
                                   .device_id = source->device.id };
    const struct provider *provider = NULL;
    inlay_dtype dtype;
    inlay_value *shape;
    inlay_status status = session_device(session, provider_name, &provider, diag);

    *out_value = NULL;
    if (status == INLAY_OK)
        status = check_version(tensor, diag);
    if (status == INLAY_OK)
        status = check(source, &dtype, diag);
    if (status == INLAY_OK)
        status = value_describe(dtype, (uint32_t)source->rank, source->dims, &shape, diag);
    if (status != INLAY_OK)
        return status;
    memory.bytes = shape->buffer.bytes;
    inlay_value_unref(shape);
    status = provider_begin_use(provider, diag);
    if (status != INLAY_OK)
        return status;
    status = value_wrap_on(provider, &memory, dtype, (uint32_t)source->rank, source->dims, release_versioned, tensor,
                           out_value, diag);
    provider_end_use(provider);
    return status;
}

typedef struct dl_export {
    struct DLManagedTensor managed;
    struct DLManagedTensorVersioned versioned; /* only one of the two is used */
    int64_t dims[INLAY_MAX_RANK];
    inlay_value *value; /* a reference */
} dl_export;

static void delete_export(struct DLManagedTensor *self)
{
    dl_export *export = self->context;

    inlay_value_unref(export->value);
    free(export);
}

static void delete_versioned(struct DLManagedTensorVersioned *self)
{
    dl_export *export = self->context;

    inlay_value_unref(export->value);
    free(export);
}

/* Creates an export, which holds a reference to value. *out_tensor describes the memory of value. */
static inlay_status export_value(inlay_value *value, dl_export **out, dl_tensor *out_tensor, inlay_diag *diag)
{
    inlay_native_memory at = { .struct_size = sizeof at,
                               .handle = (uintptr_t)inlay_value_data(value),
                               .device_type = DL_CPU };
    dl_export *export;

    if (value->kind != INLAY_KIND_TENSOR)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "only tensors can be exported to DLPack");
    if (value->buffer.domain != INLAY_DOMAIN_HOST) {
        inlay_status status = inlay_value_native(value, &at, diag);

        if (status == INLAY_UNSUPPORTED)
            return inlay_fail(diag, status,
                              "the tensor is on device %s, which does not export its memory to other libraries; "
                              "inlay_value_copy() it to the host first",
                              inlay_value_device(value));
        if (status != INLAY_OK)
            return status;
    }
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].dtype != value->dtype)
            continue;
        export = calloc(1, sizeof *export);
        if (export == NULL)
            return no_memory(diag, "for a DLPack tensor");
        INLAY_CHECK(value->rank <= INLAY_MAX_RANK);
        export->value = inlay_value_ref(value);
        memcpy(export->dims, value->dims, value->rank * sizeof *export->dims);
        *out_tensor = (dl_tensor){ .data = (void *)(uintptr_t)at.handle,
                                   .offset = at.offset,
                                   .device = { at.device_type, at.device_id },
                                   .rank = (int32_t)value->rank,
                                   .type = types[i].type,
                                   .dims = export->dims };
        *out = export;
        return INLAY_OK;
    }
    return inlay_fail(diag, INLAY_UNSUPPORTED, "DLPack has no type for %s", inlay_dtype_name(value->dtype));
}

inlay_status inlay_value_to_dlpack(inlay_value *value, struct DLManagedTensor **out_tensor, inlay_diag *diag)
{
    dl_export *export = NULL;
    dl_tensor tensor;
    inlay_status status = export_value(value, &export, &tensor, diag);

    *out_tensor = NULL;
    if (status != INLAY_OK)
        return status;
    export->managed = (struct DLManagedTensor){ .tensor = tensor, .context = export, .deleter = delete_export };
    *out_tensor = &export->managed;
    return INLAY_OK;
}

inlay_status inlay_value_to_dlpack_versioned(inlay_value *value, struct DLManagedTensorVersioned **out_tensor,
                                             inlay_diag *diag)
{
    dl_export *export = NULL;
    dl_tensor tensor;
    inlay_status status = export_value(value, &export, &tensor, diag);

    *out_tensor = NULL;
    if (status != INLAY_OK)
        return status;
    export->versioned = (struct DLManagedTensorVersioned){
        .major = DL_MAJOR, .context = export, .deleter = delete_versioned, .tensor = tensor
    };
    *out_tensor = &export->versioned;
    return INLAY_OK;
}
