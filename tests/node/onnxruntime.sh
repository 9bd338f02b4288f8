#!/bin/bash
# The npm package that takes the place of onnxruntime-node: from CommonJS, from ESM, and from TypeScript that tsc checks.
#   onnxruntime.sh SOURCE_DIR PACKAGES      PACKAGES: the folder for npm packages; skipped if npm cannot fetch them
set -euo pipefail
here=$(dirname "$(realpath -- "$0")")
# shellcheck source=tests/support/npm.bash
. "$here/../support/npm.bash"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fetch_packages "$2" "$here/npm.json"
# A program's folder, with the packages where npm would put them.
mkdir -p "$tmp/node_modules/@types"
cp -r "$1/sdk/bindings/node-onnxruntime" "$tmp/node_modules/onnxruntime-node"
cp -r "$1/sdk/bindings/node" "$tmp/node_modules/inlay"
for name in onnxruntime-common @types/node typescript; do
    ln -s "$(realpath "$2")/node_modules/$name" "$tmp/node_modules/$name"
done
cp "$here"/onnxruntime/* "$tmp"
cd "$tmp"
node test.cjs
node program.mjs
node node_modules/typescript/bin/tsc --strict --target es2020 --module node16 --moduleResolution node16 \
    --preserveSymlinks --skipLibCheck program.ts
node program.js
