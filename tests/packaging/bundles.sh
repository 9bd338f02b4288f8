#!/bin/bash
# The wheels and the npm tarball: their contents, and that they run without an installed inlay.
#   bundles.sh BUILD SOURCE_DIR
set -uo pipefail
build=$1 source=$2
make=$source/sdk/packaging
command -v patchelf >/dev/null || { echo "patchelf is not installed"; exit 77; }
work=$(realpath "$(mktemp -d)")
trap 'rm -rf "$work"' EXIT
unset INLAY_LIBRARY INLAY_NODE_ADDON PYTHONPATH
export PYTHONDONTWRITEBYTECODE=1 SOURCE_DATE_EPOCH=1700000000

die() {
    echo "bundles.sh: $*"
    [ ! -s "$work/log" ] || tail -n 20 "$work/log"
    exit 1
}
prefix=$build/installed
"$make/bundle.sh" "$prefix" "$work/bundle" >"$work/log" 2>&1 || die "bundle.sh failed"
ldd "$work/bundle/lib/libinlay.so.1" "$work/bundle/bin/inlay" "$work/bundle/libexec/inlay/inlay-probe" >"$work/log"
outside=$(awk '$2 == "=>" { print $3 }' "$work/log" | grep -vE "^$work/|/(libc|libm|libdl|libpthread|librt)\.so")
[ -z "$outside" ] || die "the bundle uses $outside"
find "$work/bundle" -type f -exec readelf -V {} + >"$work/log"
newest=$(grep -oE 'GLIBC_[0-9.]+' "$work/log" | sort -uV | tail -n 1)
[ "$(printf '%s\n' "$newest" GLIBC_2.28 | sort -V | tail -n 1)" = GLIBC_2.28 ] || die "the bundle needs $newest"

# ---- wheels
"$make/wheel.py" "$work/wheels" >"$work/log" 2>&1 || die "wheel.py failed"
"$make/wheel.py" --bundle "$work/bundle" "$work/wheels" >"$work/log" 2>&1 || die "wheel.py --bundle failed"
"$make/wheel.py" --prefix "$prefix" "$work/again" >"$work/log" 2>&1 || die "wheel.py --prefix failed"
wheel=$(echo "$work"/wheels/inlay-*-manylinux_*.whl)
cmp "$wheel" "$work/again/$(basename "$wheel")" || die "the same installation gives a different wheel"
! "$make/wheel.py" --bundle "$work/wheels" "$work/again" >"$work/log" 2>&1 || die "a folder without the library was accepted"
grep -q 'bundle.sh' "$work/log" || die "the error names no fix"
! "$make/wheel.py" --prefix "$work/wheels" "$work/again" >"$work/log" 2>&1 || die "a folder without an installation was accepted"
grep -q 'cmake --install' "$work/log" || die "the error names no fix"
python3 - "$work/wheels" "$([ -e "$build/lib/inlay/python/_native.abi3.so" ] && echo yes)" <<'END' || die "a wheel does not match its RECORD"
import base64, csv, hashlib, io, pathlib, sys, zipfile
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.whl")):
    archive = zipfile.ZipFile(path)
    record = next(name for name in archive.namelist() if name.endswith("/RECORD"))
    rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(archive.read(record).decode()))}
    assert set(rows) == set(archive.namelist()), path
    for name, (digest, size) in rows.items():
        if name != record:
            data = archive.read(name)
            found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert digest == "sha256=" + found and int(size) == len(data), name
    tag = path.stem.split("-", 2)[2]
    assert f"Tag: {tag}\n" in archive.read(record.replace("RECORD", "WHEEL")).decode(), tag
    assert "inlay/session.py" in rows and "inlay/py.typed" in rows
    bundled = tag != "py3-none-any"
    stem = "-".join(path.stem.split("-", 2)[:2])
    for name in "inlay/lib/libinlay.so.1", "inlay/bin/inlay", stem + ".data/scripts/inlay":
        assert (name in rows) == bundled, (path, name)
    extension = "inlay/lib/inlay/python/_native.abi3.so" in rows
    assert extension == (bundled and sys.argv[2] == "yes"), path
END
# The bill of materials names a package of the wheel's architecture for each library that is not inlay's.
"$make/sbom.py" --bundle "$work/bundle" "$wheel" "$work" >"$work/log" 2>&1 || die "sbom.py failed"
python3 - "$work/bundle/lib" "$work/$(basename "$wheel").cdx.json" <<'END' || die "the bill of materials is wrong"
import json, pathlib, subprocess, sys
libraries = {file.name for file in pathlib.Path(sys.argv[1]).glob("*.so.*") if not file.name.startswith("libinlay")}
native = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True).stdout.strip()
for component in json.load(open(sys.argv[2]))["components"]:
    assert component["purl"].endswith("?arch=" + native), component["purl"]
    name = component["name"] + ":" + native
    files = subprocess.run(["dpkg-query", "-L", name], capture_output=True, text=True).stdout.split()
    here = libraries & {pathlib.Path(file).name for file in files}
    assert here, f"{name} has no library of the wheel"
    libraries -= here
assert not libraries, f"no package: {libraries}"
END
export AUTOPKGTEST_TMP=$work
HOME_BEFORE=${HOME:-$work}
# shellcheck disable=SC1091
. "$source/sdk/packaging/debian/tests/model"
export HOME=$HOME_BEFORE
# The command, as pip installs it, in an environment with no other file of inlay: numpy, which it does not use, is left
# out.
if /usr/bin/python3 -c 'import ensurepip' 2>/dev/null; then
    /usr/bin/python3 -m venv venv >"$work/log" 2>&1 || die "venv failed"
    venv/bin/pip install --no-index --no-deps --disable-pip-version-check "$wheel" >"$work/log" 2>&1 || die "pip failed"
    installed=$(dirname "$(realpath venv/lib/python3*/site-packages/inlay/__init__.py)")
    [ "$(venv/bin/inlay --version)" = "$("$build/bin/inlay" --version)" ] || die "the wheel's command has another version"
    venv/bin/inlay run model.onnx --input x=1,-2,-40 >"$work/log" 2>&1 || die "the wheel's command runs no model"
    grep -q '= 11 18 0' "$work/log" || die "the wheel's command has another result"
    venv/bin/inlay providers >"$work/log" 2>&1 || die "the wheel's command lists no providers"
    [ "$(grep -c "^$installed/" "$work/log")" = "$(ls "$installed/lib/inlay/plugins" | wc -l)" ] ||
        die "the wheel's command uses other plugins than those of the wheel"
    venv/bin/inlay run missing.onnx >"$work/log" 2>&1
    [ $? = "$("$build/bin/inlay" run missing.onnx >/dev/null 2>&1; echo $?)" ] || die "the exit code is lost"
    # A vendor's wheel as shipping.md describes it: its provider is found without a setting, until it is uninstalled.
    /usr/bin/python3 - "$build/tests/support/counting/counting.so" <<'END' || die "the vendor's wheel cannot be made"
import sys, zipfile
info = "acme_inlay-1.1.0.dist-info/"
files = {"inlay/lib/inlay/plugins/acme.so": open(sys.argv[1], "rb").read(),
         info + "METADATA": "Metadata-Version: 2.1\nName: acme-inlay\nVersion: 1.1.0\n",
         info + "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
files[info + "RECORD"] = "".join(name + ",,\n" for name in [*files, info + "RECORD"])
with zipfile.ZipFile("acme_inlay-1.1.0-py3-none-any.whl", "w") as wheel:
    for name, data in files.items():
        wheel.writestr(name, data)
END
    venv/bin/pip install --no-index --no-deps --disable-pip-version-check acme_inlay-*.whl >"$work/log" 2>&1 ||
        die "pip refuses the vendor's wheel"
    venv/bin/inlay providers >"$work/log" 2>&1
    grep -q "^$installed/lib/inlay/plugins/acme.so: counting " "$work/log" || die "the vendor's provider is not found"
    venv/bin/pip uninstall --yes --disable-pip-version-check acme-inlay >"$work/log" 2>&1 || die "pip uninstall failed"
    venv/bin/inlay providers >"$work/log" 2>&1
    ! grep -q counting "$work/log" || die "the vendor's provider is still found"
    [ -e "$installed/lib/inlay/plugins/inlay-cpu.so" ] || die "inlay's own plugins are gone"
fi
"$make/wheel.py" --onnxruntime --name onnxruntime "$work/required" >"$work/log" 2>&1 || die "wheel.py --name failed"
if /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
    mkdir site
    /usr/bin/python3 -m zipfile -e "$work"/required/onnxruntime-*.whl site
    (cd site && /usr/bin/python3 - "$wheel" <<'END'
import os, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
for info in archive.infolist(): # with their modes, as pip does
    os.chmod(archive.extract(info), info.external_attr >> 16 or 0o644)
END
    )
    # Then with the functions that the bundle brings for older systems in place of those of the C library.
    for preload in "" "$work/site/inlay/lib/libinlay-libc.so.1"; do
        rm -rf cache/inlay/plugins
        LD_PRELOAD=$preload PYTHONPATH=$work/site /usr/bin/python3 -c '
import inlay, numpy, os, sys
session = inlay.Session("model.onnx", providers=["reference"])
assert session.run({"x": numpy.array([1, -2, -40], numpy.float32)})["y"].tolist() == [11, 18, 0]
maps = open("/proc/self/maps").read()
assert "/site/inlay/lib/libinlay.so.1" in maps
extension = "inlay/lib/inlay/python/_native.abi3.so"
if os.path.exists(os.path.join(os.environ["PYTHONPATH"], extension)) and sys.version_info >= (3, 11):
    assert "/site/" + extension in maps' >"$work/log" 2>&1 ||
            die "the wheel runs no model"
        [ -n "$(ls cache/inlay/plugins)" ] || die "the wheel's helper did not probe its plugins"
    done
    PYTHONPATH=$work/site /usr/bin/python3 -c '
import importlib.metadata, onnxruntime
from onnxruntime.quantization import quantize_dynamic
assert importlib.metadata.version("onnxruntime") == onnxruntime.__version__ == "1.30.0"
quantize_dynamic("model.onnx", "small.onnx")
onnxruntime.InferenceSession("small.onnx")' >"$work/log" 2>&1 || die "the wheel in place of onnxruntime changes no model"
fi

# ---- npm
if [ -e "$build/lib/inlay/node/inlay.node" ]; then
    "$make/npm.sh" "$prefix" "$work/npm" >"$work/log" 2>&1 || die "npm.sh failed"
    mkdir -p node_modules
    tar -x -C node_modules -f "$work"/npm/inlay-[0-9]*.tgz && mv node_modules/package node_modules/inlay
    node -e "
const { files, cpu } = require('inlay/package.json');
const fs = require('fs');
for (const name of files) if (!fs.existsSync('node_modules/inlay/' + name)) throw new Error(name + ' is missing');
if (cpu.join() !== process.arch) throw new Error('for ' + cpu);
if (!files.includes('bin') || require('inlay/package.json').bin.inlay !== 'bin/inlay') throw new Error('no command');
const { InferenceSession, Tensor } = require('inlay');
InferenceSession.create('model.onnx').then(async (session) => {
  const { y } = await session.run({ x: new Tensor('float32', [1, -2, -40], [3]) });
  if (Array.from(y.data).join() !== '11,18,0') throw new Error(String(y.data));
}).catch((error) => { console.error(error); process.exit(1); });" >"$work/log" 2>&1 || die "the npm package runs no model"
    ln -s node_modules/inlay/bin/inlay command # as npm does in node_modules/.bin
    ./command run model.onnx --input x=1,-2,-40 >"$work/log" 2>&1 || die "the npm package's command runs no model"
    grep -q '= 11 18 0' "$work/log" || die "the npm package's command has another result"
fi
for file in "$work"/wheels/* "$work"/npm/*; do
    [ ! -e "$file" ] || echo "$(basename "$file"): $(($(stat -c %s "$file") / 1024)) KiB"
done
