#!/bin/bash
# debian/ matches the tree: versions agree, each installed file belongs to one package, each line of a package's lists
# matches a file, and the symbols are those of the library.
#   debian.sh BUILD SOURCE_DIR
set -uo pipefail
build=$1 source=$2
debian=$source/sdk/packaging/debian
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong=0

complain() {
    echo "FAIL $*"
    wrong=$((wrong + 1))
}

# ---- versions
version=$(sed -n -E 's/^project\(inlay VERSION ([0-9.]+).*/\1/p' "$source/CMakeLists.txt")
for place in "$(sed -n -E '1s/^inlay \((.*)-[^-]*\).*/\1/p' "$debian/changelog") debian/changelog" \
    "$(sed -n -E 's/^version = "(.*)"/\1/p' "$source/sdk/bindings/python/pyproject.toml") pyproject.toml" \
    "$(sed -n -E 's/.*"version": "(.*)",/\1/p' "$source/sdk/bindings/node/package.json") package.json"; do
    [ "${place%% *}" = "$version" ] || complain "${place#* } has version ${place%% *}, CMakeLists.txt $version"
done

# ---- symbols
for library in libinlay libinlay-text; do
    diff <(sed -n -E 's/^ (inlay_[a-z0-9_]+)@Base .*/\1/p' "$debian/${library}1.symbols" | sort) \
        <(nm -D --defined-only "$build/lib/$library.so.1" | awk '{ print $3 }' | sort) >"$work/symbols" ||
        complain "debian/${library}1.symbols (<) and what $library.so.1 exports (>): $(grep '^[<>]' "$work/symbols" | xargs)"
done

# ---- lists of files
mkdir "$work/tree"
cp -a "$build/installed" "$work/tree/usr" # as with DESTDIR, which layouts.sh compares
cd "$work/tree" || exit 1
# Debian has libraries one folder deeper, and the probe next to them.
patterns() { # FILE: the first word of each line, with the paths of this tree
    sed -E -e 's/ .*//' -e 's|^debian/tmp/||' -e 's|^usr/lib/\*/inlay/inlay-probe|usr/libexec/inlay/inlay-probe|' \
        -e 's|^usr/lib/\*/|usr/lib/|' "$1"
}
: >"$work/claimed"
for list in "$debian"/*.install "$debian"/*.manpages "$debian/not-installed"; do
    package=$(basename "$list" | sed -E 's/\.(install|manpages)$//')
    [ "$package" = not-installed ] || grep -q "^Package: $package\$" "$debian/control" ||
        complain "$(basename "$list") belongs to no package of debian/control"
    while read -r pattern; do
        # shellcheck disable=SC2086
        found=$(find $pattern ! -type d 2>/dev/null)
        case $pattern in # not built on every system
        *man1* | *inlay-serve* | */inlay-vulkan.so | */inlay-onednn.so | */inlay-openblas.so | *inlay/node/* | *inlay/python/* | *inlay/python-onnxruntime/*) ;;
        *) [ -n "$found" ] || complain "$(basename "$list"): '$pattern' finds nothing" ;;
        esac
        [ -z "$found" ] || sed "s|^|$package |" <<<"$found" >>"$work/claimed"
    done < <(patterns "$list")
done
find . ! -type d | sed 's|^\./||' | sort >"$work/installed"
comm -23 "$work/installed" <(cut -d' ' -f2 "$work/claimed" | sort -u) >"$work/unclaimed"
[ ! -s "$work/unclaimed" ] || complain "in no package: $(tr '\n' ' ' <"$work/unclaimed")"
cut -d' ' -f2 "$work/claimed" | sort | uniq -d >"$work/twice"
[ ! -s "$work/twice" ] || complain "in two packages: $(tr '\n' ' ' <"$work/twice")"

# ---- every provider has a package, and every test of debian/tests exists and is executable
for folder in "$source"/providers/*/; do
    name=$(basename "$folder")
    if grep -q "^inlay_add_plugin($name " "$folder/CMakeLists.txt" 2>/dev/null; then
        grep -q "^Package: inlay-provider-${name//_/-}\$" "$debian/control" || complain "provider $name has no package"
    fi
done
for name in $(sed -n 's/^Tests: //p' "$debian/tests/control"); do
    [ -x "$debian/tests/$name" ] || complain "debian/tests/$name cannot be run"
    sh -n "$debian/tests/$name" || complain "debian/tests/$name is no shell script"
done
echo "$(wc -l <"$work/installed") files, $wrong wrong"
[ $wrong -eq 0 ]
