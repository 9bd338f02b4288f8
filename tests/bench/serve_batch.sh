#!/bin/bash
# The gain of dynamic batching: inlay-serve compared with itself with max_batch 1, on an MLP 784-1024-1024-10 and
# binary REST requests of one row, with 32 connections.
#   serve_batch.sh BUILD_DIR [SECONDS [TARGET_US]]    needs wrk and python3-onnx
#
# Each setting runs alone, alternating, three rounds; wrk and the server share the machine. Prints requests per
# second, CPU time per request, latencies, and the mean rows per run. TARGET_US: a third setting, 64 rows with that
# batch_target_us, whose p99 should stay below. With BERT=FILE.onnx it uses that model instead
# (tests/models/export_models.py writes one, bert_base), with TOKENS (32) tokens per request and at most 16 rows.
# ROUNDS (3): number of rounds.
set -euo pipefail
build=$1 seconds=${2:-5} target=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
port=8198
. "$here/serve_common.sh"
mkdir "$tmp/models"
most=64
if [ -n "${BERT:-}" ]; then
    most=16
    ln -s "$(realpath "$BERT")" "$tmp/models/mlp.onnx"
    make_bert_requests "$tmp/mlp.lua" mlp "${TOKENS:-32}"
else
    make_mlp "$tmp/models/mlp.onnx" 784 1024 1024 10
    make_requests "$tmp/mlp.lua" mlp x y 1,784 784
fi

metric() { curl -s http://127.0.0.1:$port/metrics | awk -v name="$1{model=\"mlp\",version=\"1\"}" '$1 == name {print $2}'; }

printf '%-6s %-9s %11s %10s %10s %10s %9s %9s\n' round max_batch requests/s cpu-us/req p50 p99 rows/run best
for round in $(seq "${ROUNDS:-3}"); do
    for batch in 1 $most ${target:+$most:$target}; do
        flags=(--max-batch "${batch%:*}")
        [ "$batch" = "${batch%:*}" ] || flags+=(--batch-target-us "${batch#*:}")
        start_server "$build/bin/inlay-serve" "$tmp/models" --no-config --port $port --grpc-port -1 "${flags[@]}" ${FLAGS:-}
        load 32 1 "$tmp/mlp.lua" # warms up
        ticks=$(cpu_ticks)
        rows=$(metric inlay_rows_total) runs=$(metric inlay_compute_seconds_count)
        load 32 "$seconds" "$tmp/mlp.lua"
        ticks=$(($(cpu_ticks) - ticks)) rows=$(($(metric inlay_rows_total) - rows)) runs=$(($(metric inlay_compute_seconds_count) - runs))
        printf '%-6s %-9s %11s %10s %10s %10s %9s %9s\n' $round "$batch" "$(wrk_says Requests/sec:)" \
            "$(cpu_us "$ticks" "$rows")" "$(wrk_says 50%)" "$(wrk_says 99%)" \
            "$(awk -v r="$rows" -v n="$runs" 'BEGIN {printf "%.1f", r / n}')" "$(metric inlay_batch_best_rows)"
        stop_server
    done
done
