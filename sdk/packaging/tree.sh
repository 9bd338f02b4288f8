#!/bin/bash
# Copies the source files of the tree, without build outputs, into a folder.
#   tree.sh FOLDER
set -euo pipefail
[ $# = 1 ] && [ -d "$1" ] || { echo "usage: tree.sh FOLDER" >&2; exit 2; }
tree=$(dirname "$(dirname "$(dirname "$(realpath -- "$0")")")")
if git -c safe.directory="$tree" -C "$tree" rev-parse >/dev/null 2>&1; then
    (cd "$tree" && git -c safe.directory="$tree" ls-files -z --cached --others --exclude-standard --deduplicate |
        xargs -0 ls -d 2>/dev/null | tar -c -T -) | tar -x -C "$1"
else
    tar -c -C "$tree" --exclude='./build*' . | tar -x -C "$1"
fi
