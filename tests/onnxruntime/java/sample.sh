#!/bin/bash
# Runs the commands of samples/java/README.md, with a jar of ONNX Runtime's classes and inlay's library.
#   sample.sh BUILD WORK
# ORT_JAR is the jar; without it the test is skipped (exit 77). Needs unzip, and python3-onnx for a model.
set -euo pipefail
here=$(dirname "$(realpath -- "$0")")
sample=$(dirname "$(dirname "$(dirname "$here")")")/samples/java
build=$(realpath -- "$1")
[ -n "${ORT_JAR:-}" ] || { echo "skipped: ORT_JAR is not set"; exit 77; }
for program in javac unzip; do
    command -v $program >/dev/null || { echo "skipped: $program is not installed"; exit 77; }
done
/usr/bin/python3 -c 'import onnx' 2>/dev/null || { echo "skipped: python3-onnx is missing"; exit 77; }
jar=$(realpath -- "$ORT_JAR")
mkdir -p "$2"
cd "$2"
rm -rf ./*
cp "$sample/RunModel.java" .
/usr/bin/python3 - <<'PYTHON'
import onnx
from onnx import helper

ports = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["rows", 3]) for name in "xy"]
nodes = [helper.make_node("Add", ["x", "x"], ["y"])]
onnx.save(helper.make_model(helper.make_graph(nodes, "double", ports[:1], ports[1:]), ir_version=8,
                            opset_imports=[helper.make_opsetid("", 17)]), "model.onnx")
PYTHON

# The blocks of the page. Only the folder of the installation differs: it is this build's.
sed -n 's/^       //p' "$sample/README.md" | sed "s|/usr/lib/x86_64-linux-gnu/inlay/|$build/lib/inlay/|g" >commands
name=$(grep -o 'onnxruntime-[0-9.]*\.jar' commands | head -n 1)
[ "$(grep -c . commands)" -ge 5 ] && [ -n "$name" ] || { echo "the page's commands are not found"; exit 1; }
ln -s "$jar" "$name"
export INLAY_PROVIDERS=cpu,reference LD_LIBRARY_PATH=$build/lib
while read -r line; do
    # shellcheck disable=SC2086 # the page's own words
    eval "$line" >out.txt </dev/null || { echo "failed: $line"; exit 1; }
done <commands
echo "y[1, 3] [2.0, 2.0, 2.0]" | diff - out.txt

# The other way that the page describes: the jar's own library for native code, and only inlay's is named.
property=$(grep -o -- '-Donnxruntime\.native\.onnxruntime\.path' "$sample/README.md")
java -cp "$name:." "$property=$build/lib/inlay/onnxruntime/libonnxruntime.so.1" RunModel model.onnx >out.txt
echo "y[1, 3] [2.0, 2.0, 2.0]" | diff - out.txt
echo "$(grep -c . commands) commands passed, 0 failed"
