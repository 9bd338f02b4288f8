#!/bin/sh
# Checks that the names in host/ARCHITECTURE.md exist. In its tables, `folder/file.c` is a file below host/runtime/,
# and a following `name()` is a function defined in that file.
#
#   stations.sh ROOT   prints one line for each missing name; exit code 1 if there are any
set -eu
root=$1
wrong=$(grep -E '^\|' "$root/host/ARCHITECTURE.md" | grep -oE '`[a-z_]+(/[a-z_]+)+\.[ch]`|`[a-z_]+\(\)`|^\|' | tr -d '`' |
    while read -r word; do
        case $word in
            '|') file= ;;
            *.[ch])
                file=$word
                [ -f "$root/host/runtime/$file" ] || echo "host/ARCHITECTURE.md: there is no host/runtime/$file"
                ;;
            *)
                name=${word%??}
                if [ -n "$file" ] && [ -f "$root/host/runtime/$file" ] &&
                    ! grep -qE "^[a-z].*[ *]$name\(" "$root/host/runtime/$file"; then
                    echo "host/ARCHITECTURE.md: host/runtime/$file has no $name()"
                fi
                ;;
        esac
    done)
[ -z "$wrong" ] && exit 0
echo "$wrong"
exit 1
