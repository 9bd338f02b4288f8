#!/bin/sh
# Checks the sizes of the stripped shared objects. Thread-local storage is limited, too: dlopen() refuses a library
# whose static TLS does not fit into the surplus of the loader, 512 bytes.
#   sizes.sh (FILE LIMIT_BYTES)...    the limit applies to the sum of this file and those before it
set -u
bad=0 sum=0
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

while [ $# -ge 2 ]; do
    if ! strip -o "$tmp/stripped" "$1"; then
        bad=1
    else
        bytes=$(wc -c <"$tmp/stripped")
        sum=$((sum + bytes))
        echo "$(basename "$1"): $bytes bytes stripped; up to here $sum, of at most $2"
        if [ $sum -gt "$2" ]; then
            echo "  too large: nm --size-sort $1 lists the largest symbols"
            bad=1
        fi
        own=$(readelf -lW "$1" | awk '$1 == "TLS" { print $6 }')
        if [ $((${own:-0})) -gt 256 ]; then
            echo "  $((own)) thread-local bytes, of at most 256: readelf -sW $1 | grep TLS names them"
            bad=1
        fi
    fi
    shift 2
done
exit $bad
