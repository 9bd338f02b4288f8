#!/bin/bash
# Counts false alarms of `inlay lock --check` about times, and delays of 1.15 times that it finds, while BUSY programs (2)
# use the CPUs.
#   lock.sh BUILD MODEL.onnx[,OPTION...] [CHECKS [BUSY [DELAYS]]]     OPTION: of inlay, such as --dim=batch=1; CHECKS: for
#                                                                     false alarms (100); DELAYS: checks (CHECKS)
# Prints a line for each kind: the checks, and those that reported a slower time. For the delays, the times of the record
# are divided by 1.15: a run then takes 1.15 times as long as recorded.
set -u
[ $# -ge 2 ] || { sed -n 2,7p "$0" >&2; exit 2; }
inlay=$1/bin/inlay programs=${4:-2}
IFS=, read -r -a model <<<"$2"
work=$(mktemp -d)
busy=()
trap 'kill "${busy[@]}" 2>/dev/null; rm -rf "$work"' EXIT
for ((i = 0; i < programs; i++)); do
    while :; do :; done &
    busy+=($!)
done

"$inlay" lock "${model[@]}" -o "$work/model.lock" >"$work/out" || exit 1
jq --arg model "$(realpath "${model[0]}")" '.model.path = $model | .time.ratios |= map(. / 1.15)' "$work/model.lock" \
    >"$work/slower.lock"
for record in model slower; do
    checks=${3:-100}
    [ $record = model ] || checks=${5:-$checks}
    reported=0 regressions=0 begin=$SECONDS
    for ((i = 0; i < checks; i++)); do
        "$inlay" lock --check "$work/$record.lock" --json >"$work/out" 2>"$work/err"
        code=$?
        [ $code -le 1 ] || { cat "$work/err"; exit 1; }
        regressions=$((regressions + code))
        jq -e 'any(.rows[]; .what == "time of a run" and .verdict == "regression")' "$work/out" >/dev/null &&
            reported=$((reported + 1))
    done
    echo "$record: $checks checks, $reported reported a slower time, $regressions a regression of any kind;" \
        "$(((SECONDS - begin) / checks)) s for a check"
done
