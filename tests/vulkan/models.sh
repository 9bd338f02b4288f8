#!/bin/bash
# Real models on Vulkan alone: right, in one region where they should be, and in no more dispatches than is said here.
# Models that are not there are exported, where torch is installed; large ones are only taken where they are there.
#   models.sh INLAY DIR      DIR: where tests/models/run.sh leaves its models
set -u
inlay=$1
dir=$2/torch
here=$(cd "$(dirname "$0")" && pwd)
python=/usr/bin/python3
small=(squeezenet1_1 mobilenet_v3_large gpt2_tiny_kv)
for model in "${small[@]}"; do
    [ -f "$dir/$model/model.onnx" ] && continue
    if ! $python -c 'import torch, torchvision' 2>/dev/null; then
        echo "skipped: $dir/$model is not there, and torch, which exports it, is not installed (python3-torchvision)"
        exit 77
    fi
    $python "$here/../models/export_models.py" --out "$dir" "$model" || exit 1
done
names=()
failed=0
# NAME REGIONS DISPATCHES FLAG...
while read -r model regions dispatches flags; do
    [ -f "$dir/$model/model.onnx" ] || continue
    names+=("$model")
    # shellcheck disable=SC2086
    said=$("$inlay" explain "$dir/$model/model.onnx" --providers vulkan,reference --policy priority $flags 2>&1)
    got=$(awk '$1 == "vulkan" { print $3; exit }' <<<"$said")
    [ "${got:-0}" -le "$regions" ] || { echo "$model: $got regions, not $regions"; failed=1; }
    # shellcheck disable=SC2086
    got=$("$inlay" run "$dir/$model/model.onnx" --providers vulkan,reference --policy priority --verbose $flags 2>&1 |
        sed -nE 's/.*vulkan: region of [0-9]+ nodes: ([0-9]+) dispatches.*/\1/p' | awk '{ n += $1 } END { print n + 0 }')
    if [ "$got" -lt 1 ] || [ "$got" -gt "$dispatches" ]; then
        echo "$model: $got dispatches, not 1 to $dispatches"
        failed=1
    fi
done <<'END'
squeezenet1_1 1 48
mobilenet_v3_large 1 110
gpt2_tiny_kv 4 75 --dim batch=1
resnet50 1 58
bert_base 1 100 --dim batch=1 --dim sequence=128
END
INLAY_POLICY=priority INLAY_PROVIDERS=vulkan,reference $python "$here/../models/check_models.py" "$inlay" torch "$dir" \
    "${names[@]}" || failed=1
exit $failed
