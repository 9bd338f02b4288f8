#!/bin/bash
# Compares inlay's Vulkan provider with ONNX Runtime's WebGPU provider (npm package onnxruntime-node), both on Mesa's
# CPU driver (lavapipe), model by model, interleaved. WebGPU needs a newer driver than that of Debian 12, so
# everything runs in a Debian sid that sdk/packaging/chroot.sh creates and keeps (about 800 MB).
#   webgpu.sh BUILD NPM MODEL.onnx[,NAME=N]...     NPM: where `npm install onnxruntime-node` was run
# ROUNDS=N: rounds of two seconds for each (3). A ratio above 1: inlay is faster.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '5,6s/^# *//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "$1")
npm=$(realpath "$2")
shift 2
[ -d "$npm/node_modules/onnxruntime-node" ] || { echo "webgpu.sh: no onnxruntime-node in $npm" >&2; exit 2; }
binds=(--bind "$build:/bench/build" --bind "$npm:/bench/npm" --bind "$here:/bench/here")
models=()
for given in "$@"; do
    model=$(realpath "${given%%,*}")
    binds+=(--bind "$(dirname "$model"):/bench/models/$(basename "$(dirname "$model")")")
    dims=${given#"${given%%,*}"}
    models+=("/bench/models/$(basename "$(dirname "$model")")/$(basename "$model")$dims")
done
# A mirror may be outdated: ignore the expiry of its release file.
# shellcheck disable=SC2016
exec "$here/../../sdk/packaging/chroot.sh" --keep webgpu "${binds[@]}" sid bash -euc '
if ! command -v node >/dev/null || [ ! -e /usr/share/vulkan/icd.d/lvp_icd.json ]; then
    apt-get -o Acquire::Check-Valid-Until=false update -qq
    apt-get install -y -qq --no-install-recommends mesa-vulkan-drivers libvulkan1 nodejs libgomp1 >/dev/null
fi
apt-get install -y -qq --no-install-recommends libelf1t64 libprotobuf-c1 libcyaml1 libyaml-0-2 libjansson4 zlib1g >/dev/null
export NODE_PATH=/bench/npm/node_modules VK_DRIVER_FILES=/usr/share/vulkan/icd.d/lvp_icd.json
rounds=$1 && shift
exec node /bench/here/webgpu.js /bench/build/bin/inlay "$(mktemp -d)" "$rounds" "$@"
' bash "${ROUNDS:-3}" "${models[@]}"
