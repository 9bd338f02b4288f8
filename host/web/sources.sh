#!/bin/sh
# Fetches the sources of the libraries that inlay.wasm contains, Debian's source packages protobuf-c and jansson, and
# unpacks them: sources.sh FOLDER. Does nothing if they are there. Needs the network, but not root.
# Exit code 3: they cannot be fetched.
set -eu
[ $# = 1 ] || { echo "usage: sources.sh FOLDER" >&2; exit 2; }
if [ -e "$1/protobuf-c/protobuf-c/protobuf-c.c" ] && [ -e "$1/jansson/src/jansson.h" ]; then
    exit 0
fi
mkdir -p "$1"
folder=$(realpath "$1")
work=$(mktemp -d "$folder/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
# Separate lists of apt, since those of the system may lack deb-src.
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main" \
    >"$work/sources.list"
get() {
    apt-get -q -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" "$@"
}
cd "$work"
if ! { get update && get source --download-only protobuf-c jansson; } >log 2>&1; then
    tail -n 5 log >&2
    echo "sources.sh: cannot fetch Debian's source packages protobuf-c and jansson" >&2
    exit 3
fi
for package in protobuf-c jansson; do # apt-get has verified the archives by the signed lists
    rm -rf "${folder:?}/$package" unpacked
    mkdir unpacked
    tar -xf "$(find . -maxdepth 1 -name "$package*.orig.tar.*" ! -name '*.asc')" --strip-components=1 -C unpacked
    mv unpacked "$folder/$package"
done
