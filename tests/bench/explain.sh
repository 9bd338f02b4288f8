#!/bin/bash
# The cost of reports in instructions, which callgrind counts reproducibly.
#   explain.sh [--inlay FILE] [--providers LIST] DIR|MODEL.onnx...
# Models are those below each DIR. `create`: creating a session, in millions of instructions; `record`: the part that is
# needed only for reports: storing refusals and their reasons; `print`: printing the report. The script fails if
# recording takes more than 1% of the creation.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
inlay=$root/build/release/bin/inlay
arguments=() models=()

while [ $# -gt 0 ]; do
    case $1 in
    --inlay) inlay=$2; shift ;;
    --providers) arguments+=(--providers "$2"); shift ;;
    -*) sed -n '2,6s/^# *//p' "$0"; exit 2 ;;
    *) models+=("$1") ;;
    esac
    shift
done
[ -x "$inlay" ] || { echo "$inlay does not exist: build it first, or name it with --inlay" >&2; exit 1; }
[ ${#models[@]} -gt 0 ] || { sed -n '2,6s/^# *//p' "$0" >&2; exit 2; }
command -v valgrind >/dev/null || { echo "explain.sh needs Debian's package valgrind" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Instructions of a function and of the functions that it calls, in millions.
spent() { # FUNCTION
    awk -v want="$1" '{ name = $0; sub(/^.*:/, "", name); sub(/ .*$/, "", name) }
        name == want { n = $1; gsub(/,/, "", n); sum += n }
        END { printf "%.3f\n", sum / 1e6 }' "$work/functions"
}

counted=0 above=0
printf '%-44s %10s %10s %8s %10s\n' model 'create M' 'record M' record 'print M'
while IFS= read -r model; do
    name=${model%/model.onnx}
    name=$(basename "$(dirname "$name")")/$(basename "$name" .onnx)
    if ! valgrind --tool=callgrind --callgrind-out-file="$work/out" "$inlay" explain "$model" --intra-threads 1 \
        --cache-dir "" "${arguments[@]}" >"$work/text" 2>"$work/err"; then
        printf '%-44s %s\n' "$name" "$(grep '^inlay' "$work/err" | tail -n 1)"
        above=$((above + 1))
        continue
    fi
    callgrind_annotate --inclusive=yes --threshold=100 "$work/out" >"$work/functions"
    create=$(spent inlay_session_create) record=$(spent add_refusal) print=$(spent explain_session)
    share=$(awk -v a="$create" -v b="$record" 'BEGIN { printf "%.3f\n", (a > 0 ? 100 * b / a : 100) }')
    printf '%-44s %10s %10s %7s%% %10s\n' "$name" "$create" "$record" "$share" "$print"
    counted=$((counted + 1))
    awk -v s="$share" 'BEGIN { exit !(s > 1) }' && above=$((above + 1)) || true
done < <(find "${models[@]}" -name '*.onnx' | sort)
echo "$counted models, record above 1% of the creation: $above"
[ $above -eq 0 ]
