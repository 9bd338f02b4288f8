#!/bin/bash
# Follows the quickstart in clean Debian systems as a reader does: runs samples/quickstart.sh, then pastes each command
# that it printed, in order, into one shell.
#   tests/pasted.sh [--keep NAME] [SUITE]...
# SUITE is bookworm or trixie, by default both. Each system starts with debootstrap's minbase; --keep keeps its packages
# and builds for the next call (sdk/packaging/chroot.sh). Needs root or sudo and the network; takes about ten minutes a
# system on two cores. Prints a line 'ok SUITE: COMMAND' or 'FAIL SUITE: COMMAND' each; the last line is 'N passed, N
# failed'.
set -uo pipefail
tree=$(dirname "$(dirname "$(realpath -- "$0")")")

# A command that serves is right if it answers that it is ready.
served() { # COMMAND
    local server status=1
    bash -c "exec ${1%%#*}" &
    server=$!
    for _ in $(seq 600); do
        kill -0 $server 2>/dev/null || break
        if { exec 4<>/dev/tcp/127.0.0.1/8000; } 2>/dev/null; then
            printf 'GET /v2/health/ready HTTP/1.0\r\n\r\n' >&4
            grep -q '^HTTP/1.[01] 200' <&4 && status=0 && break
        fi
        sleep 0.2
    done
    kill $server 2>/dev/null
    wait $server
    return $status
}

inside() { # SUITE
    local suite=$1 commands
    cd /root/inlay || exit 1
    samples/quickstart.sh >/tmp/quickstart 2>&1 || { cat /tmp/quickstart; echo "FAIL $suite: samples/quickstart.sh"; exit 1; }
    echo "ok $suite: samples/quickstart.sh"
    mapfile -t commands < <(sed '1,/^Next/d' /tmp/quickstart | sed -n 's/^    //p')
    [ ${#commands[@]} -gt 0 ] || echo "FAIL $suite: the quickstart prints no commands"
    for command in "${commands[@]}"; do
        run=(eval "$command")
        [[ $command != *' serve '* ]] || run=(served "$(eval "echo \"${command//\"/\\\"}\"")")
        if "${run[@]}" >/tmp/output 2>&1 </dev/null; then
            echo "ok $suite: $command"
        else
            echo "FAIL $suite: $command"
            tail -n 20 /tmp/output
        fi
    done
    echo "finished $suite"
}

if [ "${1:-}" = --inside ]; then
    inside "$2"
    exit
fi
keep=()
if [ "${1:-}" = --keep ]; then
    keep=(--keep "$2")
    shift 2
fi
[ $# -gt 0 ] || set -- bookworm trixie
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree"
"$tree/sdk/packaging/tree.sh" "$work/tree"
for suite in "$@"; do
    # The certificates of this machine's own network are in the system's list only (chroot.sh).
    # shellcheck disable=SC2016
    "$tree/sdk/packaging/chroot.sh" "${keep[@]}" --bind "$work/tree:/tree" "$suite" bash -c '
        mkdir -p /root/inlay && tar -c -C /tree --owner=0 --group=0 . | tar -x -C /root/inlay
        export NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
        exec bash /root/inlay/tests/pasted.sh --inside "$1"' pasted "$suite"
done | tee "$work/log"
passed=$(grep -c '^ok ' "$work/log")
failed=$(grep -c '^FAIL ' "$work/log")
failed=$((failed + $# - $(grep -c '^finished ' "$work/log"))) # a system that ended early
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
