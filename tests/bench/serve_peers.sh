#!/bin/bash
# Compares inlay-serve with what a user would write; one row a request, binary REST. Models: small, an MLP 64-64-10; mlp, one
# bound by its weights, 1024-2048-10; mobilenet, MobileNetV2; bert, BERT-small of 8 bits with 32 tokens. Servers:
#   node       serve_peer.js with onnxruntime-node, one thread a run
#   cpp-ort    serve_peer.cpp with onnxruntime-node's library, one thread a run
#   cpp-inlay  serve_peer.cpp with libinlay, one thread a run
#   serve_peers.sh BUILD_DIR PEER_DIR INCLUDE [SECONDS]
# PEER_DIR has node_modules/onnxruntime-node, INCLUDE onnxruntime_c_api.h; needs wrk, g++, python3-onnx. All servers run at
# the same time, and the load alternates between them, ROUNDS (7) rounds; prints medians. Rounds have SECONDS (2), and more
# if 64 or more connections wait for a large model. MODELS, SERVERS and CONNECTIONS choose rows; FLAGS are those of inlay-serve.
set -euo pipefail
build=$(realpath "$1") peer=$(realpath "$2") include=$3 seconds=${4:-2}
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
# shellcheck source=tests/bench/serve_common.sh
. "$here/serve_common.sh"
read -ra servers <<<"${SERVERS:-inlay cpp-ort cpp-inlay node}"
read -ra flags <<<"${FLAGS:-}"
declare -A pids ports
trap 'for name in "${!pids[@]}"; do kill "${pids[$name]}" 2>/dev/null; done; rm -rf "$tmp"' EXIT
library=$(find "$peer/node_modules/onnxruntime-node/bin" -path '*linux/x64/libonnxruntime.so.1' | head -1)
g++ -O2 -std=c++17 "$here/serve_peer.cpp" -I "$include" -ldl -pthread -o "$tmp/cpp-ort"
g++ -O2 -std=c++17 -DUSE_INLAY "$here/serve_peer.cpp" -I "$here/../../sdk/include" -L "$build/lib" -Wl,-rpath,"$build/lib" \
    -linlay -pthread -o "$tmp/cpp-inlay"

start() { # NAME MODEL PORT
    case $1 in
    inlay) start_server "$build/bin/inlay-serve" "$2" --no-config --port "$3" --grpc-port -1 "${flags[@]}" ;;
    node) NODE_PATH=$peer/node_modules start_server node "$here/serve_peer.js" "$2" "$3" single ;;
    cpp-ort) start_server "$tmp/cpp-ort" "$library" "$2" "$3" ;;
    cpp-inlay) start_server "$tmp/cpp-inlay" - "$2" "$3" ;;
    esac
    pids[$1]=$server ports[$1]=$3
    server=
}

echo "| model | connections | server | requests/s | CPU us a request | p99 |"
echo "|---|---|---|---|---|---|"
for model in ${MODELS:-small mlp mobilenet bert}; do
    longer=1
    case $model in
    small)
        make_mlp "$tmp/$model.onnx" 64 64 10
        make_requests "$tmp/load.lua" $model x y 1,64 64 ;;
    mlp)
        make_mlp "$tmp/$model.onnx" 1024 2048 10
        make_requests "$tmp/load.lua" $model x y 1,1024 1024 ;;
    mobilenet)
        longer=4
        /usr/bin/python3 "$here/serve_mobilenet.py" "$tmp/$model.onnx"
        make_requests "$tmp/load.lua" "$model" x y 1,3,224,224 150528 ;;
    bert)
        longer=4
        /usr/bin/python3 "$here/serve_bert.py" "$tmp/$model.onnx"
        make_bert_requests "$tmp/load.lua" "$model" 32 ;;
    *) echo "no model $model" && exit 1 ;;
    esac
    port=8210
    for name in "${servers[@]}"; do
        start "$name" "$tmp/$model.onnx" $port
        load 8 1 "$tmp/load.lua" # warms up
        port=$((port + 1))
    done
    for connections in ${CONNECTIONS:-1 8 64 256}; do
        long=$((connections < 64 ? seconds : seconds * longer))
        rm -f "$tmp"/row.*
        for _ in $(seq "${ROUNDS:-7}"); do
            for name in "${servers[@]}"; do
                server=${pids[$name]} port=${ports[$name]}
                ticks=$(cpu_ticks)
                load "$connections" "$long" "$tmp/load.lua"
                ticks=$(($(cpu_ticks) - ticks))
                echo "$(wrk_says Requests/sec:) $(cpu_us $ticks "$(awk '$2 == "requests" {print $1}' "$tmp/wrk")") $(wrk_says 99%)" \
                    >>"$tmp/row.$name"
            done
        done
        server=
        for name in "${servers[@]}"; do # each column has its own median
            rate=$(cut -d' ' -f1 "$tmp/row.$name" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }')
            cpu=$(cut -d' ' -f2 "$tmp/row.$name" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }')
            p99=$(cut -d' ' -f3 "$tmp/row.$name" | sed 's/us$/ 0.001/; s/ms$/ 1/; s/s$/ 1000/' | awk '{ print $1 * $2 }' |
                sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }')
            echo "| $model | $connections | $name | $rate | $cpu | $p99 ms |"
        done
    done
    for name in "${servers[@]}"; do
        kill "${pids[$name]}"
        wait "${pids[$name]}" 2>/dev/null || true
        unset "pids[$name]"
    done
done
