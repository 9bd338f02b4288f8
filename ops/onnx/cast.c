/* onnx/cast.c - conversions of the element type. */
#include "schema.h"

static const op_row rows[] = {
    { "BitCast", 26, 0, "input:T1 -> output:T2; T1=@all_ir13-string, T2=@all_ir13-string; to:i!", NULL },

    { "Cast", 1, 0, "input:T1 -> output:T2; T1=@numeric|bool, T2=@numeric|bool; to:s!", NULL },
    { "Cast", 6, 0, "input:T1 -> output:T2; T1=@numeric|bool, T2=@numeric|bool; to:i!", NULL },
    { "Cast", 9, 0, "input:T1 -> output:T2; T1=@all-@complex, T2=@all-@complex; to:i!", NULL },
    { "Cast", 13, 0, "input:T1 -> output:T2; T1=@all_ir4-@complex, T2=@all_ir4-@complex; to:i!", NULL },
    { "Cast", 19, 0, "input:T1 -> output:T2; T1=@all_ir9-@complex, T2=@all_ir9-@complex; saturate:i=1, to:i!", NULL },
    { "Cast", 21, 0, "input:T1 -> output:T2; T1=@all_ir10-@complex, T2=@all_ir10-@complex; saturate:i=1, to:i!", NULL },
    { "Cast", 23, 0, "input:T1 -> output:T2; T1=@all_ir11-@complex, T2=@all_ir11-@complex; saturate:i=1, to:i!", NULL },
    { "Cast", 24, 0,
      "input:T1 -> output:T2; T1=@all_ir12-@complex, T2=@all_ir12-@complex; round_mode:s='up', saturate:i=1, to:i!",
      NULL },
    { "Cast", 25, 0,
      "input:T1 -> output:T2; T1=@all_ir13-@complex, T2=@all_ir13-@complex; round_mode:s='up', saturate:i=1, to:i!",
      NULL },

    { "CastLike", 15, 0, "input:T1, target_type:T2 -> output:T2; T1=@all_ir4-@complex, T2=@all_ir4-@complex", NULL },
    { "CastLike", 19, 0,
      "input:T1, target_type:T2 -> output:T2; T1=@all_ir9-@complex, T2=@all_ir9-@complex; saturate:i=1", NULL },
    { "CastLike", 21, 0,
      "input:T1, target_type:T2 -> output:T2; T1=@all_ir10-@complex, T2=@all_ir10-@complex; saturate:i=1", NULL },
    { "CastLike", 23, 0,
      "input:T1, target_type:T2 -> output:T2; T1=@all_ir11-@complex, T2=@all_ir11-@complex; saturate:i=1", NULL },
    { "CastLike", 24, 0,
      "input:T1, target_type:T2 -> output:T2; T1=@all_ir12-@complex, T2=@all_ir12-@complex; round_mode:s='up', "
      "saturate:i=1",
      NULL },
    { "CastLike", 25, 0,
      "input:T1, target_type:T2 -> output:T2; T1=@all_ir13-@complex, T2=@all_ir13-@complex; round_mode:s='up', "
      "saturate:i=1",
      NULL },
};

const op_table op_onnx_cast = { "ai.onnx", rows, OP_COUNT(rows) };
