#!/bin/bash
# Builds the npm package inlay-web in BUILD_DIR/lib/inlay/web: build.sh BUILD_DIR
# BUILD_DIR: a build folder of inlay, or any other. Needs the programs of tools/bundle/runtime/wasm/check.sh, protoc-c, and
# once the network, for host/platform/sources.sh. Exit code 3: one of them is missing.
set -euo pipefail
[ $# = 1 ] || { echo "usage: build.sh BUILD_DIR" >&2; exit 2; }
source=$(realpath "$(dirname "$0")/../..")
wasm=$source/host/tools/bundle/runtime/wasm
mkdir -p "$1"
build=$(realpath "$1")
command -v protoc-c >/dev/null || { echo "build.sh: protoc-c is missing: apt-get install protobuf-c-compiler" >&2; exit 3; }
bash "$wasm/check.sh"
sh "$source/host/platform/sources.sh" "$build/web-sources"
launcher=()
if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
fi
# build_module FOLDER [CMAKE_OPTION...]: builds the module in a folder of BUILD_DIR.
build_module() {
    cmake -Wno-dev -S "$source" -B "$build/$1" -G Ninja --toolchain "$wasm/wasm32.cmake" -DCMAKE_BUILD_TYPE=Release \
        -DINLAY_BUNDLE_ONLY=ON -DINLAY_WEB=ON "-DINLAY_WEB_SOURCES=$build/web-sources" \
        -DINLAY_OPENBLAS=OFF -DINLAY_VULKAN=OFF "${launcher[@]}" "${@:2}" >/dev/null
    cmake --build "$build/$1" --target inlay_web
}
build_module wasm32 # whose objects cross.sh uses, too
mkdir -p "$build/lib/inlay"
rm -rf "$build/lib/inlay/web"
cp -r "$build/wasm32/lib/inlay/web" "$build/lib/inlay/"

# The module with relaxed SIMD, which Clang has since version 16.
echo 'typedef float v __attribute__((vector_size(16))); v f(v x) { return __builtin_wasm_relaxed_madd_f32x4(x, x, x); }' \
    >"$build/relaxed.c"
for clang in clang clang-16; do
    if command -v $clang >/dev/null &&
        $clang --target=wasm32-wasi -mrelaxed-simd -c "$build/relaxed.c" -o "$build/relaxed.o" 2>/dev/null &&
        bash "$wasm/check.sh" $clang 2>/dev/null; then
        build_module wasm32-relaxed -DWASM_OPTIONS=-mrelaxed-simd -DWASM_CLANG=$clang
        cp "$build/wasm32-relaxed/lib/inlay/web/inlay.wasm" "$build/lib/inlay/web/inlay-relaxed.wasm"
        exit 0
    fi
done
echo 'export const relaxedUrl = null // this package has no such module' >"$build/lib/inlay/web/relaxed.js"
echo "build.sh: without inlay-relaxed.wasm: it needs Clang 16: sh tests/install.sh relaxed" >&2
