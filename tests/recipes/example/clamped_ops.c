/* inlay/clamped.c - x where it is positive, else 0. An example: see tests/recipes. */
#include "schema.h"

static const op_row rows[] = {
    { "Clamped", 1, 0, "X:T -> Y:T; T=float", infer_same_as_first },
};

const op_table op_inlay_clamped = { "ai.inlay", rows, OP_COUNT(rows) };
