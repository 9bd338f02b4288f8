#!/bin/sh
# Neither the programs nor the library contain an ifunc. Its resolver would run before constructors, so a preloaded
# library that emulates another CPU would run too late.
#   early.sh FILE...
set -u
bad=0
for file in "$@"; do
    relocations=$(readelf -rW "$file") || exit 1
    if [ -z "$relocations" ]; then
        echo "$file: its relocations cannot be read"
        bad=1
    elif printf '%s\n' "$relocations" | grep -q IRELATIV; then
        echo "$file contains ifuncs: readelf -sW $file | grep IFUNC lists them"
        bad=1
    fi
done
exit $bad
