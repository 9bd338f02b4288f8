#!/bin/sh
# Is what host/ARCHITECTURE.md names still there? In its tables, `folder/file.c` is a file below host/, and `name()`
# behind it a function that the file defines.
#
#   stations.sh ROOT   one line for each that is not; exit code 1 if there is one
set -eu
root=$1
wrong=$(grep -E '^\|' "$root/host/ARCHITECTURE.md" | grep -oE '`[a-z_]+/[a-z_]+\.[ch]`|`[a-z_]+\(\)`|^\|' | tr -d '`' |
    while read -r word; do
        case $word in
            '|') file= ;;
            *.[ch])
                file=$word
                [ -f "$root/host/$file" ] || echo "host/ARCHITECTURE.md: there is no host/$file"
                ;;
            *)
                name=${word%??}
                if [ -n "$file" ] && [ -f "$root/host/$file" ] &&
                    ! grep -qE "^[a-z].*[ *]$name\(" "$root/host/$file"; then
                    echo "host/ARCHITECTURE.md: host/$file has no $name()"
                fi
                ;;
        esac
    done)
[ -z "$wrong" ] && exit 0
echo "$wrong"
exit 1
