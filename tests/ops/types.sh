#!/bin/bash
# Holds the table of ops/TYPES.md against what the providers of this build take.
#   types.sh INLAY TYPES.md            exits 1 where they differ
#   types.sh INLAY TYPES.md --write    puts the table of this machine in its place
# The columns of providers that ask the CPU, or that not every build has, are for reading: compared are those of the
# reference, and of openblas where it is there.
set -u
inlay=$1
page=$2
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

"$inlay" providers --types >"$tmp/now" || exit 1
if [ "${3:-}" = --write ]; then
    sed '/^|/,$d' "$page" >"$tmp/page" && cat "$tmp/now" >>"$tmp/page" && cp "$tmp/page" "$page"
    exit
fi

# The named columns of a table.
columns() {
    awk -F ' *[|] *' -v names="$2" '
        /^\|/ && !seen { seen = 1; for (i = 2; i < NF; i++) if (index(names, "," $i ",")) keep[i] = 1 }
        /^\|/ { line = ""; for (i = 2; i < NF; i++) if (i in keep) line = line "|" $i; print line }' "$1"
}
names=,operator,since,types,reference,
if head -n 1 "$tmp/now" | grep -q '| openblas |'; then
    names=$names'openblas,'
fi
columns "$page" "$names" >"$tmp/want"
columns "$tmp/now" "$names" >"$tmp/got"
rows=$(wc -l <"$tmp/got")
if ! diff "$tmp/want" "$tmp/got" >"$tmp/differs"; then
    head -n 20 "$tmp/differs"
    echo "$page is not what the providers take; $0 $inlay $page --write makes it anew"
    exit 1
fi
if [ "$rows" -lt 500 ] || [ "$(grep -c '|all' "$tmp/got")" -lt 400 ]; then
    echo "the table has $rows rows, most of them of types that the reference does not take"
    exit 1
fi
echo "$((rows - 2)) operators and versions agree"
