#!/bin/bash
# Runs cases of every shader under Vulkan's validation layer with checks of memory accesses and of the order of copies. The
# layer must report nothing, and each kind of case must run nodes on Vulkan. PLANTED makes two deliberate errors that the
# layer must report: an access beyond the end of a buffer, and two dependent copies without a barrier. The layer cannot
# check the order of accesses by address in shaders; test_plan.c checks the barriers between dispatches. Skipped if the
# layer is not installed.
#   validation.sh INLAY DATA PLANTED COVERAGE [COMMAND...]
# COMMAND, such as inlay test or inlay run --expect, runs instead of the cases, without the checks of memory accesses, which
# make shaders of tiles a hundred times slower. INLAY_OPTION=vulkan.fault=gpu:0 tests the shaders of GPUs.
set -u
inlay=$1
data=$2
planted=$3
coverage=$4
shift 4
layer=VK_LAYER_KHRONOS_validation
order=VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
accesses=VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT:$order
if ! ls /usr/share/vulkan/explicit_layer.d/*validation*.json >/dev/null 2>&1; then
    echo "skipped: $layer is not installed (vulkan-validationlayers)"
    exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
said=$work/said
failed=0
excused=$(sed -E '/^#/d; s/[[:space:]].*//' "$(dirname "$0")/../conformance/wrong_data.txt")
# WHAT: the file "$said" shows that the layer was loaded, and nothing that it reports.
check_said() {
    if ! grep -q "$layer" "$said"; then
        echo "$1: the layer was not loaded"; tail -2 "$said"
        exit 1
    fi
    if grep -vwF "$excused" "$said" | grep -E 'VUID|Validation Error|UNASSIGNED|SYNC-HAZARD|^FAIL' >"$said.bad"; then
        echo "$1:"
        head -5 "$said.bad"
        failed=1
    fi
}
# KIND NUMBER PATTERN COUNT (0: no report; +: one or more, because releases of the layer report once or for each access)
while read -r kind number says wanted; do
    if ! VK_LAYER_ENABLES=$accesses VK_INSTANCE_LAYERS=$layer "$planted" "$kind" "$number" >"$said" 2>&1; then
        cat "$said"
        exit 1
    fi
    # A report is one line, or several in newer releases of the layer.
    seen=$(grep -A 1 'Validation Error' "$said" | grep -ci "$says")
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
if [ $# -gt 0 ]; then
    VK_LAYER_ENABLES=$order VK_INSTANCE_LAYERS=$layer VK_LOADER_DEBUG=layer "$@" >"$said" 2>&1 ||
        grep -q '^FAIL' "$said" || { # check_said() reads which cases of inlay test failed
            echo "$1 failed"; tail -5 "$said"
            failed=1
        }
    check_said "$1"
    exit $failed
fi
# The layer's checks of memory accesses change results of Mesa's CPU driver, so that the provider's self-test would refuse
# the device. It runs without the layer, and the cases use its verdict.
export INLAY_CACHE_DIR=$work/cache
"$coverage" "$data" 1 test_relu >/dev/null || exit 1
for match in 'test_relu' 'test_add*' 'test_conv_with*' 'test_matmul_*' 'test_gemm_all*' 'test_softmax_axis*' \
    'test_reduce_mean_*' 'test_argmax_*' 'test_maxpool_2d_*' 'test_transpose_*' 'test_concat_2d*' 'test_gather_*' \
    'test_resize_upsample_scales_linear' 'test_convtranspose_*' 'test_*_pad' 'test_cast_[BDF]*_to_[BDF]*' 'test_slice*' \
    'test_*integer*' 'test_qlinear*'; do
    case $match in
    *integer* | test_qlinear*) checks=$order ;; # shaders of tiles
    *) checks=$accesses ;;
    esac
    export VK_LAYER_ENABLES=$checks
    VK_INSTANCE_LAYERS=$layer VK_LOADER_DEBUG=layer "$inlay" test "$data/node" --match "$match" \
        --providers vulkan,reference --policy priority >"$said" 2>&1
    check_said "$match"
    if ! VK_INSTANCE_LAYERS=$layer "$coverage" "$data" 1 "$match" >"$said.count" 2>&1; then
        echo "$match: no case runs a node on Vulkan"; tail -2 "$said.count"
        failed=1
    fi
done
exit $failed
