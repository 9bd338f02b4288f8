#!/bin/bash
# The server over gRPC, called by the client that others wrote for Node.js, @grpc/grpc-js, from the service's description.
#   grpc_js.sh INLAY_SERVE WRITE_MODELS PACKAGES
#
# npm fetches the client into the folder PACKAGES once, which is kept. Exit code 77: no Node.js or npm, or nothing to fetch
# from.
set -euo pipefail
serve=$1 write_models=$2 packages=$3
here=$(dirname "$(realpath -- "$0")")
for tool in node npm; do
    command -v $tool >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
tmp=$(mktemp -d)
server=
end() {
    [ -z "$server" ] || kill -9 "$server" 2>/dev/null || true
    rm -rf "$tmp"
}
trap end EXIT
fail() { echo "$1"; tail -n 20 "$tmp"/log; exit 1; }

if [ ! -e "$packages/fetched" ]; then
    mkdir -p "$packages"
    echo '{"private": true, "dependencies": {"@grpc/grpc-js": "1.12.6", "@grpc/proto-loader": "0.7.13"}}' \
        >"$packages/package.json"
    if ! (cd "$packages" && timeout 120 npm install --ignore-scripts --no-audit --no-fund) >"$tmp/npm" 2>&1; then
        echo "skipped: npm cannot fetch @grpc/grpc-js: $(tail -n 1 "$tmp/npm")"
        exit 77
    fi
    : >"$packages/fetched"
fi

"$write_models" "$tmp/models"
"$serve" "$tmp/models" --no-config --port 0 --grpc-port 0 2>"$tmp/log" &
server=$!
for ((i = 0; i < 600; i++)); do
    grep -q "ready, models" "$tmp/log" && break
    kill -0 $server 2>/dev/null || fail "the server ended"
    sleep 0.1
done
port=$(sed -nE 's/.*on grpc:\/\/127\.0\.0\.1:([0-9]+).*/\1/p' "$tmp/log")
node "$here/client.js" "$packages" "$here/inference.proto" "$port" || fail "the client found something"
kill $server
wait $server || fail "the server ended with $?"
server=
