#!/bin/sh
# Compares the ABI of the headers with the recorded one; with --record writes the record anew.
#   abi.sh SURFACE_SO SURFACE_DEF INLAY_H RECORD [--record]
# Exit 77: skipped, because abidiff is not installed.
set -u
so=$1 def=$2 header=$3 record=$4

missing=$(tr '\n' ' ' <"$header" | grep -o 'INLAY_API [^;(]*(' | grep -o 'inlay_[a-z0-9_]*($' | tr -d '(' |
    while read -r name; do grep -q "FUNCTION($name)" "$def" || echo "$name"; done)
if [ -n "$missing" ]; then
    echo "not listed in $def:" $missing
    exit 1
fi
if ! command -v abidiff >/dev/null || ! command -v abidw >/dev/null; then
    echo "SKIPPED: abidiff is not installed (Debian: abigail-tools)"
    exit 77
fi
if [ "${5:-}" = --record ]; then
    exec abidw --no-corpus-path --no-comp-dir-path --no-show-locs --out-file "$record" "$so"
fi
if ! abidiff --no-show-locs "$record" "$so"; then
    echo "The ABI differs from $record. If something was appended on purpose: add it to layout.def and"
    echo "sdk/abi/CHANGELOG.md, then record it with the target abi_record. Anything else breaks plugins that exist."
    exit 1
fi
echo "no difference"
