#!/bin/bash
# Compiles a program with Debian 13's header for ONNX Runtime, runs it with Debian's library and with inlay's, and compares
# the output.
#   same.sh BUILD
# Needs root or sudo and the network (sdk/packaging/chroot.sh); Debian's packages go into a layer that is kept.
set -euo pipefail
here=$(dirname "$(realpath -- "$0")")
tree=$(dirname "$(dirname "$(dirname "$here")")")
build=$(realpath -- "$1")
[ -e "$build/lib/inlay/onnxruntime/libonnxruntime.so.1" ] || {
    echo "same.sh: no libonnxruntime.so.1 in $build" >&2
    exit 2
}
"$tree/sdk/packaging/chroot.sh" --keep onnxruntime --bind "$tree:/tree" --bind "$build:/build" trixie bash -c '
set -euo pipefail
{
    apt-get update -q
    apt-get install -q -y --no-install-recommends gcc libc6-dev libonnxruntime-dev libcyaml1 libelf1t64 libjansson4 \
        libprotobuf-c1
} >/tmp/log 2>&1 || { cat /tmp/log; exit 1; }
cd /tmp
gcc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -isystem /usr/include/onnxruntime -I/tree/sdk/include \
    -I/tree/tests/support /tree/tests/onnxruntime/same/*.c -lonnxruntime -o same
mkdir ours
ln -s /build/lib/inlay/onnxruntime/libonnxruntime.so.1 "ours/$(objdump -p same 2>/dev/null |
    sed -n "s/.*NEEDED *\(libonnxruntime.*\)/\1/p")"
./same >theirs.txt 2>theirs.err || { cat theirs.err; echo "the program fails with the library of Debian"; exit 1; }
export LD_LIBRARY_PATH=/tmp/ours:/build/lib INLAY_PROVIDERS=reference
./same >ours.txt 2>ours.err || { cat ours.err; echo "the program fails with the library of inlay"; exit 1; }
if ! diff -U 3 theirs.txt ours.txt; then
    echo "the outputs differ"
    exit 1
fi
echo "the same $(wc -l <ours.txt) lines, of $(tail -n 1 ours.txt)"
functions=$(tail -n 1 ours.txt)
[ "${functions%% *}" -ge 150 ]
'
