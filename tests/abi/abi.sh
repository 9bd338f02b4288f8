#!/bin/sh
# Compares the ABI of the headers with the recorded one; with --record replaces the record; with --since compares with
# the record of a released minor version, to which it may only have added.
#   abi.sh SOURCE_DIR SURFACE_SO [--record | --since RELEASED_RECORD]
# Exit 77: skipped, because abidiff is not installed.
set -u
source=$1 so=$2
def=$source/tests/abi/surface.def record=$source/sdk/abi/inlay-1.abi

number() { # NAME: the value of the macro
    sed -n "s/^#define $1 \([0-9]*\)u.*/\1/p" "$source/sdk/include/inlay/plugin.h"
}

missing=$(cat "$source/sdk/include/inlay/inlay.h" "$source/sdk/include/inlay/text.h" | tr '\n' ' ' | grep -o 'INLAY_API [^;(]*(' | grep -o 'inlay_[a-z0-9_]*($' |
    tr -d '(' | while read -r name; do grep -q "FUNCTION($name)" "$def" || echo "$name"; done)
if [ -n "$missing" ]; then
    echo "not listed in $def:" $missing
    exit 1
fi
if ! command -v abidiff >/dev/null || ! command -v abidw >/dev/null; then
    echo "SKIPPED: abidiff is not installed (Debian: abigail-tools)"
    exit 77
fi
if [ "${3:-}" = --record ]; then
    version=$(number INLAY_ABI_MAJOR).$(number INLAY_ABI_MINOR)
    if grep -q "^$version " "$source/sdk/abi/releases"; then
        echo "ABI $version is released. Additions belong to the next minor version: raise INLAY_ABI_MINOR in plugin.h,"
        echo "add a section to sdk/abi/CHANGELOG.md, and record again."
        exit 1
    fi
    exec abidw --no-corpus-path --no-comp-dir-path --no-show-locs --out-file "$record" "$so"
fi
if [ "${3:-}" = --since ]; then
    report=$(abidiff --no-show-locs --no-added-syms --leaf-changes-only --harmless "$4" "$so")
    [ $(($? & 3)) -eq 0 ] || exit 1 # 1: it failed; 2: wrong usage; 4 and 8: differences
    # Lines about fields after the old end of a struct that may grow are permitted, all others are a break.
    echo "$report" | awk -v record="$4" '
        /^$/ || /^(Leaf changes|Changed leaf types) summary:/ { next }
        /^Removed\/Changed\/Added .* summary: 0 Removed, 0 Changed/ { next }
        /^.struct inlay_[a-z_0-9]*. changed:$/ && !/inlay_(str|dim|buffer|fence|tensor_view|row)[^a-z_]/ { end = -1; next }
        /^  type size changed from [0-9]+ to [0-9]+ \(in bits\)$/ && $7 > $5 { end = $5; next }
        /^  [0-9]+ data member insertions?:$/ { next }
        /^    .*, at offset [0-9]+ \(in bits\)$/ && end >= 0 && $(NF - 2) >= end { fields++; next }
        { print "not permitted since " record ": " $0; broken = 1 }
        END { print fields + 0 " fields were appended"; exit broken }'
    exit
fi
if ! abidiff --no-show-locs "$record" "$so"; then
    echo "The ABI differs from $record. If something was appended on purpose: add it to layout.def and"
    echo "sdk/abi/CHANGELOG.md, then record it with the target abi_record. Anything else breaks plugins that exist."
    exit 1
fi
echo "no difference"
