#!/bin/bash
# Builds the npm package inlay-web in BUILD_DIR/lib/inlay/web: build.sh BUILD_DIR
# BUILD_DIR: a build folder of inlay, or any other. Needs the programs of tools/bundle/runtime/wasm/check.sh, protoc-c, and
# once the network, for sources.sh. Exit code 3: one of them is missing.
set -euo pipefail
[ $# = 1 ] || { echo "usage: build.sh BUILD_DIR" >&2; exit 2; }
source=$(realpath "$(dirname "$0")/../..")
wasm=$source/host/tools/bundle/runtime/wasm
mkdir -p "$1"
build=$(realpath "$1")
command -v protoc-c >/dev/null || { echo "build.sh: protoc-c is missing: apt-get install protobuf-c-compiler" >&2; exit 3; }
bash "$wasm/check.sh"
sh "$source/host/web/sources.sh" "$build/web-sources"
launcher=()
if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
fi
cmake -Wno-dev -S "$source" -B "$build/web-wasm32" -G Ninja --toolchain "$wasm/wasm32.cmake" -DCMAKE_BUILD_TYPE=Release \
    -DINLAY_BUNDLE_ONLY=ON -DINLAY_WEB=ON "-DINLAY_WEB_SOURCES=$build/web-sources" -DWASM_OPTIONS=-matomics \
    -DINLAY_OPENBLAS=OFF -DINLAY_VULKAN=OFF "${launcher[@]}" >/dev/null
cmake --build "$build/web-wasm32" --target inlay_web
mkdir -p "$build/lib/inlay"
rm -rf "$build/lib/inlay/web"
cp -r "$build/web-wasm32/lib/inlay/web" "$build/lib/inlay/"
