#!/bin/bash
# Compares the table of `inlay providers --types` for the reference provider with LEFT: the provider accepts every type of
# every operator except those in LEFT.
#   types.sh INLAY LEFT            exits 1 if they differ
#   types.sh INLAY LEFT --write    writes the types that this build does not accept to LEFT
set -u
inlay=$1
left=$2
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

"$inlay" providers --types >"$tmp/table" || exit 1
# Operator, version, types of its schema, and types that the reference provider accepts. A type is "-" if no legal node
# could be generated.
awk -F ' *[|] *' '
    NR == 1 { for (i = 2; i < NF; i++) column[$i] = i; next }
    NR == 2 { next }
    { taken = $column["reference"]; why = $column["accepted by none"] }
    taken != "all" && why !~ /^(expanded by the optimiser|run by the host)/ {
        print $column["operator"], $column["since"] ":", $column["types"], "; taken:", taken }' "$tmp/table" >"$tmp/now"
if [ "${3:-}" = --write ]; then
    grep '^#' "$left" >"$tmp/page"
    cat "$tmp/page" "$tmp/now" >"$left"
    exit
fi
if ! diff <(grep -v '^#' "$left") "$tmp/now" >"$tmp/differs"; then
    head -n 20 "$tmp/differs"
    echo "the reference accepts other types than $left says; '$0 $inlay $left --write' updates the file"
    exit 1
fi
rows=$(($(wc -l <"$tmp/table") - 2))
taken=$(grep -c '| all |' "$tmp/table")
if [ "$rows" -lt 500 ] || [ "$taken" -lt 400 ]; then
    echo "the table has only $rows rows, $taken of them with all types accepted"
    exit 1
fi
echo "$rows versions of operators; the reference lacks types of $(wc -l <"$tmp/now")"
