#!/bin/bash
# Calls the server over gRPC with the Node.js client @grpc/grpc-js, from the service's .proto file.
#   grpc_js.sh INLAY_SERVE WRITE_MODELS PACKAGES
#
# npm fetches the client into the folder PACKAGES once. Exit code 77: no Node.js or npm, or no access to the registry.
set -euo pipefail
here=$(dirname "$(realpath -- "$0")")
# shellcheck source=tests/serve/common.sh
. "$here/../common.sh"
fetch_packages "$3" "$(dirname "$(realpath -- "$0")")/../npm.json"
start_server "$1" "$2"
node "$here/client.js" "$3" "$here/inference.proto" "${grpc#*:}" || fail "the client reports an error"
stop_server
