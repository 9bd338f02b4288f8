#!/bin/bash
# Builds the run-time part of bundles for arm64, in addition to that of this machine:
#   cross.sh BUILD_DIR [OPTION...]    BUILD_DIR: build folder or installation prefix of inlay; OPTION: options of cmake
# Needs Debian's gcc-aarch64-linux-gnu and qemu-user.
set -euo pipefail
build=$(realpath "$1")
source=$(realpath "$(dirname "$0")/../../../..")
here=$build/bundle-arm64
launcher=()
if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
fi
cmake -S "$source" -B "$here" -G Ninja --toolchain "$source/tests/cross/arm64.cmake" -DCMAKE_BUILD_TYPE=Release \
    -DINLAY_BUNDLE_ONLY=ON -DINLAY_OPENBLAS=OFF -DINLAY_VULKAN=OFF "${launcher[@]}" "${@:2}" >/dev/null
cmake --build "$here" --target inlay_bundle_parts
mkdir -p "$build/lib/inlay/bundle"
rm -rf "$build/lib/inlay/bundle/aarch64-linux-gnu"
cp -r "$here/lib/inlay/bundle/aarch64-linux-gnu" "$build/lib/inlay/bundle/"
