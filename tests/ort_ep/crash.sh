#!/bin/bash
# A library of an execution provider that crashes while it is opened: the plug-in is quarantined, and the program goes on
# without it.
#   crash.sh INLAY LIBRARY MODEL
set -uo pipefail
inlay=$1 library=$2 model=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export XDG_CACHE_HOME=$scratch

fail() {
    echo "FAIL: $*"
    exit 1
}

run() { "$inlay" run "$model" --providers 'ort_ep?,reference' --option "ort_ep.library=$library" "$@" 2>&1; }

out=$(run) || fail "it does not run: $out"
out=$(run --option ort_ep.environment=crash=1) || fail "the program does not go on after the crash: $out"
grep -q 'plugin ort_ep .* crashed (SIGSEGV) in create, provider ort_ep; it is quarantined' <<<"$out" ||
    fail "the crash is not reported: $out"
out=$(run) || fail "it does not run with a quarantined plug-in: $out"
grep -q 'was not loaded: it crashed (SIGSEGV) in create, provider ort_ep' <<<"$out" || fail "no quarantine: $out"
"$inlay" providers --retry ort_ep >/dev/null || fail "it is not tried again"
out=$(run)
! grep -q 'was not loaded' <<<"$out" || fail "it stays in quarantine: $out"
