/* onnx/constant.c - constants. */
#include "schema.h"
#include "inlay/check.h"
#include <string.h>

/* Reads the elements of a small integer tensor attribute; 0 if it is larger or has another type. */
static uint32_t tensor_elements(const inlay_tensor_view *tensor, inlay_dim *elements)
{
    const uint32_t bits = inlay_dtype_bits(tensor->dtype);
    int64_t count = 1;

    for (uint32_t i = 0; i < tensor->rank; i++)
        if (tensor->dims[i] < 0 || __builtin_mul_overflow(count, tensor->dims[i], &count) || count > INFER_MAX_ELEMENTS)
            return 0;
    if ((tensor->dtype != INLAY_INT64 && tensor->dtype != INLAY_INT32) || tensor->data == NULL ||
        tensor->bytes < (uint64_t)count * (bits / 8))
        return 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t wide = 0;
        int32_t narrow = 0;

        if (bits == 64)
            memcpy(&wide, (const char *)tensor->data + i * 8, sizeof wide);
        else
            memcpy(&narrow, (const char *)tensor->data + i * 4, sizeof narrow);
        elements[i] = dim_fixed(bits == 64 ? wide : narrow);
    }
    return (uint32_t)count;
}

static inlay_status constant_tensor(op_infer *infer, const inlay_tensor_view *tensor)
{
    inlay_dim dims[INLAY_MAX_RANK], elements[INFER_MAX_ELEMENTS];
    inlay_status status;
    uint32_t count;

    if (tensor->rank > INLAY_MAX_RANK)
        return infer_fail(infer, INLAY_LIMIT_EXCEEDED, "value has rank %u; at most %d is supported", tensor->rank,
                          INLAY_MAX_RANK);
    for (uint32_t i = 0; i < tensor->rank; i++)
        dims[i] = dim_fixed(tensor->dims[i]);
    infer_set_dtype(infer, 0, tensor->dtype);
    status = infer_set_shape(infer, 0, tensor->rank, dims);
    count = tensor_elements(tensor, elements);
    return status == INLAY_OK && count > 0 ? infer_set_elements(infer, 0, count, elements) : status;
}

/* Constant-12: the node has exactly one of the value attributes. */
static inlay_status infer_constant(op_infer *infer)
{
    static const struct {
        const char *name;
        inlay_dtype dtype;
        uint32_t rank;
    } kinds[] = {
        { "value_float", INLAY_FLOAT, 0 }, { "value_floats", INLAY_FLOAT, 1 },  { "value_int", INLAY_INT64, 0 },
        { "value_ints", INLAY_INT64, 1 },  { "value_string", INLAY_STRING, 0 }, { "value_strings", INLAY_STRING, 1 },
    };
    const inlay_attr_info *attr = infer_attr(infer, "value");

    if (attr != NULL && attr->kind == INLAY_ATTR_TENSOR && attr->tensor != NULL)
        return constant_tensor(infer, attr->tensor);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        inlay_dim elements[INFER_MAX_ELEMENTS], length;
        inlay_status status;

        attr = infer_attr(infer, kinds[k].name);
        if (attr == NULL)
            continue;
        length = dim_fixed(attr->count);
        infer_set_dtype(infer, 0, kinds[k].dtype);
        status = infer_set_shape(infer, 0, kinds[k].rank, &length);
        if (status != INLAY_OK || kinds[k].dtype != INLAY_INT64 || attr->count > INFER_MAX_ELEMENTS)
            return status;
        elements[0] = dim_fixed(attr->i);
        for (uint32_t i = 0; kinds[k].rank == 1 && i < attr->count; i++)
            elements[i] = dim_fixed(attr->ints[i]);
        return infer_set_elements(infer, 0, kinds[k].rank == 1 ? attr->count : 1, elements);
    }
    return INLAY_OK; /* sparse_value: the host has converted it to a dense tensor */
}

/* ConstantOfShape-9: the elements of the input are the dimensions; the default of value is a float 0. */
static inlay_status infer_constant_of_shape(op_infer *infer)
{
    const inlay_attr_info *attr = infer_attr(infer, "value");
    const inlay_tensor_view *value = attr != NULL && attr->kind == INLAY_ATTR_TENSOR ? attr->tensor : NULL;
    inlay_dim dims[INLAY_MAX_RANK], elements[INFER_MAX_ELEMENTS], length = infer_dim(infer, 0, 0), size;
    uint32_t count;
    const inlay_dim *shape = infer_elements(infer, 0, &count);
    inlay_status status = INLAY_OK;

    infer_set_dtype(infer, 0, value != NULL ? value->dtype : INLAY_FLOAT);
    INLAY_TRY(infer_check_list(infer, 0));
    if (shape == NULL && length.kind != INLAY_DIM_FIXED)
        return INLAY_OK;
    if (shape == NULL)
        count = length.value >= 0 && length.value <= INLAY_MAX_RANK ? (uint32_t)length.value : INLAY_MAX_RANK + 1;
    if (count > INLAY_MAX_RANK)
        return infer_fail(infer, INLAY_LIMIT_EXCEEDED, "the input has too many values; at most %d axes are supported",
                          INLAY_MAX_RANK);
    for (uint32_t i = 0; i < count; i++) {
        dims[i] = shape != NULL ? shape[i] : dim_unknown();
        if (dims[i].kind == INLAY_DIM_FIXED && dims[i].value < 0)
            return infer_fail(infer, INLAY_INVALID_MODEL, "axis %u would have the size %lld", i,
                              (long long)dims[i].value);
    }
    INLAY_TRY(infer_set_shape(infer, 0, count, dims));
    size = dim_product(infer, dims, count);
    if (value == NULL || size.kind != INLAY_DIM_FIXED || size.value > INFER_MAX_ELEMENTS)
        goto done;
    if (tensor_elements(value, elements) != 1)
        goto done;
    INLAY_CHECK(size.value >= 0);
    for (int64_t i = 1; i < size.value; i++)
        elements[i] = elements[0];
    status = infer_set_elements(infer, 0, (uint32_t)size.value, elements);
done:
    return status;
}

static const op_row onnx_constant_rows[] = {
    { "Constant", 1, 0, "-> output:T; T=@float; value:t!", infer_constant },
    { "Constant", 9, 0, "-> output:T; T=@all; value:t!", infer_constant },
    { "Constant", 11, 0, "-> output:T; T=@all; sparse_value:sp, value:t", infer_constant },
    { "Constant", 12, 0,
      "-> output:T; T=@all; sparse_value:sp, value:t, value_float:f, value_floats:fs, value_int:i, value_ints:is, "
      "value_string:s, value_strings:ss",
      infer_constant },
    { "Constant", 13, 0,
      "-> output:T; T=@all_ir4; sparse_value:sp, value:t, value_float:f, value_floats:fs, value_int:i, value_ints:is, "
      "value_string:s, value_strings:ss",
      infer_constant },
    { "Constant", 19, 0,
      "-> output:T; T=@all_ir9; sparse_value:sp, value:t, value_float:f, value_floats:fs, value_int:i, value_ints:is, "
      "value_string:s, value_strings:ss",
      infer_constant },
    { "Constant", 21, 0,
      "-> output:T; T=@all_ir10; sparse_value:sp, value:t, value_float:f, value_floats:fs, value_int:i, "
      "value_ints:is, value_string:s, value_strings:ss",
      infer_constant },
    { "Constant", 23, 0,
      "-> output:T; T=@all_ir11; sparse_value:sp, value:t, value_float:f, value_floats:fs, value_int:i, "
      "value_ints:is, value_string:s, value_strings:ss",
      infer_constant },
    { "Constant", 24, 0,
      "-> output:T; T=@all_ir12; sparse_value:sp, value:t, value_float:f, value_floats:fs, value_int:i, "
      "value_ints:is, value_string:s, value_strings:ss",
      infer_constant },
    { "Constant", 25, 0,
      "-> output:T; T=@all_ir13; sparse_value:sp, value:t, value_float:f, value_floats:fs, value_int:i, "
      "value_ints:is, value_string:s, value_strings:ss",
      infer_constant },

    { "ConstantOfShape", 9, 0, "input:T1 -> output:T2; T1=int64, T2=@numeric|bool; value:t", infer_constant_of_shape },
    { "ConstantOfShape", 20, 0, "input:T1 -> output:T2; T1=int64, T2=@numeric_ir4|@float8|bool; value:t",
      infer_constant_of_shape },
    { "ConstantOfShape", 21, 0, "input:T1 -> output:T2; T1=int64, T2=@numeric_ir4|@float8|bool|uint4|int4; value:t",
      infer_constant_of_shape },
    { "ConstantOfShape", 23, 0, "input:T1 -> output:T2; T1=int64, T2=@all_ir11-@complex-string; value:t",
      infer_constant_of_shape },
    { "ConstantOfShape", 24, 0, "input:T1 -> output:T2; T1=int64, T2=@all_ir12-@complex-string; value:t",
      infer_constant_of_shape },
    { "ConstantOfShape", 25, 0, "input:T1 -> output:T2; T1=int64, T2=@all_ir13-@complex-string; value:t",
      infer_constant_of_shape },
};

const op_table op_onnx_constant = { "ai.onnx", onnx_constant_rows, OP_COUNT(onnx_constant_rows) };
