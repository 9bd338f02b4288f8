#!/bin/bash
# Follows the documents in clean Debian systems as a reader does: runs samples/quickstart.sh, pastes each command that it
# printed, in order, into one shell, installs from source as sdk/docs/pages/install.md says, and then runs the commands of
# all documents: the tests docs_commands, docs_pages, docs_snippets and those of the samples' guides.
#   tests/pasted.sh [--keep NAME] [SUITE]...
# SUITE is bookworm or trixie, by default both. Each system starts with debootstrap's minbase; --keep keeps its packages
# and builds for the next call (sdk/packaging/chroot.sh). Needs root or sudo and the network; takes about twenty minutes
# a system on two cores. Prints a line 'ok SUITE: COMMAND' or 'FAIL SUITE: COMMAND' each; the last line is 'N passed, N
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

try() { # SUITE COMMAND: runs the command in this shell
    local run=(eval "$2") seconds=$SECONDS
    [[ $2 != *' serve '* ]] || run=(served "$(eval "echo \"${2//\"/\\\"}\"")")
    if "${run[@]}" >/tmp/output 2>&1 </dev/null; then
        echo "ok $1: $2 ($((SECONDS - seconds)) s)"
    else
        echo "FAIL $1: $2"
        tail -n 20 /tmp/output
    fi
}

inside() { # SUITE
    local suite=$1 commands command
    cd /root/inlay || exit 1
    samples/quickstart.sh >/tmp/quickstart 2>&1 || { cat /tmp/quickstart; echo "FAIL $suite: samples/quickstart.sh"; exit 1; }
    echo "ok $suite: samples/quickstart.sh"
    mapfile -t commands < <(sed '1,/^Next/d' /tmp/quickstart | sed -n 's/^    //p')
    [ ${#commands[@]} -gt 0 ] || echo "FAIL $suite: the quickstart prints no commands"
    for command in "${commands[@]}"; do
        try "$suite" "$command"
    done
    try "$suite" 'sh tests/install.sh'
    try "$suite" "$(sed -n 's/^    \(cmake --preset release .*\)/\1/p' sdk/docs/pages/install.md)"
    try "$suite" 'sh tests/install.sh --packages python3-numpy python3-onnx' # of tutorial.md
    # The tests of the documents need no other program of the tests.
    try "$suite" 'cmake --preset release -DINLAY_TESTS=ON'
    ctest --test-dir build/release -V -R '^(docs_(pages|commands|snippets)|package|readme_.*)$' >/tmp/output 2>&1 ||
        grep -E '^[0-9]+: ' /tmp/output | tail -n 60
    sed -nE -e "s/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: (.* Passed .*)/ok $suite: \1/p; t" \
        -e "s/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: (.*)/FAIL $suite: \1/p; t" \
        -e "s/^[0-9]+: ([0-9]+ commands[ ,].*)/   $suite: \1/p" /tmp/output
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
        mkdir -p /root/inlay
        find /root/inlay -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
        tar -c -C /tree --owner=0 --group=0 . | tar -x -C /root/inlay
        export NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
        exec bash /root/inlay/tests/pasted.sh --inside "$1"' pasted "$suite"
done | tee "$work/log"
passed=$(grep -c '^ok ' "$work/log")
failed=$(grep -c '^FAIL ' "$work/log")
failed=$((failed + $# - $(grep -c '^finished ' "$work/log"))) # a system that ended early
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
