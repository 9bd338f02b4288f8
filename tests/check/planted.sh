#!/bin/bash
# Tests that `inlay plugin-check --quick` finds the planted defects of a plugin, at least 95 of 100, and nothing in its
# kernels without a defect.
#   planted.sh INLAY PLUGIN SOURCE   the executable; planted.so, planted_rows.so or planted_index.so; its source, for
#                                    the names of the defects
set -u
inlay=$1 plugin=$2 source=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tried=0 missed=0 failed=0

check() {
    "$inlay" plugin-check "$plugin" --quick --no-timing --group random "$@" >"$work/out" 2>"$work/err" </dev/null
}

# plants GLOB NUMBER NAME [FLAG...]   the defect must be found in an operator that matches GLOB
plants() {
    local op=$1 fault=$2 name=$3
    shift 3
    tried=$((tried + 1))
    check --op "$op" --option "fault=$fault" "$@"
    [ $? -eq 1 ] || { missed=$((missed + 1)); echo "missed: $name $*"; tail -n 3 "$work/out"; }
}

sound() {
    check "$@" || { failed=1; grep -A2 '^FAIL' "$work/out"; cat "$work/err"; }
}

sound
! grep -q '^    CONV_' "$source" || sound --option narrow=1
fault=0
for name in $(sed -n '/^enum fault/,/^};/s/^    \([A-Z_0-9]*\),$/\1/p' "$source"); do
    case $name in
    NONE) continue ;;
    esac
    fault=$((fault + 1))
    case $name in
    CONV_*) plants Conv $fault "$name" ;;
    POOL_*) plants '*Pool' $fault "$name" ;;
    GEMM_*) plants Gemm $fault "$name" ;;
    SLICE_*) plants Slice $fault "$name" ;;
    RESIZE_*) plants Resize $fault "$name" ;;
    QUANTIZE_*) plants QuantizeLinear $fault "$name" ;;
    SOFTMAX_*) plants Softmax $fault "$name" ;;
    GATHER_*) plants Gather $fault "$name" ;;
    CONCAT_*) plants Concat $fault "$name" ;;
    NORM_*) plants LayerNormalization $fault "$name" ;;
    REDUCE_*) plants 'Reduce*' $fault "$name" ;;
    TRANSPOSE_*) plants Transpose $fault "$name" ;;
    PAD_*) plants Pad $fault "$name" ;;
    WHERE_*) plants Where $fault "$name" ;;
    CLIP_*) plants Clip $fault "$name" ;;
    EXPAND_*) plants Expand $fault "$name" ;;
    TILE_*) plants Tile $fault "$name" ;;
    SUM_*) plants CumSum $fault "$name" ;;
    DEPTH_*) plants DepthToSpace $fault "$name" ;;
    MATMUL_*) plants MatMul $fault "$name" ;;
    BATCH_*) plants BatchNormalization $fault "$name" ;;
    DEQUANTIZE_*) plants DequantizeLinear $fault "$name" ;;
    TOP_*) plants TopK $fault "$name" ;;
    esac
    case $name in
    CONV_STRIDES | CONV_PADS | CONV_GROUP | CONV_BIAS | CONV_BATCH | CONV_NAN)
        plants Conv $fault "$name" --option narrow=1 ;;
    esac
done
echo "$tried planted, $missed missed"
[ $failed -eq 0 ] && [ $tried -gt 25 ] && [ $((100 * missed)) -le $((5 * tried)) ]
