#!/bin/bash
# Builds the documentation as static pages: those in pages/, the READMEs for users, and a reference generated from the
# headers, the tables of options, and the program's help texts.
#   build.sh INLAY OUT
# INLAY is the executable; index.html and the other pages go to OUT. Needs Sphinx and its parser for Markdown (Debian:
# python3-sphinx, python3-myst-parser). A broken link or reference is an error.
set -euo pipefail
[ $# = 2 ] || { echo "usage: build.sh INLAY OUT" >&2; exit 2; }
here=$(dirname "$(realpath -- "$0")")
/usr/bin/python3 -c 'import sphinx, myst_parser' 2>/dev/null || {
    echo "build.sh: Sphinx is not installed (Debian: python3-sphinx python3-myst-parser)" >&2
    exit 1
}
inlay=$(realpath -- "$1")
mkdir -p "$2"
out=$(realpath -- "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$here/pages/." "$here/conf.py" "$work/"
/usr/bin/python3 -B "$here/generate.py" "$inlay" "$work"
INLAY_DOCS_VERSION=$("$inlay" --version | cut -d' ' -f2) \
    /usr/bin/python3 -B -m sphinx -q -W --keep-going -b html "$work" "$out"
rm -rf "$out/.doctrees" "$out/.buildinfo"
echo "$out/index.html: $(find "$out" -name '*.html' | wc -l) pages"
