#!/bin/bash
# Checks samples/deploy/envoy.yaml against Envoy's protobuf definitions, which are part of @grpc/grpc-js-xds.
#   envoy.sh DEPLOY_DIR PACKAGES
#
# npm installs it into the folder PACKAGES once. Exit code 77: no Node.js, npm or python3-yaml, or no access to the
# registry. If Envoy is installed, it validates the file, too.
set -euo pipefail
here=$(dirname "$(realpath -- "$0")")
# shellcheck source=tests/serve/common.sh
. "$here/../common.sh"
/usr/bin/python3 -c 'import yaml' 2>/dev/null || skip "python3-yaml is not installed"
fetch_packages "$2" "$(dirname "$(realpath -- "$0")")/../npm.json"
/usr/bin/python3 -c 'import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)' <"$1/envoy.yaml" >"$tmp/json"
NODE_PATH=$(realpath "$2")/node_modules node "$here/envoy.js" "$tmp/json"
if command -v envoy >/dev/null; then
    envoy --mode validate -c "$1/envoy.yaml" >"$tmp/said" 2>&1 || fail "Envoy refuses it"
fi
