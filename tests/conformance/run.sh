#!/bin/bash
# Runs all of ONNX's cases and fails when one fails, or when fewer pass than passed.txt says.
#   run.sh INLAY DATA PASSED_FILE
set -u
inlay=$1
data=$2
least=$(cat "$3")

for folder in node simple pytorch-converted pytorch-operator; do
    if [ ! -d "$data/$folder" ]; then
        echo "$data/$folder is not there: install libonnx-testdata"
        exit 1
    fi
done
output=$("$inlay" test "$data/node" "$data/simple" "$data/pytorch-converted" "$data/pytorch-operator")
code=$?
last=$(tail -n 1 <<<"$output")
printf '%s\n' "$output" | grep -v '^skip ' | tail -n 200
if [ $code -ne 0 ]; then
    echo "inlay test ended with $code"
    exit 1
fi
passed=${last%% *}
if [ "$passed" -lt "$least" ]; then
    echo "$passed cases pass, $3 asks for $least; these are skipped:"
    printf '%s\n' "$output" | grep '^skip '
    exit 1
fi
if [ "$passed" -gt "$least" ]; then
    echo "$passed cases pass: $3 may be raised from $least"
fi
