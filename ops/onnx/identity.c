/* onnx/identity.c - Identity. */
#include "schema.h"

static const op_row rows[] = {
    { "Identity", 1, 0, "input:T -> output:T; T=@all", NULL },
    { "Identity", 13, 0, "input:T -> output:T; T=@all_ir4", NULL },
    { "Identity", 14, 0, "input:V -> output:V; V=@all_ir4|seq(@all)", NULL },
    { "Identity", 16, 0, "input:V -> output:V; V=@all_ir4|seq(@all)|optional(@all)|optional(seq(@all))", NULL },
    { "Identity", 19, 0, "input:V -> output:V; V=@all_ir9|seq(@all)|optional(@all)|optional(seq(@all))", NULL },
    { "Identity", 21, 0, "input:V -> output:V; V=@all_ir10|seq(@all)|optional(@all)|optional(seq(@all))", NULL },
    { "Identity", 23, 0, "input:V -> output:V; V=@all_ir11|seq(@all)|optional(@all)|optional(seq(@all))", NULL },
    { "Identity", 24, 0, "input:V -> output:V; V=@all_ir12|seq(@all)|optional(@all)|optional(seq(@all))", NULL },
    { "Identity", 25, 0, "input:V -> output:V; V=@all_ir13|seq(@all)|optional(@all)|optional(seq(@all))", NULL },
};

const op_table op_onnx_identity = { "ai.onnx", rows, OP_COUNT(rows) };
