# shellcheck shell=bash
# Sourced by the scripts of this folder: a temporary folder ($tmp) and started processes, both removed at the end; a server;
# npm packages. A skipped test exits with 77.
tmp=$(mktemp -d)
started=() # processes
finish() {
    for pid in "${started[@]}"; do
        { kill -9 "$pid" && wait "$pid"; } 2>/dev/null || true
    done
    rm -rf "$tmp"
}
trap finish EXIT
fail() { echo "$1"; tail -n 20 "$tmp"/*log "$tmp"/said 2>/dev/null || true; exit 1; }
skip() { echo "skipped: $1"; exit 77; }
need() { # TOOL...
    local tool
    for tool; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done
}
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

# Lets npm install the packages of npm.json into PACKAGES/node_modules, once per version of npm.json.
fetch_packages() { # PACKAGES
    local list
    list=$(dirname "$(realpath -- "${BASH_SOURCE[0]}")")/npm.json
    need node npm flock
    mkdir -p "$1"
    (
        flock 9
        cmp -s "$list" "$1/fetched.json" && exit 0
        cp "$list" "$1/package.json"
        cd "$1" && timeout 240 npm install --ignore-scripts --no-audit --no-fund --fetch-retries=1 \
            --fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=5000 >"$tmp/npm" 2>&1 && cp package.json fetched.json
    ) 9>"$1/lock" || skip "npm cannot fetch the packages of npm.json: $(grep -iE '^npm err' "$tmp/npm" | head -n 1)"
}
