#!/bin/sh
# Keeps the public headers and the kit of the ABI minor that is being built, for the tests that build plugins from them.
#   record.sh SOURCE_DIR            copies them to sdk/abi/<major>.<minor>/
#   record.sh SOURCE_DIR --check    says whether the copy has today's ABI
# A folder with a file RELEASED is what users have: nothing is written to it any more.
set -u
source=$1 mode=${2:-}

number() { # NAME: the value of the macro
    sed -n "s/^#define $1 \([0-9]*\)u.*/\1/p" "$source/sdk/include/inlay/plugin.h"
}
version=$(number INLAY_ABI_MAJOR).$(number INLAY_ABI_MINOR)
into=$source/sdk/abi/$version

copy() { # TARGET: what is kept of today
    mkdir -p "$1/include/inlay" "$1/kit" && cp "$source"/sdk/include/inlay/*.h "$1/include/inlay/" &&
        cp "$source"/sdk/kit/*.[ch] "$1/kit/" &&
        cp "$source"/tests/abi/surface.c "$source"/tests/abi/surface.def "$1/" &&
        cp "$source"/sdk/abi/inlay-1.abi "$1/inlay.abi"
}

if [ "$mode" = --check ]; then
    if [ ! -d "$into" ]; then
        echo "The headers of ABI $version are not recorded: ninja abi_record"
        exit 1
    fi
    # Comments and the kit may change until a release; the ABI must be that of the dump. That the recorded headers are
    # what their own dump says is another test (abi_recorded).
    if [ ! -e "$into/RELEASED" ] && ! cmp "$into/inlay.abi" "$source/sdk/abi/inlay-1.abi"; then
        echo "The record of ABI $version, which is not released yet, is not that of today: ninja abi_record"
        exit 1
    fi
    echo "ABI $version is recorded"
    exit 0
fi
if [ -e "$into/RELEASED" ]; then
    echo "ABI $version is released. What is appended now belongs to the next minor: raise INLAY_ABI_MINOR in plugin.h,"
    echo "add a section to sdk/abi/CHANGELOG.md, and record again."
    exit 1
fi
rm -rf "$into"
copy "$into" || exit 1
echo "recorded $into"
