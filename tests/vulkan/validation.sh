#!/bin/bash
# Runs cases of every shader under Vulkan's validation layer with checks of memory accesses and of the order of copies. The
# layer must report nothing, and each kind of case must run nodes on Vulkan. PLANTED makes two deliberate errors that the
# layer must report: an access beyond the end of a buffer, and two dependent copies without a barrier. The layer cannot
# check the order of accesses by address in shaders; test_plan.c checks the barriers between dispatches. Skipped if the
# layer is not installed.
#   validation.sh INLAY DATA PLANTED COVERAGE
set -u
inlay=$1
data=$2
planted=$3
coverage=$4
export VK_LAYER_ENABLES=VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT:VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
layer=VK_LAYER_KHRONOS_validation
if ! ls /usr/share/vulkan/explicit_layer.d/*validation*.json >/dev/null 2>&1; then
    echo "skipped: $layer is not installed (vulkan-validationlayers)"
    exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
said=$work/said
failed=0
excused=$(sed -E '/^#/d; s/[[:space:]].*//' "$(dirname "$0")/../conformance/wrong_data.txt")
# KIND NUMBER PATTERN COUNT (0: no report; +: one or more, because releases of the layer report once or for each access)
while read -r kind number says wanted; do
    VK_INSTANCE_LAYERS=$layer "$planted" "$kind" "$number" >"$said" 2>&1 || { cat "$said"; exit 1; }
    seen=$(grep -c "Validation Error.*$says" "$said")
    if { [ "$wanted" = 0 ] && [ "$seen" != 0 ]; } || { [ "$wanted" = + ] && [ "$seen" = 0 ]; }; then
        echo "planted $kind $number: the layer reported $says $seen times"
        failed=1
    fi
done <<'END'
beyond 0 . 0
beyond 64 out.of.bounds +
race 0 SYNC-HAZARD-READ-AFTER-WRITE +
race 1 . 0
END
# The layer's checks of memory accesses change results of Mesa's CPU driver, so that the provider's self-test would refuse
# the device. It runs without the layer, and the cases use its verdict.
export INLAY_CACHE_DIR=$work/cache
"$coverage" "$data" 1 test_relu >/dev/null || exit 1
for match in 'test_relu' 'test_add*' 'test_conv_with*' 'test_matmul_*' 'test_gemm_all*' 'test_softmax_axis*' \
    'test_reduce_mean_*' 'test_argmax_*' 'test_maxpool_2d_*' 'test_transpose_*' 'test_concat_2d*' 'test_gather_*' \
    'test_resize_upsample_scales_linear' 'test_convtranspose_*' 'test_*_pad' 'test_cast_[BDF]*_to_[BDF]*' 'test_slice*'; do
    VK_INSTANCE_LAYERS=$layer VK_LOADER_DEBUG=layer "$inlay" test "$data/node" --match "$match" \
        --providers vulkan,reference --policy priority >"$said" 2>&1
    if ! grep -q "$layer" "$said"; then
        echo "$match: the layer was not loaded"; tail -2 "$said"
        exit 1
    fi
    if ! VK_INSTANCE_LAYERS=$layer "$coverage" "$data" 1 "$match" >"$said.count" 2>&1; then
        echo "$match: no case runs a node on Vulkan"; tail -2 "$said.count"
        failed=1
    fi
    if grep -vwF "$excused" "$said" | grep -E 'VUID|Validation Error|UNASSIGNED|SYNC-HAZARD|^FAIL' >"$said.bad"; then
        echo "$match:"
        head -5 "$said.bad"
        failed=1
    fi
done
exit $failed
