/* onnx/optional.c - optional values; run by the host. */
#include "schema.h"

static const op_row onnx_optional_rows[] = {
    { "Optional", 15, OP_HOST, "input?:V -> output:O; V=@all|seq(@all), O=optional(@all)|optional(seq(@all)); type:tp",
      infer_same_as_first },
    { "OptionalGetElement", 15, OP_HOST, "input:O -> output:V; O=optional(@all)|optional(seq(@all)), V=@all|seq(@all)",
      infer_same_as_first },
    { "OptionalGetElement", 18, OP_HOST,
      "input:O -> output:V; O=@all|seq(@all)|optional(@all)|optional(seq(@all)), V=@all|seq(@all)",
      infer_same_as_first },
    { "OptionalHasElement", 15, OP_HOST, "input:O -> output:B; O=optional(@all)|optional(seq(@all)), B=bool",
      infer_scalar },
    { "OptionalHasElement", 18, OP_HOST,
      "input?:O -> output:B; O=@all|seq(@all)|optional(@all)|optional(seq(@all)), B=bool", infer_scalar },
};

const op_table op_onnx_optional = { "ai.onnx", onnx_optional_rows, OP_COUNT(onnx_optional_rows) };
