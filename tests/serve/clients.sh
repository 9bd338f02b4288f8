#!/bin/bash
# Tests with third-party clients: h2load over HTTP/2, wrk over HTTP/1.1, curl over both, and promtool, which reads /metrics.
#   clients.sh INLAY_SERVE WRITE_MODELS
#
# A client that is not installed is skipped and named; the exit code is then 77 unless another test fails.
set -euo pipefail
# shellcheck source=tests/serve/common.sh
. "$(dirname "$(realpath -- "$0")")/common.sh"
need curl
missing=
have() { command -v "$1" >/dev/null || { missing="$missing $1"; return 1; }; }

start_server "$1" "$2"
rest=http://$rest grpc=http://$grpc/inference.GRPCInferenceService
metric() { curl -sS "$rest/metrics" | awk -v name="$1" '$1 == name { print $2 }'; }
served() { metric 'inlay_requests_total{model="twice",version="1"}'; }
served_exactly() { # NUMBER, once the last answer is counted
    for ((i = 0; i < 100; i++)); do
        [ "$(served)" = "$1" ] && return
        sleep 0.05
    done
    fail "$2: the server has answered $(served) requests and not $1"
}

# One row for `twice`: as JSON for REST, and as one length-prefixed message for gRPC.
echo '{"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[1,2,3]}]}' >"$tmp/json"
printf '\0\0\0\0\046\n\005twice*\035\n\001x\022\004FP32\032\002\001\003*\0162\014\0\0\200\077\0\0\0\100\0\0\100\100' \
    >"$tmp/message"
as_grpc=(-H 'content-type: application/grpc' -H 'te: trailers')

# ------------------------------------------------------------------ curl

curl -sSf -d @"$tmp/json" "$rest/v2/models/twice/infer" >"$tmp/said"
grep -qF '"data":[2.0,4.0,6.0]' "$tmp/said" || fail "curl, JSON: wrong answer"
curl -sSf --http2-prior-knowledge -D "$tmp/head" "${as_grpc[@]}" --data-binary @"$tmp/message" "$grpc/ModelInfer" |
    od -An -tx1 -v | tr -d ' \n' >"$tmp/said"
grep -q 320c000000400000804'0*'0000c040\$ "$tmp/said" || fail "curl, gRPC: wrong answer"
grep -q '^grpc-status: 0' "$tmp/head" || fail "curl, gRPC: wrong status"
served_exactly 2 curl

# ------------------------------------------------------------------ h2load: HTTP/2, many requests a connection

total=2
if have h2load; then
    h2load -n 2000 -c 8 -m 16 -d "$tmp/message" "${as_grpc[@]}" "$grpc/ModelInfer" >"$tmp/said" 2>&1 ||
        fail "h2load failed"
    grep -q "2000 done, 2000 succeeded, 0 failed, 0 errored, 0 timeout" "$tmp/said" || fail "h2load: some failed"
    grep -q "status codes: 2000 2xx, 0 3xx, 0 4xx, 0 5xx" "$tmp/said" || fail "h2load: not only 2xx"
    total=$((total + 2000))
    served_exactly $total h2load # gRPC errors also have code 200
    h2load --h1 -n 2000 -c 8 -d "$tmp/json" "$rest/v2/models/twice/infer" >"$tmp/said" 2>&1 || fail "h2load failed"
    grep -q "status codes: 2000 2xx, 0 3xx, 0 4xx, 0 5xx" "$tmp/said" || fail "h2load, HTTP/1.1: not only 2xx"
    total=$((total + 2000))
    served_exactly $total "h2load, HTTP/1.1"
fi

# ------------------------------------------------------------------ wrk: HTTP/1.1

if have wrk; then
    cat >"$tmp/wrk.lua" <<LUA
wrk.method = "POST"
wrk.body = io.open("$tmp/json"):read("*a")
LUA
    wrk -t 1 -c 8 -d 1s -s "$tmp/wrk.lua" "$rest/v2/models/twice/infer" >"$tmp/said" 2>&1 || fail "wrk failed"
    grep -qE "Non-2xx|Socket errors" "$tmp/said" && fail "wrk: not only 2xx"
    grep -qE "^ +[1-9][0-9]* requests in" "$tmp/said" || fail "wrk: no requests"
fi

# ------------------------------------------------------------------ promtool

if have promtool; then
    curl -sS -d '{' "$rest/v2/models/twice/infer" >/dev/null # an error, which is also counted
    curl -sSf "$rest/metrics" >"$tmp/metrics"
    promtool check metrics <"$tmp/metrics" >"$tmp/said" 2>&1 || fail "promtool finds errors in /metrics"
    [ ! -s "$tmp/said" ] || fail "promtool reports on /metrics"
    # promtool must report a metric without HELP text; otherwise its silence proves nothing.
    grep -v '^# HELP inlay_runs ' "$tmp/metrics" | promtool check metrics >"$tmp/said" 2>&1 && fail "promtool does not detect a missing HELP text"
fi

stop_server
[ -z "$missing" ] || { echo "skipped, not installed:$missing"; exit 77; }
