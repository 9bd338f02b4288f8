#!/bin/bash
# Compiles a program with ONNX Runtime's C++ headers that calls their classes' functions, runs it with inlay's library,
# and compares the result of each call with that of ONNX Runtime 1.30's library (expected.txt).
#   cpp.sh BUILD WORK
# ORT_SOURCES is an archive (.tar.xz) or a folder of ONNX Runtime's repository with its folder include; without it the
# test is skipped (exit 77), also without g++. WORK is a folder for what is built. With ORT_LIBRARY, which names ONNX
# Runtime's own library, its results are compared with expected.txt, too; with WRITE=1 they replace it. Exit 1: a
# difference that differences.txt does not list, or one that it lists is gone. Prints how many calls succeed.
set -euo pipefail
here=$(dirname "$(realpath -- "$0")")
tree=$(dirname "$(dirname "$(dirname "$here")")")
build=$(realpath -- "$1")
[ -n "${ORT_SOURCES:-}" ] || { echo "skipped: ORT_SOURCES is not set"; exit 77; }
command -v g++ >/dev/null || { echo "skipped: g++ is not installed"; exit 77; }
mkdir -p "$2"
work=$(realpath -- "$2")
rm -rf "${work:?}"/{sources,objects,ours,theirs}
mkdir -p "$work"/{sources,objects,ours,theirs}
cd "$work"
if [ -d "$ORT_SOURCES" ]; then
    sources=$(realpath -- "$ORT_SOURCES")
else
    tar -xf "$ORT_SOURCES" -C sources --wildcards '*include/onnxruntime*'
    sources=$work/sources
fi

for file in "$here"/*.cc; do
    g++ -std=c++20 -O0 -Wall -Wextra -Werror -Wno-missing-field-initializers -I"$tree/sdk/include" \
        -I"$tree/tests/support" -isystem "$sources/include/onnxruntime/core/session" -c "$file" \
        -o "objects/$(basename "$file").o"
done
ln -s "$build/lib/inlay/onnxruntime/libonnxruntime.so.1" ours/libonnxruntime.so.1
g++ objects/*.o ours/libonnxruntime.so.1 -Wl,--allow-shlib-undefined -o calls

run() { # FOLDER LIBRARIES: its results are in FOLDER.txt, the messages of exceptions in FOLDER.err
    (cd "$1" && LD_LIBRARY_PATH=$2 ../calls >"../$1.txt" 2>"../$1.err") || {
        tail -n 5 "$1.txt" "$1.err"
        echo "cpp.sh: the program failed with $2"
        exit 1
    }
}

if [ -n "${ORT_LIBRARY:-}" ]; then
    ln -s "$(realpath -- "$ORT_LIBRARY")" theirs/libonnxruntime.so.1
    run theirs "$work/theirs"
    [ "${WRITE:-}" != 1 ] || cp theirs.txt "$here/expected.txt"
    diff "$here/expected.txt" theirs.txt || { echo "cpp.sh: $ORT_LIBRARY differs from expected.txt"; exit 1; }
fi
export INLAY_PROVIDERS=cpu,reference
run ours "$work/ours:$build/lib"
if ! diff <(grep '^[<>]' "$here/differences.txt" | sort) \
    <(diff "$here/expected.txt" ours.txt | grep '^[<>]' | sort) >changes.txt; then
    cat changes.txt
    echo "cpp.sh: these differences are not those that differences.txt lists"
    exit 1
fi
calls() { # FILE
    grep -vE '^  |^[0-9]+ lines$' "$1"
}
succeeded() { # FILE
    calls "$1" | grep -vcE ': (error|status) [0-9]+$'
}
echo "$(calls ours.txt | wc -l) calls: $(succeeded ours.txt) succeed, with ONNX Runtime $(succeeded "$here/expected.txt")"
