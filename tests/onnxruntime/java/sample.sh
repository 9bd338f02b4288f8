#!/bin/bash
# Runs samples/java with a jar of ONNX Runtime's classes and inlay's library, as its README.md states.
#   sample.sh BUILD WORK
# ORT_JAR is the jar; without it the test is skipped (exit 77). ORT_JNI is the folder of libonnxruntime4j_jni.so; by
# default the jar contains it. Needs python3-onnx for a model.
set -euo pipefail
here=$(dirname "$(realpath -- "$0")")
sample=$(dirname "$(dirname "$(dirname "$here")")")/samples/java
build=$(realpath -- "$1")
[ -n "${ORT_JAR:-}" ] || { echo "skipped: ORT_JAR is not set"; exit 77; }
command -v javac >/dev/null || { echo "skipped: javac is not installed"; exit 77; }
/usr/bin/python3 -c 'import onnx' 2>/dev/null || { echo "skipped: python3-onnx is missing"; exit 77; }
jar=$(realpath -- "$ORT_JAR")
jni=${ORT_JNI:+$(realpath -- "$ORT_JNI")}
mkdir -p "$2"
cd "$2"
rm -rf libraries
mkdir libraries
ln -s "$build/lib/inlay/onnxruntime/libonnxruntime.so.1" libraries/libonnxruntime.so
if [ -n "$jni" ]; then
    ln -s "$jni/libonnxruntime4j_jni.so" libraries
else
    (cd libraries && jar xf "$jar" ai/onnxruntime/native/linux-x64/libonnxruntime4j_jni.so &&
        mv ai/onnxruntime/native/linux-x64/libonnxruntime4j_jni.so .)
fi
/usr/bin/python3 - <<'PYTHON'
import onnx
from onnx import helper

ports = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["rows", 3]) for name in "xy"]
nodes = [helper.make_node("Add", ["x", "x"], ["y"])]
onnx.save(helper.make_model(helper.make_graph(nodes, "double", ports[:1], ports[1:]), ir_version=8,
                            opset_imports=[helper.make_opsetid("", 17)]), "double.onnx")
PYTHON
javac -cp "$jar" -d . "$sample/RunModel.java"
INLAY_PROVIDERS=cpu,reference LD_LIBRARY_PATH=$build/lib java -cp "$jar:." -Donnxruntime.native.path=libraries \
    RunModel double.onnx >out.txt
echo "y[1, 3] [2.0, 2.0, 2.0]" | diff - out.txt
echo "1 passed, 0 failed"
