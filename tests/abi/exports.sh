#!/bin/sh
# Symbols exported by the shared objects: a library exports exactly the functions of its header (libinlay.so those of
# inlay.h, libinlay-text.so those of text.h), a plugin exactly inlay_plugin_open.
#   exports.sh HEADER LIBRARY PLUGIN...
set -u
header=$1 library=$2
shift 2
bad=0

exported() { # FILE: the names it defines for others
    nm -D --defined-only "$1" | awk '{ print $NF }' | sort
}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

# A declaration may break before its name, so lines are joined up to the parenthesis.
tr '\n' ' ' <"$header" | grep -o 'INLAY_API [^;(]*(' | grep -o 'inlay_[a-z0-9_]*($' | tr -d '(' | sort >"$tmp/declared"
exported "$library" >"$tmp/exported"
for name in $(comm -13 "$tmp/declared" "$tmp/exported"); do
    echo "$library exports $name, which $header does not declare"
    bad=1
done
for name in $(comm -23 "$tmp/declared" "$tmp/exported"); do
    echo "$library lacks $name, which $header declares"
    bad=1
done
for plugin in "$@"; do
    names=$(exported "$plugin" | tr '\n' ' ')
    if [ "$names" != "inlay_plugin_open " ]; then
        echo "$plugin exports '$names' instead of inlay_plugin_open alone"
        bad=1
    fi
done
echo "$(wc -l <"$tmp/declared") functions declared, $# plugins"
exit $bad
