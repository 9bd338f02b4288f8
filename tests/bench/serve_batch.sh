#!/bin/bash
# What joining requests gains: inlay-serve beside itself with max_batch 1, on an MLP 784-1024-1024-10 and binary REST
# requests of one row, by 32 connections.
#   serve_batch.sh BUILD_DIR [SECONDS]    needs wrk and python3-onnx
#
# Each setting runs alone, in turn, three rounds; wrk and the server share the machine. Prints requests a second, CPU
# time a request, latencies, and the rows of the mean run.
set -euo pipefail
build=$1 seconds=${2:-5}
tmp=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$tmp"' EXIT
mkdir "$tmp/models"

/usr/bin/python3 - "$tmp/models/mlp.onnx" <<'PY'
import sys
import numpy as np, onnx
from onnx import helper as h, numpy_helper as nh, TensorProto as T
rng = np.random.default_rng(1)
sizes, nodes, weights = [784, 1024, 1024, 10], [], {}
for i in range(3):
    weights[f"w{i}"] = rng.standard_normal((sizes[i], sizes[i + 1])) / sizes[i] ** .5
    weights[f"b{i}"] = np.zeros(sizes[i + 1])
    nodes.append(h.make_node("Gemm", ["x" if i == 0 else f"r{i - 1}", f"w{i}", f"b{i}"], ["y" if i == 2 else f"h{i}"]))
    if i < 2:
        nodes.append(h.make_node("Relu", [f"h{i}"], [f"r{i}"]))
graph = h.make_graph(nodes, "mlp", [h.make_tensor_value_info("x", T.FLOAT, ["N", 784])],
                     [h.make_tensor_value_info("y", T.FLOAT, ["N", 10])],
                     [nh.from_array(w.astype("f"), name) for name, w in weights.items()])
model = h.make_model(graph, opset_imports=[h.make_opsetid("", 13)])
model.ir_version = 8
onnx.save(model, sys.argv[1])
PY

cat >"$tmp/mlp.lua" <<'LUA'
local json = '{"inputs":[{"name":"x","shape":[1,784],"datatype":"FP32","parameters":{"binary_data_size":3136}}],' ..
    '"outputs":[{"name":"y","parameters":{"binary_data":true}}]}'
wrk.method = "POST"
wrk.path = "/v2/models/mlp/infer"
wrk.headers["Inference-Header-Content-Length"] = tostring(#json)
wrk.headers["Content-Type"] = "application/octet-stream"
wrk.body = json .. string.rep("\0\0\128\63", 784)
LUA

metric() { curl -s http://127.0.0.1:8198/metrics | awk -v name="$1{model=\"mlp\",version=\"1\"}" '$1 == name {print $2}'; }
cpu_ticks() { awk '{print $14 + $15}' "/proc/$server/stat"; }

printf '%-6s %-9s %11s %10s %10s %10s %9s %9s\n' round max_batch requests/s cpu-us/req p50 p99 rows/run best
for round in 1 2 3; do
    for batch in 1 64; do
        "$build/bin/inlay-serve" "$tmp/models" --no-config --port 8198 --grpc-port -1 --max-batch $batch >"$tmp/log" 2>&1 &
        server=$!
        for _ in $(seq 200); do
            ! grep -q 'ready, models' "$tmp/log" || break
            sleep 0.1
        done
        wrk -t1 -c32 -d1 -s "$tmp/mlp.lua" http://127.0.0.1:8198 >/dev/null # warms up
        ticks=$(cpu_ticks)
        rows=$(metric inlay_rows_total) runs=$(metric inlay_compute_seconds_count)
        wrk -t1 -c32 -d"$seconds" --latency -s "$tmp/mlp.lua" http://127.0.0.1:8198 >"$tmp/wrk"
        ! grep -q 'Non-2xx\|Socket errors' "$tmp/wrk" || cat "$tmp/wrk"
        ticks=$(($(cpu_ticks) - ticks)) rows=$(($(metric inlay_rows_total) - rows)) runs=$(($(metric inlay_compute_seconds_count) - runs))
        printf '%-6s %-9s %11s %10s %10s %10s %9s %9s\n' $round $batch "$(awk '/^Requests.sec/ {print $2}' "$tmp/wrk")" \
            "$(awk -v t="$ticks" -v n="$rows" 'BEGIN {printf "%.1f", t * 10000 / n}')" \
            "$(awk '$1 == "50%" {print $2}' "$tmp/wrk")" "$(awk '$1 == "99%" {print $2}' "$tmp/wrk")" \
            "$(awk -v r="$rows" -v n="$runs" 'BEGIN {printf "%.1f", r / n}')" "$(metric inlay_batch_best_rows)"
        kill "$server"
        wait "$server" 2>/dev/null || true
        server=
    done
done
