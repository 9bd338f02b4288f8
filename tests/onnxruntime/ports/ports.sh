#!/bin/bash
# Compares names, order, types and shapes of inputs and outputs with ONNX Runtime (npm's onnxruntime-node): in C (that
# package with inlay's library), in Node, in Python, and in inlay-web if it was built.
#   ports.sh SOURCE_DIR BUILD_DIR PACKAGES [MODEL...]      by default 200 generated models
# PACKAGES is the folder for npm packages; exit code 77: npm cannot fetch them, or Python's package onnx is missing.
set -euo pipefail
here=$(dirname "$(realpath -- "$0")")
# shellcheck source=tests/support/npm.bash
. "$here/../../support/npm.bash"
source=$(realpath -- "$1") build=$(realpath -- "$2") packages=$3
shift 3
python=/usr/bin/python3
$python -c "import numpy, onnx" 2>/dev/null || skip "Python's packages numpy and onnx are not installed"
fetch_packages "$packages" "$here/npm.json"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if [ $# = 0 ]; then
    $python -B "$here/models.py" "$tmp/models" 200
    set -- "$tmp"/models/*.onnx
fi
modules=$(realpath "$packages")/node_modules
library=$build/lib/inlay/onnxruntime/libonnxruntime.so.1
export INLAY_NODE_ADDON=$build/lib/inlay/node/inlay.node INLAY_LIBRARY=$build/lib/libinlay.so.1
export PYTHONPATH=$source/sdk/bindings/python:$source/sdk/bindings/python-onnxruntime

node "$here/describe.cjs" "$modules/onnxruntime-node" "$@" >"$tmp/theirs"
binaries=bin/napi-v6/linux/x64
mkdir -p "$tmp/c/node_modules/onnxruntime-node/$binaries" "$tmp/alias/node_modules"
for part in dist package.json $binaries/onnxruntime_binding.node; do
    cp -r "$modules/onnxruntime-node/$part" "$tmp/c/node_modules/onnxruntime-node/$part"
done
ln -s "$library" "$tmp/c/node_modules/onnxruntime-node/$binaries/libonnxruntime.so.1"
cp -r "$source/sdk/bindings/node-onnxruntime" "$tmp/alias/node_modules/onnxruntime-node"
cp -r "$source/sdk/bindings/node" "$tmp/alias/node_modules/inlay"
for side in c alias; do ln -s "$modules/onnxruntime-common" "$tmp/$side/node_modules/onnxruntime-common"; done

failed=0
same() { # NAME COMMAND...
    "${@:2}" >"$tmp/ours"
    node "$here/compare.cjs" "$1" "$tmp/theirs" "$tmp/ours" || failed=1
}
same C node "$here/describe.cjs" "$tmp/c/node_modules/onnxruntime-node" "$@"
same Node node "$here/describe.cjs" "$tmp/alias/node_modules/onnxruntime-node" "$@"
same "Python (onnxruntime)" $python -B "$here/describe.py" onnxruntime "$@"
same "Python (inlay)" $python -B "$here/describe.py" inlay "$@"
if [ -e "$build/lib/inlay/web/inlay.wasm" ]; then
    same web node "$here/describe.cjs" "$build/lib/inlay/web" "$@"
else
    echo "web: not compared, because host/web/build.sh has not built it in $build"
fi
exit $failed
