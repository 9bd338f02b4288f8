#!/bin/bash
# Builds the npm package inlay-web in BUILD_DIR/lib/inlay/web: build.sh BUILD_DIR
# BUILD_DIR: a build folder of inlay, or any other; objects are shared with the bundles for wasm32. Needs the programs of
# runtime/cross.sh --target wasm32, protoc-c, and once the network, for sources.sh. Exit code 3: one of them is missing.
set -euo pipefail
[ $# = 1 ] || { echo "usage: build.sh BUILD_DIR" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
build=$(realpath "$1")
command -v protoc-c >/dev/null || { echo "build.sh: protoc-c is missing: apt-get install protobuf-c-compiler" >&2; exit 3; }
sh "$here/sources.sh" "$build/web-sources"
bash "$here/../tools/bundle/runtime/cross.sh" --target wasm32 "$build" -DINLAY_WEB=ON "-DINLAY_WEB_SOURCES=$build/web-sources"
cmake --build "$build/bundle-wasm32" --target inlay_web
mkdir -p "$build/lib/inlay"
rm -rf "$build/lib/inlay/web"
cp -r "$build/bundle-wasm32/lib/inlay/web" "$build/lib/inlay/"
