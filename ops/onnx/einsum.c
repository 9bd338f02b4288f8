/* onnx/einsum.c - Einstein summation. */
#include "schema.h"

static const op_row rows[] = {
    { "Einsum", 12, 0, "Inputs*:T -> Output:T; T=@numeric; equation:s!", NULL },
};

const op_table op_onnx_einsum = { "ai.onnx", rows, OP_COUNT(rows) };
