/* onnx/identity.c - Identity. */
#include "schema.h"

static inlay_status infer_identity(op_infer *infer)
{
    inlay_status status = infer_same_as_first(infer);

    return status == INLAY_OK ? infer_same_elements(infer) : status;
}

static const op_row onnx_identity_rows[] = {
    { "Identity", 1, 0, "input:T -> output:T; T=@all", infer_identity },
    { "Identity", 13, 0, "input:T -> output:T; T=@all_ir4", infer_identity },
    { "Identity", 14, 0, "input:V -> output:V; V=@all_ir4|seq(@all)", infer_identity },
    { "Identity", 16, 0, "input:V -> output:V; V=@all_ir4|seq(@all)|optional(@all)|optional(seq(@all))",
      infer_identity },
    { "Identity", 19, 0, "input:V -> output:V; V=@all_ir9|seq(@all)|optional(@all)|optional(seq(@all))",
      infer_identity },
    { "Identity", 21, 0, "input:V -> output:V; V=@all_ir10|seq(@all)|optional(@all)|optional(seq(@all))",
      infer_identity },
    { "Identity", 23, 0, "input:V -> output:V; V=@all_ir11|seq(@all)|optional(@all)|optional(seq(@all))",
      infer_identity },
    { "Identity", 24, 0, "input:V -> output:V; V=@all_ir12|seq(@all)|optional(@all)|optional(seq(@all))",
      infer_identity },
    { "Identity", 25, 0, "input:V -> output:V; V=@all_ir13|seq(@all)|optional(@all)|optional(seq(@all))",
      infer_identity },
};

const op_table op_onnx_identity = { "ai.onnx", onnx_identity_rows, OP_COUNT(onnx_identity_rows) };
