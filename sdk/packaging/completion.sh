#!/bin/sh
# Prints the completion of `inlay` for a shell, from the flags that the program reports (flags.sh).
#   completion.sh INLAY bash|zsh|fish
set -eu
here=$(cd "$(dirname "$0")" && pwd)
inlay=$1 shell=$2
case $shell in
bash | zsh | fish) ;;
*)
    echo "completion.sh: no shell '$shell': bash, zsh or fish" >&2
    exit 2
    ;;
esac
sh "$here/flags.sh" "$inlay" | awk -F '\t' -v shell="$shell" -f "$here/completion.awk"
