#!/bin/bash
# What an explanation costs, in instructions, which callgrind counts alike on every run.
#   explain.sh [--inlay FILE] [--providers LIST] DIR|MODEL.onnx...
# Models are those below each DIR. `create` is the creation of a session, in millions of instructions; `record` the part
# of it that is there for explanations alone: keeping what providers refused, and why; `told` is what printing the
# explanation takes once somebody asks for it. The record may take 1% of the creation, else the script fails.
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
[ -x "$inlay" ] || { echo "$inlay is not there: build first, or name it with --inlay" >&2; exit 1; }
[ ${#models[@]} -gt 0 ] || { sed -n '2,6s/^# *//p' "$0" >&2; exit 2; }
command -v valgrind >/dev/null || { echo "explain.sh needs Debian's package valgrind" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Instructions of a function and all that it called, in millions.
spent() { # FUNCTION
    awk -v want="$1" '{ name = $0; sub(/^.*:/, "", name); sub(/ .*$/, "", name) }
        name == want { n = $1; gsub(/,/, "", n); sum += n }
        END { printf "%.3f\n", sum / 1e6 }' "$work/functions"
}

counted=0 above=0
printf '%-44s %10s %10s %8s %10s\n' model 'create M' 'record M' record 'told M'
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
    create=$(spent inlay_session_create) record=$(spent take_refusal) told=$(spent explain_session)
    share=$(awk -v a="$create" -v b="$record" 'BEGIN { printf "%.3f\n", (a > 0 ? 100 * b / a : 100) }')
    printf '%-44s %10s %10s %7s%% %10s\n' "$name" "$create" "$record" "$share" "$told"
    counted=$((counted + 1))
    awk -v s="$share" 'BEGIN { exit !(s > 1) }' && above=$((above + 1)) || true
done < <(find "${models[@]}" -name '*.onnx' | sort)
echo "$counted models, record above 1% of the creation: $above"
[ $above -eq 0 ]
