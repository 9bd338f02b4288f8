#!/bin/bash
# Tests that inlay plugin-check finds and names each defect of the plugins built from bad.c.
#   check.sh INLAY DIR DATA REFERENCE [PROVIDER...]
#                   the executable; the folder with those plugins; ONNX's test data; the providers of inlay
set -u
inlay=$1 dir=$2 data=$3 reference=$4
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
checks=0 wrong=0

complain() {
    wrong=$((wrong + 1))
    echo "WRONG: $1"
    shift
    printf '    %s\n' "$@"
}

# finds NAME PATTERN [FLAG...]   the plugin NAME must fail with a line that matches PATTERN, and the report must be
# complete.
finds() {
    local name=$1 pattern=$2 code
    shift 2
    checks=$((checks + 1))
    "$inlay" plugin-check "$dir/$name.so" --quick --op Relu "$@" >"$work/out" 2>"$work/err" </dev/null
    code=$?
    [ $code -eq 1 ] || complain "$name: exit code $code" "$(tail -n 3 "$work/out")" "$(head -c 500 "$work/err")"
    grep -qE -- "^FAIL  $pattern" "$work/out" ||
        complain "$name: no line like 'FAIL  $pattern'" "$(grep -A2 '^FAIL' "$work/out" | head -n 20)"
    tail -n 1 "$work/out" | grep -qE '^[0-9]+ passed, [1-9][0-9]* failed, [0-9]+ warnings$' ||
        complain "$name: no sum at the end" "$(tail -n 1 "$work/out")"
}

for group in offers results random leaks; do
    finds tail "$group: nothing was checked" --group $group --option typo=1
done
finds wrong 'results Relu-14 .*: \[.* got .*, want 0' --group results
finds workspace 'results Relu-14 .*wrote outside the 16 bytes of workspace' --group results
finds workspace_far 'results Relu-14 .*signal 11 .* in execute: it touched memory past the end of the workspace' \
    --group results
finds dirty 'results Relu-14 .*a workspace that is not cleared: output 0: \[' --group results
finds tail 'results Relu-14 .*in execute: it touched memory past the end of an input' --group results
finds input 'results Relu-14 .*signal 11 .* in execute: it touched memory of an input, which is read-only' --group results
finds output 'results Relu-14 float\[7\].*it wrote outside output 0' --group results
finds alias 'results Relu-14 .*in place.*: output 0: \[' --group results
finds crash 'results Relu-14 float\[[0-9]+,[0-9]+\].*signal 11 .* in execute: at address 0x8' --group results
finds abort 'results Relu-14 float\[[0-9]+,[0-9]+\].*signal 6 .* in execute: it aborted' --group results
finds exit 'results Relu-14 .*: it ended with code 3 in execute' --group results
finds hang 'results Relu-14 .*: no progress in execute' --group results --time-limit 3
finds leak 'leaks bad, from create to destroy: .* bytes in .* blocks .*addr2line' --group leaks
at=$(grep -oE 'addr2line -e FILE 0x[0-9a-f]+' "$work/out" | head -n 1)
addr2line -f -e "$dir/leak.so" "${at##* }" | grep -qx prepare || complain "leak: '$at' is not in prepare"
finds oom 'leaks bad, when memory runs out: signal 11' --group leaks
finds files 'leaks bad, from create to destroy: [0-9]+ more' --group leaks
finds meet_leaks 'device.descriptors isp: SHARED_FD, exported: file descriptors were left open' --group device
finds meet_closes 'device.descriptors isp: SHARED_FD, exported: freeing .* closed a descriptor that was borrowed' --group device
finds meet_keeps 'device.descriptors isp: SHARED_FD, exported: it imports more bytes than the memory has' --group device
finds meet_apart 'device.descriptors isp: SHARED_FD, exported: the imported buffer is not the same memory' --group device
finds silent 'offers bad: node .* is neither offered nor refused' --group offers
finds mute 'offers bad: node .* was refused without a reason' --group offers
finds greedy 'offers bad: node 0 .* was offered, but is not a candidate' --group offers
finds writes 'offers bad: .* in assess: it touched memory of the snapshot' --group offers
finds stride 'offers bad' --group offers
finds fickle 'offers bad: a second assess of the same graph gave other answers' --group offers
finds cost 'cost Relu-14 .*: predicted .*, measured' --group cost
finds cost_nan 'cost Relu-14 .*: ns is -?nan' --group cost
finds cost_far 'cost Relu-14 .*: predicted .*, measured' --group cost
finds cancel "cancel Relu-14 .*: poll_ms is 10, but a cancelled run returned 'ok', although it takes [0-9]+ ms" --group cancel
finds flags 'description bad: flags contains 0x80' --group open
finds flags "description plugin: .*build_id ''" --group open
finds thread 'open pure: 1 threads' --group open
finds any_host 'open next major: the plugin accepted it' --group open
finds note 'open note: ' --group open
finds open 'open .*signal 11 .* in dlopen and inlay_plugin_open'
finds exports 'file exports: 1 more: bad_helper' --group file

finds rounding 'process Relu-14: rounding, flushing' --group results
finds handler 'process Relu-14: .*working directory.*umask.*handler of signal 10' --group results
finds prints 'process Relu-14: something was printed' --group results
finds flushes 'process Relu-14: rounding, flushing' --group results
finds mask 'process Relu-14: signal 12 was blocked' --group results
finds locale 'process Relu-14: the locale was changed' --group results
finds seeds 'process Relu-14: the random numbers of the process' --group results
finds stack 'process Relu-14: the signal stack of the calling thread' --group results
finds renames 'process Relu-14: an attribute of the process was changed .*TIMERSLACK.*, the name of the calling thread' --group results
finds locks 'process Relu-14: memory was locked' --group results
finds stderr 'process Relu-14: something was printed' --group results
finds thread_left 'process Relu-14: 1 more after execute' --group results
finds keeps 'results Relu-14 .*in execute: it touched memory of the graph passed to compile, after compile' \
    --group results
finds split "regions bad: .*compile returned 'internal error': the nodes are not connected" --group regions
finds swapped 'regions bad: .*(output [0-9]+: |past the end of an output)' --group regions
finds own 'results Scale-1 float\[[0-9]+,10\] float\[10\].*it wrote outside output 0' --group results --op Scale
finds forks 'process Relu-14.*: it forked in execute' --group results
finds closes 'results Relu-14.*: it closed descriptor 4.* in execute' --group results
finds race 'results Relu-14 .*with (2|4|16) threads: ' --group results
finds large 'results Relu-14 .*: \[.* got' --group results

finds device_hasty 'results Relu-14 .*while its inputs are still being copied' --group results
finds device_deaf "results Relu-14 .*after a fence that failed with 'cancelled': 'ok'" --group results
finds device_offset 'results Relu-14 .*: \[.* got' --group results
finds device_wide 'results Add-14 .*it wrote outside output 0 in device memory' --group results --op Add

# On a busy machine its work may begin after the copies have ended.
finds device_own 'results Relu-14 .*(while its inputs are still being copied|after a fence that failed)' --group results
finds device_first 'fences chip: Relu-14.*it signalled when 1 of 2 fences were reached' --group fences
finds device_few "fences chip: Relu-14.* with 3 fences to wait for: 'limit exceeded': 3 fences" --group fences
finds device_idle 'fences chip: Relu-14.*quiesce returned while work was in flight' --group fences
finds device_keeps 'fences .*in execute, after it returned: it touched memory of the arguments' --group fences
finds device_late 'fences .*in execute, after it returned: it touched memory of the arguments' --group fences

finds device_gone "loss chip: 'device lost'" --group results --option lose_after=40

# once NAME PATTERN: a plugin that cannot be checked further: exactly one FAIL, and the other groups are skipped.
once() {
    checks=$((checks + 1))
    "$inlay" plugin-check "$dir/$1.so" --quick --time-limit 3 >"$work/out" 2>/dev/null </dev/null
    [ "$(grep -c '^FAIL' "$work/out")" -eq 1 ] && grep -qE "^FAIL  $2" "$work/out" ||
        complain "$1: not one line 'FAIL  $2'" "$(grep '^FAIL' "$work/out" | head -n 5)"
    grep -q '^SKIP  all' "$work/out" || complain "$1: the other groups are not skipped" "$(tail -n 2 "$work/out")"
}
once hang_assess '[a-z]+ .*: no progress in assess'
once refuses 'open: not on this machine'

# A plugin without names: the groups that compare names do not crash.
checks=$((checks + 1))
"$inlay" plugin-check "$dir/nameless.so" --quick --no-timing --op Relu >"$work/out" 2>/dev/null </dev/null
[ "$(grep -c '^FAIL' "$work/out")" -eq 2 ] && grep -qE "^FAIL  description plugin: name ''" "$work/out" &&
    grep -qE "^FAIL  description: provider 0 is ''" "$work/out" ||
    complain 'nameless: not the two lines about names' "$(grep '^FAIL' "$work/out" | head -n 5)"

# Unusual values, sizes, memory and constants.
finds nan 'values Relu-14 .*: element [0-9]+: got 0, want -?nan' --group values
finds saturates 'values Relu-14 .*got 3.40282e\+38, want inf' --group values
finds denormals 'values Relu-14 .*got 0, want [0-9.]+e-4' --group values
checks=$((checks + 1))
"$inlay" plugin-check "$dir/stated_flush.so" --quick --op Relu --group values >"$work/out" 2>&1 </dev/null ||
    complain 'stated_flush: a flush that INLAY_PROVIDER_FLUSHES_DENORMALS states is not a mistake' "$(grep -A2 '^FAIL' "$work/out")"
finds zero_sign 'values Neg-13 .*got 0, want -0' --group values --op Neg
finds size 'values Relu-14 float\[20\]: size 20: output 0' --group values
finds huge 'values Relu-14 float\[[0-9]{7}\]: size [0-9]+: output 0' --group values
finds same_address 'values Relu-14 .*other values at the same addresses: output 0' --group values
finds workspace_state 'values Relu-14 .*other values at the same addresses: output 0: \[0' --group values
finds copied 'values Add-14 .*in execute: it touched memory of a constant that compile reported as COPIED or PACKED' \
    --group values --op Add
finds writes_constant 'values Add-14 .*in execute: it touched memory of a constant, which is read-only' \
    --group values --op Add
finds by_name 'values Add-14 .*: output 0: ' --group values --op Add
finds swallows 'values Relu-14 .*a cancelled run returned INLAY_OK, but output 0' --group values
finds heap 'heap Relu-14: .* calls a run, one at 0x' --group results
finds environment 'process Relu-14: an environment variable was changed' --group results
finds limits 'process Relu-14: resource limit 7 was changed' --group results
finds affinity 'process Relu-14: the CPU affinity of the calling thread was changed' --group results
finds nice 'process Relu-14: the nice value' --group results
finds folder 'process Relu-14: it created bad.log' --group results

finds fingerprint 'cache bad: fingerprint: .*4097 bytes' --group cache
finds verdict 'cache bad: the blob that compile stored: .*77' --group cache
finds trusting 'cache bad: a blob of another version .*: this engine is of another version' --group cache
finds device_stubborn "cancel MatMul-13 .*: poll_ms is 10, but a cancelled run returned 'ok'" --group cancel \
    --op MatMul
finds oom_abort 'leaks bad, when memory runs out: signal 6' --group leaks
finds cost_random 'values Relu-14 .*: first .* ns, then .* ns' --group values
finds destructs 'surroundings.*: signal 11 .* in the end of the process' --group surroundings
finds forgetful 'leaks bad, when memory runs out: [0-9]+ bytes in [0-9]+ blocks' --group leaks
finds declines 'leaks bad, in repeated calls: [0-9]+ blocks after 80 calls of compile, declined' --group leaks
finds tenth 'leaks bad, in repeated calls: [0-9]+ blocks after 80 calls of compile' --group leaks
finds mapping 'leaks bad, in repeated calls: [0-9]+ KiB more are mapped after 80 calls of execute' --group leaks
finds key 'leaks .*in a thread that ends after dlclose' --group leaks
finds cancelled 'leaks bad, in repeated calls: .*cancelled' --group leaks
finds create_key 'leaks .*in the end of the thread that called create' --group leaks

# Warnings and passes.

warns() { # NAME PATTERN GROUP: no failure, and a warning that matches PATTERN
    checks=$((checks + 1))
    "$inlay" plugin-check "$dir/$1.so" --quick --group "$3" --op Relu >"$work/out" || complain "$1: it failed"
    grep -qE -- "^WARN  $2" "$work/out" || complain "$1: no warning like '$2'" "$(cat "$work/out")"
}
warns thread_each 'process Relu-14: 1 started in one execute' results
warns cost_dear 'cost Relu-14 .*: predicted .*, measured' cost # a guess that is too high attracts no work
checks=$((checks + 1))
INLAY_CPU_KIND=wasm "$inlay" plugin-check "$dir/below_roof.so" --quick --group cost --op MatMul >"$work/out" || complain 'below_roof: it failed'
grep -qE '^WARN  cost MatMul-[0-9]+ .*: predicted .*, but this kind of CPU needs .*, which sessions use instead' "$work/out" ||
    complain 'below_roof: no warning of a price below the roof' "$(cat "$work/out")"
warns oom_rust 'leaks bad, when memory runs out: signal 6' leaks # the allocator of Rust aborts
warns both 'offers bad: [0-9]+ nodes are both offered and refused, such as Relu' offers
checks=$((checks + 1))
"$inlay" plugin-check "$dir/hush.so" --quick --group infer >"$work/out" || complain 'hush: it failed'
grep -qE '^WARN  infer Scale-1: infer refused Scale-1.* without a message' "$work/out" ||
    complain 'hush: no warning of a refusal without a message' "$(cat "$work/out")"
checks=$((checks + 1))
"$inlay" plugin-check "$dir/hush.so" --quick --group open >"$work/out" || complain 'hush: opening it failed'
grep -q '^WARN  operators com.bad.Scale-1: it has no documentation' "$work/out" ||
    complain 'hush: no warning of an operator without documentation' "$(cat "$work/out")"
checks=$((checks + 1))
"$inlay" plugin-check "$dir/connected.so" --quick --group regions --op Relu >"$work/out" &&
    grep -qE '^PASS  regions bad: [0-9]+ regions of [0-9]+ kinds of node, 0 of them not connected' "$work/out" ||
    complain 'connected: it got regions that are not connected' "$(cat "$work/out")"

passes() { # NAME PATTERN: no failure, and a line that matches PATTERN
    checks=$((checks + 1))
    "$inlay" plugin-check "$dir/$1.so" --quick --group leaks --op Relu >"$work/out" || complain "$1: it failed"
    grep -qE -- "$2" "$work/out" || complain "$1: no line like '$2'" "$(cat "$work/out")"
}
checks=$((checks + 1))
"$inlay" plugin-check "$dir/unload.so" --quick --group open >"$work/out" || complain 'unload: opening it failed'
grep -q '^PASS  open pure: no additional thread or file descriptor' "$work/out" ||
    complain 'unload: no line that opening has no side effects' "$(cat "$work/out")"
checks=$((checks + 1))
"$inlay" plugin-check "$dir/cached.so" --quick --group cache --op Relu >"$work/out" || complain 'cached: it failed'
grep -q '^PASS  cache bad: a stored blob of 64 bytes compiles again' "$work/out" ||
    complain 'cached: no line about the blob' "$(cat "$work/out")"
# A slow compiler: what the budget leaves out is said, and something is compared.
checks=$((checks + 1))
"$inlay" plugin-check "$dir/slow.so" --quick --no-timing --compile-budget 4 --op Relu >"$work/out" ||
    complain 'slow: it failed' "$(grep -A 2 '^FAIL' "$work/out")"
grep -qE '^SKIP  results budget: [0-9]+ compiles were skipped, [0-9]+ done' "$work/out" &&
    grep -qE '^PASS  results Relu-14: [1-9][0-9]* cases, [1-9]' "$work/out" ||
    complain 'slow: no line about the budget' "$(cat "$work/out")"
checks=$((checks + 1))
"$inlay" plugin-check "$dir/unload.so" --quick --group results --max-compiles 20 --op Relu >"$work/out" ||
    complain 'compiles: it failed'
grep -qE '^SKIP  results budget: [0-9]+ compiles were skipped, 6 done' "$work/out" ||
    complain 'compiles: not 31 percent of 20' "$(cat "$work/out")"
# Random cases, which have 14 percent, end once compiles are left out.
checks=$((checks + 1))
"$inlay" plugin-check "$dir/unload.so" --quick --group random --max-compiles 20 --op Relu >"$work/out" ||
    complain 'random compiles: it failed'
grep -qE '^SKIP  random budget: [0-9]{1,2} compiles were skipped, 2 done' "$work/out" ||
    complain 'random compiles: cases are tried in vain' "$(cat "$work/out")"
passes unload '^PASS  unload: it is unmapped after dlclose'
passes pinned '^WARN  unload: it is still mapped after dlclose'

# Cases must be generated for all operators except those with a body, because operators without cases are not checked.
checks=$((checks + 1))
"$inlay" plugin-check "$dir/everything.so" --quick --group results >"$work/out"
operators=$(sed -n 's/^PASS  coverage everything: all \([0-9]*\) operators that it knows ran.*/\1/p' "$work/out")
[ "${operators:-0}" -ge 288 ] || complain "cases of ${operators:-not all} operators only" "$(grep coverage "$work/out")"

# ONNX test cases with constant weights: all are offered, except 3-D convolutions by providers without a kernel for
# them.
for provider in "$@"; do
    checks=$((checks + 1))
    "$inlay" plugin-check "$provider" --quick --group results --op Conv --data "$data/pytorch-converted" >"$work/out" ||
        complain "data: $provider failed" "$(grep '^FAIL' "$work/out" | head -n 5)"
    offered=$(sed -nE 's/^PASS  results .*pytorch-converted: ([0-9]+) of its [0-9]+ cases of one operator are offered.*/\1/p' "$work/out")
    [ "${offered:-0}" -ge 20 ] ||
        complain "data: few cases are offered by $provider" "$(tail -n 3 "$work/out")"
done

# All groups on a plugin that crashes: the other groups still run.
checks=$((checks + 1))
"$inlay" plugin-check "$dir/crash.so" --quick --op Relu --json >"$work/out"
jq -e '.failed >= 1 and .passed > 5 and ([.checks[].check] | index("leaks")) and
    ([.checks[] | select(.result == "FAIL")] | all(.expected != "" and .got != "" and .fix != ""))' "$work/out" \
    >/dev/null || complain 'crash: the report in JSON' "$(head -c 600 "$work/out")"

# A pause of the whole check, as on a suspended laptop, does not count as a hang of the plugin.
checks=$((checks + 1))
"$inlay" plugin-check "$reference" --quick --no-timing --group results --op 'Conv*' --time-limit 3 >"$work/out" &
parent=$!
while ! child=$(pgrep -P "$parent") && kill -0 "$parent" 2>/dev/null; do sleep 0.01; done
kill -STOP "$child"
sleep 0.5
kill -STOP "$parent"
sleep 4
kill -CONT "$parent" "$child"
wait "$parent" || complain 'a pause of the check' "$(grep -A 2 '^FAIL' "$work/out")"

# Files that are not plugins.
checks=$((checks + 3))
printf 'not an ELF file\n' >"$work/text.so"
"$inlay" plugin-check "$work/text.so" >"$work/out" && complain 'a text: exit code 0'
grep -q '^FAIL  file type: not an ELF file' "$work/out" || complain 'a text' "$(cat "$work/out")"
"$inlay" plugin-check "$work/missing.so" >"$work/out" && complain 'a missing file: exit code 0'
grep -q '^FAIL  file read: No such file' "$work/out" || complain 'a missing file' "$(cat "$work/out")"

# An operator that no case fits is a warning, with --strict a failure.
checks=$((checks + 2))
"$inlay" plugin-check "$reference" --quick --group results --op 'L[aR]*[gr]*' >"$work/out" ||
    complain 'an operator without a case: exit code' "$(grep -A2 '^FAIL' "$work/out")"
grep -q '^WARN  coverage reference: .*never run: .*LabelEncoder' "$work/out" || complain 'LabelEncoder' "$(cat "$work/out")"
"$inlay" plugin-check "$reference" --quick --group results --op 'L[aR]*[gr]*' --strict >"$work/out" &&
    complain 'an operator without a case: --strict ended with 0'

"$inlay" plugin-check "$work/missing.so" --group results >"$work/out" && complain 'a missing file, one group: exit code 0'
grep -q '^FAIL  results: nothing was checked' "$work/out" || complain 'a missing file, one group' "$(cat "$work/out")"

echo "$checks checks, $wrong wrong"
[ $wrong -eq 0 ]
