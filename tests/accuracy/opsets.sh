#!/bin/bash
# Converts models to other opsets and back, without other rewrites, and compares their outputs for random inputs.
# Prints a line for each conversion.
#   opsets.sh INLAY MODEL.onnx...
# "same": every output within 1e-5 of the largest; "no (REASON)": the target opset cannot express the model.
set -u
inlay=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
common=(--no-config --cache-dir "" --intra-threads 1)

# outputs A B
outputs() {
    "$inlay" compare "$1" "$2" --samples 2 "${common[@]}" --json >"$work/out" 2>"$work/err" </dev/null
    case $? in
    0 | 1) jq -r 'if all(.outputs[]; .relative_error == null or .relative_error <= 1e-5) then "same"
        else "differ by \([.outputs[].relative_error] | max)" end' "$work/out" ;;
    *) echo "not run: $(tail -n 1 "$work/err" | cut -c 1-150)" ;;
    esac
}

for model; do
    own=$("$inlay" inspect "$model" --json | jq -r '.opsets["ai.onnx"]')
    for opset in 9 13 17 21; do
        rm -f "$work"/*.onnx
        if ! "$inlay" optimize "$model" --level 0 --opset $opset -o "$work/to.onnx" "${common[@]}" >"$work/out" 2>"$work/err" </dev/null; then
            echo "$(basename "$model") $own -> $opset: no ($(tail -n 1 "$work/err" | sed 's/^inlay optimize: //' | cut -c 1-160))"
            continue
        fi
        there=$(outputs "$model" "$work/to.onnx")
        if "$inlay" optimize "$work/to.onnx" --level 0 --opset "$own" -o "$work/back.onnx" "${common[@]}" >"$work/out" 2>"$work/err" </dev/null; then
            back=$(outputs "$model" "$work/back.onnx")
        else
            back="no ($(tail -n 1 "$work/err" | cut -c 1-160))"
        fi
        echo "$(basename "$model") $own -> $opset: $there; and back: $back"
    done
done
