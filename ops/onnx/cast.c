/* onnx/cast.c - conversions of the element type. */
#include "schema.h"
#include <strings.h>

/* Propagates elements through a cast to int32 or int64, unless one would wrap. */
static inlay_status cast_elements(op_infer *infer, inlay_dtype to)
{
    uint32_t count;
    const inlay_dim *elements;

    if (to != INLAY_INT64 && to != INLAY_INT32)
        return INLAY_OK;
    elements = infer_elements(infer, 0, &count);
    for (uint32_t i = 0; elements != NULL && i < count; i++)
        if (elements[i].kind == INLAY_DIM_FIXED && to == INLAY_INT32 &&
            (elements[i].value < INT32_MIN || elements[i].value > INT32_MAX))
            return INLAY_OK; /* the kernel wraps it */
    return elements != NULL ? infer_set_elements(infer, 0, count, elements) : INLAY_OK;
}

/* The dtype in the attribute `to`: a number of TensorProto.DataType, or in Cast-1 the name of the type. */
static inlay_status target_dtype(op_infer *infer, inlay_dtype *out)
{
    const char *name = infer_attr_string(infer, "to", NULL);
    int64_t number = infer_attr_int(infer, "to", 0);

    *out = INLAY_UNDEFINED;
    for (inlay_dtype dtype = 1; name != NULL && dtype < INLAY_DTYPE_COUNT; dtype++)
        if (strcasecmp(name, inlay_dtype_name(dtype)) == 0)
            number = dtype;
    if (number <= 0 || number >= INLAY_DTYPE_COUNT)
        return infer_fail(infer, INLAY_INVALID_MODEL, "attribute to is %s%lld, which is not an element type",
                          name != NULL ? name : "", (long long)number);
    *out = (inlay_dtype)number;
    return INLAY_OK;
}

static inlay_status infer_cast(op_infer *infer)
{
    inlay_dtype to;
    inlay_status status = target_dtype(infer, &to);

    if (status != INLAY_OK)
        return status;
    infer_set_dtype(infer, 0, to);
    status = infer_same_as_first(infer);
    return status == INLAY_OK ? cast_elements(infer, to) : status;
}

static inlay_status infer_cast_like(op_infer *infer)
{
    inlay_dtype to = infer_has_in(infer, 1) ? infer->in[1]->dtype : INLAY_UNDEFINED;
    inlay_status status = infer_same_as_first(infer);

    if (to != INLAY_UNDEFINED)
        infer_set_dtype(infer, 0, to);
    return status == INLAY_OK ? cast_elements(infer, to) : status;
}

static inlay_status infer_bit_cast(op_infer *infer)
{
    inlay_dtype to, from = infer_has_in(infer, 0) ? infer->in[0]->dtype : INLAY_UNDEFINED;
    inlay_status status = target_dtype(infer, &to);

    if (status != INLAY_OK)
        return status;
    if (from != INLAY_UNDEFINED && inlay_dtype_bits(from) != inlay_dtype_bits(to))
        return infer_fail(infer, INLAY_INVALID_MODEL,
                          "%s and %s differ in width; the same bits can only be read as a "
                          "type of %u bits",
                          inlay_dtype_name(from), inlay_dtype_name(to), inlay_dtype_bits(from));
    infer_set_dtype(infer, 0, to);
    return infer_same_as_first(infer);
}

static const op_row onnx_cast_rows[] = {
    { "BitCast", 26, 0, "input:T1 -> output:T2; T1=@all_ir13-string, T2=@all_ir13-string; to:i!", infer_bit_cast },

    { "Cast", 1, 0, "input:T1 -> output:T2; T1=@numeric|bool, T2=@numeric|bool; to:s!", infer_cast },
    { "Cast", 6, 0, "input:T1 -> output:T2; T1=@numeric|bool, T2=@numeric|bool; to:i!", infer_cast },
    { "Cast", 9, 0, "input:T1 -> output:T2; T1=@all-@complex, T2=@all-@complex; to:i!", infer_cast },
    { "Cast", 13, 0, "input:T1 -> output:T2; T1=@all_ir4-@complex, T2=@all_ir4-@complex; to:i!", infer_cast },
    { "Cast", 19, 0, "input:T1 -> output:T2; T1=@all_ir9-@complex, T2=@all_ir9-@complex; saturate:i=1, to:i!",
      infer_cast },
    { "Cast", 21, 0, "input:T1 -> output:T2; T1=@all_ir10-@complex, T2=@all_ir10-@complex; saturate:i=1, to:i!",
      infer_cast },
    { "Cast", 23, 0, "input:T1 -> output:T2; T1=@all_ir11-@complex, T2=@all_ir11-@complex; saturate:i=1, to:i!",
      infer_cast },
    { "Cast", 24, 0,
      "input:T1 -> output:T2; T1=@all_ir12-@complex, T2=@all_ir12-@complex; round_mode:s='up', saturate:i=1, to:i!",
      infer_cast },
    { "Cast", 25, 0,
      "input:T1 -> output:T2; T1=@all_ir13-@complex, T2=@all_ir13-@complex; round_mode:s='up', saturate:i=1, to:i!",
      infer_cast },

    { "CastLike", 15, 0, "input:T1, target_type:T2 -> output:T2; T1=@all_ir4-@complex, T2=@all_ir4-@complex",
      infer_cast_like },
    { "CastLike", 19, 0,
      "input:T1, target_type:T2 -> output:T2; T1=@all_ir9-@complex, T2=@all_ir9-@complex; saturate:i=1",
      infer_cast_like },
    { "CastLike", 21, 0,
      "input:T1, target_type:T2 -> output:T2; T1=@all_ir10-@complex, T2=@all_ir10-@complex; saturate:i=1",
      infer_cast_like },
    { "CastLike", 23, 0,
      "input:T1, target_type:T2 -> output:T2; T1=@all_ir11-@complex, T2=@all_ir11-@complex; saturate:i=1",
      infer_cast_like },
    { "CastLike", 24, 0,
      "input:T1, target_type:T2 -> output:T2; T1=@all_ir12-@complex, T2=@all_ir12-@complex; round_mode:s='up', "
      "saturate:i=1",
      infer_cast_like },
    { "CastLike", 25, 0,
      "input:T1, target_type:T2 -> output:T2; T1=@all_ir13-@complex, T2=@all_ir13-@complex; round_mode:s='up', "
      "saturate:i=1",
      infer_cast_like },
};

const op_table op_onnx_cast = { "ai.onnx", onnx_cast_rows, OP_COUNT(onnx_cast_rows) };
