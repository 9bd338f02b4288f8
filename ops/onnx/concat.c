/* onnx/concat.c - concatenation along an axis. */
#include "schema.h"

static const op_row rows[] = {
    { "Concat", 1, 0, "inputs*:T -> concat_result:T; T=@float; axis:i", NULL },
    { "Concat", 4, 0, "inputs*:T -> concat_result:T; T=@all; axis:i!", NULL },
    { "Concat", 11, 0, "inputs*:T -> concat_result:T; T=@all; axis:i!", NULL },
    { "Concat", 13, 0, "inputs*:T -> concat_result:T; T=@all_ir4; axis:i!", NULL },
};

const op_table op_onnx_concat = { "ai.onnx", rows, OP_COUNT(rows) };
