#!/bin/bash
# The server over gRPC, called by the client that others wrote for Node.js, @grpc/grpc-js, from the service's description.
#   grpc_js.sh INLAY_SERVE WRITE_MODELS PACKAGES
#
# npm fetches the client into the folder PACKAGES once, which is kept. Exit code 77: no Node.js or npm, or nothing to fetch
# from.
set -euo pipefail
here=$(dirname "$(realpath -- "$0")")
# shellcheck source=tests/serve/common.sh
. "$here/../common.sh"
fetch_packages "$3"
start_server "$1" "$2"
node "$here/client.js" "$3" "$here/inference.proto" "${grpc#*:}" || fail "the client found something"
stop_server
