/* onnx/constant.c - constants. */
#include "schema.h"

static const op_row rows[] = {
    { "Constant", 1, 0, "-> output:T; T=@float; value:t!", NULL },
    { "Constant", 9, 0, "-> output:T; T=@all; value:t!", NULL },
    { "Constant", 11, 0, "-> output:T; T=@all; sparse_value:sp, value:t", NULL },
    { "Constant", 12, 0,
      "-> output:T; T=@all; sparse_value:sp, value:t, value_float:f, value_floats:fs, value_int:i, value_ints:is, "
      "value_string:s, value_strings:ss",
      NULL },
    { "Constant", 13, 0,
      "-> output:T; T=@all_ir4; sparse_value:sp, value:t, value_float:f, value_floats:fs, value_int:i, value_ints:is, "
      "value_string:s, value_strings:ss",
      NULL },
    { "Constant", 19, 0,
      "-> output:T; T=@all_ir9; sparse_value:sp, value:t, value_float:f, value_floats:fs, value_int:i, value_ints:is, "
      "value_string:s, value_strings:ss",
      NULL },
    { "Constant", 21, 0,
      "-> output:T; T=@all_ir10; sparse_value:sp, value:t, value_float:f, value_floats:fs, value_int:i, "
      "value_ints:is, value_string:s, value_strings:ss",
      NULL },
    { "Constant", 23, 0,
      "-> output:T; T=@all_ir11; sparse_value:sp, value:t, value_float:f, value_floats:fs, value_int:i, "
      "value_ints:is, value_string:s, value_strings:ss",
      NULL },
    { "Constant", 24, 0,
      "-> output:T; T=@all_ir12; sparse_value:sp, value:t, value_float:f, value_floats:fs, value_int:i, "
      "value_ints:is, value_string:s, value_strings:ss",
      NULL },
    { "Constant", 25, 0,
      "-> output:T; T=@all_ir13; sparse_value:sp, value:t, value_float:f, value_floats:fs, value_int:i, "
      "value_ints:is, value_string:s, value_strings:ss",
      NULL },

    { "ConstantOfShape", 9, 0, "input:T1 -> output:T2; T1=int64, T2=@numeric|bool; value:t", NULL },
    { "ConstantOfShape", 20, 0, "input:T1 -> output:T2; T1=int64, T2=@numeric_ir4|@float8|bool; value:t", NULL },
    { "ConstantOfShape", 21, 0, "input:T1 -> output:T2; T1=int64, T2=@numeric_ir4|@float8|bool|uint4|int4; value:t",
      NULL },
    { "ConstantOfShape", 23, 0, "input:T1 -> output:T2; T1=int64, T2=@all_ir11-@complex-string; value:t", NULL },
    { "ConstantOfShape", 24, 0, "input:T1 -> output:T2; T1=int64, T2=@all_ir12-@complex-string; value:t", NULL },
    { "ConstantOfShape", 25, 0, "input:T1 -> output:T2; T1=int64, T2=@all_ir13-@complex-string; value:t", NULL },
};

const op_table op_onnx_constant = { "ai.onnx", rows, OP_COUNT(rows) };
