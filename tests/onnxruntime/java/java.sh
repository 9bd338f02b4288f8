#!/bin/bash
# Builds ONNX Runtime's Java package and JNI library from its sources, and runs its own tests on inlay's library.
#   java.sh BUILD WORK
# ORT_SOURCES is an archive (.tar.xz) or a folder of ONNX Runtime's repository with its folders java, include, csharp and
# onnxruntime/test; without it the test is skipped (exit 77), also without a JDK, JUnit 5 (junit5) and libprotobuf-java.
# WORK is a folder for what is built. Prints 'N passed, N skipped, N failed as listed', and runs samples/java. Exit 1: a
# test failed that expected.txt does not list, or one that it lists passed.
set -euo pipefail
here=$(dirname "$(realpath -- "$0")")
build=$(realpath -- "$1")
jars=/usr/share/java
[ -n "${ORT_SOURCES:-}" ] || { echo "skipped: ORT_SOURCES is not set"; exit 77; }
for program in javac gcc g++; do
    command -v $program >/dev/null || { echo "skipped: $program is not installed"; exit 77; }
done
for jar in junit-platform-console protobuf; do
    [ -e $jars/$jar.jar ] || { echo "skipped: $jars/$jar.jar is not installed (junit5, libprotobuf-java)"; exit 77; }
done
mkdir -p "$2"
work=$(realpath -- "$2")
rm -rf "${work:?}"/{sources,classes,tests,headers,lib,resources,reports}
mkdir -p "$work"/{sources,classes,tests,headers,lib,resources,reports}
cd "$work"
if [ -d "$ORT_SOURCES" ]; then
    sources=$(realpath -- "$ORT_SOURCES")
else
    tar -xf "$ORT_SOURCES" -C sources
    sources=$work/sources
fi
version=$(cat "$sources/VERSION_NUMBER")
session=$sources/include/onnxruntime/core/session

# The classes. Their build generates onnxruntime_config.h; the headers of other providers are not needed here.
find "$sources/java/src/main/java" "$sources/java/src/main/jvm" -name '*.java' >classes.txt
javac -nowarn -h headers -d classes @classes.txt
echo "#define ORT_VERSION \"$version\"" >headers/onnxruntime_config.h
for provider in cpu nnapi tvm openvino acl coreml; do
    mkdir -p headers/onnxruntime/core/providers/$provider
    : >headers/onnxruntime/core/providers/$provider/${provider}_provider_factory.h
done
echo 'OrtStatus *OrtSessionOptionsAppendExecutionProvider_CPU(OrtSessionOptions *options, int use_arena);' \
    >headers/onnxruntime/core/providers/cpu/cpu_provider_factory.h

# The native side. The classes for training need a header that only builds with training have.
ln -s "$build/lib/inlay/onnxruntime/libonnxruntime.so.1" lib/libonnxruntime.so
java_home=$(dirname "$(dirname "$(realpath "$(command -v javac)")")")
mapfile -t natives < <(find "$sources/java/src/main/native" -name '*.c' ! -name '*Training*')
gcc -O1 -shared -fPIC -I"$java_home/include" -I"$java_home/include/linux" -Iheaders -I"$sources/include" -I"$session" \
    "${natives[@]}" -Llib -lonnxruntime -Wl,--allow-shlib-undefined -o lib/libonnxruntime4j_jni.so
g++ -std=c++17 -O1 -shared -fPIC -I"$sources/include" -I"$session" "$here/custom_op_library.cc" \
    -o resources/libcustom_op_library.so

# The tests, and the models that they use: an archive may lack the largest.
class_path=classes:tests:resources
for jar in junit-platform-console junit-platform-launcher junit-platform-engine junit-platform-commons \
    junit-platform-reporting junit-jupiter-api junit-jupiter-engine opentest4j opentest4j-reporting-events \
    apiguardian-api picocli protobuf; do
    class_path=$class_path:$jars/$jar.jar
done
find "$sources/java/src/test/java/ai" -name '*.java' >tests.txt
javac -nowarn -proc:none -cp "$class_path" -d tests @tests.txt
for folder in csharp/testdata java/testdata java/src/test/resources onnxruntime/test/testdata; do
    cp -rT "$sources/$folder" resources
done
if [ ! -s resources/squeezenet.onnx ] || [ ! -s resources/bench.in ]; then
    python3=/usr/bin/python3
    $python3 -c 'import numpy, onnx' 2>/dev/null || { echo "skipped: python3-numpy or python3-onnx is missing"; exit 77; }
    $python3 "$here/models.py" resources
fi

INLAY_PROVIDERS=cpu,reference LD_LIBRARY_PATH=$build/lib java -Xmx1g -Xshare:auto -XX:TieredStopAtLevel=1 \
    -Donnxruntime.native.path="$work/lib" -DJAVA_FULL_TEST=1 \
    -Djunit.jupiter.conditions.deactivate='org.junit.*EnabledOnOs*' -cp "$class_path" \
    org.junit.platform.console.ConsoleLauncher --disable-banner --disable-ansi-colors --details=tree \
    --reports-dir=reports --scan-classpath=tests --fail-if-no-tests >log.txt 2>&1 || true
/usr/bin/python3 "$here/judge.py" "$here/expected.txt" reports/TEST-junit-jupiter.xml log.txt
# The jar as Maven Central has it, with the native library.
mkdir -p classes/ai/onnxruntime/native/linux-x64
cp lib/libonnxruntime4j_jni.so classes/ai/onnxruntime/native/linux-x64
jar cf onnxruntime.jar -C classes .
ORT_JAR=onnxruntime.jar "$here/sample.sh" "$build" sample
