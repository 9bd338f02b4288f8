# The defects of planted.c, planted_rows.c and planted_index.c, for the scripts that plant them.

# faults SOURCE   the names of the defects, in the order of their numbers; the first is NONE
faults() {
    sed -n '/^enum fault/,/^};/s/^    \([A-Z_0-9]*\),$/\1/p' "$1"
}

# operators PREFIX   the glob of the operators in which a defect with the prefix is, and that of the names of test cases
operators() {
    case $1 in
    CONV) echo 'Conv *[cC]onv*' ;;
    POOL) echo '*Pool *[pP]ool*' ;;
    GEMM) echo 'Gemm *gemm*' ;;
    SLICE) echo 'Slice *slice*' ;;
    RESIZE) echo 'Resize *resize*' ;;
    QUANTIZE) echo 'QuantizeLinear *quantizelinear*' ;;
    SOFTMAX) echo 'Softmax *[sS]oftmax*' ;;
    GATHER) echo 'Gather *gather*' ;;
    CONCAT) echo 'Concat *concat*' ;;
    NORM) echo 'LayerNormalization *layer_norm*' ;;
    REDUCE) echo 'Reduce* *reduce_*' ;;
    TRANSPOSE) echo 'Transpose *transpose*' ;;
    PAD) echo 'Pad *pad*' ;;
    WHERE) echo 'Where *where*' ;;
    CLIP) echo 'Clip *clip*' ;;
    EXPAND) echo 'Expand *expand*' ;;
    TILE) echo 'Tile *tile*' ;;
    SUM) echo 'CumSum *cumsum*' ;;
    DEPTH) echo 'DepthToSpace *depthtospace*' ;;
    MATMUL) echo 'MatMul *matmul*' ;;
    BATCH) echo 'BatchNormalization *[bB]atch*orm*' ;;
    DEQUANTIZE) echo 'DequantizeLinear *dequantizelinear*' ;;
    TOP) echo 'TopK *top_k*' ;;
    esac
}
