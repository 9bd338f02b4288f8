#!/bin/bash
# Installs the npm packages in clean Debian systems with npm, offline, runs a model by both, and removes them.
#   tests/npm_install.sh TARBALLS SUITE...
# TARBALLS is a folder with the output of npm.sh and with onnxruntime-common (`npm pack onnxruntime-common@1.30.0`);
# SUITE is bookworm or trixie, or one of them with the architecture of the tarball, as in bookworm:arm64. Needs root or
# sudo and the network for Debian's packages (sdk/packaging/chroot.sh). Each system prints a line 'ok SUITE: ...' or
# 'FAIL SUITE'.
set -euo pipefail
tree=$(dirname "$(dirname "$(realpath -- "$0")")")

inside() { # SUITE
    local suite=$1
    exec 3>&1 >/tmp/log 2>&1
    trap 'tail -n 20 /tmp/log >&3; echo "FAIL $suite" >&3' ERR
    apt-get update -q
    apt-get install -q -y --no-install-recommends nodejs npm
    mkdir /root/work
    # shellcheck disable=SC1091
    AUTOPKGTEST_TMP=/root/work . /tree/sdk/packaging/debian/tests/model
    npm init -y
    npm install --offline --no-audit --no-fund /tarballs/*.tgz
    npm ls # fails if a dependency is missing or another version
    cat >run.js <<'END'
const assert = require('assert');
const x = Float32Array.from([1, -2, -40]);

async function main() {
  for (const name of ['inlay', 'inlay-onnxruntime-node']) {
    const { InferenceSession, Tensor } = require(name);
    const session = await InferenceSession.create('model.onnx');
    const { y } = await session.run({ x: new Tensor('float32', x, [3]) });
    assert.deepStrictEqual(Array.from(y.data), [11, 18, 0], name);
  }
}
main().catch((error) => { console.error(error); process.exit(1); });
END
    node run.js
    npx inlay run model.onnx --input x=1,-2,-40 | grep -q '= 11 18 0'
    npm uninstall --no-audit --no-fund inlay inlay-onnxruntime-node onnxruntime-common
    [ -z "$(ls node_modules)" ]
    echo "ok $suite: glibc $(getconf GNU_LIBC_VERSION | cut -d' ' -f2), node $(node --version), npm $(npm --version)" >&3
}

if [ "${1:-}" = --inside ]; then
    inside "$2"
    exit
fi
if [ $# -lt 2 ] || [ ! -d "$1" ]; then
    echo "usage: npm_install.sh TARBALLS SUITE..." >&2
    exit 2
fi
tarballs=$(realpath -- "$1")
failed=0
for suite in "${@:2}"; do
    "$tree/sdk/packaging/chroot.sh" --bind "$tarballs:/tarballs" --bind "$tree:/tree" "$suite" \
        bash /tree/tests/npm_install.sh --inside "$suite" || failed=1
done
exit $failed
