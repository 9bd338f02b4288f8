#!/bin/bash
# Cross-builds for riscv64 with Clang 19 and Debian's g++-riscv64-linux-gnu, and runs the result under qemu-user: ONNX's
# cases on the providers reference and cpu (with the level rvv and in plain C), the tests of the kernels of rvv, their
# instructions (cross/count.py), and the bits of ONNX's cases and proofs of runs with --reproducible cpu, compared with a
# build for this machine (build/release). The last line is 'N passed, N failed'; the exit code is 0 only if nothing failed.
#
#   tests/riscv64.sh            builds in build/riscv64
#   tests/riscv64.sh --build    builds only
#
# The libraries and the emulator are Debian 13's, because Debian 12 has no libraries for riscv64, and its qemu stops at
# VFCVT.RTZ with an assertion. They are unpacked in build/riscv64/root, and not installed. Debian 13's qemu has no
# plugins, so the installed one counts instructions. Installs missing packages (group riscv64 of packages.txt), which
# needs root or sudo. Needs the network.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
build=$PWD/build/riscv64
root=$build/root # also in cross/riscv64.cmake
native=$PWD/build/release
emulated="-cpu rv64,v=true,vlen=256 -L $root" # also in cross/riscv64.cmake
emulator="$root/usr/bin/qemu-riscv64 $emulated"
. tests/cross/common.sh
sh tests/install.sh riscv64 || exit 1

# Unpacks packages and what they depend on. Separate lists of apt: this machine's are those of its own suite.
unpack() {
    local work
    work=$(mktemp -d) || return
    rm -rf "$root"
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$root.new/usr/lib"
    : >"$work/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main" \
        >"$work/sources.list"
    local get=(apt-get -q -y -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State::Lists=$work/lists" -o "Dir::State::Status=$work/status" -o "Dir::Cache=$work/cache"
        -o APT::Architecture=riscv64 -o "APT::Architectures=riscv64,$machine" -o APT::Sandbox::User=
        -o Debug::NoLocking=true)
    if ! { "${get[@]}" update && "${get[@]}" install --no-install-recommends --download-only "$@"; } \
        >"$build/apt.log" 2>&1; then
        tail -n 5 "$build/apt.log"
        echo "riscv64.sh: cannot fetch Debian's packages for riscv64"
        rm -rf "$work"
        return 1
    fi
    ln -sfn usr/lib "$root.new/lib"
    for package in "$work"/cache/archives/*.deb; do # apt-get has verified them by the signed lists
        dpkg-deb -x "$package" "$root.new" || return
    done
    rm -rf "$work"
    mv "$root.new" "$root" # last, so that $root is always complete
}
mkdir -p "$build"
machine=$(dpkg --print-architecture)
[ -x "$root/usr/bin/qemu-riscv64" ] || unpack "qemu-user:$machine" libcmocka-dev libcyaml-dev libelf-dev libgomp1 \
    libjansson-dev libpcre2-dev libprotobuf-c-dev libyaml-dev zlib1g-dev || exit 1

programs='inlay_cli inlay_probe cpu reference'
tests='kernel_levels kernel_axis kernel_tiles kernel_rows kernel_pool kernel_convert kernel_sources kernel_nbits'
# shellcheck disable=SC2086
build "$build" "inlay $programs count_kernels $(printf 'test_%s ' $tests)" \
    --toolchain "$PWD/tests/cross/riscv64.cmake" -DINLAY_TESTS=ON -DINLAY_SAMPLES=OFF
[ "${1:-}" != --build ] || exit 0
build "$native" "$programs prepost" -DINLAY_TESTS=ON # bits.sh names prepost
emulate

data=/usr/share/libonnx-testdata/data
for providers in reference cpu,reference; do
    try "conformance of $providers" bash tests/conformance/run.sh "$inlay" $data --policy priority \
        --providers $providers
done
try 'conformance of cpu, baseline' bash tests/conformance/run.sh "$inlay" $data --policy priority \
    --providers cpu,reference --isa baseline
for name in $tests; do
    try "test $name" ctest --test-dir "$build" -R "^$name\$" --output-on-failure --no-tests=error --timeout 1200
done
emulator="qemu-riscv64 $emulated" try 'instructions of kernels' count tests/cross/count_riscv64.txt
try 'the bits of ONNX'"'"'s cases' bash tests/conformance/bits.sh --other "$inlay" "$native/bin/inlay" \
    $data/{node,simple,pytorch-converted,pytorch-operator}
try 'proofs of runs' /usr/bin/python3 -B tests/lock/proof.py "$native/bin/inlay" 3 "$inlay"
finish
