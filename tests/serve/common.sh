# shellcheck shell=bash
# Sourced by the scripts of this folder: a temporary folder ($tmp) and started processes, both removed at the end; a server;
# npm packages. A skipped test exits with 77.
tmp=$(mktemp -d)
# shellcheck source=tests/support/npm.bash
. "$(dirname "$(realpath -- "${BASH_SOURCE[0]}")")/../support/npm.bash"
started=() # processes
finish() {
    for pid in "${started[@]}"; do
        { kill -9 "$pid" && wait "$pid"; } 2>/dev/null || true
    done
    rm -rf "$tmp"
}
trap finish EXIT
fail() { echo "$1"; tail -n 20 "$tmp"/*log "$tmp"/said 2>/dev/null || true; exit 1; }
wait_for() { # SECONDS COMMAND...
    local left=$(($1 * 10))
    shift
    until "$@"; do
        [ $((left--)) -gt 0 ] || fail "timeout: $*"
        sleep 0.1
    done
}
# Prints COUNT free ports.
free_ports() { # COUNT
    /usr/bin/python3 -c '
import socket, sys
taken = [socket.socket() for _ in range(int(sys.argv[1]))]
for s in taken: s.bind(("127.0.0.1", 0))
print(*[s.getsockname()[1] for s in taken])' "$1"
}

# Starts inlay-serve with the models of WRITE_MODELS on ports that are free, and waits until it is ready. Afterwards
# $server is its process, $rest and $grpc are HOST:PORT, $tmp/log is its log.
start_server() { # INLAY_SERVE WRITE_MODELS [FLAG]...
    local serve=$1
    "$2" "$tmp/models"
    shift 2
    "$serve" "$tmp/models" --no-config --port 0 --grpc-port 0 "$@" 2>"$tmp/log" &
    server=$!
    started+=("$server")
    is_ready() { kill -0 "$server" 2>/dev/null || fail "the server ended"; grep -q "ready, models" "$tmp/log"; }
    wait_for 60 is_ready
    rest=$(sed -nE 's/.*on http:\/\/(127\.0\.0\.1:[0-9]+).*/\1/p' "$tmp/log" | head -n 1)
    grpc=$(sed -nE 's/.*on grpc:\/\/(127\.0\.0\.1:[0-9]+).*/\1/p' "$tmp/log" | head -n 1)
    export server rest grpc
}
# Ends the server by SIGTERM; the test fails unless its exit code is 0.
stop_server() {
    kill "$server"
    wait "$server" || fail "the server ended with $?"
}
