#!/bin/bash
# Creates the tarballs of the npm packages inlay-web and inlay-onnxruntime-web, like `npm pack`: web.sh BUILD OUT
# BUILD is a folder in which host/web/build.sh has built the package, OUT a folder.
set -euo pipefail
[ $# = 2 ] || { echo "usage: web.sh BUILD OUT" >&2; exit 2; }
package=$1/lib/inlay/web
[ -e "$package/inlay.wasm" ] || { echo "web.sh: $package/inlay.wasm is missing: run host/web/build.sh $1" >&2; exit 1; }
mkdir -p "$2"
out=$(realpath -- "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$package" "$work/package"
cp "$(dirname "$(realpath -- "$0")")/../../LICENSE" "$work/package/"
# The licences of the libraries in the module.
for library in protobuf-c jansson; do
    cp "$1/web-sources/$library/LICENSE" "$work/package/LICENSE.$library"
done
sed -i 's/"README.md"\]/"README.md", "LICENSE.protobuf-c", "LICENSE.jansson"]/' "$work/package/package.json"
if ! grep -q LICENSE.jansson "$work/package/package.json"; then
    echo "web.sh: package.json has another line than the one that is changed here" >&2
    exit 1
fi
version=$(sed -n -E 's/.*"version": "(.*)",/\1/p' "$work/package/package.json")
pack() { # NAME
    tar -c --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@${SOURCE_DATE_EPOCH:-499162500}" \
        -C "$work" package | gzip -n >"$out/$1-$version.tgz"
    echo "$out/$1-$version.tgz"
}
pack inlay-web
# The package in place of onnxruntime-web: JavaScript that depends on the one above.
rm -rf "$work/package"
cp -r "$(dirname "$(realpath -- "$0")")/../bindings/web-onnxruntime" "$work/package"
cp "$(dirname "$(realpath -- "$0")")/../../LICENSE" "$work/package/"
pack inlay-onnxruntime-web
