/* ml/encode.c - encoding of labels and categories. */
#include "ml.h"

/* Integers become strings and strings integers. */
static inlay_status infer_category_mapper(op_infer *infer)
{
    if (infer_has_in(infer, 0) && infer->in[0]->dtype != INLAY_UNDEFINED)
        infer_set_dtype(infer, 0, infer->in[0]->dtype == INLAY_STRING ? INLAY_INT64 : INLAY_STRING);
    return infer_same_as_first(infer);
}

/* LabelEncoder-2 and -4: the values_* attribute of the node determines the type. */
static inlay_status infer_label_encoder(op_infer *infer)
{
    const inlay_attr_info *tensor = infer_attr(infer, "values_tensor");

    if (infer->node->since_version < 2)
        return infer_category_mapper(infer);
    if (tensor != NULL && tensor->kind == INLAY_ATTR_TENSOR && tensor->tensor != NULL)
        infer_set_dtype(infer, 0, tensor->tensor->dtype);
    else if (infer_attr(infer, "values_strings") != NULL)
        infer_set_dtype(infer, 0, INLAY_STRING);
    else if (infer_attr(infer, "values_int64s") != NULL)
        infer_set_dtype(infer, 0, INLAY_INT64);
    else if (infer_attr(infer, "values_floats") != NULL)
        infer_set_dtype(infer, 0, INLAY_FLOAT);
    return infer_same_as_first(infer);
}

/* The output has an additional axis, the categories. */
static inlay_status infer_one_hot_encoder(op_infer *infer)
{
    uint32_t rank = infer_rank(infer, 0), strings = ml_length(infer, "cats_strings");
    inlay_dim dims[INLAY_MAX_RANK + 1];

    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = infer_dim(infer, 0, d);
    dims[rank] = dim_fixed(strings > 0 ? strings : ml_length(infer, "cats_int64s"));
    return infer_set_shape(infer, 0, rank + 1, dims);
}

static const op_row ml_encode_rows[] = {
    { "CategoryMapper", 1, 0,
      "X:T1 -> Y:T2; T1=int64|string, T2=int64|string; cats_int64s:is, cats_strings:ss, default_int64:i=-1, "
      "default_string:s='_Unused'",
      infer_category_mapper },

    { "LabelEncoder", 1, 0,
      "X:T1 -> Y:T2; T1=int64|string, T2=int64|string; classes_strings:ss, default_int64:i=-1, "
      "default_string:s='_Unused'",
      infer_label_encoder },
    { "LabelEncoder", 2, 0,
      "X:T1 -> Y:T2; T1=int64|float|string, T2=int64|float|string; default_float:f=-0, default_int64:i=-1, "
      "default_string:s='_Unused', keys_floats:fs, keys_int64s:is, keys_strings:ss, values_floats:fs, "
      "values_int64s:is, values_strings:ss",
      infer_label_encoder },
    { "LabelEncoder", 4, 0,
      "X:T1 -> Y:T2; T1=int16|int32|int64|float|double|string, T2=int16|int32|int64|float|double|string; "
      "default_float:f=-0, default_int64:i=-1, default_string:s='_Unused', default_tensor:t, keys_floats:fs, "
      "keys_int64s:is, keys_strings:ss, keys_tensor:t, values_floats:fs, values_int64s:is, values_strings:ss, "
      "values_tensor:t",
      infer_label_encoder },

    { "OneHotEncoder", 1, 0,
      "X:T -> Y:float; T=int32|int64|float|double|string; cats_int64s:is, cats_strings:ss, zeros:i=1",
      infer_one_hot_encoder },
};

const op_table op_ml_encode = { "ai.onnx.ml", ml_encode_rows, OP_COUNT(ml_encode_rows) };
