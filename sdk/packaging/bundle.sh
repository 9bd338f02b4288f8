#!/bin/bash
# Copies the run-time files of an installation and the shared libraries that they link to, so that the copy runs on
# systems that have only a C library. The wheel and the npm package contain this copy: the library, its plugins, the
# probe and the command `inlay`, without the server and without what `inlay bundle` links.
#   bundle.sh PREFIX OUT
# PREFIX is an installation by `cmake --install BUILD --prefix PREFIX`. Libraries that providers open by name when they
# start (libdnnl, libopenblas, libvulkan) are not copied: if one is missing, its provider reports it. libpcre2-8, which
# operators of several plugins open, is copied. An installation for another architecture needs Debian's cross compiler for
# it, and the libraries of that architecture. Needs patchelf (sh tests/install.sh packages).
set -euo pipefail
[ $# = 2 ] || { echo "usage: bundle.sh PREFIX OUT" >&2; exit 2; }
command -v patchelf >/dev/null || { echo "bundle.sh: patchelf is missing; run: sh tests/install.sh packages" >&2; exit 1; }
prefix=$1 out=$2
library=$(find "$prefix"/lib* -maxdepth 2 -name libinlay.so.1 2>/dev/null | head -n 1 || :) # lib or lib/MACHINE
[ -n "$library" ] || { echo "bundle.sh: no libinlay.so.1 in $prefix/lib; run cmake --install" >&2; exit 1; }
case $(readelf -h "$library" | sed -n 's/^ *Machine: *//p') in
*X86-64) machine=x86_64 ;;
AArch64) machine=aarch64 ;;
*) machine=$(uname -m) ;;
esac
tools=
[ "$machine" = "$(uname -m)" ] || tools=$machine-linux-gnu-
cc=${tools:+${tools}g}cc strip=${tools}strip
command -v "$cc" >/dev/null || { echo "bundle.sh: $cc is not installed, which files for $machine need" >&2; exit 1; }
mkdir -p "$out/bin" "$out/lib/inlay/plugins" "$out/libexec/inlay"
cp -L "$library" "$out/lib/libinlay.so.1"
cp -L "$(dirname "$library")"/inlay/plugins/*.so "$out/lib/inlay/plugins/"
texts=$(dirname "$library")/libinlay-text.so.1 # missing without libunistring
if [ -e "$texts" ]; then
    cp -L "$texts" "$out/lib/libinlay-text.so.1"
    "$strip" --strip-unneeded "$out/lib/libinlay-text.so.1"
fi
# For programs of ONNX Runtime: Python's wheel inlay-onnxruntime finds it here.
onnxruntime=$(dirname "$library")/inlay/onnxruntime/libonnxruntime.so.1
if [ -e "$onnxruntime" ]; then
    mkdir -p "$out/lib/inlay/onnxruntime"
    cp -L "$onnxruntime" "$out/lib/inlay/onnxruntime/"
    "$strip" --strip-unneeded "$out/lib/inlay/onnxruntime/libonnxruntime.so.1"
fi
# Python's wheel inlay finds its extension module here.
extension=$(dirname "$library")/inlay/python/_native.abi3.so
if [ -e "$extension" ]; then
    mkdir -p "$out/lib/inlay/python"
    cp "$extension" "$out/lib/inlay/python/"
    "$strip" --strip-unneeded "$out/lib/inlay/python/_native.abi3.so"
fi
cp "$prefix/bin/inlay" "$out/bin/inlay"
cp "$(find "$prefix"/lib* -name inlay-probe -type f | head -n 1)" "$out/libexec/inlay/inlay-probe"
programs=("$out/bin/inlay" "$out/libexec/inlay/inlay-probe")
"$strip" --strip-unneeded "$out/lib/libinlay.so.1" "$out/lib/inlay/plugins"/*.so "${programs[@]}"

# Copies the libraries that the files need, and those that these need, except the C library, which must be that of the
# machine. The compiler knows where they are, also those of another architecture.
copy_needed() { # FILE...
    local name path
    readelf -d "$@" | sed -n -E 's/.*\(NEEDED\).*\[(.*)\]/\1/p' | sort -u | while read -r name; do
        case $name in
        libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.* | ld-linux*) continue ;;
        esac
        [ ! -e "$out/lib/$name" ] || continue
        path=$($cc -print-file-name="$name")
        [ -e "$path" ] || { echo "bundle.sh: the library $name for $machine is not installed" >&2; return 1; }
        cp -L "$path" "$out/lib/"
        chmod u+w "$out/lib/$name"
        copy_needed "$out/lib/$name"
    done
}
copy_needed "$out"/lib/libinlay*.so.1 "$out/lib/inlay/plugins"/*.so "${programs[@]}"
pcre=$($cc -print-file-name=libpcre2-8.so.0)
[ ! -e "$pcre" ] || cp -L "$pcre" "$out/lib/"
for file in "$out"/lib/*.so.*; do
    # shellcheck disable=SC2016
    patchelf --set-rpath '$ORIGIN' "$file"
done
for file in "$out"/lib/inlay/plugins/*.so "$out"/lib/inlay/onnxruntime/*.so.1 "$out"/lib/inlay/python/*.so; do
    [ -e "$file" ] || continue
    # shellcheck disable=SC2016
    patchelf --set-rpath '$ORIGIN/../..' "$file"
done
# shellcheck disable=SC2016
patchelf --set-rpath '$ORIGIN/../lib' "$out/bin/inlay"
# shellcheck disable=SC2016
patchelf --set-rpath '$ORIGIN/../../lib' "$out/libexec/inlay/inlay-probe"

# For systems with an older glibc than this one: see older_libc.py. A file that was changed needs the functions that came
# later, and libpthread and libdl, whose functions are in libc.so.6 now.
packaging=$(dirname "$(realpath "$0")")
$cc -std=gnu11 -O2 -fPIC -shared -s -Wl,-soname,libinlay-libc.so.1 -Wl,--no-as-needed -o "$out/lib/libinlay-libc.so.1" \
    "$packaging/older_libc.c" -l:libpthread.so.0 -l:libdl.so.2
find "$out" -type f -exec "$packaging/older_libc.py" "$out/lib/libinlay-libc.so.1" {} + |
    while read -r file; do
        [ "${file##*/}" = libinlay-libc.so.1 ] || patchelf --add-needed libinlay-libc.so.1 "$file"
    done
