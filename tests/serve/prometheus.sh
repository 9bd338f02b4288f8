#!/bin/bash
# Prometheus scrapes the server, and queries return its metrics: counts, a histogram quantile, and the query of
# samples/deploy's ScaledObject.
#   prometheus.sh INLAY_SERVE WRITE_MODELS KUBERNETES_YAML
#
# Exit code 77: Prometheus or curl is not installed.
set -euo pipefail
# shellcheck source=tests/serve/common.sh
. "$(dirname "$(realpath -- "$0")")/common.sh"
need prometheus promtool curl jq
start_server "$1" "$2"
cat >"$tmp/prometheus.yml" <<YAML
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
  - job_name: inlay
    static_configs: [{targets: ["$rest"]}]
YAML
promtool check config "$tmp/prometheus.yml" >"$tmp/said" 2>&1 || fail "promtool refuses the settings"
port=$(free_ports 1)
prometheus --config.file="$tmp/prometheus.yml" --storage.tsdb.path="$tmp/data" --web.listen-address="127.0.0.1:$port" \
    --log.level=warn >"$tmp/prometheus.log" 2>&1 &
started+=($!)

for i in 1 2 3 4 5 6 7; do
    curl -sSf -d '{"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[1,2,3]}]}' \
        "http://$rest/v2/models/twice/infer" >/dev/null || fail "request $i"
done
curl -sS -d '{' "http://$rest/v2/models/twice/infer" >/dev/null

api=http://127.0.0.1:$port/api/v1
value() { # QUERY: prints its result, or none unless it is a single number
    curl -sSf -G --data-urlencode "query=$1" "$api/query" 2>>"$tmp/said" |
        jq -r 'if (.data.result | length) == 1 then .data.result[0].value[1] else "none" end'
}
says() { [ "$(value "$1")" = "$2" ]; }
is_up() { says 'up{job="inlay"}' 1 && says 'inlay_requests_total{model="twice",version="1"}' 7; }
wait_for 90 is_up
says 'sum(inlay_request_errors_total{model="twice"})' 1 || fail "errors: $(value 'sum(inlay_request_errors_total{model="twice"})')"
says 'inlay_request_seconds_count{model="twice",version="1"}' 7 || fail "the histogram's count"
says 'histogram_quantile(0.5, sum by (le) (inlay_request_seconds_bucket{model="twice"})) > bool 0' 1 || fail "no median"
says 'inlay_ready' 1 || fail "not ready"
scale=$(sed -nE 's/^ *query: (.*)/\1/p' "$3")
[ -n "$scale" ] || fail "there is no query in $3"
says "$scale" 0 || fail "$scale: $(value "$scale")"
curl -sSf "$api/targets" | jq -e '.data.activeTargets | length == 1 and .[0].health == "up" and .[0].lastError == ""' \
    >/dev/null || fail "the target is not healthy"
# The metadata is scraped, too: Prometheus knows the type of each metric, by its name in OpenMetrics.
[ "$(curl -sSf "$api/metadata?metric=inlay_requests" | jq -r '.data.inlay_requests[0].type')" = counter ] ||
    fail "no metadata"
stop_server
