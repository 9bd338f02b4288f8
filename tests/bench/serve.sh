#!/bin/bash
# Compares inlay-serve with Node's http and onnxruntime-node, on an MLP 128-64-10 and binary REST requests of one row.
#   serve.sh BUILD_DIR PEER_DIR [SECONDS [mobilenet]]    PEER_DIR has node_modules/onnxruntime-node; needs wrk, python3-onnx
# With `mobilenet` the model is MobileNetV2, one picture per request, with 32 connections.
#
# Each server runs alone, alternating, ROUNDS (3) rounds; wrk and the server share the machine. PEERS: variants of
# Node's server (serve_peer.js), default all. Prints requests per second, CPU time per request (which depends least on
# other load) and latencies for 1, 8 and 32 connections, and finally the times from inlay-serve's metrics.
set -euo pipefail
build=$1 peer=$2 seconds=${3:-5} model=${4:-}
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
port=8199
. "$here/serve_common.sh"
mkdir "$tmp/models"
many="1 8 32"
if [ -n "$model" ]; then
    /usr/bin/python3 "$here/serve_mobilenet.py" "$tmp/models/mlp.onnx"
    make_requests "$tmp/mlp.lua" mlp x y 1,3,224,224 150528
    many=32
else
    make_mlp "$tmp/models/mlp.onnx" 128 64 10
    make_requests "$tmp/mlp.lua" mlp x y 1,128 128
fi

start() {
    if [ "$1" = inlay ]; then
        start_server "$build/bin/inlay-serve" "$tmp/models" --no-config --port $port --grpc-port -1 ${FLAGS:-}
    else
        NODE_PATH=$peer/node_modules start_server node "$here/serve_peer.js" "$tmp/models/mlp.onnx" $port "$1"
    fi
}

printf '%-6s %-7s %11s %12s %10s %10s %10s\n' round server connections requests/s cpu-us/req p50 p99
for round in $(seq "${ROUNDS:-3}"); do
    for which in ${PEERS:-plain single cluster} inlay; do
        start $which
        load 8 1 "$tmp/mlp.lua" # warms up
        for connections in $many; do
            ticks=$(cpu_ticks)
            load $connections "$seconds" "$tmp/mlp.lua"
            ticks=$(($(cpu_ticks) - ticks))
            printf '%-6s %-7s %11s %12s %10s %10s %10s\n' $round $which $connections "$(wrk_says Requests/sec:)" \
                "$(cpu_us $ticks "$(awk '$2 == "requests" {print $1}' "$tmp/wrk")")" "$(wrk_says 50%)" "$(wrk_says 99%)"
        done
        if [ $which = inlay ]; then
            curl -s http://127.0.0.1:$port/metrics | grep -E '^inlay_(request|compute)_seconds_(sum|count|bucket)' >"$tmp/metrics"
        fi
        stop_server
    done
done
echo "metrics of the server, last round:"
grep -E '_(sum|count)|le="(2.5e-05|5e-05|0.0001|\+Inf)"' "$tmp/metrics"
