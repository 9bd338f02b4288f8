#!/bin/bash
# Makes the files of a release of this tree, which must be committed.
#   release.sh [--source] [--twice] [--suite bookworm|trixie] [--key KEY] OUT
#
# OUT gets the source tarball; unless --source is given, it is built from that tarball, and OUT also gets the wheels, the
# npm packages, a bill of materials for each (CycloneDX), and with --suite the Debian packages (deb.sh). SHA256SUMS lists
# all. --key signs the tarball and the sums with that key of gpg; KEY "" is gpg's default key. Without --key the files are
# a trial, for which the project's addresses may still be placeholders. --twice makes everything again in another folder
# and fails if a file has other bytes, except Debian's .buildinfo and .changes. All times are that of the commit.
# INLAY_RELEASE_TREE is the folder in which the tarball is built, by default a temporary one.
set -euo pipefail
here=$(dirname "$(realpath -- "$0")")
tree=$(dirname "$(dirname "$here")")
fail() { echo "release.sh: $*" >&2; exit 1; }
usage() { echo "usage: release.sh [--source] [--twice] [--suite bookworm|trixie] [--key KEY] OUT" >&2; exit 2; }
source_only=0 twice=0 suite='' sign=0 key='' out=''
while [ $# -gt 0 ]; do
    case $1 in
    --source) source_only=1 ;;
    --twice) twice=1 ;;
    --suite) suite=${2:?} && shift ;;
    --key) sign=1 key=${2?} && shift ;;
    -*) usage ;;
    *) [ -z "$out" ] || usage; out=$1 ;;
    esac
    shift
done
[ -n "$out" ] || usage
git_of() { git -c safe.directory="$tree" -C "$tree" "$@"; }

# One version, in every file that states it.
version=$(sed -n -E 's/^project\(inlay VERSION ([0-9.]+).*/\1/p' "$tree/CMakeLists.txt")
states() { # FILE EXPRESSION
    local found
    found=$(sed -n -E "s/$2/\1/p" "$tree/$1" | head -n 1)
    [ "$found" = "$version" ] || fail "$1 states version '$found', but CMakeLists.txt $version"
}
states sdk/packaging/debian/changelog '^inlay \((.*)-[^-]*\).*'
states sdk/bindings/python/pyproject.toml '^version = "(.*)"$'
for name in node node-onnxruntime web web-onnxruntime; do states "sdk/bindings/$name/package.json" '^ *"version": "(.*)",$'; done
[ -z "$(git_of status --porcelain)" ] || fail "commit the changes first: git status lists them"
"$here/changes.py" --check --tree "$tree"
placeholders=$({ git_of grep -l 'inlay[.]example' || true; } | wc -l)
[ $sign -eq 0 ] || [ "$placeholders" -eq 0 ] ||
    fail "$placeholders files have a placeholder for the project's address; put it in as sdk/packaging/README.md says"
SOURCE_DATE_EPOCH=$(git_of log -1 --format=%ct)
export SOURCE_DATE_EPOCH

commit=$(git_of rev-parse HEAD) # the tree may change during a build

pack() { # FOLDER: writes FOLDER/inlay-VERSION.tar.xz
    git_of -c tar.umask=022 archive --format=tar --prefix="inlay-$version/" "$commit" | xz -T1 >"$1/inlay-$version.tar.xz"
}
make_all() { # FOLDER
    local work built
    pack "$1"
    [ $source_only -eq 0 ] || return 0
    work=$(mktemp -d)
    built=${INLAY_RELEASE_TREE:-$work/tree}
    mkdir -p "$built"
    tar -x -C "$built" --strip-components=1 -f "$1/inlay-$version.tar.xz"
    # Wheels and npm packages are for older systems, too (README.md). A build id covers the paths for running in the build
    # folder, so these must not depend on where that is.
    (cd "$built" && cmake --preset release -B build/release -DINLAY_PACKED_RELOCATIONS=OFF \
        -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON \
        -DCMAKE_INSTALL_PREFIX=/usr ${INLAY_RELEASE_FLAGS:-} >"$work/log" && cmake --build build/release >"$work/log" &&
        cmake --install build/release --prefix "$work/prefix" >"$work/log") || { tail -n 20 "$work/log"; return 1; }
    "$built/sdk/packaging/bundle.sh" "$work/prefix" "$work/bundle"
    "$built/sdk/packaging/wheel.py" --bundle "$work/bundle" "$1"
    "$built/sdk/packaging/wheel.py" --onnxruntime "$1"
    "$built/sdk/packaging/npm.sh" "$work/prefix" "$work/bundle" "$1"
    for file in "$1"/inlay-*.whl "$1"/inlay-*-linux-*.tgz; do
        "$built/sdk/packaging/sbom.py" --bundle "$work/bundle" "$file" "$1"
    done
    [ -z "$suite" ] || "$built/sdk/packaging/deb.sh" --suite "$suite" "$1/$suite"
    rm -rf "$work" "${INLAY_RELEASE_TREE:-$work}"
}

mkdir -p "$out"
out=$(realpath -- "$out")
[ -z "$(ls -A "$out")" ] || fail "$out is not empty"
make_all "$out"
(cd "$out" && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)
if [ $twice -eq 1 ]; then
    again=$(mktemp -d)
    trap 'rm -rf "$again"' EXIT
    make_all "$again"
    # dpkg writes the time and the system of a build into .buildinfo, whose checksum is in .changes.
    grep -vE '\.(buildinfo|changes)$' "$out/SHA256SUMS" >"$again/compared"
    (cd "$again" && sha256sum --quiet -c compared) || fail "a second build has other bytes (above)"
    echo "made twice with the same bytes: $(wc -l <"$again/compared") files"
fi
if [ $sign -eq 1 ]; then
    for file in "$out/inlay-$version.tar.xz" "$out/SHA256SUMS"; do
        gpg --batch --yes ${key:+--local-user "$key"} --armor --detach-sign "$file"
    done
fi
cat "$out/SHA256SUMS"
if [ $sign -eq 1 ]; then
    echo "next: git tag -s v$version -m 'inlay $version' && git push origin v$version"
else
    echo "a trial: nothing is signed; a release needs --key, and the project's address in $placeholders files"
fi
