#!/bin/bash
# libinlay_ep.so in ONNX Runtime's own library, which npm's onnxruntime-node contains.
#   stock.sh PROGRAM PACKAGES [ARGUMENT...]     PACKAGES: the folder for npm packages; skipped if npm cannot fetch them
# ORT_LIBRARY=/path/libonnxruntime.so.1 names another library.
set -euo pipefail
here=$(dirname "$(realpath -- "$0")")
# shellcheck source=tests/support/npm.bash
. "$here/../support/npm.bash"
if [ -z "${ORT_LIBRARY:-}" ]; then
    case $(uname -m) in
    x86_64) machine=x64 ;;
    aarch64) machine=arm64 ;;
    *) skip "onnxruntime-node has no library for $(uname -m)" ;;
    esac
    fetch_packages "$2" "$here/npm.json"
    ORT_LIBRARY=$(realpath "$2")/node_modules/onnxruntime-node/bin/napi-v6/linux/$machine/libonnxruntime.so.1
    [ -e "$ORT_LIBRARY" ] || skip "onnxruntime-node has no library for $machine"
fi
export ORT_LIBRARY
"$1" "${@:3}"
