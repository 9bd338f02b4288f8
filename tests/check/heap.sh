#!/bin/bash
# plugin-check passes a plugin of this project, and warns about heap use during a run only for the given operators, whose
# libraries allocate.
#   heap.sh INLAY PLUGIN [OPERATOR...]
set -uo pipefail
inlay=$1
plugin=$2
shift 2
report=$("$inlay" plugin-check "$plugin" --quick --no-timing 2>&1)
status=$?
echo "$report"
[ $status -eq 0 ] || exit 1
found=$(sed -nE 's/^WARN  heap ([A-Za-z0-9_.:]+)-[0-9]+:.*/\1/p' <<<"$report" | sort -u)
others=$(comm -23 <(echo "$found") <(printf '%s\n' "" "$@" | sort -u))
[ -z "$others" ] || {
    echo "heap use during a run: ${others//$'\n'/ }"
    exit 1
}
