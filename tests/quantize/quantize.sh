#!/bin/bash
# inlay quantize and inlay compare: written models run and agree, reports are correct, and failures leave no files.
#   quantize.sh INLAY MAKE_MODELS     the executable; the program that writes the models and samples
set -u
# shellcheck source=tests/support/verbs.bash
. "$(dirname "$0")/../support/verbs.bash" "$1" "$2"
# Plugins are not probed: that is tested elsewhere, and would be repeated in hundreds of processes.
common=(--no-config --cache-dir "" --probe never)
export INLAY_INTRA_THREADS=1 # the flag is refused by verbs that create no session

# does CODE FILTER VERB ARGUMENT...   checks the exit code, and --json by a filter of jq.
does() {
    local code=$1 filter=$2 got
    shift 2
    checks=$((checks + 1))
    "$inlay" "$@" "${common[@]}" --json >out 2>err </dev/null
    got=$?
    [ $got -eq "$code" ] || complain "inlay $*: exit code $got"
    meets out "$filter" "inlay $*"
}

# fails CODE TEXT VERB ARGUMENT...   one line on stderr contains TEXT; neither out.onnx nor a temporary file remains.
fails() {
    local code=$1 text=$2 got
    shift 2
    checks=$((checks + 1))
    rm -f out.onnx
    "$inlay" "$@" "${common[@]}" --quiet >out 2>err </dev/null
    got=$?
    if [ $got -ne "$code" ] || ! grep -qE -- "$text" err || [ "$(wc -l <err)" != 1 ]; then
        complain "inlay $*: exit code $got; nothing like '$text' in"
    fi
    left
}

left() {
    if compgen -G 'out.onnx*' >/dev/null || compgen -G 'inlay-*' >/dev/null; then
        complain "left behind: $(echo out.onnx* inlay-*)"
        rm -rf out.onnx* inlay-*
    fi
}

# ---- compare
does 0 '.samples == 8 and (.outputs | length) == 1 and .outputs[0].score == 1 and .outputs[0].max_error == 0' \
    compare net.onnx net.onnx
does 0 '.samples == 12 and .outputs[0].metric == "relative" and .outputs[0].top1 == 1' compare net.onnx net.onnx --data images.npz
does 0 '.samples == 12' compare net.onnx net.onnx --data stored.npz
does 0 '.samples == 5' compare net.onnx net.onnx --data images.npz --samples 5
does 0 '.samples == 3' compare net.onnx net.onnx --data folder
does 0 '.samples == 1' compare net.onnx net.onnx --data folder/9
does 0 '.samples == 3 and .outputs[0].score == 1' compare lengths.onnx lengths.onnx --data batch # cut in every input
does 0 '.samples == 1 and .outputs[0].score == 1' compare states.onnx states.onnx --data batch   # cannot be cut
does 0 '[.layers[].name] | index("c1") != null and index("y") == null' compare net.onnx net.onnx --layers
does 0 '.outputs[0].score == 0 and .holds' compare net.onnx net.onnx --metric kl --at-least 0
does 0 '.outputs[0].score == 7 and .outputs[0].metric == "custom"' compare net.onnx net.onnx \
    --metric "custom:echo 7 #" --samples 2
does 1 '.outputs[0].score == 7 and (.holds | not)' compare net.onnx net.onnx --metric "custom:echo 7 #" --at-least 8
left

# ---- explain --errors: the errors of nodes alone, a limit, and sessions that keep it
does 0 '.samples == 3 and .constant_inputs == [] and [.rows[].op] == ["MatMul", "MatMul", "Gemm", "Gemm"] and ([.rows[] | .arithmetic] | unique) == ["int8", "weights8"]
    and all(.rows[]; .error > 1e-5 and .error < 0.05) and .rows[0].weights == "64x96" and .rows[2].weights == "96x40"' \
    explain mlp.onnx --errors --samples 3 --save mlp.errors
[ "$(grep -c 'assumed sizes' err)" = 1 ] || complain 'sizes are noted for each session'
mkdir zeros
{
    printf '\223NUMPY\001\000v\000%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 64), }"
    head -c 512 /dev/zero
} >zeros/x.npy
does 0 '.constant_inputs == ["x"]' explain mlp.onnx --errors --data zeros
does 0 '.rows == [] and .left_out == []' explain experts.onnx --errors --samples 1
does 0 '.left_out == ["MatMul#0"] and (.rows | length) == 2 and .rows[0].weights == "96x40"' \
    explain infinite.onnx --errors --samples 1
does 0 '[.rows[] | [.op, .weights, .arithmetic]] == [["Conv", "256x256", "int8"]] and all(.rows[]; .error > 1e-5 and .error < 0.05)' \
    explain conv_dense.onnx --errors --samples 2
jq '.rows |= map(select(.arithmetic == "int8") | .saved_ns = 1)' mlp.errors >all.errors
does 0 '.choice.nodes == 0 or (.choice.bound <= 0.5 and .choice.measured <= .choice.bound)' \
    explain mlp.onnx --errors --max-error 0.5 --samples 2
does 0 '.' optimize mlp.onnx -o out.onnx --max-error 0.5 --error-table all.errors
checks=$((checks + 1))
"$inlay" inspect out.onnx --json >out && jq -e '[.operators[].operator] | index("DynamicQuantizeMatMul") != null' out >/dev/null ||
    complain 'the operators of a model with --max-error'
rm out.onnx
# A name that would be a pattern.
"$inlay" optimize mlp.onnx -o named.onnx --level 0 >out 2>err || complain 'names of nodes'
LC_ALL=C sed 's/MatMul#2/op:Mul*2/' named.onnx >odd.onnx
does 0 '.rows[0].node == "op:Mul*2"' explain odd.onnx --errors --samples 1
does 2 '.error.text | test("error_table")' run mlp.onnx --max-error 0.1
does 2 '.error.text | test("other weights")' run mlp.onnx --max-error 1 --error-table <(jq '.rows |= map(.weights = "1")' all.errors)
does 2 '.error.text | test("require --errors")' explain mlp.onnx --save none.errors
left
# shellcheck disable=SC2016 # the shell that runs the command expands it
does 0 '.outputs[0].score == 2' compare net.onnx net.onnx --metric 'custom:sh -c '\''ls "$0" "$1" | grep -c y.npy'\''' --samples 1
fails 2 'printed .x., which is not a number' compare net.onnx net.onnx --metric "custom:echo x #"
fails 2 'failed' compare net.onnx net.onnx --metric "custom:false"
fails 1 "input 'x' is float\[1,3,16,16\]; the model expects float\[4,64\]" compare net.onnx branch.onnx --samples 1
fails 2 "input 'z' of the second model: the first model has no input with that name" compare mlp.onnx sum.onnx --samples 1
fails 2 'shape \[12, 3, 16, 8\] does not fit input .x. of shape \[\?, 3, 16, 16\]' compare net.onnx net.onnx --data wrong.npz
fails 3 "input 'x': other.npz has no array with that name; it has other.npy" compare sum.onnx sum.onnx --data other.npz
fails 3 'none.npz: No such file' compare net.onnx net.onnx --data none.npz
head -c 500 images.npz >cut.npz
fails 3 'not a valid .npz archive' compare net.onnx net.onnx --data cut.npz

# ---- where two models diverge
checks=$((checks + 1))
"$inlay" quantize mlp.onnx -o out.onnx --weights 4 "${common[@]}" --quiet >out 2>err </dev/null || complain "quantize"
"$inlay" compare mlp.onnx out.onnx --metric cosine --at-least 1.5 "${common[@]}" >out 2>err </dev/null
if [ $? -ne 1 ] || ! grep -q "output '.*': cosine is .*, not at least 1.5" err ||
    ! grep -qE "the models first differ at value 'h': relative error 0.[0-9]+ there, at most 0 before" err; then
    complain "compare does not name the value at which the models diverge"
fi
rm -f out.onnx
left

# ---- weights
# agrees MODEL LEAST QUANTIZE-ARGUMENT...   the written model is valid, runs and agrees.
agrees() {
    local model=$1 least=$2
    shift 2
    does 0 '.handed_back == null and .bytes_after < .bytes_before and .agreement > '"$least" quantize "$model" -o out.onnx --metric cosine "$@"
    does 0 '.' check out.onnx
    does 0 '.holds' compare "$model" out.onnx --metric cosine --at-least "$least"
    rm -f out.onnx
    left
}
agrees mlp.onnx 0.9999 --weights 8
does 0 '.handed_back == "no layer can be stored in fewer bits"' quantize net.onnx -o out.onnx --weights 8
rm -f out.onnx
agrees mlp.onnx 0.98 --weights 4
# The report is correct: 4 bits apply to matrix multiplications, and --mode dynamic has none here.
does 0 '.what == "weights in 8 bits, because no layer can have 4" and .layers[0].bits == 8' quantize conv_dense.onnx -o out.onnx \
    --weights 4
does 0 '.what == "the unchanged model" and .tried != null and (.handed_back | test("no layer is a MatMul or Gemm"))' quantize \
    conv_dense.onnx -o out.onnx --mode dynamic
rm -f out.onnx
left
agrees mlp.onnx 0.98 --weights 4 --block 16
agrees mlp.onnx 0.98 --weights 4 --format nbits
agrees mlp.onnx 0.999999 --weights f16
agrees experts.onnx 0.9999 --weights 8
agrees experts.onnx 0.999999 --weights f16
# Experts: matrices of a stack, of a Gather, and of MoE; MatMulNBits has no form for them.
for name in experts selected mixture; do
    agrees $name.onnx 0.98 --weights 4
    agrees $name.onnx 0.98 --weights 4 --block 64
    agrees $name.onnx 0.999 --weights 8
    does 0 '(.layers | length) > 0 and all(.layers[]; .bits == 4)' quantize $name.onnx -o out.onnx --weights 4
    does 0 'all(.layers[]; .bits == 8 and (.kept | test("MatMulNBits has weights of two dimensions only")))' \
        quantize $name.onnx -o out.onnx --weights 4 --format nbits
done
does 0 '.layers[0].bits == 8 and (.layers[0].kept | test("matrix multiplications only"))' quantize negated.onnx \
    -o out.onnx --weights 4
rm -f out.onnx
agrees old.onnx 0.9999 --weights 8
agrees old.onnx 0.97 --weights 4
agrees branch.onnx 0.9999 --weights 8
agrees sized.onnx 0.9999 --weights 8
agrees mlp.onnx 0.999 --weights 8 --mode dynamic
agrees old.onnx 0.999 --weights 8 --mode dynamic
# The same integers, large enough to stay packed, with activations that are not rounded.
does 0 '.handed_back == null' quantize table.onnx -o out.onnx --weights 8 --mode dynamic
does 0 '.outputs[0].score > 0.9999' compare table.onnx out.onnx --metric cosine --dynamic-activations floats
rm -f out.onnx
# The bytes before quantization are those of the file, also if passes fold constants, and for sparse tensors.
for model in mlp branch table sparse; do
    does 0 ".bytes_before == $(stat -c %s $model.onnx)" quantize $model.onnx -o out.onnx --weights 8
done
does 0 '[.layers[] | select(.bits == 8)] | length == 1' quantize mlp.onnx -o out.onnx --weights 4 --weights 8 --skip '*Gemm*' --skip 'op:Gemm'
does 0 '.handed_back != null and .agreement == 0 and .bytes_after > 0' quantize sum.onnx -o out.onnx
does 0 '.outputs[0].max_error == 0' compare sum.onnx out.onnx
does 0 '.bytes_after > 0' quantize mlp.onnx -o out.onnx --weights 8 --external out.onnx.data
[ -s out.onnx.data ] || complain "no external file"
does 0 '.outputs[0].score > 0.99' compare mlp.onnx out.onnx
does 0 ".bytes_before == $(($(stat -c %s out.onnx) + $(stat -c %s out.onnx.data)))" quantize out.onnx -o two.onnx --weights f16
rm -f out.onnx out.onnx.data two.onnx
# ---- zeros
does 0 '.what | test("0 % of blocks of 1x16 are zeros, 40 channels removed")' quantize dead.onnx -o out.onnx --prune 0
does 0 '.' check out.onnx
does 0 '.outputs[0].relative_error < 1e-6' compare dead.onnx out.onnx
rm -f out.onnx
does 0 '.handed_back == null and .agreement > 0 and ([.layers[].bytes_after] | add) < 0.65 * ([.layers[].bytes_before] | add)' \
    quantize mlp.onnx -o out.onnx --prune 0.5 --data rows.npz --metric cosine
does 0 '.' check out.onnx
does 0 '.outputs[0].score > 0.6' compare mlp.onnx out.onnx --data rows.npz --metric cosine
does 0 '.bytes_after < .bytes_before * 0.9' quantize mlp.onnx -o out.onnx --prune 0.5 --pack
rm -f out.onnx*
# Sparse initializers: the results of the dense weights, by the same kernels; convolutions use them like dense ones.
for kind in "" conv_ gemm_; do
    does 0 '.outputs[0].max_error == 0' compare ${kind}dense.onnx ${kind}sparse.onnx --samples 2
    does 0 '.outputs[0].max_error == 0' compare ${kind}dense.onnx ${kind}sparse.onnx --samples 2 --providers reference
    checks=$((checks + 1))
    for form in dense sparse; do
        "$inlay" explain ${kind}$form.onnx --kernels --providers cpu,reference "${common[@]}" --json 2>err |
            jq -c '[.. | objects | .kernel? | objects | .name]' >$form.kernels
    done
    cmp -s dense.kernels sparse.kernels && [ "$(wc -c <sparse.kernels)" -gt 4 ] || complain "other kernels: $(cat *.kernels)"
done
# Matrix multiplications read sparse weights if a provider supports it; all other consumers get dense ones.
# as_file COUNT MODEL ARGUMENT...   COUNT 1: the matrix stays sparse; 0: it becomes dense.
as_file() {
    local count=$1
    shift
    checks=$((checks + 1))
    "$inlay" explain "$@" "${common[@]}" --json >out 2>err
    [ "$(grep -o SparseToDense out | wc -l)" -ge 1 ] || [ "$count" = 0 ] || complain "explain $*: it is dense"
    ! grep -q SparseToDense out || [ "$count" = 1 ] || complain "explain $*: it stayed sparse"
}
as_file 0 conv_sparse.onnx
as_file 0 sparse.onnx --providers reference
if "$inlay" explain sparse.onnx --kernels "${common[@]}" 2>err | grep -q packed_sparse; then # AVX2 or NEON
    as_file 1 sparse.onnx
    as_file 1 gemm_sparse.onnx
    # Not even if other providers would be faster with dense weights.
    as_file 1 wide_sparse.onnx
    does 0 '([.. | objects | .kernel? | objects | .name] | any(. == "packed_sparse"))' explain wide_sparse.onnx --kernels
    "$inlay" run sparse.onnx --quiet "${common[@]}" >all 2>err </dev/null
    for rule in "--pin op:MatMul=reference" "--pin op:SparseToDense=reference" "--forbid op:SparseToDense=cpu" \
        "--pin op:MatMul=reference --pin op:SparseToDense=cpu"; do
        checks=$((checks + 1))
        # shellcheck disable=SC2086 # two words each
        "$inlay" run sparse.onnx --quiet "${common[@]}" $rule >out 2>err </dev/null || complain "run sparse.onnx $rule"
        # The first digits of all results.
        [ "$(grep -o 'min [-0-9.]*' out | cut -c1-8)" = "$(grep -o 'min [-0-9.]*' all | cut -c1-8)" ] ||
            complain "run sparse.onnx $rule: another result: $(cat all)"
    done
fi
# The written file is valid ONNX, without the internal node for the matrix.
for verb in "extract sparse.onnx -o out.onnx --outputs y" "optimize sparse.onnx -o out.onnx" \
    "optimize sparse.onnx -o out.onnx --opset 13" "quantize sparse.onnx -o out.onnx --weights 8" \
    "quantize sparse.onnx -o out.onnx --prune 0.5"; do
    checks=$((checks + 1))
    # shellcheck disable=SC2086 # several words
    "$inlay" $verb --no-config --cache-dir "" >out 2>err </dev/null || complain "$verb"
    ! grep -q SparseToDense out.onnx || complain "$verb: the file has SparseToDense"
    does 0 '.outputs[0].score > 0.6' compare sparse.onnx out.onnx --metric cosine --samples 1
    rm -f out.onnx
done
fails 2 'prune keeps weights as floats' quantize mlp.onnx -o out.onnx --prune 0.5 --weights 8
fails 2 'prune 1.5' quantize mlp.onnx -o out.onnx --prune 1.5

# ---- packed
for name in "" "--external tensors"; do
    # shellcheck disable=SC2086 # no name is no argument
    does 0 '.bytes_after > 0 and .agreement > 0.98' quantize mlp.onnx -o out.onnx --weights 8 --pack $name
    data=out.onnx.data
    [ -z "$name" ] || data=tensors
    checks=$((checks + 1))
    [ "$(head -c 8 $data)" = INLAYPK1 ] || complain "no packed file"
    does 0 '.outputs[0].score > 0.9999' compare mlp.onnx out.onnx --metric cosine
    does 0 '.' check out.onnx
    does 0 '.bytes_after > 0' quantize out.onnx -o whole.onnx --weights exact
    does 0 '.outputs[0].max_error == 0' compare out.onnx whole.onnx
    printf 'X' | dd of=$data bs=1 seek=900 conv=notrunc 2>dd.log
    does 3 '.error.text | test("packed external file .*: the hash of a chunk does not match")' run out.onnx
    rm -f out.onnx* tensors whole.onnx
done
fails 2 "no layer with weights matches 'nothing'" quantize mlp.onnx -o out.onnx --skip nothing
fails 2 'expected 4, 8, auto, f16 or exact' quantize mlp.onnx -o out.onnx --weights 5
fails 3 "nowhere/out.onnx: cannot be created: there is no folder 'nowhere'" quantize mlp.onnx -o nowhere/out.onnx

# ---- integers
# With --weights, integers are written even if they are not faster, independent of the machine.
does 0 '.handed_back == null and .samples == 12 and ([.layers[] | select(.integers)] | length) == 4' \
    quantize net.onnx -o out.onnx --data images.npz --metric cosine --at-least 0.98 --mode static --weights 8
does 0 '.outputs[0].score > 0.98' compare net.onnx out.onnx --data images.npz --metric cosine
does 0 '.handed_back == null and ([.layers[] | select(.integers)] | length) == 4' quantize net.onnx -o out.onnx \
    --data images.npz --metric cosine --at-least 0.98 --mode static --weights 8 --format qoperator
does 0 '.' check out.onnx
does 0 '.outputs[0].score > 0.98' compare net.onnx out.onnx --data images.npz --metric cosine
does 0 '.samples == 1' quantize net.onnx -o out.onnx --data one.npz --metric cosine --method minmax --mode static --weights 8
does 0 '.bytes_after > 0' quantize net.onnx -o out.onnx --data images.npz --metric cosine
LC_ALL=C sed 's/r1/,1/g' net.onnx >comma.onnx # a value with a comma in its name
does 0 '[.layers[] | select(.integers)] | length == 4' quantize comma.onnx -o out.onnx --data images.npz --metric cosine \
    --mode static --weights 8
rm comma.onnx
does 0 '.bytes_after > 0' quantize net.onnx -o out.onnx --data zeros.npz --metric cosine --mode static --weights 8 --method percentile
does 0 '.bytes_after > 0' quantize net.onnx -o out.onnx --data nan.npz --metric cosine --mode static --weights 8 --method mse
rm -f out.onnx
fails 2 'does not fit input' quantize net.onnx -o out.onnx --data wrong.npz
for samples in constant huge nans; do # the result is a model that runs: layers with invalid ranges stay floats
    for method in minmax percentile entropy mse auto; do
        does 0 '.bytes_after > 0' quantize net.onnx -o out.onnx --data $samples.npz --metric cosine --mode static \
            --weights 8 --method $method
        does 0 '.' run out.onnx
        rm -f out.onnx
        left
    done
done
for bits in 8 4; do
    does 0 '.bytes_after > 0' quantize dead.onnx -o out.onnx --data rows.npz --metric cosine --weights $bits
    does 0 '.outputs[0].score > 0.95' compare dead.onnx out.onnx --data rows.npz --metric cosine
    rm -f out.onnx
done
does 0 '.bytes_after > 0' quantize dead.onnx -o out.onnx --data rows.npz --metric cosine --mode static --weights 8
does 0 '.outputs[0].score > 0.95' compare dead.onnx out.onnx --data rows.npz --metric cosine
rm -f out.onnx
fails 3 "input 'z': images.npz has no array with that name" quantize sum.onnx -o out.onnx --data images.npz

# ---- lookup tables are quantized, too, if the agreement permits it
does 0 '[.layers[] | select(.op == "Gather")] | length == 1 and .[0].bits == 8 and (.[0].integers | not)' quantize \
    table.onnx -o out.onnx --data rows.npz --metric cosine --at-least 0.98 --mode static --weights 8
does 0 '.' check out.onnx
does 0 '.outputs[0].score > 0.98' compare table.onnx out.onnx --data rows.npz --metric cosine
rm -f out.onnx
does 0 '[.layers[] | select(.op == "Gather")] | length == 1 and .[0].bits == 32' quantize table.onnx -o out.onnx \
    --data rows.npz --metric cosine --at-least 0.98 --mode static --weights 8 --skip op:Gather
rm -f out.onnx
left

# ---- ranges are chosen per value, and layers return to floats, by their effect on the outputs
checks=$((checks + 1))
"$inlay" quantize net.onnx -o out.onnx --data images.npz --metric psnr --at-least 64 --mode static --weights 8 --verbose \
    "${common[@]}" >out 2>err </dev/null
if ! grep -q 'the best method for each value' err || ! grep -q 'to keep the agreement' out; then
    complain "no method for each value"
fi
does 0 '.outputs[0].score >= 64' compare net.onnx out.onnx --data images.npz --metric psnr
rm -f out.onnx
left

# ---- equalized channels: smaller errors, and none if all layers are floats again
checks=$((checks + 1))
"$inlay" quantize uneven.onnx -o out.onnx --data rows.npz --metric psnr --at-least 75 --mode static --weights 8 --verbose \
    "${common[@]}" >out 2>err </dev/null
errors=$(grep -o 'ranges by minmax, 0 layers in floats: .* error [0-9.e-]*' err | sed 's/.* //')
if ! grep -q 'channels are balanced' err ||
    ! awk 'NR == 1 { was = $1 } END { exit !(NR >= 2 && $1 < 0.8 * was) }' <<<"$errors"; then
    complain "channels are not balanced"
fi
does 0 '.outputs[0].score > 100' compare uneven.onnx out.onnx --data rows.npz --metric psnr
rm -f out.onnx
left

# ---- important channels get finer 4-bit steps, where that reduces the error by more than 2 %
checks=$((checks + 1))
"$inlay" quantize sharp.onnx -o out.onnx --weights 4 --data rows.npz --metric psnr --verbose "${common[@]}" >out 2>err </dev/null
grep -q 'channels of 1 values scaled' err || complain "channels are not scaled for 4 bits"
does 0 '.outputs[0].score > 49' compare sharp.onnx out.onnx --data rows.npz --metric psnr
rm -f out.onnx
does 0 '.handed_back == null' quantize sharp.onnx -o out.onnx --weights auto --bits 5.5 --data rows.npz --metric kl
does 0 '.outputs[0].score > 0.99' compare sharp.onnx out.onnx --data rows.npz --metric cosine
rm -f out.onnx
left

# ---- a resumed search, and the page of its results
does 0 '.handed_back == null' quantize net.onnx -o out.onnx --data images.npz --metric cosine --at-least 0.98 \
    --mode static --weights 8 --stats s.json --front front.html
checks=$((checks + 1))
jq -e '(.ranges | length) > 0 and (.verdicts | length) > 4' s.json >/dev/null || complain "s.json has no ranges or verdicts"
cp s.json before.json
does 0 '.handed_back == null' quantize net.onnx -o out.onnx --data images.npz --metric cosine --at-least 0.98 \
    --mode static --weights 8 --stats s.json
checks=$((checks + 1))
[ "$(jq -S .ranges s.json)" = "$(jq -S .ranges before.json)" ] || complain "ranges were found again"
checks=$((checks + 1))
if ! grep -q '<svg' front.html || ! grep -q 'class="chosen"' front.html || ! grep -q 'floats' front.html ||
    [ "$(grep -c '<circle' front.html)" -le 5 ]; then
    complain "front.html has no points"
fi
# The axis of a share ends at 1, the colours have a legend, and a variant has one row.
checks=$((checks + 1))
if [ -n "$(grep -oE 'text-anchor="end">[0-9.]+<' front.html | tr -dc '0-9.\n' | awk '$1 > 1')" ] ||
    ! grep -q 'class="legend"' front.html || [ -n "$(sed '/<h2>/,$d' front.html | grep -oE '^<tr[^>]*><td>[^<(]*' |
        sed 's/^<tr[^>]*><td>//; s/ $//' | sort | uniq -d)" ]; then
    complain "front.html: its axis, legend or rows"
fi
# Where no variant is accepted, the original is the marked row.
does 0 '.handed_back != null' quantize net.onnx -o out.onnx --data images.npz --metric cosine --at-least 2 \
    --mode static --weights 8 --stats s.json --front front.html
checks=$((checks + 1))
[ "$(grep -o 'class="chosen"><td>[a-z, ]*' front.html)" = 'class="chosen"><td>floats, the original' ] &&
    grep -q 'no variant was accepted' front.html || complain "front.html: no row is the result"
rm -f out.onnx
fails 2 's.json: belongs to another model, other samples or another metric' \
    quantize net.onnx -o out.onnx --data stored.npz --metric psnr --mode static --weights 8 --stats s.json
echo '{"version": 1' >s.json
fails 2 's.json: not a file of inlay quantize --stats' quantize net.onnx -o out.onnx --data images.npz --stats s.json

# ---- 4 bits and 8
does 0 '.handed_back == null and ([.layers[].bits] | sort) == [4, 8]' quantize mlp.onnx -o out.onnx --weights auto \
    --bits 6.9 --data rows.npz --metric kl
does 0 '[.layers[].bits] == [4, 4]' quantize mlp.onnx -o out.onnx --weights auto --bits 5.2 --data rows.npz --metric kl
does 0 '[.layers[].bits] == [8, 8]' quantize mlp.onnx -o out.onnx --weights auto --bits 9 --data rows.npz --metric kl
does 0 '.outputs[0].score > 0.9999' compare mlp.onnx out.onnx --data rows.npz --metric cosine
# Matrix multiplications of equal size are ranked by their effect on the outputs.
does 0 '[.layers[].bits] == [4, 8]' quantize twice.onnx -o out.onnx --weights auto --bits 6.9 --data rows.npz --metric psnr
rm -f out.onnx
checks=$((checks + 1))
"$inlay" quantize mlp.onnx -o out.onnx --weights auto "${common[@]}" >out 2>err </dev/null
if [ $? -ne 2 ] || ! grep -q 'auto requires --data' err; then
    complain "--weights auto without data"
fi
left

# ---- useless samples, in every mode: the written model runs, or no file is written
for kind in zeros constant huge nans infinite one; do
    for how in "--weights 4" "--weights auto --bits 7" "--weights 8" "--weights f16" "--prune 0.5" \
        "--mode dynamic --weights 8" "--mode static --weights 8"; do
        # shellcheck disable=SC2086 # several arguments
        does 0 '.bytes_after > 0' quantize mlp.onnx -o out.onnx --data rows_$kind.npz --metric cosine $how
        does 0 '.' run out.onnx --dim N=2
        rm -f out.onnx
        left
    done
done
# A size that is fixed by name, in models that are made from the given one, too.
for how in "--weights 8" "--mode dynamic --weights 8" "--mode static --weights 8 --data rows_one.npz"; do
    # shellcheck disable=SC2086 # several arguments
    does 0 '.bytes_after > 0' quantize mlp.onnx -o out.onnx --dim N=1 --metric cosine $how
    does 0 '.' run out.onnx
    # shellcheck disable=SC2086
    does 0 '.bytes_after > 0' quantize mlp.onnx -o out.onnx --dim batch=1 --metric cosine $how
    rm -f out.onnx
    left
done
fails 2 "no dimension named 'M'" quantize mlp.onnx -o out.onnx --dim M=1
fails 2 'does not fit input|has no samples' quantize mlp.onnx -o out.onnx --data rows_none.npz
mkdir empty
fails 2 'has no samples' quantize mlp.onnx -o out.onnx --data empty
does 0 '[.layers[] | select(.kept == "weights out of the range of float16")] | length == 1' quantize big.onnx -o out.onnx --weights f16
rm -f out.onnx
for how in "--weights 8" "--weights 4"; do
    # shellcheck disable=SC2086 # two arguments
    does 0 '.bytes_after > 0' quantize big.onnx -o out.onnx --data rows.npz --metric cosine $how
    does 0 '.outputs[0].score > 0.98' compare big.onnx out.onnx --data rows.npz --metric cosine
    rm -f out.onnx
    left
done
does 0 '.bytes_after > 0' quantize big.onnx -o out.onnx --data rows.npz --metric cosine --mode static --weights 8
does 0 '.' run out.onnx --dim N=2
rm -f out.onnx
left

# ---- a full disk, and interruption
checks=$((checks + 1))
(
    trap '' XFSZ
    ulimit -f 4
    "$inlay" quantize mlp.onnx -o out.onnx --weights 8 "${common[@]}" --quiet >out 2>err </dev/null
)
code=$?
if [ $code -ne 3 ] || ! grep -q 'out.onnx.*cannot be written: File too large' err; then
    complain "a full disk: exit code $code"
fi
left
for how in "--weights 4 --data rows.npz" "--mode static --data rows.npz" "--weights f16 --pack" "--prune 0.5"; do
    checks=$((checks + 1))
    (
        trap '' XFSZ
        ulimit -f 4
        # shellcheck disable=SC2086 # several arguments
        "$inlay" quantize mlp.onnx -o out.onnx $how "${common[@]}" --quiet >out 2>err </dev/null
    )
    code=$?
    if [ $code -ne 3 ] || ! grep -q 'cannot be written: File too large' err || [ "$(wc -l <err)" != 1 ]; then
        complain "a full disk, $how: exit code $code"
    fi
    left
done
# Interrupted: a search that takes seconds, because no result is good enough, so that none of these runs ends by itself.
search=(quantize wide.onnx -o out.onnx --data many.npz --metric cosine --at-least 2 "${common[@]}")
# Half-way, as soon as the ranges are measured: the results so far are stored.
checks=$((checks + 1))
rm -f half.json
"$inlay" "${search[@]}" --stats half.json >out 2>err </dev/null &
until [ -s half.json ] || ! kill -0 $! 2>/dev/null; do
    sleep 0.05
done
kill -INT $! 2>/dev/null
wait $!
code=$?
[ $code -eq 130 ] || complain "interrupted half-way: exit code $code"
jq -e '.ranges | length > 0' half.json >/dev/null || complain "half.json has no ranges"
left
checks=$((checks + 1))
timeout --foreground --preserve-status -s INT 0.4 "$inlay" "${search[@]}" >out 2>err </dev/null
code=$?
[ $code -eq 130 ] || complain "cancelled: exit code $code"
left
for after in 0.02 0.1 0.3; do # in any phase, by SIGTERM of a batch system
    checks=$((checks + 1))
    "$inlay" "${search[@]}" >out 2>err </dev/null &
    sleep $after
    kill -TERM $! 2>/dev/null
    wait $!
    code=$?
    # 143: before any file was written
    [ $code -eq 130 ] || [ $code -eq 143 ] || complain "interrupted after $after s: exit code $code"
    left
done

finish
