/* Types of inputs, outputs and values. */
#include "ort.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

inlay_dtype ort_dtype(ONNXTensorElementDataType type)
{
    switch (type) {
    case ORT_UINT2:
        return INLAY_UINT2;
    case ORT_INT2:
        return INLAY_INT2;
    case ORT_FLOAT8E8M0:
        return INLAY_FLOAT8E8M0;
    default:
        return type > 0 && type <= ORT_FLOAT4E2M1 ? type : INLAY_UNDEFINED;
    }
}

ONNXTensorElementDataType ort_type_of(inlay_dtype dtype)
{
    switch (dtype) {
    case INLAY_UINT2:
        return ORT_UINT2;
    case INLAY_INT2:
        return ORT_INT2;
    case INLAY_FLOAT8E8M0:
        return ORT_FLOAT8E8M0;
    default:
        return dtype > 0 && dtype <= INLAY_FLOAT4E2M1 ? dtype : 0;
    }
}

ONNXType ort_kind_of(uint32_t inlay_kind)
{
    static const ONNXType types[] = { [INLAY_KIND_TENSOR] = ONNX_TYPE_TENSOR,
                                      [INLAY_KIND_SEQUENCE] = ONNX_TYPE_SEQUENCE,
                                      [INLAY_KIND_OPTIONAL] = ONNX_TYPE_OPTIONAL,
                                      [INLAY_KIND_MAP] = ONNX_TYPE_MAP };

    return inlay_kind < sizeof types / sizeof types[0] ? types[inlay_kind] : ONNX_TYPE_UNKNOWN;
}

const char *ort_type_text(inlay_dtype dtype)
{
    switch (dtype) {
#define CASE(number, name, bits, text)                                                                                 \
    case number:                                                                                                       \
        return "tensor(" text ")";
        INLAY_DTYPE_LIST(CASE)
#undef CASE
    default:
        return "undefined";
    }
}

static void free_names(char **names, size_t rank)
{
    for (size_t i = 0; names != NULL && i < rank; i++)
        free(names[i]);
    free(names);
}

/* Copies names; *out NULL: none of them has a text. */
static bool copy_names(size_t rank, const char *const *names, char ***out)
{
    bool any = false, ok = true;

    *out = NULL;
    for (size_t i = 0; names != NULL && i < rank; i++)
        any = any || (names[i] != NULL && names[i][0] != '\0');
    if (!any)
        return true;
    *out = calloc(rank, sizeof **out);
    for (size_t i = 0; *out != NULL && ok && i < rank; i++)
        ok = ((*out)[i] = strdup(names[i] != NULL ? names[i] : "")) != NULL;
    if (*out != NULL && ok)
        return true;
    free_names(*out, rank);
    *out = NULL;
    return false;
}

/* dims and names may be those of info. */
static bool set_dims(OrtTensorTypeAndShapeInfo *info, size_t rank, const int64_t *dims, const char *const *names)
{
    int64_t *new_dims = rank <= ORT_OWN_DIMS ? info->own_dims : calloc(rank, sizeof *new_dims);
    char **new_names = NULL;

    INLAY_CHECK(rank == 0 || dims != NULL);
    if (new_dims == NULL || !copy_names(rank, names, &new_names)) {
        if (new_dims != info->own_dims)
            free(new_dims);
        return false;
    }
    if (rank > 0)
        memmove(new_dims, dims, rank * sizeof *dims);
    free_names(info->names, info->rank);
    if (info->dims != info->own_dims)
        free(info->dims);
    info->dims = new_dims;
    info->names = new_names;
    info->rank = rank;
    return true;
}

const char *ort_shape_name(const OrtTensorTypeAndShapeInfo *info, size_t dimension)
{
    return info->names != NULL ? info->names[dimension] : "";
}

OrtTensorTypeAndShapeInfo *ort_shape_new(ONNXTensorElementDataType type, bool has_shape, size_t rank,
                                         const int64_t *dims, const char *const *names)
{
    OrtTensorTypeAndShapeInfo *info = ort_shape_alloc();

    if (info == NULL)
        return NULL;
    info->type = type;
    info->has_shape = has_shape;
    if (!set_dims(info, rank, dims, names)) {
        ort_shape_free(info);
        return NULL;
    }
    return info;
}

void ort_ReleaseTensorTypeAndShapeInfo(OrtTensorTypeAndShapeInfo *info)
{
    if (info == NULL)
        return;
    free_names(info->names, info->rank);
    if (info->dims != info->own_dims)
        free(info->dims);
    ort_shape_free(info);
}

OrtStatus *ort_CreateTensorTypeAndShapeInfo(OrtTensorTypeAndShapeInfo **out)
{
    ORT_NEED(out);
    *out = ort_shape_new(0, true, 0, NULL, NULL);
    return *out != NULL ? NULL : ort_no_memory();
}

OrtStatus *ort_SetTensorElementType(OrtTensorTypeAndShapeInfo *info, ONNXTensorElementDataType type)
{
    ORT_NEED(info);
    info->type = type;
    return NULL;
}

OrtStatus *ort_SetDimensions(OrtTensorTypeAndShapeInfo *info, const int64_t *dim_values, size_t dim_count)
{
    ORT_NEED(info);
    if (dim_count > 0)
        ORT_NEED(dim_values);
    info->has_shape = true;
    return set_dims(info, dim_count, dim_values, NULL) ? NULL : ort_no_memory();
}

OrtStatus *ort_SetSymbolicDimensions(OrtTensorTypeAndShapeInfo *info, const char *dim_params[],
                                     size_t dim_params_length)
{
    ORT_NEED(info);
    if (dim_params_length != info->rank)
        return ort_fail(ORT_INVALID_ARGUMENT, "%zu names for %zu dimensions", dim_params_length, info->rank);
    return set_dims(info, info->rank, info->dims, dim_params) ? NULL : ort_no_memory();
}

ORT_GETTER(ort_GetTensorElementType, const OrtTensorTypeAndShapeInfo *, info, ONNXTensorElementDataType, out,
           info->type)
ORT_GETTER(ort_GetDimensionsCount, const OrtTensorTypeAndShapeInfo *, info, size_t, out, info->rank)

OrtStatus *ort_GetDimensions(const OrtTensorTypeAndShapeInfo *info, int64_t *dim_values, size_t dim_values_length)
{
    size_t count;

    ORT_NEED(info);
    count = dim_values_length < info->rank ? dim_values_length : info->rank;
    if (count > 0) {
        ORT_NEED(dim_values);
        memcpy(dim_values, info->dims, count * sizeof *dim_values);
    }
    return NULL;
}

OrtStatus *ort_GetSymbolicDimensions(const OrtTensorTypeAndShapeInfo *info, const char *dim_params[],
                                     size_t dim_params_length)
{
    ORT_NEED(info);
    if (dim_params_length > 0 && info->rank > 0)
        ORT_NEED(dim_params);
    for (size_t i = 0; i < dim_params_length && i < info->rank; i++)
        dim_params[i] = ort_shape_name(info, i);
    return NULL;
}

OrtStatus *ort_GetTensorShapeElementCount(const OrtTensorTypeAndShapeInfo *info, size_t *out)
{
    size_t count = 1;

    ORT_NEED(info);
    ORT_NEED(out);
    *out = 0;
    for (size_t i = 0; i < info->rank; i++) {
        if (info->dims[i] < 0)
            return ort_fail(ORT_FAIL, "dimension %zu of the shape is unknown", i);
        if (__builtin_mul_overflow(count, (size_t)info->dims[i], &count))
            return ort_fail(ORT_FAIL, "the number of elements of the shape is too large");
    }
    *out = count;
    return NULL;
}

bool ort_TensorTypeAndShape_HasShape(const OrtTensorTypeAndShapeInfo *info)
{
    return info != NULL && info->has_shape;
}

static OrtTypeInfo *tensor_type(OrtTensorTypeAndShapeInfo *shape)
{
    OrtTypeInfo *info = shape != NULL ? calloc(1, sizeof *info) : NULL;

    if (info == NULL) {
        ort_ReleaseTensorTypeAndShapeInfo(shape);
        return NULL;
    }
    info->type = ONNX_TYPE_TENSOR;
    info->tensor = shape;
    return info;
}

/* A type that contains another. Takes ownership of inner. */
static OrtTypeInfo *outer_type(ONNXType type, ONNXTensorElementDataType key, OrtTypeInfo *inner)
{
    OrtTypeInfo *info = inner != NULL ? calloc(1, sizeof *info) : NULL;
    bool ok = info != NULL;

    INLAY_CHECK(type == ONNX_TYPE_SEQUENCE || type == ONNX_TYPE_OPTIONAL || type == ONNX_TYPE_MAP);
    if (ok && type == ONNX_TYPE_SEQUENCE)
        ok = (info->sequence = calloc(1, sizeof *info->sequence)) != NULL;
    if (ok && type == ONNX_TYPE_OPTIONAL)
        ok = (info->optional = calloc(1, sizeof *info->optional)) != NULL;
    if (ok && type == ONNX_TYPE_MAP)
        ok = (info->map = calloc(1, sizeof *info->map)) != NULL;
    if (!ok) {
        free(info);
        ort_ReleaseTypeInfo(inner);
        return NULL;
    }
    info->type = type;
    if (info->sequence != NULL)
        info->sequence->element = inner;
    if (info->optional != NULL)
        info->optional->contained = inner;
    if (info->map != NULL)
        *info->map = (OrtMapTypeInfo){ key, inner };
    return info;
}

OrtTypeInfo *ort_type_new(uint32_t inlay_kind, OrtTensorTypeAndShapeInfo *shape)
{
    ONNXTensorElementDataType element = shape != NULL ? shape->type : 0;
    OrtTypeInfo *inner = tensor_type(shape);

    switch (inlay_kind) {
    case INLAY_KIND_SEQUENCE:
        return outer_type(ONNX_TYPE_SEQUENCE, 0, inner);
    case INLAY_KIND_OPTIONAL:
        return outer_type(ONNX_TYPE_OPTIONAL, 0, inner);
    case INLAY_KIND_MAP:
        return outer_type(ONNX_TYPE_MAP, element, inner);
    default:
        return inner;
    }
}

OrtTypeInfo *ort_type_of_io(const inlay_io_info *io)
{
    bool known = io->declared_rank != INLAY_RANK_UNKNOWN;
    uint32_t rank = known ? io->declared_rank : 0;
    ONNXTensorElementDataType key = ort_type_of(io->key_dtype);
    OrtTensorTypeAndShapeInfo *shape;
    OrtTypeInfo *map;

    shape = ort_shape_new(ort_type_of(io->dtype), known, rank, io->declared_dims, io->declared_dim_names);
    if (io->key_dtype == INLAY_UNDEFINED) {
        OrtTypeInfo *type = ort_type_new(io->kind, shape);

        if (type != NULL && io->sparse != 0 && io->kind == INLAY_KIND_TENSOR)
            type->type = ONNX_TYPE_SPARSETENSOR;
        return type;
    }
    map = outer_type(ONNX_TYPE_MAP, key, tensor_type(shape));
    return io->kind == INLAY_KIND_SEQUENCE ? outer_type(ONNX_TYPE_SEQUENCE, 0, map) : map;
}

OrtTypeInfo *ort_type_copy(const OrtTypeInfo *type)
{
    OrtTensorTypeAndShapeInfo *info = type->tensor;
    OrtTypeInfo *copy;

    if (type->sequence != NULL)
        return outer_type(ONNX_TYPE_SEQUENCE, 0, ort_type_copy(type->sequence->element));
    if (type->optional != NULL)
        return outer_type(ONNX_TYPE_OPTIONAL, 0, ort_type_copy(type->optional->contained));
    if (type->map != NULL)
        return outer_type(ONNX_TYPE_MAP, type->map->key, ort_type_copy(type->map->value));
    copy = tensor_type(
        ort_shape_new(info->type, info->has_shape, info->rank, info->dims, (const char *const *)info->names));
    if (copy != NULL)
        copy->type = type->type;
    return copy;
}

void ort_ReleaseTypeInfo(OrtTypeInfo *info)
{
    if (info == NULL)
        return;
    ort_ReleaseTensorTypeAndShapeInfo(info->tensor);
    ort_ReleaseMapTypeInfo(info->map);
    ort_ReleaseSequenceTypeInfo(info->sequence);
    if (info->optional != NULL)
        ort_ReleaseTypeInfo(info->optional->contained);
    free(info->optional);
    free(info);
}

void ort_ReleaseMapTypeInfo(OrtMapTypeInfo *info)
{
    if (info != NULL)
        ort_ReleaseTypeInfo(info->value);
    free(info);
}

void ort_ReleaseSequenceTypeInfo(OrtSequenceTypeInfo *info)
{
    if (info != NULL)
        ort_ReleaseTypeInfo(info->element);
    free(info);
}

ORT_GETTER(ort_GetOnnxTypeFromTypeInfo, const OrtTypeInfo *, type_info, ONNXType, out, type_info->type)
ORT_GETTER(ort_CastTypeInfoToTensorInfo, const OrtTypeInfo *, type_info, const OrtTensorTypeAndShapeInfo *, out,
           type_info->tensor)
ORT_GETTER(ort_CastTypeInfoToMapTypeInfo, const OrtTypeInfo *, type_info, const OrtMapTypeInfo *, out, type_info->map)
ORT_GETTER(ort_CastTypeInfoToSequenceTypeInfo, const OrtTypeInfo *, type_info, const OrtSequenceTypeInfo *, out,
           type_info->sequence)
ORT_GETTER(ort_CastTypeInfoToOptionalTypeInfo, const OrtTypeInfo *, type_info, const OrtOptionalTypeInfo *, out,
           type_info->optional)

OrtStatus *ort_GetDenotationFromTypeInfo(const OrtTypeInfo *type_info, const char **const denotation, size_t *len)
{
    ORT_NEED(type_info);
    ORT_NEED(denotation);
    ORT_NEED(len);
    *denotation = "";
    *len = 0;
    return NULL;
}

static OrtStatus *give_copy(const OrtTypeInfo *type, OrtTypeInfo **out)
{
    *out = ort_type_copy(type);
    return *out != NULL ? NULL : ort_no_memory();
}

ORT_GETTER(ort_GetMapKeyType, const OrtMapTypeInfo *, map_type_info, ONNXTensorElementDataType, out, map_type_info->key)

OrtStatus *ort_GetMapValueType(const OrtMapTypeInfo *map_type_info, OrtTypeInfo **type_info)
{
    ORT_NEED(map_type_info);
    ORT_NEED(type_info);
    return give_copy(map_type_info->value, type_info);
}

OrtStatus *ort_GetSequenceElementType(const OrtSequenceTypeInfo *sequence_type_info, OrtTypeInfo **type_info)
{
    ORT_NEED(sequence_type_info);
    ORT_NEED(type_info);
    return give_copy(sequence_type_info->element, type_info);
}

OrtStatus *ort_GetOptionalContainedTypeInfo(const OrtOptionalTypeInfo *optional_type_info, OrtTypeInfo **out)
{
    ORT_NEED(optional_type_info);
    ORT_NEED(out);
    return give_copy(optional_type_info->contained, out);
}

static OrtStatus *make_tensor_type(ONNXType type, const OrtTensorTypeAndShapeInfo *from, OrtTypeInfo **out)
{
    ORT_NEED(out);
    *out = NULL;
    if (from == NULL)
        return ort_fail(ORT_INVALID_ARGUMENT, "tensor_info is NULL");
    if (ort_dtype(from->type) == INLAY_UNDEFINED)
        return ort_fail(ORT_INVALID_ARGUMENT, "tensor_info has no element type: call SetTensorElementType");
    *out = tensor_type(
        ort_shape_new(from->type, from->has_shape, from->rank, from->dims, (const char *const *)from->names));
    if (*out == NULL)
        return ort_no_memory();
    (*out)->type = type;
    return NULL;
}

OrtStatus *ort_CreateTensorTypeInfo(const OrtTensorTypeAndShapeInfo *tensor_info, OrtTypeInfo **type_info)
{
    return make_tensor_type(ONNX_TYPE_TENSOR, tensor_info, type_info);
}

OrtStatus *ort_CreateSparseTensorTypeInfo(const OrtTensorTypeAndShapeInfo *tensor_info, OrtTypeInfo **type_info)
{
    return make_tensor_type(ONNX_TYPE_SPARSETENSOR, tensor_info, type_info);
}

static OrtStatus *make_outer_type(ONNXType type, ONNXTensorElementDataType key, const OrtTypeInfo *inner,
                                  OrtTypeInfo **out)
{
    ORT_NEED(inner);
    ORT_NEED(out);
    *out = outer_type(type, key, ort_type_copy(inner));
    return *out != NULL ? NULL : ort_no_memory();
}

OrtStatus *ort_CreateMapTypeInfo(ONNXTensorElementDataType map_key_type, const OrtTypeInfo *map_value_type,
                                 OrtTypeInfo **type_info)
{
    return make_outer_type(ONNX_TYPE_MAP, map_key_type, map_value_type, type_info);
}

OrtStatus *ort_CreateSequenceTypeInfo(const OrtTypeInfo *sequence_type, OrtTypeInfo **type_info)
{
    return make_outer_type(ONNX_TYPE_SEQUENCE, 0, sequence_type, type_info);
}

OrtStatus *ort_CreateOptionalTypeInfo(const OrtTypeInfo *contained_type, OrtTypeInfo **type_info)
{
    return make_outer_type(ONNX_TYPE_OPTIONAL, 0, contained_type, type_info);
}
