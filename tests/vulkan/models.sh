#!/bin/bash
# Runs real models on Vulkan and checks results and the numbers of regions, copies and dispatches against upper bounds. A
# model of one region copies only its inputs and outputs.
# Missing small models are exported if torch is installed; missing large ones are skipped.
#   models.sh INLAY DIR      DIR: model folder of tests/models/run.sh
set -u
inlay=$1
dir=$2/torch
here=$(cd "$(dirname "$0")" && pwd)
python=/usr/bin/python3
small=(squeezenet1_1 mobilenet_v3_large vit_small gpt2_tiny_kv)
for model in "${small[@]}"; do
    [ -f "$dir/$model/model.onnx" ] && continue
    if ! $python -c 'import torch, torchvision' 2>/dev/null; then
        echo "skipped: $dir/$model does not exist, and torch, which exports it, is not installed (python3-torchvision)"
        exit 77
    fi
    $python "$here/../models/export_models.py" --out "$dir" "$model" || exit 1
done
names=()
failed=0
# NAME ACTUAL MAXIMUM
check() {
    if [ "${2:-0}" -lt 1 ] || [ "$2" -gt "$3" ]; then
        echo "$model: ${2:-no} $1, not 1 to $3"
        failed=1
    fi
}
# NAME REGIONS COPIES DISPATCHES FLAG...
while read -r model regions copies dispatches flags; do
    [ -f "$dir/$model/model.onnx" ] || continue
    names+=("$model")
    # shellcheck disable=SC2086
    said=$("$inlay" explain "$dir/$model/model.onnx" --providers vulkan,reference --policy priority $flags 2>&1)
    check regions "$(awk '$1 == "vulkan" { print $3; exit }' <<<"$said")" "$regions"
    check copies "$(awk '$2 == "copies," { print $1; exit }' <<<"$said")" "$copies"
    # shellcheck disable=SC2086
    check dispatches "$("$inlay" run "$dir/$model/model.onnx" --providers vulkan,reference --policy priority --verbose $flags 2>&1 |
        sed -nE 's/.*vulkan: region of [0-9]+ nodes: ([0-9]+) dispatches.*/\1/p' | awk '{ n += $1 } END { print n + 0 }')" "$dispatches"
done <<'END'
squeezenet1_1 1 2 48
mobilenet_v3_large 1 2 110
vit_small 1 2 80 --dim N=1
gpt2_tiny_kv 4 23 75 --dim batch=1
resnet50 1 2 58
yolo11n 1 2 165
bert_base 1 5 100 --dim batch=1 --dim sequence=128
END
INLAY_POLICY=priority INLAY_PROVIDERS=vulkan,reference $python "$here/../models/check_models.py" "$inlay" torch "$dir" \
    "${names[@]}" || failed=1
exit $failed
