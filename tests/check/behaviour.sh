#!/bin/bash
# Tests that `inlay plugin-check --quick` finds the faults of behaviour.c, at least 95 of 100, and nothing without one.
#   behaviour.sh INLAY PLUGIN SOURCE   the executable; behaviour.so; behaviour.c, for the names of the faults
set -u
inlay=$1 plugin=$2 source=$3
tried=0 missed=0 failed=0

# check GROUP [FLAG...]
check() {
    "$inlay" plugin-check "$plugin" --quick --no-timing --op Relu --group "$@" >/dev/null 2>&1 </dev/null
}

# finds NAME FLAGS GROUP...   one of the groups must find the fault
finds() {
    local name=$1 flags=$2 group
    shift 2
    tried=$((tried + 1))
    for group; do
        check "$group" $flags
        [ $? -ne 1 ] || return 0
    done
    missed=$((missed + 1))
    echo "missed: $name, $flags"
}

for group in open results random values surroundings sharing leaks; do
    check $group || { failed=1; echo "group $group finds a fault where none is"; }
done
# Faults of the process are planted in one function after the other: create, assess, cost, compile, specialize, execute,
# destroy.
fault=-1 of_process=1
for name in $(sed -n '/^enum fault/,/^};/s/^    \([A-Z_0-9]*\),$/\1/p' "$source"); do
    fault=$((fault + 1)) phase=$((fault % 7))
    [ "$name" != BY_VARIABLE ] || of_process=0
    case $name in
    NONE | FAULTS) continue ;;
    LOOP_WAITS) finds "$name" "--option fault=$fault --time-limit 10" results ;; # for ever
    DESCRIPTOR | LOG_FLOOD) finds "$name" "--option fault=$fault" leaks surroundings ;; # in execute
    *)
        if [ $of_process -eq 0 ]; then
            finds "$name" "--option fault=$fault" results sharing leaks values surroundings random
        else
            finds "$name" "--option fault=$fault --option phase=$phase" $([ $phase -ne 2 ] || echo offers) results
        fi ;;
    esac
done
echo "$tried planted, $missed missed"
[ $failed -eq 0 ] && [ $tried -gt 70 ] && [ $((100 * missed)) -le $((5 * tried)) ]
