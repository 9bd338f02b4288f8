#!/bin/bash
# inlay plugin-check --ort-ep: the library of the tests passes every group of checks, and other files are refused.
#   check.sh INLAY LIBRARY PLUGIN DATA     PLUGIN: the plugin ort_ep; DATA: a folder of ONNX test cases
set -uo pipefail
inlay=$1 library=$2 plugin=$3 data=$4
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export XDG_CACHE_HOME=$scratch

fail() {
    echo "FAIL: $*"
    exit 1
}

out=$(cd "$(dirname "$library")" && "$inlay" plugin-check --quick --no-timing --ort-ep "$(basename "$library")") ||
    fail "the library of the tests: $(grep -A2 ^FAIL <<<"$out")"
grep -q '^PASS  coverage' <<<"$out" || fail "no result was compared: $out"
grep -q '^PASS  results Mul-14' <<<"$out" || fail "Mul was not checked: $out"

# A library that computes in the memory of its device: inlay's buffers, copies to them and from them, and runs in them.
while read -r group pass; do
    out=$("$inlay" plugin-check --quick --no-timing --ort-ep "$library" --option 'environment=memory=1;stream=1' \
        --group "$group" --op Mul) || fail "the library with a device: $(grep -A2 ^FAIL <<<"$out")"
    grep -q "^PASS  $pass" <<<"$out" || fail "$pass was not checked: $out"
done <<'END'
device device.copies
memory memory ort_ep
results results Mul-14
leaks leaks ort_ep, in repeated calls
END

# A library that does not open, and options of the execution provider, which decide what is checked.
out=$("$inlay" plugin-check --quick --no-timing --ort-ep "$library" --group open --option environment=old=1)
grep -q 'create ort_ep: .*was built for version 1.22' <<<"$out" || fail "an old library: $out"
out=$("$inlay" plugin-check --quick --no-timing --ort-ep "$library" --group results --op Mul --option options=fail=1) &&
    fail "runs that fail pass"
grep -q 'the device is on fire' <<<"$out" || fail "runs that fail: $out"

# Objects that a library creates in each run are a warning.
out=$("$inlay" plugin-check --quick --no-timing --ort-ep "$library" --group results --op 'Mul' --option options=heap=1) ||
    fail "heap use of runs is a failure: $out"
grep -q '^WARN  heap Mul-14: functions that the library calls allocate' <<<"$out" || fail "heap use of runs: $out"

# A certificate of a library whose Neg is wrong: with option trust it runs Mul and not Neg. It restricts the provider that
# has the library and options it was written for, and no other one.
certificate() {
    "$inlay" plugin-check --quick --no-timing --ort-ep "$library" --group random --op "$1" --option options=fault=Neg \
        --certificate "$scratch/$1.trust" >"$scratch/out" 2>&1
}
certificate Mul || fail "Mul differs: $(grep -A2 ^FAIL "$scratch/out")"
certificate Neg && fail "a wrong Neg agrees"
jq -e '.providers[0] | .provider == "ort_ep" and (.options | map(.name) | index("library") != null) and
    (.options[] | select(.name == "library").sha256 | length) == 64' "$scratch/Neg.trust" >"$scratch/out" ||
    fail "the certificate does not name the library"

# nodes CASE TRUST OPTION...   how many nodes of a test case of ONNX the library runs
nodes() {
    local model=$data/node/$1/model.onnx trust=$2
    shift 2
    "$inlay" explain "$model" --no-config --cache-dir "" --policy priority --trust "$trust" --json "$@" \
        >"$scratch/out" 2>"$scratch/err" </dev/null
    jq '[.providers[] | select(.name | startswith("ort_ep")) | .nodes] | add' "$scratch/out"
}
one=(--providers 'ort_ep,reference' --option "ort_ep.library=$library" --option ort_ep.options=fault=Neg)
[ "$(nodes test_mul "$scratch/Mul.trust" "${one[@]}")" = 1 ] || fail "Mul is outside: $(<"$scratch/out")"
[ "$(nodes test_neg "$scratch/Neg.trust" "${one[@]}")" = 0 ] || fail "Neg is inside: $(<"$scratch/out")"
two=(--providers 'ort_ep#bad,ort_ep#good,reference' --option "ort_ep#bad.library=$library"
    --option "ort_ep#good.library=$library" --option 'ort_ep#bad.options=fault=Neg')
[ "$(nodes test_neg "$scratch/Neg.trust" "${two[@]}")" = 1 ] || fail "not the other library: $(<"$scratch/out")"
[ "$(jq -r '.providers[] | select(.name == "ort_ep#good") | .nodes' "$scratch/out")" = 1 ] || fail "the wrong one runs"
nodes test_neg "$scratch/Neg.trust" "${one[@]:0:4}" >/dev/null
grep -q 'written for provider ort_ep with options=fault=Neg' "$scratch/err" || fail "other options: $(<"$scratch/err")"

# $1: what the one line has to contain, then the arguments
refused() {
    local pattern=$1 out code

    shift
    out=$("$inlay" plugin-check "$@" 2>&1)
    code=$?
    [ $code -eq 2 ] || [ $code -eq 3 ] || fail "$*: exit code $code: $out"
    [ "$(wc -l <<<"$out")" -eq 1 ] || fail "$*: more than one line: $out"
    grep -q -- "$pattern" <<<"$out" || fail "$*: $out"
}

echo text >"$scratch/text.so"
head -c 3000 "$library" >"$scratch/cut.so"
refused 'No such file or directory' --ort-ep "$scratch/none.so"
refused 'it is not a library of an ONNX Runtime execution provider' --ort-ep "$scratch/text.so"
refused 'it is not a library of an ONNX Runtime execution provider' --ort-ep "$scratch/cut.so"
refused 'it is not a library of an ONNX Runtime execution provider' --ort-ep "$inlay"
refused 'it is a plugin of inlay; omit --ort-ep' --ort-ep "$plugin"
out=$("$inlay" plugin-check --group file "$library")
grep -q 'fix: .*check it with --ort-ep' <<<"$out" || fail "an execution provider as a plugin: $out"
