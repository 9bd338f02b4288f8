#!/bin/bash
# How many of ONNX's cases run at least one node on Vulkan; fewer than LEAST is a failure.
#   coverage.sh INLAY DATA LEAST
set -u
inlay=$1
data=$2
least=$3
runs=0
all=0
for model in "$data"/{node,simple,pytorch-converted,pytorch-operator}/*/model.onnx; do
    all=$((all + 1))
    if "$inlay" explain "$model" --providers vulkan,reference --policy priority 2>/dev/null |
        awk '$1 == "vulkan" && $2 > 0 { found = 1 } END { exit !found }'; then
        runs=$((runs + 1))
    fi
done
echo "$runs of $all cases run a node on Vulkan"
[ "$runs" -ge "$least" ]
