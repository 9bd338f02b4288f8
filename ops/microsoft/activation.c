/* microsoft/activation.c - contributed operators of ONNX Runtime on one tensor, or on a tensor and a bias. The
 * optimiser expands them to operators of ONNX. */
#include "schema.h"

static const op_row microsoft_activation_rows[] = {
    { "BiasGelu", 1, 0, "A:T, B:T -> C:T; T=@float_ir4", infer_same_as_first },
    { "FastGelu", 1, 0, "X:T, bias?:T -> Y:T; T=@float_ir4", infer_same_as_first },
    { "Gelu", 1, 0, "X:T -> Y:T; T=@float_ir4", infer_same_as_first },
    { "QuickGelu", 1, 0, "X:T -> Y:T; T=@float_ir4; alpha:f=1.702", infer_same_as_first },
    { "Trilu", 1, 0,
      "X:T, k?:int64 -> Y:T; T=float16|float|double|bfloat16|uint8|uint16|uint32|uint64|int8|int16|int32|int64|bool; "
      "upper:i=1",
      infer_same_as_first },
};

const op_table op_microsoft_activation = { "com.microsoft", microsoft_activation_rows,
                                           OP_COUNT(microsoft_activation_rows) };
