#!/bin/bash
# Every verb that asks a provider, with every status a provider can return, from each of its calls, written in each way:
# the verb fails, its exit code is the one that belongs to the code in its JSON, and that code is never "ok".
#   statuses.sh INLAY DATA DIR     the executable; ONNX's test data; the folder with faulty.so
set -u
inlay=$1 node=$2/node dir=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
checks=0 wrong=0

# What `inlay help exit-codes` promises for each code.
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

# try VERB CALL STATUS HOW ARGUMENT...
try() {
    local verb=$1 fault="$2:$3:$4" code want got
    shift 4
    checks=$((checks + 1))
    FAULTY=$fault timeout 60 "$inlay" "$verb" "$@" --json --providers faulty --cache-dir '' --probe never \
        --plugin-dirs "$dir" >"$work/out" 2>"$work/err" </dev/null
    got=$?
    code=$(jq -r '.error.code // ""' "$work/out" 2>/dev/null)
    if [ -n "$code" ]; then
        want=$(exit_code "$code")
    elif [ "$verb" = test ] && [ $got -eq 0 ]; then
        want=0 # what no provider runs is skipped, and the report says so
        jq -e '.skipped == 1 and .passed == 0' "$work/out" >/dev/null 2>&1 || want='0 only for what was skipped'
    elif [ $got -eq 1 ]; then
        want=1 # a report of what failed: its own form
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
for verb in run bench profile tune test; do
    model=$relu
    [ $verb = test ] && model=$node/test_relu
    flags=()
    [ $verb = bench ] && flags=(--runs 1 --warmup 0)
    for call in create assess compile specialize execute; do
        # Measuring goes on without what cannot be measured.
        [ $verb = tune ] && [ $call != create ] && [ $call != assess ] && continue
        for status in 1 2 3 4 5 6 7 8 9 10 11 12 13 99 -1; do
            try $verb $call $status text "$model" "${flags[@]}"
            [ $verb = run ] && try $verb $call $status full "$model"
        done
        try $verb $call 4 nothing "$model" "${flags[@]}"
        try $verb $call 13 endless "$model" "${flags[@]}"
    done
done
for verb in explain partition; do
    for call in create assess; do
        for status in 1 2 3 4 5 6 7 8 9 10 11 12 13 99 -1; do
            try $verb $call $status text "$relu"
        done
        try $verb $call 13 endless "$relu"
    done
done

# The names of provider and plugin, the sentence, the node: one line.
names() {
    checks=$((checks + 1))
    FAULTY=$1 "$inlay" run "$relu" --providers faulty --cache-dir '' --probe never --plugin-dirs "$dir" \
        >"$work/out" 2>"$work/err" </dev/null
    if ! grep -qE -- "$2" "$work/err" || [ "$(wc -l <"$work/err")" -ne 1 ]; then
        wrong=$((wrong + 1))
        echo "WRONG: $1: no one line like '$2': $(cat "$work/err")"
    fi
}
names create:4:text 'provider faulty \(plugin faulty_plugin\): only a sentence'
names compile:4:text "can't compile Relu node .*: provider faulty \(plugin faulty_plugin\): only a sentence"
names specialize:8:text "Relu node .*: provider faulty \(plugin faulty_plugin\): only a sentence"
names execute:13:text 'Relu node .*, provider faulty.*: only a sentence'
names execute:13:nothing 'Relu node .*, provider faulty.*: internal error, and no reason given'
names execute:99:nothing 'returned status 99, which this host does not know'

echo "$checks checks, $wrong wrong"
[ $wrong -eq 0 ]
