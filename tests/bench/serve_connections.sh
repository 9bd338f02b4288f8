#!/bin/bash
# Requests per second of inlay-serve by connections and threads. A count of connections that equals the number of events
# that one call of epoll_wait() returns must not be slower than its neighbours: with less than 80 % of both, the row is
# marked and the script fails. The counts alternate, ROUNDS (3) rounds; prints the best of each count, because wrk's time
# includes that of connecting, which other programs delay. tests/serve/test_serve_connections.c tests that no connection
# waits forever. Needs wrk.
#   serve_connections.sh INLAY_SERVE [SECONDS]
set -euo pipefail
serve=$1 seconds=${2:-3}
tmp=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null; rm -rf "$tmp"' EXIT
counts=(1 127 128 129 255 256 257 512 1024)
failed=0
mkdir "$tmp/models"
ulimit -n "$(ulimit -Hn)" 2>/dev/null || true

best() { sort -n "$1" | tail -n 1; }

echo "| threads | connections | requests/s | CPU us a request |"
echo "|---|---|---|---|"
for threads in 1 2 4 8; do
    : >"$tmp/log"
    "$serve" "$tmp/models" --no-config --strict 0 --port 0 --grpc-port -1 --max-connections 2048 --serve-threads "$threads" 2>"$tmp/log" &
    pid=$!
    until grep -q "ready, models" "$tmp/log"; do sleep 0.05; done
    url=$(grep -o 'http://[0-9.:]*' "$tmp/log")
    rm -f "$tmp"/row.*
    for _ in $(seq "${ROUNDS:-3}"); do
        for count in "${counts[@]}"; do
            before=$(awk '{ print $14 + $15 }' "/proc/$pid/stat")
            wrk -t1 -c"$count" -d"${seconds}s" "$url/v2/health/live" >"$tmp/out"
            after=$(awk '{ print $14 + $15 }' "/proc/$pid/stat")
            awk -v ticks="$((after - before))" -v hz="$(getconf CLK_TCK)" '/requests in/ { n = $1 } /Requests\/sec/ { rate = $2 }
                END { printf "%d %.1f\n", rate, (n > 0 ? ticks / hz * 1e6 / n : 0) }' "$tmp/out" >>"$tmp/row.$count"
        done
    done
    rates=()
    for count in "${counts[@]}"; do
        read -r rate cpu < <(best "$tmp/row.$count")
        rates+=("$rate")
        echo "| $threads | $count | $rate | $cpu |"
    done
    for ((i = 2; i + 1 < ${#rates[@]}; i++)); do # each count above 127 beside its neighbours
        if ((rates[i] * 10 < rates[i - 1] * 8 && rates[i] * 10 < rates[i + 1] * 8)); then
            echo "$threads threads, ${counts[i]} connections: ${rates[i]} beside ${rates[i - 1]} and ${rates[i + 1]}"
            failed=1
        fi
    done
    kill "$pid"
    wait "$pid" || true
    pid=
done
exit $failed
