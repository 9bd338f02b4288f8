#!/bin/bash
# Certificates over planted defects: with option trust no answer is wrong, and at least 90 of 100 nodes stay on which the
# plugin is right. The nodes are ONNX's test cases of the operators; the checker gets their models. Defects that some
# values or threads bring out in every node leave no node that is right.
#   trusted.sh INLAY DIR SOURCES DATA   the executable; the folder with the plugins; the folder with their sources; a
#                                       folder of ONNX test cases
set -u
shopt -s nullglob
. "${0%/*}/planted.bash"
inlay=$1 dir=$2 sources=$3 data=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
faults=0 right=0 stay=0 wrong=0
cases=("$data/node" "$data/pytorch-converted")

# runs PLUGIN FAULT GLOB OPTION...   prints how many cases are right, how many wrong
runs() {
    local plugin=$1 fault=$2 glob=$3
    shift 3
    "$inlay" test "${cases[@]}" --match "$glob" --rtol 1e-3 --atol 1e-4 --no-config --cache-dir "" --probe never \
        --intra-threads 1 --plugin-dirs "$dir/$plugin.so" --policy priority --providers "$plugin" \
        --option "$plugin.fault=$fault" "$@" 2>&1 </dev/null |
        sed -n '$s/^\([0-9]*\) passed, \([0-9]*\) failed.*/\1 \2/p'
}

# tries PLUGIN FAULT NAME
tries() {
    local plugin=$1 fault=$2 op glob model models=() passed failed kept bad
    read -r op glob <<<"$(operators "${3%%_*}")"
    for model in "${cases[@]}"; do
        # shellcheck disable=SC2206
        models+=($model/$glob/model.onnx)
    done
    models=("${models[@]:0:120}")
    "$inlay" plugin-check "$dir/$plugin.so" --quick --no-timing --group models --op "$op" --option "fault=$fault" \
        --certificate "$work/trust" "${models[@]/#/--model=}" >"$work/out" 2>&1 </dev/null
    read -r passed failed <<<"$(runs "$plugin" "$fault" "$glob")"
    read -r kept bad <<<"$(runs "$plugin" "$fault" "$glob" --trust "$work/trust")"
    faults=$((faults + 1)) wrong=$((wrong + bad))
    case $3 in
    *_NAN | *_INFINITY | *_THREADS | *_OVERFLOW | GEMM_SUM | NORM_ONE_PASS) ;;
    *) right=$((right + passed)) stay=$((stay + kept)) ;;
    esac
    echo "$3: $passed right, $failed wrong; with the certificate $kept and $bad"
}

for plugin in planted planted_rows planted_index; do
    fault=0
    for name in $(faults "$sources/$plugin.c"); do
        # every fourth; TRUSTED=all: each
        if [ "$name" != NONE ] && { [ $((fault % 4)) -eq 1 ] || [ "${TRUSTED:-}" = all ]; }; then
            tries $plugin $fault "$name"
        fi
        fault=$((fault + 1))
    done
done
echo "$faults defects: $wrong wrong answers, $stay of $right right nodes stay"
[ $faults -ge 30 ] && [ $wrong -eq 0 ] && [ $right -gt 100 ] && [ $((10 * stay)) -ge $((9 * right)) ]
