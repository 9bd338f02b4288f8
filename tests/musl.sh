#!/bin/bash
# Builds inlay for musl with Debian's musl-gcc in build/musl, the reduced build that host/platform describes, and runs
# ONNX's cases on the given providers in a root folder that has musl and these files alone.
#   tests/musl.sh [--build] [PROVIDER...]
# --build: builds only. PROVIDER: reference, cpu (default: both). Installs missing packages (group musl of
# packages.txt), which needs root or sudo and the network. Exit code 3: one is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
build_only=
if [ "${1:-}" = --build ]; then
    build_only=yes
    shift
fi
[ $# -gt 0 ] || set -- reference cpu
build=$PWD/build/musl
data=/usr/share/libonnx-testdata/data
sh tests/install.sh musl
libc=/lib/ld-musl-x86_64.so.1
for needed in "$(command -v musl-gcc || echo musl-tools)" "$(command -v protoc-c || echo protobuf-c-compiler)" \
    $data $libc; do
    [ -e "$needed" ] || { echo "musl.sh: $needed is missing" >&2; exit 3; }
done

sh host/platform/sources.sh "$build/sources" protobuf-c jansson zlib
launcher=()
if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
fi
cmake --preset release -B "$build" --toolchain "$PWD/host/platform/musl/musl.cmake" -DINLAY_SOURCES="$build/sources" \
    "${launcher[@]}" >/dev/null
cmake --build "$build" -j "$(nproc)" --target inlay_cli inlay "$@"
[ -z "$build_only" ] || exit 0

# A user without privileges may change the root in a user namespace; the kernel refuses such a namespace in a chroot.
as_user=
[ "$(id -u)" = 0 ] || as_user=--map-root-user
for provider in "$@"; do
    # A root with the provider and reference only, so that nothing else runs what the provider declines.
    room=$build/root-$provider
    rm -rf "$room"
    mkdir -p "$room/bin" "$room/lib/inlay/plugins" "$room/proc" "$room$data"
    cp -L $libc "$room/lib/"
    cp "$build/bin/inlay" "$room/bin/"
    for plugin in reference "$provider"; do
        cp "$build/lib/inlay/plugins/inlay-$plugin.so" "$room/lib/inlay/plugins/"
    done
    cp -r $data/{node,simple,pytorch-converted,pytorch-operator} "$room$data/"
    # In namespaces of its own. Plug-ins are checked in /proc.
    printf '#!/bin/sh\nexec unshare %s --pid --fork --mount-proc --root="%s" /bin/inlay "$@"\n' "$as_user" "$room" \
        >"$build/inlay"
    chmod +x "$build/inlay"
    list=$provider,reference
    [ "$provider" != reference ] || list=reference
    echo "providers $list with musl:"
    bash tests/conformance/run.sh "$build/inlay" $data --policy priority --providers "$list"
done
