#!/bin/bash
# CPU time of inlay-serve per request with spans of one request in a hundred (trace_endpoint), compared with none and with
# spans of all. The three servers are asked at the same time, so that other programs slow all of them, ROUNDS (9) rounds;
# prints the medians, and the median of the rounds' differences to no spans in percent; more than 1 % for one in a hundred:
# the script fails. A collector that only answers takes the spans.
# Needs wrk and python3 with onnx.
#   serve_traces.sh INLAY_SERVE [SECONDS]
set -euo pipefail
serve=$1 seconds=${2:-3}
tmp=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$tmp"' EXIT
kinds=(none hundredth all)
before=()

# shellcheck source=tests/bench/serve_common.sh
eval "$(sed -n '/^make_mlp()/,/^}/p; /^make_requests()/,/^}/p' "$(dirname "$0")/serve_common.sh")"
median() { sort -g "$1" | awk '{ line[NR] = $1 } END { print line[int((NR + 1) / 2)] }'; }

# CPU time of a process and its threads, none of which ends meanwhile.
cpu_ns() { cat "/proc/$1/task/"*/schedstat | awk '{ ns += $1 } END { printf "%.0f", ns }'; }

collector=$(
    cat <<'PY'
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
PY
)
python3 -c "$collector" >"$tmp/port" &
pids+=($!)
until [ -s "$tmp/port" ]; do sleep 0.05; done
port=$(cat "$tmp/port")

echo "| model | spans of | CPU us a request | more than none, % |"
echo "|---|---|---|---|"
failed=0
for sizes in "64 64 10" "784 256 256 10"; do
    read -r first _ <<<"$sizes"
    mkdir -p "$tmp/models"
    # shellcheck disable=SC2086
    make_mlp "$tmp/models/mlp.onnx" $sizes
    make_requests "$tmp/requests.lua" mlp x y "1,$first" "$first"
    urls=() servers=()
    for kind in "${kinds[@]}"; do
        flags=()
        [ "$kind" = none ] || flags=(--trace-endpoint "http://127.0.0.1:$port" --trace-sample "$([ "$kind" = all ] && echo 1 || echo 100)")
        "$serve" "$tmp/models" --no-config --port 0 --grpc-port -1 --intra-threads 1 "${flags[@]}" 2>"$tmp/log.$kind" &
        servers+=($!)
        pids+=($!)
        until grep -q "ready, models" "$tmp/log.$kind"; do sleep 0.05; done
        urls+=("$(grep -o 'http://[0-9.:]*' "$tmp/log.$kind" | head -1)")
        : >"$tmp/cpu.$kind"
        : >"$tmp/more.$kind"
    done
    for round in $(seq 0 "${ROUNDS:-9}"); do # the first one takes the spans of steps that are at once
        wrks=()
        for ((i = 0; i < 3; i++)); do
            before[i]=$(cpu_ns "${servers[i]}")
            wrk -t1 -c2 -d"$((round == 0 ? 5 * seconds : seconds))s" -s "$tmp/requests.lua" "${urls[i]}" >"$tmp/out.$i" &
            wrks+=($!)
        done
        wait "${wrks[@]}"
        sleep 1 # until the last spans are sent
        for ((i = 0; i < 3; i++)); do
            after=$(cpu_ns "${servers[i]}")
            ! grep -q "Non-2xx" "$tmp/out.$i" || { cat "$tmp/out.$i"; exit 1; }
            cpu=$(awk -v ns="$((after - before[i]))" '/requests in/ { print ns / 1000 / $1 }' "$tmp/out.$i")
            [ "$i" -gt 0 ] || none=$cpu
            [ "$round" = 0 ] || echo "$cpu" >>"$tmp/cpu.${kinds[i]}"
            [ "$round" = 0 ] || awk -v a="$none" -v b="$cpu" 'BEGIN { print (b / a - 1) * 100 }' >>"$tmp/more.${kinds[i]}"
        done
    done
    for kind in "${kinds[@]}"; do
        more=$(median "$tmp/more.$kind")
        printf '| MLP %s | %s | %.1f | %.1f |\n' "${sizes// /-}" "$kind" "$(median "$tmp/cpu.$kind")" "$more"
        if [ "$kind" = hundredth ] && awk -v more="$more" 'BEGIN { exit !(more > 1) }'; then failed=1; fi
    done
    kill "${servers[@]}"
    wait "${servers[@]}" || true
done
exit $failed
