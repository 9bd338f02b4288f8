#!/bin/bash
# Builds the run-time part of bundles for another target, in addition to that of this machine:
#   cross.sh [--target TARGET] DIR    DIR: build folder or installation prefix of inlay
# aarch64-linux-gnu (the default) needs Debian's gcc-aarch64-linux-gnu and qemu-user; wasm32 needs clang, lld, llvm,
# wasi-libc, libclang-rt-dev-wasm32 and nodejs. Exit code 3: a program or library is missing.
set -euo pipefail
target=aarch64-linux-gnu
if [ "${1:-}" = --target ]; then
    target=$2
    shift 2
fi
source=$(realpath "$(dirname "$0")/../../../..")
case $target in
aarch64-linux-gnu) toolchain=$source/tests/cross/arm64.cmake ;;
wasm32)
    toolchain=$source/host/tools/bundle/runtime/wasm/wasm32.cmake
    bash "$source/host/tools/bundle/runtime/wasm/check.sh"
    ;;
*)
    echo "cross.sh: unknown target '$target': aarch64-linux-gnu or wasm32" >&2
    exit 2
    ;;
esac
build=$(realpath "${1:?usage: cross.sh [--target TARGET] DIR}")
here=$build/$target
if [ ! -e "$build/CMakeCache.txt" ]; then # only the result belongs into a prefix
    here=$source/build/$target
fi
launcher=()
if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
fi
cmake -Wno-dev -S "$source" -B "$here" -G Ninja --toolchain "$toolchain" -DCMAKE_BUILD_TYPE=Release \
    -DINLAY_BUNDLE_ONLY=ON -DINLAY_OPENBLAS=OFF -DINLAY_VULKAN=OFF "${launcher[@]}" >/dev/null
cmake --build "$here" --target inlay_bundle_parts
mkdir -p "$build/lib/inlay/bundle"
rm -rf "$build/lib/inlay/bundle/$target"
cp -r "$here/lib/inlay/bundle/$target" "$build/lib/inlay/bundle/"
