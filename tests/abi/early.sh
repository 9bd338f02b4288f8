#!/bin/sh
# Programs choose nothing while they are loaded: no ifunc of ours is in them or in the library they link. Such choices are
# made before constructors run, so a library that is preloaded to answer for the CPU would come too late.
#   early.sh FILE...
set -u
bad=0
for file in "$@"; do
    relocations=$(readelf -rW "$file") || exit 1
    if [ -z "$relocations" ]; then
        echo "$file: no relocations can be read"
        bad=1
    elif printf '%s\n' "$relocations" | grep -q IRELATIV; then
        echo "$file chooses functions while it is loaded: readelf -sW $file | grep IFUNC names them"
        bad=1
    fi
done
exit $bad
