#!/bin/bash
# Builds the documentation as static pages: those in pages/, the READMEs for users, and a reference generated from the
# headers, the bindings, the tables of options, and the program's help texts.
#   build.sh INLAY OUT [OUTPUTS]
# INLAY is the executable; index.html and the other pages go to OUT. OUTPUTS is the folder with what the commands of the
# pages printed and wrote (tests/package/readme.sh --record); with it, Chromium takes the pictures of the reports, if it
# is installed. Needs two packages of Python (Debian: python3-markdown-it, python3-pygments). A broken link is an error.
set -euo pipefail
[ $# = 2 ] || [ $# = 3 ] || { echo "usage: build.sh INLAY OUT [OUTPUTS]" >&2; exit 2; }
here=$(dirname "$(realpath -- "$0")")
/usr/bin/python3 -c 'import markdown_it, pygments' 2>/dev/null || {
    echo "build.sh: packages are missing (Debian: python3-markdown-it python3-pygments)" >&2
    exit 1
}
inlay=$(realpath -- "$1")
mkdir -p "$2"
out=$(realpath -- "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here"/pages/*.md "$work/"
/usr/bin/python3 -B "$here/generate.py" "$inlay" "$work"
/usr/bin/python3 -B "$here/render.py" "$work" "$out" ${3:+"$(realpath -- "$3")"}
if [ $# = 3 ] && [ -z "${INLAY_DOCS_PICTURES:-}" ] && command -v chromium >/dev/null; then
    /usr/bin/python3 -B "$here/pictures.py" "$out"
fi
echo "$out/index.html: $(find "$out" -maxdepth 1 -name '*.html' | wc -l) pages"
