#!/bin/bash
# inlay-serve beside a server of Node's http and onnxruntime-node, on an MLP 128-64-10 and binary REST requests of one row.
#   serve.sh BUILD_DIR PEER_DIR [SECONDS]    PEER_DIR has node_modules/onnxruntime-node; needs wrk and python3-onnx
#
# Each server runs alone, in turn, three rounds; wrk and the server share the machine. Prints requests a second and
# latencies for 1, 8 and 32 connections, and at the end the time that inlay-serve itself says it took, by its figures.
set -euo pipefail
build=$1 peer=$2 seconds=${3:-5}
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$tmp"' EXIT
mkdir "$tmp/models"

/usr/bin/python3 - "$tmp/models/mlp.onnx" <<'PY'
import sys
import numpy as np, onnx
from onnx import helper as h, numpy_helper as nh, TensorProto as T
rng = np.random.default_rng(1)
weights = {"w1": rng.standard_normal((128, 64)) / 11, "b1": np.zeros(64),
           "w2": rng.standard_normal((64, 10)) / 8, "b2": np.zeros(10)}
nodes = [h.make_node("Gemm", ["x", "w1", "b1"], ["h"]), h.make_node("Relu", ["h"], ["r"]),
         h.make_node("Gemm", ["r", "w2", "b2"], ["y"])]
graph = h.make_graph(nodes, "mlp", [h.make_tensor_value_info("x", T.FLOAT, ["N", 128])],
                     [h.make_tensor_value_info("y", T.FLOAT, ["N", 10])],
                     [nh.from_array(w.astype("f"), name) for name, w in weights.items()])
model = h.make_model(graph, opset_imports=[h.make_opsetid("", 13)])
model.ir_version = 8
onnx.save(model, sys.argv[1])
PY

cat >"$tmp/mlp.lua" <<'LUA'
local json = '{"inputs":[{"name":"x","shape":[1,128],"datatype":"FP32","parameters":{"binary_data_size":512}}],' ..
    '"outputs":[{"name":"y","parameters":{"binary_data":true}}]}'
wrk.method = "POST"
wrk.path = "/v2/models/mlp/infer"
wrk.headers["Inference-Header-Content-Length"] = tostring(#json)
wrk.headers["Content-Type"] = "application/octet-stream"
wrk.body = json .. string.rep("\0\0\128\63", 128)
LUA

# $1: node or inlay. Starts it on port 8199 and waits.
start() {
    if [ "$1" = node ]; then
        NODE_PATH=$peer/node_modules node "$here/serve_peer.js" "$tmp/models/mlp.onnx" 8199 >"$tmp/log" 2>&1 &
    else
        "$build/bin/inlay-serve" "$tmp/models" --no-config --port 8199 --grpc-port -1 >"$tmp/log" 2>&1 &
    fi
    server=$!
    for _ in $(seq 200); do
        grep -qE 'listening$|ready, models' "$tmp/log" && return
        sleep 0.1
    done
    cat "$tmp/log"
    exit 1
}

stop() {
    kill "$server"
    wait "$server" 2>/dev/null || true
    server=
}

printf '%-6s %-6s %11s %12s %10s %10s\n' round server connections requests/s p50 p99
for round in 1 2 3; do
    for which in node inlay; do
        start $which
        wrk -t1 -c8 -d1 -s "$tmp/mlp.lua" http://127.0.0.1:8199 >/dev/null # warms up
        for connections in 1 8 32; do
            wrk -t1 -c$connections -d"$seconds" --latency -s "$tmp/mlp.lua" http://127.0.0.1:8199 >"$tmp/wrk"
            ! grep -q 'Non-2xx\|Socket errors' "$tmp/wrk" || cat "$tmp/wrk"
            printf '%-6s %-6s %11s %12s %10s %10s\n' $round $which $connections \
                "$(awk '/^Requests.sec/ {print $2}' "$tmp/wrk")" "$(awk '$1 == "50%" {print $2}' "$tmp/wrk")" \
                "$(awk '$1 == "99%" {print $2}' "$tmp/wrk")"
        done
        if [ $which = inlay ]; then
            curl -s http://127.0.0.1:8199/metrics | grep -E '^inlay_(request|compute)_seconds_(sum|count|bucket)' >"$tmp/metrics"
        fi
        stop
    done
done
echo "the server's own figures, last round:"
grep -E '_(sum|count)|le="(2.5e-05|5e-05|0.0001|\+Inf)"' "$tmp/metrics"
