#!/bin/bash
# Builds inlay for Windows with Debian's mingw-w64 in build/windows, and runs ONNX's cases and a C program that uses
# inlay.dll under wine on the given providers. Exit code 0: all cases that pass on Linux pass, and the program runs.
#   tests/windows.sh [--build] [PROVIDER...]
# --build: builds only. PROVIDER: reference (the default), cpu. Installs missing packages (group windows of
# packages.txt), which needs root or sudo and the network. Exit code 3: one is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
build_only=
if [ "${1:-}" = --build ]; then
    build_only=yes
    shift
fi
[ $# -gt 0 ] || set -- reference
build=$PWD/build/windows
data=/usr/share/libonnx-testdata/data
sh tests/install.sh windows
wine=$(command -v wine64 || command -v wine || echo /usr/lib/wine/wine64)
for needed in "$(command -v x86_64-w64-mingw32-gcc-posix || echo gcc-mingw-w64-x86-64-posix)" \
    "$(command -v protoc-c || echo protobuf-c-compiler)" "$wine" $data /usr/x86_64-w64-mingw32/lib/libz.a; do
    [ -e "$needed" ] || { echo "windows.sh: $needed is missing" >&2; exit 3; }
done

sh host/platform/sources.sh "$build/sources"
cmake --preset windows -DINLAY_SOURCES="$build/sources" >/dev/null
cmake --build "$build" --target inlay_cli inlay "$@"
[ -z "$build_only" ] || exit 0

export WINEPREFIX=$build/wine WINEDEBUG=-all
for provider in "$@"; do
    # A copy with the provider and reference only, so that nothing else runs what the provider declines.
    room=$build/run-$provider
    rm -rf "$room"
    mkdir -p "$room/bin" "$room/lib/inlay/plugins"
    cp "$build/bin/inlay.exe" "$build/bin/inlay.dll" "$room/bin/"
    for plugin in reference "$provider"; do
        cp "$build/lib/inlay/plugins/inlay-$plugin.dll" "$room/lib/inlay/plugins/"
    done
    printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$wine" "$room/bin/inlay.exe" >"$room/inlay"
    chmod +x "$room/inlay"
    list=$provider,reference
    [ "$provider" != reference ] || list=reference
    echo "providers $list under wine:"
    bash tests/conformance/run.sh "$room/inlay" $data --policy priority --providers "$list"
    x86_64-w64-mingw32-gcc-posix -O2 -Isdk/include -o "$room/bin/run_model.exe" samples/run_model/run_model.c \
        "$build/lib/libinlay.dll.a"
    "$wine" "$room/bin/run_model.exe" $data/node/test_matmul_2d/model.onnx
done
