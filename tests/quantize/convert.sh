#!/bin/bash
# inlay optimize --opset: a model in another opset computes the same, imports what was asked for, and what has no form
# there is an error that names the node.
#   convert.sh INLAY MAKE_CONVERT_MODELS     the executable; the program that writes the models
set -u
# shellcheck source=tests/support/verbs.bash
. "$(dirname "$0")/../support/verbs.bash" "$1" "$2"
common=(--no-config --cache-dir "" --intra-threads 1)

# same MODEL OPSET FROM   out.onnx is of that opset and makes what FROM makes.
same() {
    checks=$((checks + 1))
    if ! "$inlay" inspect out.onnx --json >out 2>err ||
        ! jq -e ".opsets[\"ai.onnx\"] == $2 and (.opsets | has(\"inlay\") | not)" out >/dev/null; then
        complain "$1 in opset $2: imports"
    fi
    if ! "$inlay" check out.onnx >out 2>err; then
        complain "$1 in opset $2: inlay check"
    fi
    if ! "$inlay" compare "$3" out.onnx --samples 2 --json "${common[@]}" >out 2>err </dev/null ||
        ! jq -e '[.outputs[] | .max_error < 2e-5 and (has("not_finite") | not)] | all' out >/dev/null; then
        complain "$1 in opset $2 makes something else than $3"
    fi
}

# converts MODEL OPSET...   to each of these opsets, and from there to the highest of them and back.
converts() {
    local model=$1 opset
    shift
    for opset in "$@"; do
        if ! "$inlay" optimize "$model" -o out.onnx --opset "$opset" --level 0 "${common[@]}" >out 2>err; then
            complain "$model to opset $opset"
            continue
        fi
        same "$model" "$opset" "$model"
        mv out.onnx there.onnx
        if ! "$inlay" optimize there.onnx -o out.onnx --opset 28 --level 0 "${common[@]}" >out 2>err; then
            complain "$model in opset $opset to 28"
            continue
        fi
        same "$model, $opset," 28 "$model"
    done
}

# fails MODEL OPSET TEXT   one line says which node has no form, and nothing is written.
fails() {
    checks=$((checks + 1))
    rm -f out.onnx
    if "$inlay" optimize "$1" -o out.onnx --opset "$2" "${common[@]}" --quiet >out 2>err || ! grep -qE -- "$3" err || [ "$(wc -l <err)" != 1 ] || compgen -G 'out.onnx*' >/dev/null; then
        complain "$1 to opset $2: nothing like '$3', or something was written"
    fi
}

converts axes.onnx 7 9 10 11 13 17 28
converts acts.onnx 7 13 18 22
converts norms.onnx 11 13 17 18 21
converts grid.onnx 7 9 10 11 13 18
converts centers.onnx 11 12 18 28
converts scales.onnx 7 8 9 10 13
converts corners.onnx 10 13 16 22
converts named.onnx 10 15 16 22
converts first.onnx 7 8 9 10 11 12 13 18 28
converts branch.onnx 7 13 16 28
fails centers.onnx 10 "node '.*Resize-13 has no form in opset 10: before opset 11 grids are"
fails halves.onnx 15 "RoiAlign-16 has no form in opset 15: half_pixel came with opset 16"
fails norms.onnx 9 "GreaterOrEqual-16 has no form in opset 9: Equal compares floats since opset 11"
fails blocks.onnx 13 "node '.*Trilu-14 has no form in opset 13"
fails axes.onnx 6 'opset'
fails axes.onnx 29 'opset'

# The optimiser's passes put nothing newer in.
checks=$((checks + 1))
"$inlay" optimize first.onnx -o out.onnx --opset 9 "${common[@]}" >out 2>err || complain "optimised for opset 9"
same first.onnx 9 first.onnx

finish
