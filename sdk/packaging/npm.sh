#!/bin/bash
# Creates the tarball of the npm package, like `npm pack`, with the addon, the library and its plugins: the installation
# compiles and fetches nothing.
#   npm.sh PREFIX [BUNDLE] OUT
# PREFIX is an installation by `cmake --install BUILD --prefix PREFIX`, BUNDLE the output of bundle.sh for it, which is
# otherwise made here, OUT a folder.
set -euo pipefail
[ $# = 2 ] || [ $# = 3 ] || { echo "usage: npm.sh PREFIX [BUNDLE] OUT" >&2; exit 2; }
prefix=$1 out=${*: -1}
mkdir -p "$out"
out=$(realpath -- "$out")
packaging=$(dirname "$(realpath -- "$0")")
addon=$(find "$prefix"/lib* -name inlay.node | head -n 1)
[ -n "$addon" ] || { echo "npm.sh: no inlay.node below $prefix: node_api.h was not installed (libnode-dev)" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/bundle
[ $# = 2 ] || bundle=$2
[ $# = 3 ] || "$packaging/bundle.sh" "$prefix" "$bundle"
[ -e "$bundle/lib/libinlay.so.1" ] || { echo "npm.sh: $bundle has no lib/libinlay.so.1; make it with bundle.sh" >&2; exit 1; }
case $(readelf -h "$addon" | sed -n 's/^ *Machine: *//p') in
*X86-64) cpu=x64 strip=x86_64-linux-gnu-strip ;;
AArch64) cpu=arm64 strip=aarch64-linux-gnu-strip ;;
*) cpu=$(uname -m) strip=strip ;;
esac
mkdir "$work/package"
cp "$(dirname "$addon")"/{index.js,index.d.ts,common.js,common.d.ts,text.js,package.json,README.md} "$addon" "$work/package/"
texts=$(dirname "$addon")/inlay_text.node # missing where libinlay-text is
[ ! -e "$texts" ] || cp "$texts" "$work/package/"
cp -r "$bundle/bin" "$bundle/lib" "$bundle/libexec" "$work/package/"
rm -rf "$work/package/lib/inlay/python"
cp "$packaging/../../LICENSE" "$work/package/"
# Only this tarball contains files next to the addon; they are built for one CPU architecture.
sed -i -e "s/\"README.md\"\]/\"README.md\", \"bin\", \"lib\", \"libexec\"]/" \
    -e "s|^  \"os\".*|&,\n  \"cpu\": [\"$cpu\"],\n  \"bin\": { \"inlay\": \"bin/inlay\" }|" "$work/package/package.json"
if [ "$(grep -cE "\"libexec\"|\"$cpu\"|\"bin/inlay\"" "$work/package/package.json")" != 3 ]; then
    echo "npm.sh: package.json has other lines than those that are changed here" >&2
    exit 1
fi
for addon in "$work"/package/*.node; do
    "$strip" --strip-unneeded "$addon"
    # shellcheck disable=SC2016
    patchelf --set-rpath '$ORIGIN/lib' "$addon"
done
version=$(sed -n -E 's/.*"version": "(.*)",/\1/p' "$work/package/package.json")
tar -c --sort=name --owner=0 --group=0 --numeric-owner --mtime="@${SOURCE_DATE_EPOCH:-499162500}" -C "$work" package |
    gzip -n >"$out/inlay-$version-linux-$cpu.tgz"
echo "$out/inlay-$version-linux-$cpu.tgz"

# The package in place of onnxruntime-node: JavaScript that depends on the one above.
rm -rf "$work/package"
cp -r "$packaging/../bindings/node-onnxruntime" "$work/package"
cp "$packaging/../../LICENSE" "$work/package/"
tar -c --sort=name --owner=0 --group=0 --numeric-owner --mtime="@${SOURCE_DATE_EPOCH:-499162500}" -C "$work" package |
    gzip -n >"$out/inlay-onnxruntime-node-$version.tgz"
echo "$out/inlay-onnxruntime-node-$version.tgz"
