#!/bin/bash
# The Grafana board and the alert rules of samples/deploy use metrics that the server has, and promtool accepts them.
#   board.sh INLAY_SERVE WRITE_MODELS DEPLOY_DIR
#
# Exit code 77: curl or python3 is not installed. Without promtool, only the names are checked.
set -euo pipefail
# shellcheck source=tests/serve/common.sh
. "$(dirname "$(realpath -- "$0")")/common.sh"
need curl python3
start_server "$1" "$2"
curl -sSf -d '{"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[1,2,3]}]}' \
    "http://$rest/v2/models/twice/infer" >/dev/null || fail "the request"
curl -sSf "http://$rest/metrics" >"$tmp/metrics" || fail "no /metrics"
python3 "${0%/*}/board.py" "$3" "$tmp/metrics" "$tmp/rules.yml" || fail "the board or the rules (above)"
# A name that the server lacks is found.
mkdir "$tmp/planted"
sed 's/inlay_ready/inlay_raedy/' "$3/grafana.json" >"$tmp/planted/grafana.json"
cp "$3/alerts.yaml" "$tmp/planted/"
if python3 "${0%/*}/board.py" "$tmp/planted" "$tmp/metrics" "$tmp/planted/rules.yml" >"$tmp/said"; then
    fail "a planted name was not found"
fi
if command -v promtool >/dev/null; then
    promtool check rules "$3/alerts.yaml" >"$tmp/said" 2>&1 || fail "promtool refuses alerts.yaml"
    promtool check rules "$tmp/rules.yml" >"$tmp/said" 2>&1 || fail "promtool refuses a query of the board"
fi
stop_server
