#!/bin/bash
# Cases of every skeleton under Vulkan's validation layer, which looks at every access to memory too and must have nothing
# to say; that it would is shown by an access beyond the end of a buffer, which PLANTED makes. Skipped where the layer is
# not installed.
#   validation.sh INLAY DATA PLANTED
set -u
inlay=$1
data=$2
planted=$3
export VK_LAYER_ENABLES=VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT
layer=VK_LAYER_KHRONOS_validation
if ! ls /usr/share/vulkan/explicit_layer.d/*validation*.json >/dev/null 2>&1; then
    echo "skipped: $layer is not installed (vulkan-validationlayers)"
    exit 77
fi
said=$(mktemp) || exit 1
trap 'rm -f "$said"' EXIT
failed=0
for floats in 0 64; do
    VK_INSTANCE_LAYERS=$layer "$planted" $floats >"$said" 2>&1 || { cat "$said"; exit 1; }
    seen=$(grep -c 'access out of bounds' "$said")
    if [ $((seen > 0)) != $((floats > 0)) ]; then
        echo "$floats floats beyond the end of a buffer: the layer saw $seen"
        failed=1
    fi
done
for match in 'test_relu' 'test_add*' 'test_conv_with*' 'test_matmul_*' 'test_gemm_all*' 'test_softmax_axis*' \
    'test_reduce_mean_*' 'test_argmax_*' 'test_maxpool_2d_*' 'test_transpose_*' 'test_concat_2d*' 'test_gather_*' \
    'test_resize_upsample_scales_linear' 'test_convtranspose_*' 'test_*_pad' 'test_cast_*' 'test_slice*'; do
    VK_INSTANCE_LAYERS=$layer VK_LOADER_DEBUG=layer "$inlay" test "$data/node" --match "$match" \
        --providers vulkan,reference --policy priority >"$said" 2>&1
    if ! grep -q "$layer" "$said"; then
        echo "$match: the layer was not loaded"; tail -2 "$said"
        exit 1
    fi
    if grep -qE 'VUID|Validation Error|UNASSIGNED|^FAIL' "$said"; then
        echo "$match:"
        grep -E 'VUID|Validation Error|UNASSIGNED|^FAIL' "$said" | head -5
        failed=1
    fi
done
exit $failed
