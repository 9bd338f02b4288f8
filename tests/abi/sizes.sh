#!/bin/sh
# How many bytes the stripped shared objects have, and whether that is within their limits. Of thread-local bytes there
# may be few: dlopen() refuses a library whose static ones do not fit into what the loader keeps free, 512 bytes.
#   sizes.sh (FILE LIMIT_BYTES)...    the limit is of this file and those before it
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
            echo "  too large: nm --size-sort $1 names what takes the room"
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
