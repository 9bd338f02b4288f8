/* ml/encode.c - encoding of labels and categories. */
#include "schema.h"

static const op_row rows[] = {
    { "CategoryMapper", 1, 0,
      "X:T1 -> Y:T2; T1=int64|string, T2=int64|string; cats_int64s:is, cats_strings:ss, default_int64:i=-1, "
      "default_string:s='_Unused'",
      NULL },

    { "LabelEncoder", 1, 0,
      "X:T1 -> Y:T2; T1=int64|string, T2=int64|string; classes_strings:ss, default_int64:i=-1, "
      "default_string:s='_Unused'",
      NULL },
    { "LabelEncoder", 2, 0,
      "X:T1 -> Y:T2; T1=int64|float|string, T2=int64|float|string; default_float:f=-0, default_int64:i=-1, "
      "default_string:s='_Unused', keys_floats:fs, keys_int64s:is, keys_strings:ss, values_floats:fs, "
      "values_int64s:is, values_strings:ss",
      NULL },
    { "LabelEncoder", 4, 0,
      "X:T1 -> Y:T2; T1=int16|int32|int64|float|double|string, T2=int16|int32|int64|float|double|string; "
      "default_float:f=-0, default_int64:i=-1, default_string:s='_Unused', default_tensor:t, keys_floats:fs, "
      "keys_int64s:is, keys_strings:ss, keys_tensor:t, values_floats:fs, values_int64s:is, values_strings:ss, "
      "values_tensor:t",
      NULL },

    { "OneHotEncoder", 1, 0,
      "X:T -> Y:float; T=int32|int64|float|double|string; cats_int64s:is, cats_strings:ss, zeros:i=1", NULL },
};

const op_table op_ml_encode = { "ai.onnx.ml", rows, OP_COUNT(rows) };
