#!/bin/bash
# The first example of each binding's README, and of the server's page, works on a model with the names and shapes that
# it uses.
#   snippets.sh BUILD SOURCE_DIR CXX [NODE]
set -uo pipefail
build=$1 source=$2 cxx=$3 node=${4:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong=0
export INLAY_LIBRARY=$build/lib/libinlay.so.1 PYTHONPATH=$source/sdk/bindings/python PYTHONDONTWRITEBYTECODE=1

# The first indented block of a README, without its indentation.
block() { awk '/^    /{ print substr($0, 5); seen = 1; next } /^$/ && seen { print; next } seen { exit }' "$source/$1"; }
snippet() { block "sdk/bindings/$1/README.md"; }
does() { # TEXT COMMAND...
    local text=$1
    shift
    if (cd "$work" && "$@") >"$work/log" 2>&1; then
        echo "ok $text"
    else
        echo "FAIL $text"
        sed 's/^/    /' "$work/log"
        wrong=$((wrong + 1))
    fi
}

cat >"$work/make_model.py" <<'END'
from onnx import TensorProto, helper, save
graph = helper.make_graph(
    [helper.make_node("GlobalAveragePool", ["input"], ["pooled"]), helper.make_node("Flatten", ["pooled"], ["output"])],
    "mean", [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 3, 224, 224])],
    [helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, 3])])
save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "model.onnx")
END
does "the model is written" /usr/bin/python3 make_model.py

{
    echo "import numpy; array = numpy.full((1, 3, 224, 224), 2, numpy.float32)"
    snippet python
    echo "assert result.tolist() == [[2, 2, 2]], result"
} >"$work/example.py"
does "Python's example" /usr/bin/python3 example.py

{
    snippet cpp | grep '^#include'
    echo '#include <iostream>'
    echo 'int main() {'
    snippet cpp | grep -v '^#include'
    echo 'return result[0].shape() == inlay::Shape{ 1, 3 } ? 0 : 1; }'
} >"$work/example.cpp"
does "C++'s example compiles" "$cxx" -std=c++17 -Wall -Wextra -Werror -I"$source/sdk/include" -I"$source/sdk/bindings/cpp" example.cpp \
    -L"$build/lib" -linlay -Wl,-rpath,"$build/lib" -o example
does "C++'s example" ./example

if [ -n "$node" ]; then
    mkdir "$work/node_modules"
    ln -s "$source/sdk/bindings/node" "$work/node_modules/inlay"
    export INLAY_NODE_ADDON=$build/lib/inlay/node/inlay.node
    {
        echo 'const pixels = new Float32Array(3 * 224 * 224).fill(2);'
        snippet node | grep 'require('
        echo '(async () => {'
        snippet node | grep -v 'require('
        echo 'if (String(output.data) !== "2,2,2") throw new Error(String(output.data)); })();'
    } >"$work/example.js"
    does "Node's example" "$node" example.js
fi

# ONNX Runtime's library: both ways to install it, with the folder of this build as the installed one.
if [ -e "$build/lib/inlay/onnxruntime/libonnxruntime.so.1" ]; then
    cat >"$work/program.c" <<'END'
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
struct base { const void *(*get_api)(unsigned version); const char *(*version)(void); };
int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "libonnxruntime.so.1";
    void *library = dlopen(path, RTLD_NOW);
    const struct base *(*get)(void) = library != NULL ? (const struct base *(*)(void))dlsym(library, "OrtGetApiBase") : NULL;

    if (get == NULL)
        return printf("%s\n", dlerror()), 1;
    return printf("%s\n", get()->version()), get()->get_api(16) == NULL || strncmp(get()->version(), "1.", 2) != 0;
}
END
    does "a program for ONNX Runtime's library compiles" cc -w program.c -o program -ldl
    mkdir -p "$work/node_modules/onnxruntime-node/bin/napi-v6/linux/x64"
    {
        echo "set -e; PATH=$work:\$PATH; export LD_LIBRARY_PATH=$build/lib"
        block sdk/bindings/onnxruntime/README.md | sed -e "s|/usr/lib/[^/]*/inlay/onnxruntime|$build/lib/inlay/onnxruntime|" \
            -e "s|^\(LD_LIBRARY_PATH=[^ ]*\)|\1:$build/lib|"
        echo "program node_modules/onnxruntime-node/bin/napi-v6/linux/x64/libonnxruntime.so.1"
    } >"$work/commands.sh"
    does "ONNX Runtime's example" sh commands.sh
fi

# The server: after both ways to start it, it answers the following request, on a free port.
served() { # COMMAND
    local port pid ready=1
    port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    sh -c "exec $1 --port $port --grpc-port -1" &
    pid=$!
    for _ in $(seq 100); do
        curl -sf "http://127.0.0.1:$port/v2/health/ready" && ready=0 && break
        sleep 0.1
    done
    [ $ready -eq 0 ] && sh -c "$(block sdk/docs/pages/server.md | sed -n '/^curl/,$p' | sed -e "s/:8000/:$port/")" |
        jq -e '.outputs[0].data == [2]'
    ready=$?
    kill $pid
    wait $pid
    return $ready
}
if [ -x "$build/bin/inlay-serve" ]; then
    PATH=$build/bin:$PATH
    mkdir "$work/models"
    does "the served model is written" /usr/bin/python3 -c '
from onnx import TensorProto, helper, save
graph = helper.make_graph([helper.make_node("ReduceMean", ["x"], ["y"], axes=[1], keepdims=0)], "mean",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N"])])
for path in ("model.onnx", "models/model.onnx"):
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)'
    while IFS= read -r line; do
        does "$line" served "${line%%#*}"
    done < <(block sdk/docs/pages/server.md | grep '^inlay serve')
fi
[ $wrong -eq 0 ]
