#!/bin/bash
# Requests per second with an input of 4 MB in POSIX shared memory, compared with the same input in the body of a request
# over REST (binary). The model reads 10 numbers of the input, so the numbers are those of the transport. The two
# kinds of requests alternate, ROUNDS (5) rounds; prints the medians of 1 and 8 connections.
#   serve_shared_memory.sh INLAY_SERVE [SECONDS]    needs wrk, python3-onnx
set -euo pipefail
serve=$1 seconds=${2:-2} floats=1048576
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
port=8198
# shellcheck source=tests/bench/serve_common.sh
. "$here/serve_common.sh"
object=/dev/shm/inlay-bench-$$
trap '[ -z "$server" ] || kill "$server"; rm -rf "$tmp" "$object"' EXIT
mkdir "$tmp/models"
/usr/bin/python3 - "$tmp/models/first.onnx" "$object" $floats <<'PY'
import sys
import numpy as np, onnx
from onnx import helper as h, numpy_helper as nh, TensorProto as T
ends = [nh.from_array(np.array([n], np.int64), name) for n, name in ((0, "from"), (10, "to"), (1, "axis"))]
graph = h.make_graph([h.make_node("Slice", ["x", "from", "to", "axis"], ["y"])], "first",
                     [h.make_tensor_value_info("x", T.FLOAT, ["N", int(sys.argv[3])])],
                     [h.make_tensor_value_info("y", T.FLOAT, ["N", 10])], ends)
onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8), sys.argv[1])
np.ones(int(sys.argv[3]), np.float32).tofile(sys.argv[2])
PY
make_requests "$tmp/body.lua" first x y 1,$floats $floats
cat >"$tmp/region.lua" <<LUA
wrk.method = "POST"
wrk.path = "/v2/models/first/infer"
wrk.body = '{"inputs":[{"name":"x","shape":[1,$floats],"datatype":"FP32","parameters":{"shared_memory_region":"in",' ..
    '"shared_memory_byte_size":$((4 * floats))}}],"outputs":[{"name":"y","parameters":{"binary_data":true}}]}'
LUA
start_server "$serve" "$tmp/models" --no-config --port $port --grpc-port -1 --shared-memory 1
curl -sf -d "{\"key\":\"/$(basename "$object")\",\"offset\":0,\"byte_size\":$((4 * floats))}" \
    http://127.0.0.1:$port/v2/systemsharedmemory/region/in/register

echo "| connections | input | requests/s | CPU us a request | p99 |"
echo "|---|---|---|---|---|"
for connections in 1 8; do
    for _ in $(seq "${ROUNDS:-5}"); do
        for kind in body region; do
            ticks=$(cpu_ticks)
            load $connections "$seconds" "$tmp/$kind.lua"
            ticks=$(($(cpu_ticks) - ticks))
            echo "$(wrk_says Requests/sec:) $(cpu_us $ticks "$(awk '$2 == "requests" {print $1}' "$tmp/wrk")") $(wrk_says 99%)" \
                >>"$tmp/$kind.$connections"
        done
    done
    for kind in body region; do
        sort -n "$tmp/$kind.$connections" | awk -v c=$connections -v k=$kind '{ line[NR] = $0 }
            END { split(line[int((NR + 1) / 2)], f, " "); printf "| %d | %s | %s | %s | %s |\n", c, k, f[1], f[2], f[3] }'
    done
done
