/* microsoft/products.c - contributed operators of ONNX Runtime for matrix multiplication and convolution. The optimiser
 * expands them to operators of ONNX, and the shapes follow from these. */
#include "schema.h"

#define GEMM "alpha:f=1, transA:i=0, transB:i=0"
#define AUTO_PAD "auto_pad:s='NOTSET'{'NOTSET'|'SAME_UPPER'|'SAME_LOWER'|'VALID'}, "
#define CONV AUTO_PAD "dilations:is, group:i=1, kernel_shape:is, pads:is, strides:is"
#define FUSED "activation:s{''|'Clip'|'HardSigmoid'|'LeakyRelu'|'Relu'|'Sigmoid'|'Tanh'}, activation_params:fs"

/* The bias has an element for each column of B. The output follows from the operators of ONNX. */
static inlay_status infer_biased_product(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 1);

    return rank == INLAY_RANK_UNKNOWN || rank == 0
               ? INLAY_OK
               : infer_check_count(infer, infer->node->op_type.data[0] == 'D' ? 4 : 6, infer_dim(infer, 1, rank - 1));
}

static const op_row microsoft_products_rows[] = {
    { "CDist", 1, 0,
      "A:T, B:T -> C:T; T=float|double; metric:s='sqeuclidean'{'sqeuclidean'|'euclidean'|'cityblock'|'manhattan'|"
      "'chebyshev'|'minkowski'|'cosine'}, p:i",
      NULL },
    { "ConvTransposeWithDynamicPads", 1, 0,
      "X:T, W:T, Pads?:int64, B?:T -> Y:T; T=@float; auto_pad:s='NOTSET'{'NOTSET'}, dilations:is, group:i=1, "
      "kernel_shape:is, "
      "output_padding:is, strides:is",
      NULL },
    { "DynamicQuantizeLSTM", 1, 0,
      "X:T, W:T2, R:T2, B?:T, sequence_lens?:T1, initial_h?:T, initial_c?:T, P?:T, W_scale:T, W_zero_point:T2, "
      "R_scale:T, R_zero_point:T2 -> Y?:T, Y_h?:T, Y_c?:T; T=float, T1=int32, T2=int8|uint8; activation_alpha:fs, "
      "activation_beta:fs, activations:ss, clip:f, direction:s='forward'{'forward'|'reverse'|'bidirectional'}, "
      "hidden_size:i, input_forget:i=0",
      NULL },
    { "DynamicQuantizeMatMul", 1, 0,
      "A:T1, B:T2, b_scale:T1, b_zero_point?:T2, bias?:T1 -> Y:T1; T1=float, T2=int8|uint8", infer_biased_product },
    { "FusedConv", 1, 0, "X:T, W:T, B?:T, Z?:T -> Y:T; T=@float; " CONV ", " FUSED, NULL },
    { "FusedGemm", 1, 0,
      "A:T, B:T, C?:T -> Y:T; T=float16|float|double|uint32|uint64|int32|int64; " GEMM ", beta:f=1, "
      "activation:s{''|'Celu'|'Elu'|'HardSigmoid'|'LeakyRelu'|'ParametricSoftplus'|'Relu'|'ScaledTanh'|'Selu'|"
      "'Sigmoid'|'Softplus'|'Softsign'|'Tanh'|'ThresholdedRelu'}, activation_alpha:f, activation_beta:f, "
      "activation_gamma:f",
      NULL },
    { "FusedMatMul", 1, 0, "A:T, B:T -> Y:T; T=@float_ir4; " GEMM ", transBatchA:i=0, transBatchB:i=0", NULL },
    { "MatMulInteger16", 1, 0, "A:T, B:T -> Y:int32; T=int16", NULL },
    { "MatMulIntegerToFloat", 1, 0,
      "A:T1, B:T2, a_scale:T3, b_scale:T3, a_zero_point?:T1, b_zero_point?:T2, bias?:T3 -> Y:T3; T1=int8|uint8, "
      "T2=int8|uint8, T3=float|float16",
      infer_biased_product },
    { "NhwcFusedConv", 1, 0, "X:T, W:T, B?:T, Z?:T -> Y:T; T=@float; " CONV ", " FUSED, NULL },
    { "NhwcMaxPool", 1, 0,
      "x:T -> y:T; T=int8|uint8; " AUTO_PAD "ceil_mode:i=0, dilations:is, kernel_shape:is!, pads:is, "
      "strides:is",
      NULL },
    { "QLinearConv", 1, 0,
      "x:T1, x_scale:float, x_zero_point:T1, w:T2, w_scale:float, w_zero_point:T2, y_scale:float, y_zero_point:T3, "
      "B?:T4 -> y:T3; T1=int8|uint8, T2=int8|uint8, T3=int8|uint8, T4=int32; " CONV ", channels_last:i=0",
      NULL },
    { "SparseToDenseMatMul", 1, 0,
      "A:T, B:T1 -> Y:T1; T=float|double|int64|int32|uint64|uint32, T1=float|double|int64|int32|uint64|uint32; " GEMM,
      NULL },
    { "TransposeMatMul", 1, 0, "A:T, B:T -> Y:T; T=@float_ir4; " GEMM, NULL },
};

const op_table op_microsoft_products = { "com.microsoft", microsoft_products_rows, OP_COUNT(microsoft_products_rows) };
