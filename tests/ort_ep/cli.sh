#!/bin/bash
# Provider ort_ep on the command line, with the library of the tests: refusals, prices, and a library that crashes while
# it is opened.
#   cli.sh INLAY LIBRARY TEST_DATA
set -uo pipefail
inlay=$1 library=$2 data=$3/node
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export XDG_CACHE_HOME=$scratch

fail() {
    echo "FAIL: $*"
    exit 1
}

# $1: verb, $2: test case of ONNX, then options
call() {
    local verb=$1 model=$data/$2/model.onnx

    shift 2
    "$inlay" "$verb" "$model" --providers 'ort_ep?,reference' --option "ort_ep.library=$library" "$@" 2>&1
}

# What a library claims and cannot run, and what it does not claim.
out=$(call explain test_abs --all)
grep -q 'ort_ep, 1 node: test_ep claims the node, but has registered no kernel for it' <<<"$out" || fail "Abs: $out"
out=$(call explain test_relu --all)
grep -q 'ort_ep, 1 node: test_ep does not claim the node' <<<"$out" || fail "Relu: $out"

# There is no price before tune has measured one: other providers run the node unless the user asks for it.
out=$(call explain test_mul)
grep -q '^ort_ep  *0 ' <<<"$out" || fail "a node without a price is chosen: $out"
out=$(call explain test_mul --policy priority)
grep -qE '^ *0 +ort_ep +1 +Mul .* none' <<<"$out" || fail "a price that nobody has measured: $out"
call tune test_mul --budget-s 2 >/dev/null || fail "tune"
out=$(call explain test_mul --policy priority)
grep -q 'prices: measured' <<<"$out" || fail "no measured price: $out"
grep -q '^ort_ep  *1 ' <<<"$out" || fail "the library's node is not chosen: $out"

# A library that crashes in the probe process is quarantined, with the options that made it crash.
out=$(call run test_mul) || fail "it does not run: $out"
for when in 'for the first time' again; do
    out=$(call run test_mul --option ort_ep.environment=crash=1) && fail "a library that crashes is used: $out"
    grep -q "library .*/$(basename "$library"): it crashed (SIGSEGV) in create, provider ort_ep; it is quarantined" \
        <<<"$out" || fail "the crash is not reported $when: $out"
done
out=$(call run test_mul --require ort_ep --policy priority) || fail "other options are quarantined, too: $out"
"$inlay" providers --retry "$library" >/dev/null || fail "it is not tried again"

# Without probes the program crashes: the plug-in is quarantined, and the program starts again without it.
out=$(call run test_mul --option ort_ep.environment=crash=1 --verbose --probe never) || fail "no restart: $out"
grep -q "provider ort_ep opens $library" <<<"$out" || fail "the library is not named: $out"
grep -q 'plugin ort_ep .* crashed (SIGSEGV) in create, provider ort_ep; it is not loaded for this model' <<<"$out" ||
    fail "the crash is not reported: $out"
out=$(call run test_mul) || fail "it does not run with a quarantined plug-in: $out"
grep -q 'was not loaded: it crashed (SIGSEGV) in create, provider ort_ep' <<<"$out" || fail "no quarantine: $out"
"$inlay" providers --retry ort_ep >/dev/null || fail "it is not tried again"
out=$(call run test_mul)
! grep -q 'was not loaded' <<<"$out" || fail "it stays in quarantine: $out"

# inlay bisect names the node in which the library computes wrong values, and the provider.
for pair in Mul=test_layer_normalization_2d_axis1_expanded Neg=test_nllloss_NC_expanded; do
    operator=${pair%%=*}
    out=$(call bisect "${pair#*=}" --policy priority --level 0 --option "ort_ep.options=fault=$operator" \
        --against reference) && fail "no difference with a faulty $operator: $out"
    grep -q "computed by $operator '.*' on ort_ep" <<<"$out" || fail "the faulty $operator is not found: $out"
done
out=$(call bisect test_layer_normalization_2d_axis1_expanded --policy priority --level 0 --against reference) ||
    fail "a difference without a fault: $out"
