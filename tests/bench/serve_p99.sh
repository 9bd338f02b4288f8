#!/bin/bash
# Whether dynamic batching meets a target p99: an MLP 1024-2048-2048-10, one row per request, at a fixed rate.
#   serve_p99.sh BUILD_DIR [SECONDS [RATE [TARGET_MS...]]]    needs python3-onnx
#
# Each setting runs alone, alternating, ROUNDS (2) rounds: max_batch 1; 64, where a request may wait half a second for
# others; the same with each target as batch_target_us. Prints latencies at the client and, from the server's metrics,
# requests over the target and mean rows per run.
set -euo pipefail
build=$1 seconds=${2:-10} rate=${3:-100}
shift $(($# < 3 ? $# : 3))
targets=${*:-100 200 400}
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
port=8197
. "$here/serve_common.sh"
mkdir "$tmp/models"
make_mlp "$tmp/models/mlp.onnx" 1024 2048 2048 10

metric() { curl -s http://127.0.0.1:$port/metrics | awk -v name="$1{model=\"mlp\",version=\"1\"}" '$1 == name {print $2}'; }
open_loop() { /usr/bin/python3 "$here/serve_open_loop.py" $port mlp x 1024 "$rate" "$1"; }

printf '%-5s %-9s %8s %8s %6s %9s %9s %9s %8s %8s\n' round max_batch target requests failed p50/ms p99/ms most/ms over rows/run
for round in $(seq "${ROUNDS:-2}"); do
    for what in 1: 64: $(printf '64:%s ' $targets); do
        target=${what#*:}
        flags=(--max-batch "${what%:*}" --max-queue 100000 --batch-delay-us 500000)
        [ -z "$target" ] || flags+=(--batch-target-us $((target * 1000)))
        start_server "$build/bin/inlay-serve" "$tmp/models" --no-config --port $port --grpc-port -1 "${flags[@]}" ${FLAGS:-}
        open_loop 2 >/dev/null # warms up
        rows=$(metric inlay_rows_total) runs=$(metric inlay_compute_seconds_count) over=$(metric inlay_over_target_total)
        read -r requests failed p50 p99 most < <(open_loop "$seconds")
        rows=$(($(metric inlay_rows_total) - rows)) runs=$(($(metric inlay_compute_seconds_count) - runs))
        over=$(($(metric inlay_over_target_total) - over))
        printf '%-5s %-9s %8s %8s %6s %9s %9s %9s %8s %8s\n' $round "${what%:*}" "${target:--}" "$requests" "$failed" "$p50" \
            "$p99" "$most" "$([ -z "$target" ] && echo - || awk -v n=$over -v m="$requests" 'BEGIN {printf "%.2f%%", 100 * n / m}')" \
            "$(awk -v r="$rows" -v n="$runs" 'BEGIN {printf "%.1f", r / n}')"
        stop_server
    done
done
