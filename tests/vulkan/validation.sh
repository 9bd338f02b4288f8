#!/bin/bash
# Cases of every skeleton under Vulkan's validation layer, which must have nothing to say. Skipped where the layer is not
# installed.
#   validation.sh INLAY DATA
set -u
inlay=$1
data=$2
layer=VK_LAYER_KHRONOS_validation
if ! ls /usr/share/vulkan/explicit_layer.d/*validation*.json >/dev/null 2>&1; then
    echo "skipped: $layer is not installed (vulkan-validationlayers)"
    exit 77
fi
said=$(mktemp) || exit 1
trap 'rm -f "$said"' EXIT
failed=0
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
