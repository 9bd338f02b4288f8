#!/bin/sh
# Compares the ABI of the headers with the recorded one; with --record replaces the record.
#   abi.sh SOURCE_DIR SURFACE_SO [--record]
# Exit 77: skipped, because abidiff is not installed.
set -u
source=$1 so=$2
def=$source/tests/abi/surface.def record=$source/sdk/abi/inlay-1.abi

number() { # NAME: the value of the macro
    sed -n "s/^#define $1 \([0-9]*\)u.*/\1/p" "$source/sdk/include/inlay/plugin.h"
}

missing=$(tr '\n' ' ' <"$source/sdk/include/inlay/inlay.h" | grep -o 'INLAY_API [^;(]*(' | grep -o 'inlay_[a-z0-9_]*($' |
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
if ! abidiff --no-show-locs "$record" "$so"; then
    echo "The ABI differs from $record. If something was appended on purpose: add it to layout.def and"
    echo "sdk/abi/CHANGELOG.md, then record it with the target abi_record. Anything else breaks plugins that exist."
    exit 1
fi
echo "no difference"
