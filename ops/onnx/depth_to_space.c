/* onnx/depth_to_space.c - moves between channels and spatial blocks. */
#include "schema.h"

static const op_row rows[] = {
    { "DepthToSpace", 1, 0, "input:T -> output:T; T=@all; blocksize:i!", NULL },
    { "DepthToSpace", 11, 0, "input:T -> output:T; T=@all; blocksize:i!, mode:s='DCR'", NULL },
    { "DepthToSpace", 13, 0, "input:T -> output:T; T=@all_ir4; blocksize:i!, mode:s='DCR'", NULL },
    { "SpaceToDepth", 1, 0, "input:T -> output:T; T=@all; blocksize:i!", NULL },
    { "SpaceToDepth", 13, 0, "input:T -> output:T; T=@all_ir4; blocksize:i!", NULL },
};

const op_table op_onnx_depth_to_space = { "ai.onnx", rows, OP_COUNT(rows) };
