#!/bin/bash
# Tests that `inlay plugin-check --quick` finds kernels that are wrong under a condition (planted_when.def), at least 95
# of 100. Of each condition one operator is tried, and of every sixth condition only; PLANTED=all: each operator of each
# condition. PLANTED_FLAGS: other flags than --quick --no-timing, and all groups at once.
#   planted_when.sh INLAY DIR DEF   the executable; the folder with the plugins; planted_when.def
set -u
inlay=$1 dir=$2 def=$3
tried=0 missed=0 row=0

plugin_of() {
    case $1 in
    Conv | *Pool | Gemm | Slice | Resize | QuantizeLinear) echo planted ;;
    Softmax | Gather | Concat | LayerNormalization | Reduce*) echo planted_rows ;;
    *) echo planted_index ;;
    esac
}

# check OP FLAG...
check() {
    local op=$1
    shift
    "$inlay" plugin-check "$dir/$(plugin_of "$op").so" --op "$op" --option "when=$row" "$@" >/dev/null 2>&1 </dev/null
}

# finds OP NAME   a group finds the condition in the operator
finds() {
    local group
    tried=$((tried + 1))
    if [ -n "${PLANTED_FLAGS:-}" ]; then
        # shellcheck disable=SC2086
        check "$1" $PLANTED_FLAGS
        [ $? -ne 1 ] || return
    else
        for group in random results values sharing surroundings; do
            check "$1" --quick --no-timing --group $group
            [ $? -ne 1 ] || return
        done
    fi
    missed=$((missed + 1))
    echo "missed: $2 in $1"
}

while read -r name operators; do
    row=$((row + 1))
    set -f
    # shellcheck disable=SC2206
    list=($operators)
    set +f
    if [ "${PLANTED:-}" = all ]; then
        for op in "${list[@]}"; do
            finds "$op" "$name"
        done
    elif [ $((row % 6)) -eq 1 ]; then
        finds "${list[$((row % ${#list[@]}))]}" "$name"
    fi
done < <(sed -n 's/^WHEN(\([A-Z0-9_]*\), "\([^"]*\)".*/\1 \2/p' "$def")
echo "$tried planted, $missed missed"
[ $tried -ge 8 ] && [ $((100 * missed)) -le $((5 * tried)) ]
