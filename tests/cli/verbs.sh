#!/bin/bash
# Every verb of the command line on small models: exit codes, output, one-line errors, JSON, --help.
#   verbs.sh INLAY DATA FAKE     the executable; the folder of ONNX's test data (node/test_add/... below it); the folder
#                                of the plugin with the fake device
set -u
# shellcheck source=tests/support/meets.bash
. "$(dirname "$0")/../support/meets.bash"
inlay=$1
node=$2/node
fake=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
checks=0
wrong=0

complain() {
    wrong=$((wrong + 1))
    echo "FAIL $1"
    shift
    printf '     %s\n' "$@"
}

# expect CODE PATTERN ARGUMENT...   runs inlay; checks its exit code and a line of its output (either stream).
expect() {
    local code=$1 pattern=$2 got
    shift 2
    checks=$((checks + 1))
    "$inlay" "$@" >"$work/out" 2>"$work/err" </dev/null
    got=$?
    if [ $got -ne "$code" ]; then
        complain "inlay $*" "exit code $got, not $code" "$(head -c 600 "$work/err")" "$(head -c 300 "$work/out")"
    elif ! grep -qE -- "$pattern" "$work/out" "$work/err"; then
        complain "inlay $*" "nothing like '$pattern'" "$(head -c 600 "$work/err")" "$(head -c 600 "$work/out")"
    fi
}

# refuses CODE PATTERN ARGUMENT...   like expect; stderr must be one line that begins with 'inlay', and stdout empty.
refuses() {
    expect "$@"
    if [ "$(wc -l <"$work/err")" -ne 1 ] || ! grep -qE '^inlay' "$work/err" || [ -s "$work/out" ]; then
        shift 2
        complain "inlay $*" "not a one-line error:" "$(cat "$work/err")" "$(head -c 300 "$work/out")"
    fi
}

# json CODE FILTER ARGUMENT...   stdout must be JSON for which jq's FILTER is true.
json() {
    local code=$1 filter=$2
    shift 2
    expect "$code" '' "$@"
    meets "$work/out" "$filter" "inlay $*"
}

# check TEXT COMMAND...   the command must succeed.
check() {
    local text=$1
    shift
    checks=$((checks + 1))
    "$@" >/dev/null 2>&1 || complain "$text"
}

add=$node/test_add/model.onnx
texts=$node/test_strnormalizer_export_monday_casesensintive_lower/model.onnx
verbs=$(sed -nE 's/^VERB\((\w+),.*/\1/p' "$(dirname "$0")/../../host/tools/cli/verbs.def" | tr '_\n' '- ')
[ -x "$(dirname "$inlay")/inlay-serve" ] || verbs=${verbs/serve /}

# ---- help and invalid arguments
expect 2 'Usage: inlay VERB'
expect 0 'Usage: inlay VERB' --help
expect 0 '^inlay [0-9]+\.[0-9]+' --version
expect 0 'Usage: inlay VERB' help
expect 0 '130' help exit-codes
for verb in $verbs; do
    expect 0 "Usage: inlay $verb" "$verb" --help
    expect 0 'Examples:' "$verb" --help
    expect 0 "Usage: inlay $verb" help "$verb"
    expect 2 'unknown option .--no-such-flag.|unrecognized option' "$verb" --no-such-flag
done
refuses 2 "did you mean 'inspect'" insepct
refuses 2 "unknown verb 'explian'; did you mean 'explain'\\?$" explian
refuses 2 "unknown verb 'xyzzy'; inlay --help lists the verbs" xyzzy
refuses 2 "unknown option '--inptus'; did you mean '--inputs'\\?$" run --inptus x=1 "$add"
for verb in quantize optimize edit extract; do
    refuses 2 "output x.gguf: inlay writes ONNX, not GGUF; name the file x.onnx" $verb "$add" -o x.gguf
done
refuses 2 "unknown option '--intra-thread5'; did you mean '--intra-threads'\\?$" run "$add" --intra-thread5=1
refuses 2 "unknown option '--qqqqqqqq'; inlay run --help-all lists the options" run "$add" --qqqqqqqq
expect 0 'string|float' run "$add" --seed 1 --val 2
# What other tools call a verb or an option; a name that has little in common with a known one is no suggestion.
refuses 2 "unknown option '--opset'; try inlay optimize --opset=N$" edit "$add" --opset 9
refuses 2 "unknown option '--batch'; try --dim batch=N$" run "$add" --batch 2
refuses 2 "unknown option '--device'; try --providers=NAME,...$" run "$add" --device cpu
refuses 2 "unknown option '-ngl'; try --providers=NAME,...$" run "$add" -ngl 99
refuses 2 "unknown option '--optShapes'; try --dim NAME=N$" bench "$add" --optShapes=x:1x3
refuses 2 "unknown option '--intra_op_num_threads'; try --intra-threads=N$" run "$add" --intra_op_num_threads 2
refuses 2 "unknown option '--n-predict'; try --tokens=N$" generate "$add" --n-predict 3
refuses 2 "unknown option '--n-predict'; try inlay generate --tokens=N$" run "$add" --n-predict 3
refuses 2 "unknown option '--threads'; inlay inspect --help-all lists the options$" inspect "$add" --threads 2
refuses 2 "unknown option 'x'; .inlay config., or inlay_options_describe.. in C, lists all options$" run "$add" --option x=1
refuses 2 "unknown option '--timeout'; did you mean '--timeout-ms'\\?$" run "$add" --timeout 600
refuses 2 "unknown verb 'convert'; try inlay optimize --opset=N$" convert "$add"
refuses 2 "unknown option '--verison'; did you mean '--version'\\?$" --verison
expect 0 'Usage: inlay run' run -h
# A switch may stand alone, or have its value after a blank or '='.
for switch in --strict-model '--strict-model 1' '--strict-model 0' --strict-model=1; do
    # shellcheck disable=SC2086
    expect 0 ': OK: 1 nodes' check $switch "$add"
    # shellcheck disable=SC2086
    expect 0 "^strict_model +$([ "$switch" = '--strict-model 0' ] && echo 0 || echo 1) +--strict-model" config $switch
done
refuses 2 "'2' is not an integer from 0 to 1" config --free-shapes=2
expect 0 'ran in' run --check-finite 0 "$node/test_log/model.onnx"
refuses 2 "expected 0 or 1" run --check-finite=2 "$add"
# --dim by input and axis
refuses 2 "axis 1 of input 'x' has the fixed size 4" run "$add" --dim x:1=5
refuses 2 "input 'x' has 3 axes, counted from 0" run "$add" --dim x:3=5
refuses 2 "the model has no input 'z'; did you mean" run "$add" --dim z:0=5
refuses 2 "no node named 'Add'; did you mean 'op:Add'" explain "$add" --node Add
refuses 2 "unknown verb 'xyzzy'" help xyzzy
for verb in run bench inspect check doctor optimize profile bisect explain partition tune; do
    expect 2 'no model given' "$verb"
    expect 2 'only one model can be given' "$verb" "$add" "$add"
done
expect 2 'no folder given' test
expect 3 'option profile: .*/none.json: .*; inlay tune --machine writes one' explain "$add" --profile "$work/none.json"
expect 0 '^1 -> 1 nodes, written to ' optimize "$add" -o "$work/small.onnx"
expect 0 ': OK: 1 nodes' check "$work/small.onnx"
expect 0 '^[0-9]+  no_op$' optimize --list
expect 0 '^  policy=priority$' doctor --report --policy priority
json 0 '(.plugins | length) > 1 and (.settings | contains(["policy=priority"])) and (.plugins[0] | test("/") | not)' \
    doctor --report --json --policy priority
expect 0 "No such file" doctor --report --plugin-dirs /nonexistent
json 0 '.[] | select(.pass == "no_op") | .level == 1' optimize --list --json
repeat=$2/pytorch-operator/test_operator_repeat/model.onnx
expect 0 '^constant_nodes +2 -> 1 nodes' optimize "$repeat" --explain
json 0 '.nodes_before == 2 and .nodes_after == 1 and
    ([.events[] | select(.pass == "constant_nodes" and .nodes_before == 2 and .nodes_after == 1)] | length == 1)' \
    optimize "$repeat" --explain --json
expect 0 "the model has no open dimension named 'missing'" explain "$add" --dim missing~=3 --verbose
expect 2 "unknown option '--assume'.*--dim NAME~=N" explain "$add" --assume missing=3
expect 2 "no optimiser pass 'no_up'; did you mean 'no_op'" optimize "$add" --no-pass no_up
expect 3 'nowhere' optimize "$add" -o "$work/nowhere/small.onnx"
expect 0 '^1 of 1 nodes written to ' extract "$add" --nodes 'op:Add' -o "$work/part.onnx"
expect 0 ': OK: 1 nodes' check "$work/part.onnx"
json 0 '.[0].nodes == 1' extract "$add" --split 1 -o "$work/part.onnx" --json
expect 2 'no output file given' extract "$add" --split 1
expect 2 'name the part with' extract "$add" -o "$work/part.onnx"
expect 2 'expected a number from 1 to 1000' extract "$add" --split x -o "$work/part.onnx"
expect 2 'expected a whole number' extract "$add" --nodes x --depth 1.5 -o "$work/part.onnx"
expect 2 "no value 'nope'" extract "$add" --outputs nope -o "$work/part.onnx"
expect 3 'nowhere' extract "$add" --split 1 -o "$work/nowhere/part.onnx"
expect 0 '^no difference$' bisect "$add" --against reference
expect 2 'expected reference, or NAME=VALUE' bisect "$add" --against torch
json 0 '.stage == "none"' bisect "$add" --json
expect 0 '^a run took' profile "$add" --runs 2 --no-peak --trace "$work/trace.json" --html "$work/profile.html"
check 'inlay profile --trace writes events' jq -e '.traceEvents | length > 3' "$work/trace.json"
json 0 '.peak_flops_per_s > 0 and .peak_bytes_per_s > 0' profile "$add" --runs 2 --json
json 0 '.runs == 2 and (.steps | length) == 1' profile "$add" --runs 2 --no-peak --json
json 0 '([.steps[] | select(.leaf) | .ns] | add) + .outside_kernels_ns >= .run_ns * 0.999' profile "$add" --runs 2 --no-peak --json
expect 3 'nowhere' profile "$add" --runs 1 --no-peak --html "$work/nowhere/p.html"
log=$node/test_log/model.onnx
expect 1 "Log node .* made the first NaN at .* of output 'y' float.3,4,5.; inputs: 'x'" run "$log" --check-finite
json 1 '.error.tensor == "y" and (.error.text | test("first NaN"))' run "$log" --check-finite --json
expect 0 'ran in' run "$log"
expect 0 'ran in' run "$add" --check-finite
expect 2 'no plugin file given' plugin-check
expect 2 'only one plugin can be checked' plugin-check a.so b.so
expect 2 'no plugin file given' admit -o a.trust
expect 2 'name it with --model' admit a.so -o a.trust
expect 2 'no certificate given' admit a.so --model a.onnx
refuses 2 'expected one of file open' plugin-check a.so --group nonsense
expect 2 'accepts no arguments' providers x

# ---- invalid files
printf 'this is not a model, it is a text\n' >"$work/text.onnx"
head -c 60 "$add" >"$work/cut.onnx"
: >"$work/empty.onnx"
for verb in run bench inspect check doctor optimize profile bisect explain partition tune; do
    refuses 3 'no-such.onnx' "$verb" "$work/no-such.onnx"
    if [ "$verb" = doctor ]; then # what is wrong with the file is its result
        expect 3 '^error   not-onnx: .*text.onnx' doctor "$work/text.onnx"
        expect 3 '^error   file-cut-off: .*cut.onnx' doctor "$work/cut.onnx"
        expect 3 '^error   not-onnx: .*empty.onnx: is empty' doctor "$work/empty.onnx"
    else
        refuses 3 'text.onnx' "$verb" "$work/text.onnx"
        refuses 3 'cut.onnx' "$verb" "$work/cut.onnx"
        refuses 3 'empty.onnx' "$verb" "$work/empty.onnx"
    fi
    refuses 3 'is a directory' "$verb" "$work"
    json 3 '.error.code and .error.text' "$verb" "$work/no-such.onnx" --json
done
refuses 3 'no-such' test "$work/no-such"
mkdir -p "$work/nothing"
refuses 3 'no test case here' test "$work/nothing"

# ---- invalid options
expect 0 'string\[' run "$texts"
refuses 2 'intra.threads' run "$add" --intra-threads nonsense
refuses 2 'seconds' bench "$add" --seconds soon
refuses 2 'expected NAME=VALUE' run "$add" --option nonsense
refuses 2 'no_such_option' run "$add" --option no_such_option=1
refuses 2 'NAME=FILE' run "$add" --input nonsense
refuses 2 'the model has x, y' run "$add" --input z=random
refuses 2 'random:' run "$add" --input x=random:2,-3
refuses 2 'seed' run "$add" --seed x
refuses 3 'no-such: No such file' run "$add" --inputs "$work/no-such"
refuses 2 'nosuchprovider' run "$add" --providers nosuchprovider
INLAY_INTRA_THREADS=many refuses 2 'INLAY_INTRA_THREADS' run "$add"
INLAY_NO_SUCH_THING=1 expect 0 '^sum: float' run "$add"
INLAY_INTRA_THREADS=1 expect 0 '^sum: float' run "$add"

# ---- hints to devices: with option echo, every result is 10 * priority + power
echo=(run "$node/test_relu/model.onnx" --plugin-dirs "$fake" --providers fake,reference --policy priority
    --option fake.echo=true)
expect 0 '^y: .* max 21,' "${echo[@]}" --priority high --power efficiency
INLAY_PRIORITY=low INLAY_POWER=performance expect 0 '^y: .* max 12,' "${echo[@]}"
printf 'priority: high\n' >"$work/hints.yaml"
expect 0 '^y: .* max 20,' "${echo[@]}" --config "$work/hints.yaml"
refuses 2 "option priority: 'most' is not one of low, normal, high" "${echo[@]}" --priority most

# ---- settings
export XDG_CONFIG_HOME=$work/config
user=$work/config/inlay/inlay.yaml
mkdir -p "$work/config/inlay"
expect 0 '^policy  +cost  +default$' config
expect 0 "^$user: does not exist$" config check
# A file in the working directory is no setting, and `config` says so.
mkdir "$work/here"
echo "policy: priority" >"$work/here/inlay.yaml"
cd "$work/here" || exit 1
expect 0 '^inlay config: ./inlay.yaml is not read: .*--config inlay.yaml reads it$' config
expect 0 '^policy  +priority  +inlay.yaml:1$' config --config inlay.yaml
if grep -q "is not read" "$work/err"; then complain "inlay config --config inlay.yaml" "says that the file is not read"; fi
cd - >/dev/null || exit 1
printf '# mine\npolicy: priority\nintra_threads: 2\ndim: {a: 1}\nreference.preview: true\n' >"$user"
printf 'intra_threads: 3\ndim: [b=2]\n' >"$work/more.yaml"
expect 0 "^policy  +priority  +$user:2$" config
expect 0 "^reference.preview  +true  +$user:5$" config
expect 0 "^intra_threads  +3  +$work/more.yaml:1$" config --config "$work/more.yaml"
expect 0 "^ +b=2  +$work/more.yaml:2$" config --config "$work/more.yaml"
INLAY_INTRA_THREADS=4 expect 0 '^intra_threads  +4  +INLAY_INTRA_THREADS$' config --config "$work/more.yaml"
INLAY_INTRA_THREADS=4 expect 0 '^intra_threads  +5  +--intra-threads$' config --intra-threads 5
expect 0 '^policy  +cost  +default$' config policy --no-config
INLAY_OPTION=reference.preview=false expect 0 '^reference.preview  +false  +INLAY_OPTION$' config
json 0 '[.settings[] | select(.name == "dim") | [.value, .source, .item]] ==
    [["a=1", "user file", 0], ["b=2", "file", 1], ["c=3", "flag", 2]]' \
    config --config "$work/more.yaml" --dim c=3 --json
"$inlay" config --yaml --config "$work/more.yaml" --dim c=3 --providers 'a?,b' --plugin-dirs x:/y >"$work/saved.yaml"
"$inlay" config --no-config --config "$work/saved.yaml" | grep -v default | sed 's/  *[^ ]*$//' >"$work/a.txt"
"$inlay" config --config "$work/more.yaml" --dim c=3 --providers 'a?,b' --plugin-dirs "$PWD/x:/y" |
    grep -v default | sed 's/  *[^ ]*$//' >"$work/b.txt"
check 'inlay config --yaml can be read back' diff "$work/a.txt" "$work/b.txt"
check 'the output of inlay config is not empty' test -s "$work/a.txt"
expect 0 '^sum: float' run "$add" --no-config
expect 0 'sum' run "$add" --no-config --dim 'none?=3'
refuses 2 "no dimension named 'none'" run "$add" --no-config --dim none=3
printf 'providers: [{name: nowhere, optional: true, options: {a: 1}}, reference]\n' >"$work/optional.yaml"
expect 0 '^sum: float' run "$add" --no-config --config "$work/optional.yaml"
sed -i 's/true/false/' "$work/optional.yaml"
refuses 2 'nowhere' run "$add" --no-config --config "$work/optional.yaml"
expect 0 '^sum: float' run "$add" --no-config --config "$work/optional.yaml" --providers reference
refuses 2 'provider nowhere is not in use' run "$add" --providers reference --option nowhere.a=1 --no-config
refuses 2 "did you mean 'policy'" config polcy
refuses 2 "no dimension named 'a'" run "$add"
printf 'policy: cost\npolcy: cost\nlevel: x\n' >"$work/bad.yaml"
expect 3 "^$work/bad.yaml:2: unknown key 'polcy'; did you mean 'policy'\\?$" config check "$work/bad.yaml"
expect 3 "^$work/bad.yaml:3: option level: 'x' is not an integer" config check "$user" "$work/bad.yaml"
expect 3 "^$user: ok$" config check "$user" "$work/bad.yaml"
printf 'no_pass: [gelu, swich]\n' >"$work/pass.yaml"
expect 3 "^$work/pass.yaml:1: unknown optimiser pass 'swich'; did you mean 'swish'\\?$" config check "$work/pass.yaml"
expect 3 "^$work/none.yaml: no such file$" config check "$work/none.yaml"
json 3 '.ok == false and .files[0].ok == false and (.files[0].mistakes | length) == 2' config check "$work/bad.yaml" --json
expect 2 "^inlay run: $work/bad.yaml:2: unknown key" run "$add" --config "$work/bad.yaml"
json 2 '.error.text | contains("unknown key")' run "$add" --config "$work/bad.yaml" --json
chmod o+w "$user"
refuses 3 'all users may write to it' run "$add"
rm "$user"
expect 0 "^$user: does not exist$" config check

# ---- run
expect 0 '^sum: float\[3, 4, 5\] = .*min .*max .*mean' run "$add"
json 0 '.outputs[0].name == "sum" and .outputs[0].shape == [3,4,5] and (.outputs[0].values | length) == 8' \
    run "$add" --json
json 0 '(.outputs[0].values | length) == 60 and ([.outputs[0].values[] | select(. < -2 or . > 2)] | length) == 0' \
    run "$add" --json --values 100
"$inlay" run "$add" --seed 5 --outputs "$work/a" >/dev/null 2>&1
"$inlay" run "$add" --seed 5 --outputs "$work/b" >/dev/null 2>&1
"$inlay" run "$add" --seed 6 --outputs "$work/c" >/dev/null 2>&1
check 'the same seed gives the same outputs' cmp "$work/a/sum.npy" "$work/b/sum.npy"
check 'another seed gives other outputs' bash -c "! cmp -s '$work/a/sum.npy' '$work/c/sum.npy'"
# Written files can be read: x + y with x from .npy and y from ONNX's .pb.
mkdir -p "$work/in"
cp "$work/a/sum.npy" "$work/in/x.npy"
cp "$node/test_add/test_data_set_0/input_1.pb" "$work/in/y.pb"
expect 0 '^sum: float' run "$add" --inputs "$work/in"
expect 0 '^sum: float' run "$add" --input "x=$work/in/x.npy" --input "y=$work/in/y.pb"
rm "$work/in/y.pb"
refuses 3 "input 'y'" run "$add" --inputs "$work/in"
refuses 2 'random' run "$add" --input "x=$work/in/x.txt"
refuses 3 'gone.npy' run "$add" --input "x=$work/in/gone.npy"
head -c 100 "$work/a/sum.npy" >"$work/in/short.npy"
cp "$work/text.onnx" "$work/in/text.npy"
refuses 3 'text.npy is not a .npy file' run "$add" --input "x=$work/in/text.npy"
refuses 3 'short.npy' run "$add" --input "x=$work/in/short.npy"
expect 1 'x' run "$add" --input x=random:2,2 --input y=random:3,3
printf 'x' >"$work/file"
refuses 3 'file' run "$add" --outputs "$work/file/below"

# ---- test
expect 0 '^1 passed, 0 failed, 0 skipped$' test "$node/test_add"
check 'the sum is the last line' bash -c "tail -n 1 '$work/out' | grep -qx '1 passed, 0 failed, 0 skipped'"
mkdir -p "$work/cases/deep/down"
cp -r "$node/test_add" "$work/cases/deep/down/good"
cp -r "$node/test_add" "$work/cases/deep/bad"
cp "$node/test_sub/test_data_set_0/output_0.pb" "$work/cases/deep/bad/test_data_set_0/output_0.pb"
cp -r "$node/test_add" "$work/cases/wrong_type"
cp "$node/test_and2d/test_data_set_0/output_0.pb" "$work/cases/wrong_type/test_data_set_0/output_0.pb"
cp -r "$node/test_add" "$work/cases/broken"
cp "$work/text.onnx" "$work/cases/broken/model.onnx"
expect 1 '^1 passed, 3 failed, 0 skipped$' test "$work/cases"
for line in "^FAIL deep/bad: test_data_set_0 output 'sum': \[0,0,0\] got .*, want .* \([0-9]+ of 60 wrong, worst error" \
    "^FAIL wrong_type: test_data_set_0 output 'sum': got float\[3, 4, 5\], want bool\[3, 4\]" '^FAIL broken: '; do
    check "inlay test prints $line" grep -qE "$line" "$work/out"
done
expect 1 '^0 passed, 1 failed, 0 skipped$' test "$work/cases" --fail-fast
expect 0 '^pass deep/down/good$' test "$work/cases" --match 'deep/down/*' --verbose
json 1 '.passed == 1 and .failed == 3 and .skipped == 0 and (.cases | length) == 4' test "$work/cases" --json
json 1 '[.cases[] | select(.result == "failed") | .problems[0]] | length == 3' test "$work/cases" --json
expect 0 '^1 passed, 0 failed, 0 skipped$' test "$work/cases/deep/bad" --atol 100

# ---- bench
json 0 '.create_ms >= 0 and .first_ms >= 0 and .median_ms >= .min_ms and .p95_ms >= .median_ms and .p99_ms >= .p95_ms
    and .runs >= 1 and .cpu_ms > 0 and .peak_mb > 0' bench "$add" --seconds 0.05 --warmup 1 --intra-threads 1 --json
json 0 '.runs == 3' bench "$add" --seconds 60 --runs 3 --json
expect 0 '^median' bench "$add" --seconds 0.01
json 0 '.callers == 3 and .runs == 7 and .runs_per_s > 0' bench "$add" --callers 3 --runs 7 --json
json 0 '.runs == 1' bench "$add" --interval 1 --runs 1 --json
refuses 2 'callers' bench "$add" --callers 0
refuses 2 "cannot be combined with --callers" bench "$add" --callers 2 --grow N=1
grows=$(dirname "$0")/../fuzz/corpus/model/add.onnx
json 0 '.runs == 5 and .median_ms > 0' bench "$grows" --grow N=3+2 --runs 5 --json --quiet
json 0 '.runs == 64' bench "$grows" --grow N=1 --json --quiet
refuses 2 'NAME=STEP' bench "$grows" --grow N
refuses 2 'NAME=STEP' bench "$grows" --grow N=-1
expect 2 'no input has an open axis' bench "$grows" --grow M=1 --quiet

# The length of the mask is the sum of past and new lengths: Concat of past and new, MatMul of that and the mask.
sums=$(dirname "$0")/sums.onnx
json 0 '.outputs[0].shape == [7]' run "$sums" --dim past_length=5 --dim new=2 --json
json 0 '.runs == 4' bench "$sums" --grow past_length=3+1 --dim new=2 --runs 4 --json --quiet
json 0 '.outputs[0].shape == [65]' run "$sums" --json --quiet
json 0 '.runs == 4' bench "$sums" --grow past_length=3+1 --dim new=2 --runs 4 --json
check 'bench prints no note on initial sizes of --grow and their sums' test ! -s "$work/err"

# Ctrl-C ends a bench of one minute cleanly, once the handler is installed (bit 2 of SigCgt).
checks=$((checks + 1))
"$inlay" bench "$2/pytorch-converted/test_Conv3d/model.onnx" --seconds 60 --warmup 1000000000 --json >"$work/out" 2>"$work/err" &
pid=$!
until grep -qx inlay /proc/$pid/comm && grep -qE '^SigCgt:.*[2367abef]$' /proc/$pid/status; do
    kill -0 $pid || break
    sleep 0.01
done
kill -INT $pid
wait $pid
got=$?
if [ $got -ne 130 ] || ! jq -e '.error.code == "cancelled"' "$work/out" >/dev/null; then
    complain 'Ctrl-C' "exit code $got, not 130" "$(head -c 300 "$work/out")"
fi

# ---- on a terminal the bar is shown, and no text follows it
if command -v script >/dev/null; then
    bar='\r\[[#.]+\] +[0-9]+% [^\r\n]*?\x1b\[K'
    for verb in run partition; do
        checks=$((checks + 1))
        TERM=xterm script -qec "'$inlay' $verb '$add'" /dev/null </dev/null >"$work/out" 2>&1
        grep -qzaP "$bar" "$work/out" || complain "$verb on a terminal: no bar" "$(head -c 300 "$work/out")"
        grep -qzaP "$bar(?!\r)" "$work/out" && complain "$verb on a terminal: the bar stays" "$(head -c 600 "$work/out")"
    done
fi

# ---- inspect, check, explain, providers
expect 0 '^ +1 Add$' inspect "$add"
json 0 '.nodes == 1 and .operators[0].operator == "Add" and .inputs[0].shape == [3,4,5] and .opsets["ai.onnx"] > 0' \
    inspect "$add" --json
json 0 '.node_list[0].inputs == ["x", "y"]' inspect "$add" --json --nodes
expect 0 'Add' inspect "$add" --nodes
expect 0 'If' inspect "$node/test_if/model.onnx"
expect 0 'no needless loss of precision' inspect "$add" --quantization
json 0 '.quantization == []' inspect "$add" --json --quantization
json 0 '.subgraphs == 2' inspect "$node/test_if/model.onnx" --json
expect 0 'OK: 1 nodes' check "$add"
json 0 '.ok and .nodes == 1 and .shaped == .values' check "$add" --json
expect 0 'reference' explain "$add"
json 0 'type == "object"' explain "$add" --json
json 0 '.measured_runs >= 3 and .measured_ns > 0' explain "$add" --measure --seconds 0 --json
expect 0 'measured' explain "$add" --measure --seconds 0
expect 0 '(cpu|reference) .*chosen' explain "$add" --node op:Add
expect 0 '^ +the others +refused: no kernel for the operator: .*(prepost|,)$' explain "$add" --node op:Add
json 0 '.nodes[0].answers[] | select(.chosen) | .provider == "reference" or .provider == "cpu"' explain "$add" --node 'op:*' --json
json 0 '.what_if.possible' explain "$add" --what-if op:Add=reference --what-if threads=1 --json
refuses 2 "did you mean 'Add'" explain "$add" --node op:Ad
# Every kind of CPU, each in its own process; the same time as explain --on states.
json 0 '(.list | length > 9) and (.list | map(.meets and .threads == 1 and .precision == "f32") | all) and
    (.list | map(select(.speeds == "measured") | .up_to_ms > .expected_ms) | all)' advise "$add" --deadline-ms 1000 --json
json 0 '[.list[] | .kind] == ["n2", "zen4", "amx"] and .list[1].price_per_hour == 0.5' advise "$add" --deadline-ms 1000 \
    --on amx,zen4,n2 --price zen4=0.5 --price n2=0.25 --json
told=$("$inlay" explain "$add" --on amx --intra-threads 4 --cache-dir '' --json | jq .cost_ns)
json 0 ".list[0].expected_ms * 1e6 | . >= 0.99 * $told and . <= 1.01 * $told" advise "$add" --deadline-ms 1000 --on amx \
    --threads 4 --all --json
expect 1 'none meets 1e-06 ms: the fastest is ' advise "$add" --deadline-ms 1e-6
refuses 2 "no kind of CPU is named 'zen'; there are zen5, zen4" advise "$add" --deadline-ms 1 --on zen
refuses 2 "no time given: state it by --deadline-ms" advise "$add"
refuses 2 "expected KIND=AMOUNT" advise "$add" --deadline-ms 1 --price zen4
refuses 2 "expected a whole number" advise "$add" --deadline-ms 1 --threads 1.5
refuses 2 "no provider 'nosuch'" explain "$add" --what-if -nosuch
refuses 3 'no/such/folder' explain "$add" --html "$work/no/such/folder/x.html"
check 'explain --html' "$inlay" explain "$add" --html "$work/page.html"
check 'explain --html writes a page' grep -q '^</html>$' "$work/page.html"
for verb in explain profile; do
    line="$verb $add"
    [ $verb = explain ] || line="$line --runs 2 --no-peak"
    "$inlay" $line --json >"$work/$verb.json"
    check "$verb --from" "$inlay" $verb --from "$work/$verb.json" --html "$work/from.html"
    check "$verb --from writes a page" grep -q "^<title>inlay $verb</title>$" "$work/from.html"
    expect 2 'requires --html' $verb --from "$work/$verb.json"
    expect 2 'no MODEL' $verb "$add" --from "$work/$verb.json" --html "$work/from.html"
    refuses 3 "is not the JSON of \`inlay $verb --json\`" $verb --from "$work/trace.json" --html "$work/no.html"
done
expect 2 'omit --node' explain "$add" --node op:Add --html "$work/no.html"

# ---- partition
loop=$node/test_loop11/model.onnx
only="--providers reference"
expect 0 'main graph: 1 partition, 0 copies' partition "$add" $only
json 0 '.inlay_plan == 1 and .graphs[0].offers[0].provider == "reference"' partition "$add" $only --json
expect 0 'graph .*body: 1 partition' partition "$loop" $only --save "$work/loop.plan"
expect 0 'graph .*body: 1 partition' partition "$loop" $only --plan "$work/loop.plan"
expect 0 'main graph' partition "$add" $only --save "$work/add.plan"
expect 0 'sum: float' run "$add" $only --plan "$work/add.plan"
expect 2 "node '.*' of graph 'main' is not in the plan; the plan was made with model" \
    partition "$add" $only --plan "$work/loop.plan"
refuses 3 'no-such.plan' partition "$add" --plan "$work/no-such.plan"
refuses 3 'no/such' partition "$add" --save "$work/no/such/file"
expect 0 'reference' partition "$add" $only --pin 'op:Add=reference' --require reference --max-partitions 1
refuses 2 "did you mean 'op:Add'" partition "$add" $only --pin 'op:Ad=reference'
refuses 2 "did you mean 'reference'" partition "$add" $only --require refrence
refuses 2 'is not PATTERN=PROVIDER' partition "$add" $only --pin Add
refuses 2 'is not NAME=BYTES' partition "$add" $only --memory-limit reference=lots
refuses 3 'provider reference lacks' partition "$add" $only --memory-limit reference=10
refuses 4 'no_cpu keeps it out' partition "$add" $only --no-cpu 1
refuses 4 'forbid keeps it out' partition "$add" $only --forbid reference

expect 0 'provider reference' providers
json 0 '(.files | length) >= 1 and ([.providers[] | select(.name == "reference")] | length) == 1' providers --json
json 0 'length >= 1 and all(.[]; (.error == null or .provider == "ort_ep") and (.provider | length) > 0)' providers --kernels --json
if "$inlay" providers | grep -q 'provider cpu'; then
    expect 0 ' tiles +providers/cpu/convolution/tiles\.c +[a-z0-9_|]+ +[a-z0-9]+' providers --kernels
    json 0 '[.[].kernels[] | select(.name == "tiles")] | length == 1 and (.[0] | .chosen as $c | .instances | index($c))' \
        providers --kernels --json
    json 0 'all(.[].kernels[]; .chosen == "c" or .chosen == "neon" or .chosen == null)' \
        providers --kernels --json --isa baseline
    json 0 'all(.[].kernels[]; .chosen == "c" or .chosen == "neon" or .chosen == null)' \
        providers --kernels --json --option cpu.isa=baseline
fi
cp "$work/text.onnx" "$work/nothing/fake.so"
chmod 755 "$work/nothing"
expect 0 'fake.so: not an ELF file: ' providers --plugin-dirs "$work/nothing"
json 0 '.files[] | select(.outcome == "not an ELF file") | (.path | endswith("fake.so")) and .loaded == false
    and (.reason | length) > 0' providers --plugin-dirs "$work/nothing" --json
refuses 3 "no plugin 'fake' is in quarantine" providers --plugin-dirs "$work/nothing" --retry fake
refuses 2 'not one of auto, always, never' providers --probe sometimes
# Without the helper: a warning, or no plugin is loaded.
mkdir -p "$work/moved/bin"
cp "$inlay" "$work/moved/bin/inlay"
moved_plugins=$(dirname "$inlay")/../lib/inlay/plugins
check 'inlay without a helper refuses plugins that were not probed' bash -c "'$work/moved/bin/inlay' providers --cache-dir '' \
    --plugin-dirs '$moved_plugins' --probe always | grep -q 'inlay-probe is not installed'"
check 'inlay without a helper loads plugins' bash -c "'$work/moved/bin/inlay' providers --cache-dir '' \
    --plugin-dirs '$moved_plugins' | grep -q 'provider reference'"
refuses 3 'no-such' providers --plugin-dirs "$work/no-such"
# A second file with a provider of the same name: the first folder's is used, the other is shown, and every verb works.
mkdir -p "$work/mine" && chmod 755 "$work/mine"
cp "$moved_plugins/inlay-reference.so" "$work/mine/reference.so"
for where in "$work/mine" "$work/mine/reference.so"; do
    expect 0 "^.*/inlay-reference.so: shadowed: provider 'reference' is already provided by $work/mine/reference.so, which" \
        providers --plugin-dirs "$where"
    json 0 '[.files[] | select(.outcome == "shadowed" and (.shadowed_by | endswith("/mine/reference.so")))] | length == 1' \
        providers --plugin-dirs "$where" --json
    expect 0 '^sum: float' run "$add" $only --no-config --plugin-dirs "$where"
    check 'a plugin of the user is used without a warning' test ! -s "$work/err"
done
expect 0 '.' explain "$add" --plugin-dirs "$work/mine"

# ---- cache
mkdir -p "$work/kept/packs" "$work/kept/costs"
printf 12345 >"$work/kept/packs/a"
printf 123 >"$work/kept/costs/b"
json 0 '.bytes == 8 and .parts[0].files == 1' cache --cache-dir "$work/kept" --json
json 0 '.removed == 1' cache --cache-dir "$work/kept" --clear --json
check 'inlay cache --clear keeps measurements' test -e "$work/kept/costs/b" -a ! -e "$work/kept/packs/a"
json 0 '.removed == 1 and .bytes == 3' cache --cache-dir "$work/kept" --clear-all --json
expect 0 'no cache' cache --cache-dir ''

# ---- run --expect, random inputs, operators of providers
"$inlay" run "$add" --outputs "$work/expected" >/dev/null 2>&1
mkdir -p "$work/empty"
expect 0 "created in" run "$add" --expect "$work/expected"
expect 1 "output 'sum'" run "$add" --seed 5 --expect "$work/expected" --atol 0
json 1 '.differing_outputs == 1' run "$add" --seed 5 --expect "$work/expected" --atol 0 --json
expect 3 "no $work/empty/[^ ]*.npy, .pb or .npz" run "$add" --expect "$work/empty"
# A name with ':' has a file with '_', or one with the name as it is.
expect 0 . edit "$add" --rename-output 'sum=a:b' -o "$work/named.onnx"
expect 0 . run "$work/named.onnx" --outputs "$work/named"
expect 0 "created in" run "$work/named.onnx" --expect "$work/named"
mv "$work/named/a_b.npy" "$work/named/a:b.npy"
expect 0 "created in" run "$work/named.onnx" --expect "$work/named"
expect 0 'ai.onnx.Relu 1, 6, 13, 14' providers --operators
json 0 '.operators | map(select(.operator == "FusedConv")) | length == 1' providers --operators --json

unmet
echo "$checks checks, $wrong wrong"
[ $wrong -eq 0 ]
