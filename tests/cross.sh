#!/bin/bash
# Cross-builds for arm64 with Debian's crossbuild-essential-arm64, and runs the result under qemu-user: the tests of
# kernels and operators, ONNX's test cases on each provider and each instruction level, and a real model. With
# --reproducible cpu ONNX's cases, random graphs, a model and proofs of runs have the same bits as in a build for this
# machine (build/release). Because an emulator cannot measure times, it then counts the instructions of kernels for each
# multiply-add (cross/count.py), and checks the machine code of the NEON kernels' inner loops (cross/loops.py). The last
# line is 'N passed, N failed'; the exit code is 0 only if nothing failed.
#
#   tests/cross.sh            builds in build/arm64
#   tests/cross.sh --build    builds only
#   tests/cross.sh --bits     builds what the comparison of bits needs, and only compares
#   tests/cross.sh --count    builds the kernels, and only counts instructions and checks the machine code
#
# Adds the architecture arm64 to dpkg and installs missing packages (group cross of packages.txt, and oneDNN's
# library), which needs root or sudo and the network.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
root=$PWD
build=$root/build/arm64
native=$root/build/release
libraries=/usr/lib/aarch64-linux-gnu
emulator=qemu-aarch64
. tests/cross/common.sh

as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
if ! dpkg --print-foreign-architectures | grep -qx arm64; then
    "${as_root[@]}" dpkg --add-architecture arm64 || exit 1
fi
sh tests/install.sh cross || exit 1
# oneDNN's headers are those of this machine, because their package can be installed for one architecture only.
dnnl=$(dpkg-query -W -f='${Depends}' libdnnl-dev | grep -oE '^libdnnl[0-9.]+'):arm64
if ! dpkg-query -W -f='${db:Status-Status}' "$dnnl" 2>/dev/null | grep -qx installed; then
    echo "installing: $dnnl"
    "${as_root[@]}" apt-get install -q -y --no-install-recommends "$dnnl" >/dev/null || exit 1
fi
dnnl_library=$(find $libraries -name 'libdnnl.so.[0-9]*' | sort | head -n 1)

compared='inlay_cli inlay_probe cpu reference test_exec_random_bits' # programs and plugins whose results are compared
targets=all
[ "${1:-}" != --bits ] || targets=$compared
[ "${1:-}" != --count ] || targets=count_kernels
build "$build" "$targets" --toolchain "$root/tests/cross/arm64.cmake" -DINLAY_TESTS=ON -DINLAY_SAMPLES=OFF \
    -DDNNL_INCLUDE_DIR=/usr/include -DDNNL_LIBRARY="$dnnl_library"
[ "${1:-}" != --build ] || exit 0
[ "${1:-}" = --count ] || build "$native" "$compared prepost" -DINLAY_TESTS=ON # bits.sh names prepost
[ "${1:-}" = --count ] || emulate

check_code() {
    local objects
    mapfile -t objects < <(find "$build/providers/simd" "$build/providers/cpu" "$build/providers/operators" -path '*neon*' -name '*.o')
    try 'instructions of kernels' count tests/cross/count.txt
    try 'code of kernels' python3 tests/cross/loops.py tests/cross/loops.txt "${objects[@]}"
}
if [ "${1:-}" = --count ]; then
    check_code
    cat "$build/count.md"
    finish
    exit
fi

data=/usr/share/libonnx-testdata/data
compare_bits() {
    for isa in neon_i8mm neon_dot baseline; do
        printf '#!/bin/sh\nINLAY_ISA=%s exec "%s" "$@"\n' $isa "$inlay" >"$inlay-$isa"
        chmod +x "$inlay-$isa"
        try "the bits of ONNX's cases, $isa" bash tests/conformance/bits.sh --other "$inlay-$isa" "$native/bin/inlay" \
            $data/{node,simple,pytorch-converted,pytorch-operator}
    done
    try 'the bits of random graphs' bash tests/exec/levels.sh "$native/bin/test_exec_random_bits" 2 \
        qemu-aarch64 "$build/bin/test_exec_random_bits"
    try 'proofs of runs' /usr/bin/python3 -B tests/lock/proof.py "$native/bin/inlay" 3 "$inlay"
    try 'the bits of models' /usr/bin/python3 tests/bench/same_bits.py --models squeezenet1_1,gpt2_tiny_kv --isa avx2 --threads 1 \
        --inlay "$native/bin/inlay" --emulated "$inlay"
}
if [ "${1:-}" = --bits ]; then
    compare_bits
    finish
    exit
fi
try 'conformance' bash tests/conformance/run.sh "$inlay" $data
for provider in cpu onednn openblas; do
    try "conformance of $provider" bash tests/conformance/run.sh "$inlay" $data --policy priority \
        --providers $provider,reference
done
for isa in neon_dot baseline; do # the emulator's CPU has all, so that the others ran with neon_i8mm
    try "conformance of cpu, $isa" bash tests/conformance/run.sh "$inlay" $data --policy priority \
        --providers cpu,reference --isa $isa
done
tests=0
while read -r name; do
    tests=$((tests + 1))
    try "test $name" ctest --test-dir "$build" -R "^$name\$" --output-on-failure --no-tests=error --timeout 1200
done < <(grep -v '^#' tests/cross/tests.txt)
[ $tests -gt 0 ] || failed=$((failed + 1))
compare_bits
try 'a model' bash tests/models/run.sh --inlay "$inlay" squeezenet1_1
check_code
finish
