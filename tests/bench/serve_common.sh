# shellcheck shell=bash disable=SC2154
# serve_common.sh - shared by the scripts for inlay-serve: models, requests for wrk, starting and stopping a server.
# Sourced; the caller sets $tmp, a folder, and $port, the port of its server.
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$tmp"' EXIT

# make_mlp FILE SIZE...: writes layers of these sizes with ReLU between them, input x [N, first], output y.
make_mlp() {
    /usr/bin/python3 - "$@" <<'PY'
import sys
import numpy as np, onnx
from onnx import helper as h, numpy_helper as nh, TensorProto as T
rng = np.random.default_rng(1)
sizes, nodes, weights = [int(n) for n in sys.argv[2:]], [], {}
last = len(sizes) - 2
for i in range(last + 1):
    weights[f"w{i}"] = rng.standard_normal((sizes[i], sizes[i + 1])) / sizes[i] ** .5
    weights[f"b{i}"] = np.zeros(sizes[i + 1])
    nodes.append(h.make_node("Gemm", ["x" if i == 0 else f"r{i - 1}", f"w{i}", f"b{i}"], ["y" if i == last else f"h{i}"]))
    if i < last:
        nodes.append(h.make_node("Relu", [f"h{i}"], [f"r{i}"]))
graph = h.make_graph(nodes, "mlp", [h.make_tensor_value_info("x", T.FLOAT, ["N", sizes[0]])],
                     [h.make_tensor_value_info("y", T.FLOAT, ["N", sizes[-1]])],
                     [nh.from_array(w.astype("f"), name) for name, w in weights.items()])
model = h.make_model(graph, opset_imports=[h.make_opsetid("", 13)])
model.ir_version = 8
onnx.save(model, sys.argv[1])
PY
}

# make_requests FILE MODEL INPUT OUTPUT SHAPE FLOATS: writes a script for wrk, binary requests of ones.
make_requests() {
    cat >"$1" <<LUA
local json = '{"inputs":[{"name":"$3","shape":[$5],"datatype":"FP32","parameters":{"binary_data_size":$((4 * $6))}}],' ..
    '"outputs":[{"name":"$4","parameters":{"binary_data":true}}]}'
wrk.method = "POST"
wrk.path = "/v2/models/$2/infer"
wrk.headers["Inference-Header-Content-Length"] = tostring(#json)
wrk.headers["Content-Type"] = "application/octet-stream"
wrk.body = json .. string.rep("\0\0\128\63", $6)
LUA
}

# make_bert_requests FILE MODEL TOKENS: the same for a text model; all tokens are 7, unmasked, of one sentence.
make_bert_requests() {
    cat >"$1" <<LUA
local function input(name)
    return '{"name":"' .. name .. '","shape":[1,$3],"datatype":"INT64","parameters":{"binary_data_size":$((8 * $3))}}'
end
local function all(byte) return string.rep(string.char(byte, 0, 0, 0, 0, 0, 0, 0), $3) end
local json = '{"inputs":[' .. input("input_ids") .. "," .. input("attention_mask") .. "," .. input("token_type_ids") ..
    '],"outputs":[{"name":"pooler_output","parameters":{"binary_data":true}}]}'
wrk.method = "POST"
wrk.path = "/v2/models/$2/infer"
wrk.headers["Inference-Header-Content-Length"] = tostring(#json)
wrk.headers["Content-Type"] = "application/octet-stream"
wrk.body = json .. all(7) .. all(1) .. all(0)
LUA
}

# start_server COMMAND...: starts a server in the background and waits until it is ready.
start_server() {
    : >"$tmp/log" # ignore output of the previous server
    "$@" >"$tmp/log" 2>&1 &
    server=$!
    for _ in $(seq 600); do
        ! grep -qE 'listening$|ready, models' "$tmp/log" || return 0
        sleep 0.1
    done
    cat "$tmp/log"
    exit 1
}

stop_server() {
    kill "$server"
    wait "$server" 2>/dev/null || true
    server=
}

# load CONNECTIONS SECONDS SCRIPT: runs wrk, output in $tmp/wrk; wrk_says WORD: a number from the output.
load() {
    wrk -t1 -c"$1" -d"$2" --timeout 60 --latency -s "$3" "http://127.0.0.1:$port" >"$tmp/wrk"
    ! grep -q 'Non-2xx\|Socket errors' "$tmp/wrk" || cat "$tmp/wrk"
}
wrk_says() { awk -v word="$1" '$1 == word {print $2}' "$tmp/wrk"; }
# ticks: CPU time of the server's processes in 1/100 s; converts ticks and requests to microseconds per request.
cpu_ticks() {
    local process all=0
    for process in $server $(cat "/proc/$server/task/$server/children"); do
        all=$((all + $(awk '{print $14 + $15}' "/proc/$process/stat")))
    done
    echo $all
}
cpu_us() { awk -v t="$1" -v n="$2" 'BEGIN {printf "%.1f", t * 10000 / (n > 0 ? n : 1)}'; }
