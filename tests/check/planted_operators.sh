#!/bin/bash
# Tests that `inlay plugin-check --quick` finds each planted defect of a plugin, and nothing in it without one.
#   planted_operators.sh INLAY PLUGIN SOURCE   the executable; planted_operators.so or planted_engines.so; its source, for
#                                              the names of the defects
set -u
inlay=$1 plugin=$2 source=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tried=0 missed=0 failed=0

check() {
    "$inlay" plugin-check "$plugin" --quick --no-timing "$@" >"$work/out" 2>"$work/err" </dev/null
}

# says COUNT PATTERN   the report has COUNT lines that match
says() {
    [ "$(grep -c "$2" "$work/out")" -eq "$1" ] || { failed=1; echo "not $1 lines like '$2'"; cat "$work/out"; }
}

case $source in
*planted_engines.c)
    group=cache
    check --group cache || { failed=1; echo 'a fault where none is'; grep -A2 '^FAIL' "$work/out"; cat "$work/err"; }
    says 1 '^PASS  cache engines: the blobs of [0-9]* cases compile again$'
    says 1 '^PASS  cache engines: the blobs of [0-9]* cases compile again in another process'
    ;;
*)
    group=operators
    check --group operators || { failed=1; echo 'a fault where none is'; grep -A2 '^FAIL' "$work/out"; cat "$work/err"; }
    says 5 '^PASS  operators .* in another process and order'
    check --group open || { failed=1; grep -A2 '^FAIL' "$work/out"; }
    says 1 '^WARN  operators com.planted.Bare-1: it has no examples'
    check --group examples || { failed=1; grep -A2 '^FAIL' "$work/out"; }
    says 1 "^WARN  examples Loose-1: example 'loose' permits errors of 1e-06 + 10 x"
    says 1 '^WARN'
    ;;
esac
fault=0
for name in $(sed -n '/^enum fault/,/^};/s/^    \([A-Z_]*\),.*/\1/p' "$source"); do
    case $name in
    SMOOTH_*) op=Smooth ;;
    JOIN_*) op=Join ;;
    COMPACT_*) op=Compact ;;
    ENGINE_*) op='*' ;;
    *) continue ;;
    esac
    fault=$((fault + 1)) tried=$((tried + 1))
    check --group $group --op "$op" --option "fault=$fault"
    [ $? -eq 1 ] || { missed=$((missed + 1)); echo "missed: $name"; cat "$work/out"; }
done
echo "$tried planted, $missed missed"
[ $failed -eq 0 ] && [ $tried -ge 10 ] && [ $missed -eq 0 ]
