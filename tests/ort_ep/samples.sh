#!/bin/bash
# Builds the three execution providers in ONNX Runtime's own tests, and runs what they support. ORT_SOURCES: a folder or an
# archive of its repository. They need the header gsl/span (libmsgsl-dev). Exit code 77: not available.
#   samples.sh INLAY SCRATCH TEST_DATA SESSIONS     SESSIONS: the program of sessions.c
set -uo pipefail
here=$(dirname "$(realpath -- "$0")")
inlay=$1 scratch=$2 data=$3/node sessions=$4

skip() {
    echo "skipped: $*"
    exit 77
}
fail() {
    echo "FAIL: $*"
    exit 1
}

[ -n "${ORT_SOURCES:-}" ] || skip "ORT_SOURCES does not name the sources of ONNX Runtime"
echo '#include <gsl/span>' | "${CXX:-c++}" -fsyntax-only -x c++ -std=c++17 - 2>/dev/null || skip "libmsgsl-dev is not installed"
sources=$ORT_SOURCES
if [ ! -d "$sources" ]; then
    sources=$scratch/sources
    [ -d "$sources" ] || { mkdir -p "$sources" && tar -C "$sources" -xf "$ORT_SOURCES"; } || fail "$ORT_SOURCES is no archive"
fi
samples=$sources/onnxruntime/test/autoep/library
[ -d "$samples" ] || skip "$ORT_SOURCES has no $samples"
mkdir -p "$scratch"
export XDG_CACHE_HOME=$scratch/cache

# $1: the sample; sets library
build() {
    library=$scratch/lib$1.so
    [ ! -e "$library" ] || return 0
    # shellcheck disable=SC2046 # one argument per file
    "${CXX:-c++}" -std=c++20 -O0 -fPIC -shared -w -I"$sources/include/onnxruntime/core/session" \
        -I"$sources/include/onnxruntime" -I"$samples" -o "$library" $(find "$samples/$1" -name '*.cc') ||
        fail "$1 does not build"
}

# Runs a test case of which the library has to run a node. $1: its folder
expect() {
    local out

    out=$("$inlay" test "$1" --providers ort_ep,reference --policy priority --require ort_ep \
        --option "ort_ep.library=$library" --option ort_ep.environment=allow_virtual_devices=1 2>&1) ||
        fail "$(basename "$library"): $1: $out"
    echo "ok $(basename "$library") $(basename "$1")"
}

# The results group of plugin-check has no failure. That the samples allocate in every run is a warning.
check() {
    local out

    out=$("$inlay" plugin-check --quick --no-timing --group results --ort-ep "$library" 2>&1) ||
        fail "$(basename "$library"): plugin-check: $(grep -A2 ^FAIL <<<"$out")"
    grep -q '^PASS  coverage' <<<"$out" || fail "$(basename "$library"): plugin-check: $out"
    echo "ok $(basename "$library") plugin-check --group results"
}

# 1,000 sessions need no more memory than 100.
flat() {
    local out

    out=$("$sessions" "$library" "$data/test_mul/model.onnx" allow_virtual_devices=1 1000) ||
        fail "$(basename "$library"): $out"
    echo "ok $(basename "$library") $out"
}

# The profile has the events of the library's profiler. $1: the operator of the model, $2: the name of the event
profile() {
    local out

    out=$("$inlay" profile "$data/$1/model.onnx" --providers ort_ep,reference --policy priority \
        --option "ort_ep.library=$library" 2>&1) || fail "$(basename "$library"): profile of $1: $out"
    grep -q "^$2  *ort_ep " <<<"$out" || fail "$(basename "$library"): $2 is not in the profile: $out"
    echo "ok $(basename "$library") profile of $1"
}

build example_plugin_ep
expect "$data/test_mul"
python3 "$here/custom_mul.py" "$scratch/custom_mul" || fail "custom_mul.py"
expect "$scratch/custom_mul"
check
flat
build example_plugin_ep_kernel_registry
for case in test_mul test_sub test_relu test_squeeze; do
    expect "$data/$case"
done
profile test_mul ExampleKernelEp_Mul
check
flat
# The device of this sample cannot compute: the message of its run comes from the sample itself.
build example_plugin_ep_virt_gpu
out=$("$inlay" test "$data/test_add" --providers ort_ep,reference --policy priority --require ort_ep \
    --option "ort_ep.library=$library" --option ort_ep.environment=allow_virtual_devices=1 2>&1) &&
    fail "the virtual GPU computes"
grep -q 'virtual GPU that cannot run ops' <<<"$out" || fail "the virtual GPU: $out"
echo "ok $(basename "$library") refuses to run test_add"
