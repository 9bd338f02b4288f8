#!/bin/bash
# The npm package inlay-web: built, packed, installed as npm would, and tested in Node; its types.
#   web.sh SOURCE_DIR BUILD_DIR INLAY MAKE_MODELS DATA     exit code 77: a program or source package is missing
set -euo pipefail
source=$1 build=$2 inlay=$3 make_models=$4 data=$5
here=$(dirname "$(realpath -- "$0")")
bash "$source/host/web/build.sh" "$build" >"$build/web.log" 2>&1 || {
    code=$?
    tail -n 20 "$build/web.log"
    [ $code -ne 3 ] || exit 77
    exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bash "$source/sdk/packaging/web.sh" "$build" "$work" >"$work/name"
package=$work/node_modules/inlay-web
mkdir -p "$package" "$work/models"
tar -xzf "$(head -n 1 "$work/name")" --strip-components=1 -C "$package"
# package.json lists exactly the files of the tarball, and the modules are not larger than expected. The one with relaxed
# SIMD needs a newer compiler than the other.
relaxed=$package/inlay-relaxed.wasm
has_relaxed=true
[ -e "$relaxed" ] || has_relaxed=false
node -e 'process.stdout.write([...require(process.argv[1]).files, "LICENSE", "package.json"].sort().join("\n") + "\n")' \
    "$package/package.json" | grep -vxF "$($has_relaxed || basename "$relaxed")" | diff - <(ls "$package" | LC_ALL=C sort)
for module in "$package"/*.wasm; do
    bytes=$(stat -c %s "$module")
    [ "$bytes" -lt 5050000 ] || { echo "$(basename "$module") has $bytes bytes; README.md says at most 5.05 MB" && exit 1; }
done

"$make_models" "$work/models" >/dev/null
"$inlay" optimize "$work/models/mlp.onnx" -o "$work/models/apart.onnx" --level 0 --external apart.data --quiet --no-config
cp -r "$package" "$work/plain"
rm -f "$work/plain/inlay-relaxed.wasm" # the other module is then used
node --expose-gc "$here/test_web.mjs" "$work/plain" "$data" "$work/models" || exit 1
if $has_relaxed; then
    option=--experimental-wasm-relaxed-simd # of Node 18 and 20; newer versions know it without
    node $option -e 0 2>/dev/null || option=--expose-gc
    node --expose-gc $option "$here/test_web.mjs" "$package" "$data" "$work/models" || exit 1
fi

# Imports by name, and types.
cat >"$work/use.mts" <<'TS'
import { InferenceSession, InlaySession, Tensor, type Results } from 'inlay-web'
const session: InferenceSession = await InlaySession.create(process.argv[2]!, { inlay: { precision: 'strict' } })
const results: Results = await session.run({ x: new Tensor('float32', new Float32Array(64), [1, 64]) })
if (results['y']!.dims.join() !== '1,10') throw new Error('wrong shape')
session.dispose()
// @ts-expect-error a number is no model
export const wrong = () => InferenceSession.create(7)
TS
tsc=$build/npm_node/node_modules/typescript/bin/tsc # of the test node_onnxruntime
if [ -e "$tsc" ]; then
    mkdir -p "$work/node_modules/@types"
    ln -s "$build/npm_node/node_modules/@types/node" "$work/node_modules/@types/node"
    (cd "$work" && node "$tsc" --strict --target es2022 --module nodenext --skipLibCheck --preserveSymlinks use.mts && node use.mjs models/mlp.onnx)
fi
