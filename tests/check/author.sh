#!/bin/bash
# Tests that inlay plugin-check finds the broken rules of the plugins built from author.c and of further devices.
#   author.sh INLAY DIR   the executable; the folder with those plugins
set -u
inlay=$1 dir=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
checks=0 wrong=0

# finds NAME GROUP PATTERN [FLAG...]   the plugin fails in this group with a line that matches PATTERN.
finds() {
    local name=$1 group=$2 pattern=$3 code
    shift 3
    checks=$((checks + 1))
    "$inlay" plugin-check "$dir/$name.so" --quick --group "$group" --time-limit 20 "$@" >"$work/out" 2>"$work/err" </dev/null
    code=$?
    if [ $code -ne 1 ] || ! grep -qE -- "^FAIL  $pattern" "$work/out"; then
        wrong=$((wrong + 1))
        echo "WRONG: $name: exit code $code, no line like 'FAIL  $pattern'"
        grep -A2 '^FAIL' "$work/out" | head -n 10
    fi
}

# passes NAME [FLAG...]   no failure
passes() {
    local name=$1
    shift
    checks=$((checks + 1))
    if ! "$inlay" plugin-check "$dir/$name.so" --quick --no-timing "$@" >"$work/out" 2>"$work/err" </dev/null; then
        wrong=$((wrong + 1))
        echo "WRONG: $name: it failed"
        grep -A2 '^FAIL' "$work/out" | head -n 10
    fi
}

# warns NAME GROUP PATTERN [FLAG...]   no failure, and a warning that matches PATTERN
warns() {
    local name=$1 group=$2 pattern=$3
    shift 3
    checks=$((checks + 1))
    if ! "$inlay" plugin-check "$dir/$name.so" --quick --group "$group" "$@" >"$work/out" 2>"$work/err" </dev/null ||
        ! grep -qE -- "^WARN  $pattern" "$work/out"; then
        wrong=$((wrong + 1))
        echo "WRONG: $name: it failed, or no line like 'WARN  $pattern'"
        head -n 10 "$work/out"
    fi
}

for name in fair engines binds serial device_shares; do
    passes $name
done

# The description and create
finds bad_default open 'options author: author.scale: 10 is outside'
finds bad_name open "description: provider 0 is 'Author 1'"
finds open_again open 'open after shutdown: closed already'
finds null_option open 'open .*signal 11 .* in create'
finds option_stride cost 'cost Relu-14 .*: predicted'
finds keeps_option results 'results .*it touched memory of the arguments of create, after create returned'

# assess and costs
finds node_range offers 'offers author: an offer names node [0-9]+ of'
finds refuse_code offers 'offers author: node .* was refused with code 0'
finds own_limits offers 'offers author: an offer of 1 nodes .* 100 resident bytes has the limits 0, 0 and 10'
finds cost_drift values 'values Relu-14 .*: first .* ns, then'
finds flat cost 'cost Relu-14 .*: predicted'
finds region_nan regions 'regions author: .* -?nan ns'
finds region_random regions 'regions author: .* ns, and [0-9]+ ns before'
finds region_mute regions "rules author: .*cost_region returned 'internal error' without a message"
passes one_node --group regions

# compile and specialize
finds half_region regions 'regions author: .*output 1: '
finds null_compiled results 'results .*signal 11 .* in specialize'
finds silent_error results "rules Relu-14 .*: compile returned 'unsupported' without a message"
finds status results 'rules Relu-14 .*: compile returned the unknown status 77'
finds resident results 'results .*signal 11 .* in compile'
finds profile results 'results .*signal 11 .* in compile'
finds constant_answer results 'rules Relu-14 .*: compile wrote 7 for value 0'
finds progress control 'rules author.*: compile reported a progress of 50'
finds cancel_leak control 'control author: 8 blocks after 8 cancelled compiles'
finds cancel_ignored control "control author: poll said that the user cancelled, but the call returned 'ok'"
finds store_null control 'control author, without store functions.*signal 11 .* in compile'
finds store_order control 'rules author.*: compile called store_write outside of store_begin'
finds value_stride results 'results .*signal 11 .* in specialize'
finds plan_stride regions 'rules author: .*: specialize wrote between the elements of outputs'
finds alias_range results 'results .*output 0 may share the buffer of input'
finds bounded results 'results Relu-14 .*output 0 has dims that exceed'
finds mutates sharing 'sharing Relu-14 at two sizes: '
finds keeps_request results 'results .*it touched memory of the arguments of compile, after compile returned'
finds keeps_values results 'results .*it touched memory of the arguments of specialize, after specialize returned'

# execute
finds arg_stride regions 'regions author.*signal 11 .* in execute'
finds offset results 'results Relu-14 .*with buffers aligned to their elements only.*: output 0: '
finds aligned results 'results Relu-14 .*the input is not aligned'
finds empty results 'results Relu-14 .*signal 11 .* in execute: it touched memory past the end of an input'
finds priority results 'results Relu-14 .*priority 77, power 77'
finds stale_run results 'results Relu-14 .*it touched memory of a run that has ended'
finds dims_write results 'results Relu-14 .*it changed the dims of a tensor'
finds thread_local results 'results Relu-14 .*this thread has not specialized'
finds timer results 'process Relu-14: .*a timer was started'
finds rounds_workers results 'process Relu-14: rounding'
finds workers results 'results Relu-14 float\[384,288\]'
finds order results 'results Relu-14 .*with (loops of 16 workers|2 threads|4 threads)'
finds lost_element results 'results Relu-14 .*with (loops of 16 workers|2 threads|4 threads)'
finds bind_null results 'results Relu-14 .*without a binding: .*not bound'
finds bind_stale results 'results Relu-14 .*signal 11 .* in execute'
finds bind_keeps results 'results Relu-14 .*it touched memory of the arguments of bind, after bind returned'
finds instance_scratch sharing 'sharing Relu-14: .*a run of the same instance: output 0'
finds state_scratch sharing 'sharing Relu-14: .*a run of (the same instance|another region): output 0'
warns lock sharing 'sharing Relu-14: a run of the same instance waited until another run was over'

# Several open providers, extensions, the engine cache
finds global_state sharing 'sharing Relu-14: .*after the provider was opened again with other options'
finds closes_shared sharing 'sharing Relu-14'
finds control_any control "control author: 'ok' for action 77"
finds suspend control 'control author: suspended'
finds extension_any control "control author: a table for 'inlay.unheard_of/1'"
finds extension_moves control 'control author: inlay.control/1: another address each time'
finds verdict_own cache 'cache author: the blob that compile stored: not an engine'
finds blob_threads cache 'cache author: a blob for another number of threads'
finds blob_index cache 'cache author: a blob for an equal region elsewhere in a graph'
checks=$((checks + 1)) # compares two processes, so all groups run
"$inlay" plugin-check "$dir/print_process.so" --quick --no-timing >"$work/out"
grep -q "^FAIL  cache author: fingerprint: it was different in the process of group 'open'" "$work/out" ||
    { wrong=$((wrong + 1)); echo "WRONG: print_process"; grep '^FAIL' "$work/out"; }

# Devices
finds device_lies fences 'fences chip: Relu-14.* with 16 fences to wait for'
finds device_twice values "values Relu-14 .*a cancelled run: it returned 'cancelled' and signalled"
finds device_early fences 'fences chip: Relu-14.*: it signalled when 0 of 1 fences were reached'
finds device_one_copy memory 'memory.copies chip: byte [0-9]+ was not copied'
finds device_source memory 'memory'
finds device_copies memory 'memory.*buffer_copy'
finds device_copy_start memory 'memory.copies chip: byte [0-9]+ was '
finds device_workspace regions 'regions chip: .*it wrote outside the workspace'
finds device_usage memory "memory.hints chip: 'out of memory'"
finds device_mute memory "rules chip: buffer_alloc returned 'out of memory' without a message"
finds device_domain fences 'fences chip: .*in domain 1 instead of'
finds device_full memory "memory.limits chip: 'ok' for"
finds device_keeps_memory leaks 'leaks chip, from create to destroy: ' --op Relu
finds device_keeps_constants leaks 'leaks chip, from create to destroy: '
finds device_sync results 'results Relu-14'
finds device_one_job results 'results Add-14 .*no progress in buffer_copy' --op Add --time-limit 3
warns device_one_job results 'results .*: execute returned only when the fences were reached' --op Relu
finds device_scalars results 'results Clip-13 .*while its inputs are still being copied' --op Clip
finds device_empty device 'device.copies chip: no signal'
finds device_lifo fences 'in_flight chip: run 2 of 4, which waits for the run before it, has not signalled'
finds device_high fences 'in_flight chip: a run signalled before the fence'
finds device_slot fences 'in_flight chip: run'
finds device_fence32 fences 'in_flight chip: run 1 of 4, which waits for a fence, has not signalled'
finds device_wait32 fences 'fences chip: .*it signalled when 0 of 1 fences'
finds device_capacity memory 'memory.capacity chip: [34] buffers of 67108864 bytes at first, but 0 in the 5th round after they were freed'
finds device_map_start memory 'memory.map chip: the mapping has other bytes'
finds device_map_anew memory 'memory.map chip: '
finds device_import_closes memory 'memory.import chip: buffer_import closed it'
finds device_import_leaks memory 'memory.import chip: 1 more'

echo "$checks checks, $wrong wrong"
[ $wrong -eq 0 ]
