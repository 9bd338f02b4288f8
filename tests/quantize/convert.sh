#!/bin/bash
# inlay optimize --opset: a model in another opset gives the same results and imports the requested opset; a node
# without an equivalent there is an error that names it.
#   convert.sh INLAY MAKE_CONVERT_MODELS     the executable; the program that writes the models
set -u
# shellcheck source=tests/support/verbs.bash
. "$(dirname "$0")/../support/verbs.bash" "$1" "$2"
# Plugins are not probed: that is tested elsewhere, and would be repeated in hundreds of processes.
common=(--no-config --cache-dir "" --intra-threads 1 --probe never)

# same MODEL OPSET FROM   out.onnx has that opset and gives the results of FROM.
same() {
    checks=$((checks + 1))
    "$inlay" inspect out.onnx --json >out 2>err || complain "$1 in opset $2: inspect"
    meets out ".opsets[\"ai.onnx\"] == $2 and (.opsets | has(\"inlay\") | not)" "$1 in opset $2: imports"
    if ! "$inlay" check out.onnx >out 2>err; then
        complain "$1 in opset $2: inlay check"
    fi
    "$inlay" compare "$3" out.onnx --samples 2 --json "${common[@]}" >out 2>err </dev/null ||
        complain "$1 in opset $2 compared with $3"
    meets out '[.outputs[] | .max_error < 2e-5 and (has("not_finite") | not)] | all' \
        "$1 in opset $2 computes other results than $3"
}

# converts MODEL OPSET...   converts to each of these opsets, and from there to the highest of them and back.
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

# fails MODEL OPSET TEXT   one line names the node without an equivalent, and no file is written.
fails() {
    checks=$((checks + 1))
    rm -f out.onnx
    if "$inlay" optimize "$1" -o out.onnx --opset "$2" "${common[@]}" --quiet >out 2>err || ! grep -qE -- "$3" err || [ "$(wc -l <err)" != 1 ] || compgen -G 'out.onnx*' >/dev/null; then
        complain "$1 to opset $2: no error like '$3', or a file was written"
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
fails centers.onnx 10 "node '.*Resize-13 has no form in opset 10: before opset 11 Resize supports only asymmetric grids"
fails halves.onnx 15 "RoiAlign-16 has no form in opset 15: half_pixel came with opset 16"
fails norms.onnx 9 "GreaterOrEqual-16 has no form in opset 9: Equal compares floats since opset 11"
fails blocks.onnx 13 "node '.*Trilu-14 has no form in opset 13"
fails axes.onnx 6 'opset'
fails axes.onnx 29 'opset'

# The optimiser's passes create no newer operators.
checks=$((checks + 1))
"$inlay" optimize first.onnx -o out.onnx --opset 9 "${common[@]}" >out 2>err || complain "optimised for opset 9"
same first.onnx 9 first.onnx

# An operator of a later version is not restored as a function.
for opset in 7 8 9 10 11 13; do
    checks=$((checks + 1))
    "$inlay" optimize turned.onnx -o out.onnx --opset $opset --level 99 "${common[@]}" >out 2>err || complain "turned.onnx for opset $opset"
    same turned.onnx $opset turned.onnx
done

# A model with types of a later opset needs that opset.
checks=$((checks + 1))
if ! "$inlay" optimize brains.onnx -o out.onnx --opset 22 "${common[@]}" >out 2>err || ! "$inlay" check out.onnx --strict-model 1 >out 2>err ||
    ! "$inlay" run out.onnx "${common[@]}" >out 2>err </dev/null; then
    complain "convolutions of bfloat16 to opset 22"
fi
fails brains.onnx 21 "bfloat16; Conv-11 takes float"

# Every option for output files works with --opset, too.
mkdir -p elsewhere
"$inlay" optimize open.onnx -o outside.onnx --external weights --level 0 "${common[@]}" >out 2>err || complain "outside.onnx"
mv weights elsewhere
echo "level: 1" >settings.yaml
mkdir -p lora
header='{"w.lora_A.weight":{"dtype":"F32","shape":[1,64],"data_offsets":[0,256]},'
header+='"w.lora_B.weight":{"dtype":"F32","shape":[64,1],"data_offsets":[256,512]}}'
{
    # shellcheck disable=SC2059
    printf "\\x$(printf %02x ${#header})\0\0\0\0\0\0\0" && printf %s "$header" && head -c 512 /dev/zero | tr '\0' '<'
} >lora/adapter_model.safetensors
echo '{"r": 1, "lora_alpha": 1}' >lora/adapter_config.json
"$inlay" partition open.onnx --save plan.json "${common[@]}" >out 2>err || complain "plan.json"
cat >pairs <<PAIRS
open.onnx --adapter=a=lora
open.onnx --explain
open.onnx --external=tensors
open.onnx --cache-dir=$work/cache
open.onnx --cache-max-bytes=1000000
open.onnx --check-finite=1
open.onnx --compile-in-background=1
open.onnx --config=settings.yaml
open.onnx --crash-report=1
open.onnx --device-failure=other
open.onnx --device-timeout-ms=1000
open.onnx --dim=batch=1
open.onnx --dim=batch?=1
open.onnx --dim=batch~=4
open.onnx --dynamic-activations=rows
outside.onnx --external-dir=elsewhere
open.onnx --copy-file-bytes=100000
open.onnx --fold-max-bytes=100000
open.onnx --forbid=vulkan
open.onnx --free-shapes=1
open.onnx --freeze-defaults=1
open.onnx --idle-trim-ms=1000
open.onnx --inter-threads=1
open.onnx --intra-threads=1
open.onnx --isa=avx2
open.onnx --isolate=
open.onnx --isolate-memory=1073741824
open.onnx --kv-cache-bits=8
open.onnx --ladder=all
open.onnx --image-rows=1
open.onnx --last-logits=1
open.onnx --level=1
open.onnx --model-limits=nodes=100
open.onnx --max-partitions=10
open.onnx --max-run-bytes=100000000
open.onnx --memory-budget=100000000
open.onnx --memory-limit=host=1G
open.onnx --no-config
open.onnx --no-cpu=0
open.onnx --no-metadata
open.onnx --no-pass=algebra
open.onnx --node-metadata=0
open.onnx --objective=memory
open.onnx --option=reference.precision=strict
open.onnx --pass=algebra
open.onnx --pin=op:MatMul=reference
open.onnx --placement=1
open.onnx --plan=plan.json
open.onnx --plugin-allow=
open.onnx --plugin-dirs=elsewhere
open.onnx --policy=priority
open.onnx --power=efficiency
open.onnx --power-watts=cpu=10
open.onnx --precision=fast
open.onnx --priority=low
open.onnx --probe=never
open.onnx --probe-timeout-ms=1000
open.onnx --process-memory-budget=100000000
open.onnx --profile=
open.onnx --providers=reference
open.onnx --realtime=1
open.onnx --reproducible=1
open.onnx --reproducible=cpu
open.onnx --reduce=op:MatMul=weights8
open.onnx --error-table=
open.onnx --max-error=0
open.onnx --require=reference
open.onnx --rewrite-limit=1
open.onnx --sizes=batch=1,4
open.onnx --state=x=z
open.onnx --strict-model=1
open.onnx --tap=y
open.onnx --json
open.onnx --quiet
open.onnx --verbose
open.onnx --trust=
open.onnx --watchdog=1%
open.onnx --watchdog-dir=
PAIRS
while read -r model option; do
    checks=$((checks + 1))
    rm -f plain.onnx out.onnx
    "$inlay" optimize "$model" -o plain.onnx --intra-threads 1 "$option" >out 2>err </dev/null || complain "optimize $model $option"
    "$inlay" optimize "$model" -o out.onnx --intra-threads 1 --opset 24 "$option" >out 2>err </dev/null || complain "optimize $model --opset 24 $option"
    if [ "$option" != --free-shapes=1 ] && # the model has no such inputs
        ! "$inlay" compare plain.onnx out.onnx --samples 1 --json "${common[@]}" >out 2>err </dev/null; then
        complain "optimize $model --opset 24 $option differs from the result without --opset"
    fi
done <pairs
checks=$((checks + 1))
COLUMNS=1000 "$inlay" optimize --help-all | sed -nE 's/^ +(-[a-zA-Z], )?(--[a-z-]+).*/\2/p' |
    grep -vxE -e '--(list|opset|output|save|variant|help|help-all|usage|version)' | sort -u >options
cut -d ' ' -f 2 pairs | cut -d = -f 1 | sort -u | diff options - >out 2>err || complain "options that are not tried with --opset"
checks=$((checks + 1))
if "$inlay" optimize blocks.onnx --opset 13 "${common[@]}" >out 2>err; then
    complain "--opset without -o succeeds"
fi

finish
