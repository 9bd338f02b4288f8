#!/bin/bash
# Tests that `inlay plugin-check --quick` finds each planted defect of groups of nodes, and nothing in a correct provider
# that offers groups only.
#   planted_groups.sh INLAY PLUGIN SOURCE   the executable; planted_groups.so; its source, for the names of the defects
set -u
inlay=$1 plugin=$2 source=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tried=0 missed=0 failed=0

check() {
    "$inlay" plugin-check "$plugin" --quick --no-timing "$@" >"$work/out" 2>"$work/err" </dev/null
}

sound() {
    check "$@" || { failed=1; echo "a fault where none is: $*"; grep -A2 '^FAIL' "$work/out"; cat "$work/err"; }
}

sound --group results
grep -q '^PASS  coverage groups: it offers no operator alone' "$work/out" || { failed=1; grep coverage "$work/out"; }
sound --group patterns --option alone=1 --option merge=0
sound --group patterns
fault=0
for name in $(sed -n '/^enum fault/,/^};/s/^    \(GROUP_[A-Z_]*\),.*/\1/p' "$source"); do
    fault=$((fault + 1)) tried=$((tried + 1))
    check --group patterns --option "fault=$fault" --option alone=1
    [ $? -eq 1 ] || { missed=$((missed + 1)); echo "missed: $name"; tail -n 3 "$work/out"; }
done
echo "$tried planted, $missed missed"
[ $failed -eq 0 ] && [ $tried -gt 12 ] && [ $missed -eq 0 ]
