/* microsoft/quantized.c - contributed operators of ONNX Runtime that its static quantization writes
 * ("ContribOperators.md" of that project): functions of 8-bit integers, each with a scale and a zero point. The
 * optimiser expands them to operators of ONNX (quantized_functions), and the shapes follow from these. */
#include "schema.h"
#include "inlay/check.h"

#define BYTES "T=uint8|int8"
#define ONE "X:T, X_scale:float, X_zero_point?:T, Y_scale:float, Y_zero_point?:T -> Y:T; " BYTES
#define TWO                                                                                                            \
    "A:T, A_scale:float, A_zero_point?:T, B:T, B_scale:float, B_zero_point?:T, C_scale:float, C_zero_point?:T "        \
    "-> C:T; " BYTES

/* The broadcast shape of both operands. */
static inlay_status infer_two(op_infer *infer)
{
    inlay_dim dims[INLAY_MAX_RANK];
    const uint32_t a = infer_rank(infer, 0), b = infer_rank(infer, 3), rank = a > b ? a : b;

    if (a == INLAY_RANK_UNKNOWN || b == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    INLAY_CHECK(rank <= INLAY_MAX_RANK);
    for (uint32_t d = 0; d < rank; d++) {
        const inlay_dim left = d + a < rank ? dim_fixed(1) : infer_dim(infer, 0, d + a - rank);
        const inlay_dim right = d + b < rank ? dim_fixed(1) : infer_dim(infer, 3, d + b - rank);

        if (left.kind != INLAY_DIM_FIXED || right.kind != INLAY_DIM_FIXED)
            return INLAY_OK;
        if (left.value != right.value && left.value != 1 && right.value != 1)
            return infer_fail(infer, INLAY_SHAPE_MISMATCH, "inputs 0 and 3 have %lld and %lld elements along axis %u",
                              (long long)left.value, (long long)right.value, d);
        dims[d] = left.value == 1 ? right : left;
    }
    return infer_set_shape(infer, 0, rank, dims);
}

static const op_row microsoft_quantized_rows[] = {
    { "QGemm", 1, 0,
      "A:TA, a_scale:float, a_zero_point:TA, B:TB, b_scale:float, b_zero_point:TB, C?:int32, y_scale?:float, "
      "y_zero_point?:TA -> Y:TY; TA=uint8|int8, TB=uint8|int8, TY=float|uint8|int8; alpha:f=1, transA:i=0, transB:i=0",
      NULL },
    { "QLinearAdd", 1, 0, TWO, infer_two },
    { "QLinearAveragePool", 1, 0,
      ONE "; auto_pad:s='NOTSET'{'NOTSET'|'SAME_UPPER'|'SAME_LOWER'|'VALID'}, ceil_mode:i=0, channels_last:i=0, "
          "count_include_pad:i=0, kernel_shape:is!, pads:is, "
          "strides:is",
      NULL },
    { "QLinearConcat", 1, 0,
      "Y_scale:float, Y_zero_point:T, inputs%3:TV -> Y:T; " BYTES ", TV=uint8|int8|float; axis:i!", NULL },
    { "QLinearGlobalAveragePool", 1, 0, ONE "; channels_last:i=0", NULL },
    { "QLinearLeakyRelu", 1, 0, ONE "; alpha:f=0.01", infer_same_as_first },
    { "QLinearMul", 1, 0, TWO, infer_two },
    { "QLinearReduceMean", 1, 0, ONE "; axes:is!, keepdims:i!", NULL },
    { "QLinearSigmoid", 1, 0, ONE, infer_same_as_first },
    { "QLinearSoftmax", 1, 0, ONE "; axis:i=-1, opset:i!", infer_same_as_first },
    { "QLinearWhere", 1, 0,
      "condition:bool, X:T, x_scale:float, x_zero_point:T, Y:T, y_scale:float, y_zero_point:T, z_scale:float, "
      "z_zero_point:T -> Z:T; " BYTES,
      NULL },
};

const op_table op_microsoft_quantized = { "com.microsoft", microsoft_quantized_rows,
                                          OP_COUNT(microsoft_quantized_rows) };
