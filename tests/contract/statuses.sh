#!/bin/bash
# Runs every verb that uses a provider with every status from each call of the provider, and every verb with files that
# are missing, broken, folders or not writable. The verb must fail, and its exit code must match the code in its JSON,
# which must not be "ok".
#   statuses.sh INLAY DATA DIR [STATUS...]     the executable; ONNX's test data; the folder with faulty.so; all statuses
set -u
inlay=$1 node=$2/node dir=$3
shift 3
statuses=("$@")
[ $# -gt 0 ] || statuses=(1 2 3 4 5 6 7 8 9 10 11 12 13 99 -1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
checks=0 wrong=0

# Prints the exit code that `inlay help exit-codes` documents for a code in JSON.
exit_code() {
    case $1 in
    'invalid argument') echo 2 ;;
    'not found' | 'invalid model' | 'input/output error' | 'limit exceeded') echo 3 ;;
    unsupported) echo 4 ;;
    cancelled) echo 130 ;;
    ok) echo never ;;
    *) echo 1 ;;
    esac
}

# Reads $code from the output of the last command. At the end, one call of jq checks for all outputs that they are JSON
# with this .error.code, because jq takes longer to start than inlay.
read_code() {
    local text
    text=$(<"$work/out")
    code=
    if [[ $text =~ \"error\":\ \{[^{}]*\"code\":\ \"([^\"]*)\" ]]; then
        code=${BASH_REMATCH[1]}
        echo "$text" >>"$work/told"
        echo "$code" >>"$work/codes"
    fi
}

# try VERB CALL STATUS HOW ARGUMENT...
try() {
    local verb=$1 fault="$2:$3:$4" code want got
    shift 4
    checks=$((checks + 1))
    FAULTY=$fault timeout 60 "$inlay" "$verb" "$@" --json --providers faulty --cache-dir '' --probe never \
        --plugin-dirs "$dir" >"$work/out" 2>"$work/err" </dev/null
    got=$?
    read_code
    if [ -n "$code" ]; then
        want=$(exit_code "$code")
    elif [ "$verb" = test ] && [ $got -eq 0 ]; then
        want=0 # a case that no provider supports is skipped, and the report says so
        jq -e '.skipped == 1 and .passed == 0' "$work/out" >/dev/null 2>&1 || want='0 for a skipped case only'
    elif [ $got -eq 1 ]; then
        want=1 # a report of failures, in a different format
        jq -e . "$work/out" >/dev/null 2>&1 || want='1, with JSON'
    else
        want='not this without an error in its JSON'
    fi
    if [ "$got" != "$want" ]; then
        wrong=$((wrong + 1))
        echo "WRONG: inlay $verb, $fault: exit code $got, code '$code', expected exit code $want"
        head -c 300 "$work/err"
    fi
}

relu=$node/test_relu/model.onnx
for verb in run bench profile tune bisect test; do
    model=$relu
    [ $verb = test ] && model=$node/test_relu
    flags=()
    [ $verb = bench ] && flags=(--runs 1 --warmup 0)
    [ $verb = bisect ] && flags=(--against level=0)
    [ $verb = advise ] && flags=(--deadline-ms 1000 --on zen4)
    for call in create assess compile specialize execute; do
        # tune skips kernels that fail later than in assess.
        [ $verb = tune ] && [ $call != create ] && [ $call != assess ] && continue
        for status in "${statuses[@]}"; do
            try $verb $call $status text "$model" "${flags[@]}"
            [ $verb = run ] && try $verb $call $status full "$model"
        done
        try $verb $call 4 nothing "$model" "${flags[@]}"
        try $verb $call 13 endless "$model" "${flags[@]}"
    done
done
for verb in explain partition; do
    for call in create assess; do
        for status in "${statuses[@]}"; do
            try $verb $call $status text "$relu"
        done
        try $verb $call 13 endless "$relu"
    done
done
# These verbs continue if later calls of the provider fail.
for status in "${statuses[@]}"; do
    try optimize create $status text "$relu"
    try tune create $status text --machine --quick --threads 1
done
try optimize create 13 endless "$relu"

# Verbs and files. fails VERB ARGUMENT...: the command fails and both codes agree; a usage error may have no JSON.
fails() {
    local code got want
    checks=$((checks + 1))
    timeout 60 "$inlay" "$@" --json >"$work/out" 2>"$work/err" </dev/null
    got=$?
    read_code
    if [ -n "$code" ]; then
        want=$(exit_code "$code")
    elif [ $got -eq 2 ] && [ ! -s "$work/out" ]; then
        want=2 # wrong use
    elif [ "$1" = plugin-check ] || { [ "$1" = config ] && [ "$2" = check ]; }; then
        want='1 or 3, with a report'
        jq -e '.failed >= 1 or ([.. | .ok? | select(. == false)] | length >= 1)' "$work/out" >/dev/null 2>&1 &&
            { [ $got -eq 1 ] || [ $got -eq 3 ]; } && want=$got
    else
        want='2, without JSON'
    fi
    if [ "$got" != "$want" ] || { [ ! -s "$work/err" ] && [ ! -s "$work/out" ]; }; then
        wrong=$((wrong + 1))
        echo "WRONG: inlay $*: exit code $got, code '$code', expected exit code $want"
        head -c 300 "$work/err"
    fi
}
printf 'junk' >"$work/junk.onnx"
head -c 60 "$relu" >"$work/cut.onnx"
printf 'levle: 2\n' >"$work/wrong.yaml"
for verb in run test bench inspect check doctor edit diff reduce optimize quantize extract tune lock bisect profile \
    explain advise partition plugin-check; do
    flags=()
    [ $verb = edit ] && flags=(-o "$work/edited.onnx" --set-metadata a=b)
    [ $verb = diff ] && flags=("$relu")
    [ $verb = reduce ] && flags=(-o "$work/reduced.onnx" --check false)
    [ $verb = extract ] && flags=(-o "$work/part.onnx" --split 2)
    [ $verb = quantize ] && flags=(-o "$work/small.onnx")
    [ $verb = lock ] && flags=(-o "$work/model.lock" --no-time)
    [ $verb = bisect ] && flags=(--against level=0)
    for file in "$work/missing.onnx" "$work/junk.onnx" "$work/cut.onnx" "$work" /proc/self/mem; do
        fails $verb "$file" "${flags[@]}"
    done
    fails $verb
    fails $verb "$relu" --no-such-flag
    [ $verb = inspect ] || [ $verb = diff ] || [ $verb = plugin-check ] || fails $verb "$relu" --level many
done
for verb in run bench optimize tune bisect profile explain partition; do
    flags=()
    [ $verb = bisect ] && flags=(--against level=0)
    fails $verb "$relu" --providers nobody "${flags[@]}"
    fails $verb "$relu" --plugin-dirs "$work/none" --providers reference "${flags[@]}"
    fails $verb "$relu" --no-pass none "${flags[@]}"
    [ $verb = optimize ] || fails $verb "$relu" --pin nodes=nobody "${flags[@]}"
done
fails optimize "$relu" -o "$work/none/out.onnx"
fails extract "$relu" -o "$work/none/out.onnx" --outputs y
fails extract "$relu" -o "$work/out.onnx" --outputs nothing
fails edit "$relu" -o "$work/none/out.onnx" --set-metadata a=b
fails reduce "$relu" --check false -o "$work/none/out.onnx"
fails inspect "$relu" --graph "$work/none/out.html"
fails bench "$relu" --sweep threads=1 --seconds 0 --csv "$work/none/out.csv"
fails cache import "$work/junk.onnx"
fails cache export "$work/none/out" --cache-dir "$work"
fails partition "$relu" --save "$work/none/plan.json"
fails explain "$relu" --plan "$work/none/plan.json"
fails run "$relu" --input x="$work/none.npy"
fails run "$relu" --plan "$work/junk.onnx"
fails config no_such_option
fails config --no-such-flag
fails config check "$work/wrong.yaml"
fails config check "$work/missing.yaml"
fails run "$relu" --config "$work/wrong.yaml"
fails cache argument
fails cache --no-such-flag
fails providers argument
fails providers --retry nobody
fails tune argument --machine
fails tune "$relu" --quick
fails tune --machine --runs 3
fails tune --machine --inputs "$work"
fails tune --machine --providers nobody
fails no-such-verb

# The error is one line with the names of provider and plugin, the message and the node.
names() {
    checks=$((checks + 1))
    FAULTY=$1 "$inlay" run "$relu" --providers faulty --cache-dir '' --probe never --plugin-dirs "$dir" \
        >"$work/out" 2>"$work/err" </dev/null
    if ! grep -qE -- "$2" "$work/err" || [ "$(wc -l <"$work/err")" -ne 1 ]; then
        wrong=$((wrong + 1))
        echo "WRONG: $1: not exactly one line that matches '$2': $(cat "$work/err")"
    fi
}
names create:4:text 'provider faulty \(plugin faulty_plugin\): only a sentence'
names compile:4:text "can't compile Relu node .*: provider faulty \(plugin faulty_plugin\): only a sentence"
names specialize:8:text "Relu node .*: provider faulty \(plugin faulty_plugin\): only a sentence"
names compile:0:null 'provider faulty.*compile succeeded without a compiled region'
names specialize:0:null 'provider faulty.*specialize succeeded without an instance'
names specialize:0:odd 'aligned to 96, which is not a power of two, for Relu node'
names execute:13:text 'Relu node .*, provider faulty.*: only a sentence'
names execute:13:nothing 'Relu node .*, provider faulty.*: internal error, and no reason given'
names execute:99:nothing 'returned status 99, which this host does not know'

checks=$((checks + 1))
if ! jq -r .error.code "$work/told" | cmp - "$work/codes"; then
    wrong=$((wrong + 1))
    echo "WRONG: an error is not JSON, or its code is not .error.code"
fi

echo "$checks checks, $wrong wrong"
[ $wrong -eq 0 ]
