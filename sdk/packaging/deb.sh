#!/bin/bash
# Builds Debian's packages of this tree.
#   deb.sh [--suite bookworm|trixie] OUT
#
# With --suite they are built in a clean Debian of that name (chroot.sh) with only Build-Depends installed, and checked
# by lintian; otherwise they are built on this system, which must have the build dependencies. OUT gets the .deb files,
# the source package, the .changes file and, with --suite, the bill of materials and the list of licences (sbom.py).
# INLAY_JOBS is the number of parallel compilations, by default the number of CPUs; ccache caches the results.
set -euo pipefail
here=$(dirname "$(realpath -- "$0")")
tree=$(dirname "$(dirname "$here")")
jobs=${INLAY_JOBS:-$(nproc)}
suite=''
if [ "${1:-}" = --suite ]; then
    suite=${2:-}
    shift 2
fi
case $#$suite in
1 | 1bookworm | 1trixie) ;;
*)
    echo "usage: deb.sh [--suite bookworm|trixie] OUT" >&2
    exit 2
    ;;
esac
mkdir -p "$1"
out=$(realpath -- "$1")

# The upstream release is this tree without debian/, which is stored in sdk/packaging.
version=$(sed -n -E 's/^project\(inlay VERSION ([0-9.]+).*/\1/p' "$tree/CMakeLists.txt")
packaged=$(sed -n '1s/^inlay (\(.*\)-[^-]*).*/\1/p' "$here/debian/changelog")
if [ "$version" != "$packaged" ]; then
    echo "deb.sh: CMakeLists.txt says $version, debian/changelog $packaged: add an entry there" >&2
    exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source=$work/inlay-$version
mkdir "$source"
"$here/tree.sh" "$source"
tar -c --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(stat -c %Y "$here/debian/changelog")" \
    -C "$work" "inlay-$version" | xz -T1 -1 >"$work/inlay_$version.orig.tar.xz"
cp -r "$here/debian" "$source/debian"

export DEB_BUILD_OPTIONS="parallel=$jobs nocheck"
if [ -n "$suite" ]; then
    mkdir -p "${INLAY_CHROOTS:=${XDG_CACHE_HOME:-$HOME/.cache}/inlay/chroots}/ccache"
    lint=0
    "$here/chroot.sh" --keep build --bind "$work:/build" --bind "$INLAY_CHROOTS/ccache:/ccache" "$suite" sh -c "
        set -e
        apt-get update -q
        apt-get install -q -y --no-install-recommends build-essential ccache lintian
        cd /build/inlay-$version
        apt-get build-dep -q -y --no-install-recommends ./
        export CMAKE_C_COMPILER_LAUNCHER=ccache CCACHE_DIR=/ccache DEB_BUILD_OPTIONS='$DEB_BUILD_OPTIONS'
        dpkg-buildpackage -us -uc -ui
        SOURCE_DATE_EPOCH=\$(dpkg-parsechangelog -S Timestamp) python3 sdk/packaging/sbom.py .. ..
        touch ../built
        # The first upload closes no bug.
        lintian --allow-root --pedantic --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs \
            ../*.changes" || lint=$?
    # Findings of lintian make this script fail, but only after the packages were copied.
    [ -e "$work/built" ] || exit 1
    rm "$work/built"
else
    (cd "$source" && dpkg-buildpackage -us -uc -ui)
fi
rm -rf "$source"
mv "$work"/* "$out/"
ls -l "$out"
exit "${lint:-0}"
