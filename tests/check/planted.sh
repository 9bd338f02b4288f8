#!/bin/bash
# Tests that `inlay plugin-check --quick` finds the planted defects of a plugin, at least 95 of 100, and nothing in its
# kernels without a defect.
#   planted.sh INLAY PLUGIN SOURCE STEP   the executable; planted.so, planted_rows.so or planted_index.so; its source,
#                                         for the names of the defects; each STEP-th is tried. PLANTED=all: each
set -u
. "${0%/*}/planted.bash"
inlay=$1 plugin=$2 source=$3 step=$4
[ "${PLANTED:-}" != all ] || step=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tried=0 missed=0 failed=0

check() {
    "$inlay" plugin-check "$plugin" --quick --no-timing --group random "$@" >"$work/out" 2>"$work/err" </dev/null
}

# plants GLOB NUMBER NAME [FLAG...]   the defect must be found in an operator that matches GLOB
plants() {
    local op=$1 fault=$2 name=$3
    shift 3
    tried=$((tried + 1))
    check --op "$op" --option "fault=$fault" "$@"
    [ $? -eq 1 ] || { missed=$((missed + 1)); echo "missed: $name $*"; tail -n 3 "$work/out"; }
}

sound() {
    check "$@" || { failed=1; grep -A2 '^FAIL' "$work/out"; cat "$work/err"; }
}

sound
! grep -q '^    CONV_' "$source" || sound --option narrow=1
fault=-1
for name in $(faults "$source"); do
    fault=$((fault + 1))
    [ "$name" != NONE ] && [ $((fault % step)) -eq 0 ] || continue
    read -r op _ <<<"$(operators "${name%%_*}")"
    plants "$op" $fault "$name"
    case $name in
    CONV_STRIDES | CONV_PADS | CONV_GROUP | CONV_BIAS | CONV_BATCH | CONV_NAN)
        plants "$op" $fault "$name" --option narrow=1 ;;
    esac
done
echo "$tried planted, $missed missed"
[ $failed -eq 0 ] && [ $tried -gt 4 ] && [ $((100 * missed)) -le $((5 * tried)) ]
