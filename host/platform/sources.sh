#!/bin/sh
# Fetches the sources of libraries, Debian's source packages, and unpacks them: sources.sh FOLDER [PACKAGE...]
# Without names: protobuf-c and jansson, which inlay.wasm contains. Does nothing for those that are there. Needs the
# network, but not root. Exit code 3: they cannot be fetched.
set -eu
[ $# -ge 1 ] || { echo "usage: sources.sh FOLDER [PACKAGE...]" >&2; exit 2; }
mkdir -p "$1"
folder=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- protobuf-c jansson
missing=
for package in "$@"; do
    [ -d "$folder/$package" ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
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
# shellcheck disable=SC2086
if ! { get update && get source --download-only $missing; } >log 2>&1; then
    tail -n 5 log >&2
    echo "sources.sh: cannot fetch Debian's source packages:$missing" >&2
    exit 3
fi
for package in $missing; do # apt-get has verified the archives by the signed lists
    rm -rf unpacked
    mkdir unpacked
    tar -xf "$(find . -maxdepth 1 -name "${package}_*.orig.tar.*" ! -name '*.asc')" --strip-components=1 -C unpacked
    mv unpacked "$folder/$package"
done
