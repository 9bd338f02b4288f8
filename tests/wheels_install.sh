#!/bin/bash
# Installs the wheels in clean Debian systems with pip, and runs a model by both packages. A system whose C library is
# older than the wheel's name says has to refuse it.
#   tests/wheels_install.sh WHEELS SUITE...
# WHEELS is a folder with the output of `wheel.py --bundle` and of `wheel.py --onnxruntime`; SUITE is bullseye, bookworm
# or trixie, or one of them with an architecture, as in bookworm:arm64 (sdk/packaging/chroot.sh). Needs root or sudo and the network (sdk/packaging/chroot.sh). Each system prints a line 'ok SUITE: ...' or
# 'FAIL SUITE'.
set -euo pipefail
tree=$(dirname "$(dirname "$(realpath -- "$0")")")

inside() { # SUITE
    local suite=$1 wheel needs has
    exec 3>&1 >/tmp/log 2>&1
    trap 'tail -n 20 /tmp/log >&3; echo "FAIL $suite" >&3' ERR
    apt-get update -q
    apt-get install -q -y --no-install-recommends python3-numpy python3-venv
    python3 -m venv --system-site-packages /root/venv
    wheel=$(echo /wheels/inlay-*-manylinux_*"$(uname -m)".whl)
    needs=$(sed -E 's/.*manylinux_([0-9]+)_([0-9]+)_.*/\1.\2/' <<<"$wheel")
    has=$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)
    if [ "$(printf '%s\n' "$needs" "$has" | sort -V | tail -n 1)" != "$has" ]; then
        if /root/venv/bin/pip install --no-index "$wheel"; then
            false
        fi
        grep -q 'not a supported wheel' /tmp/log
        echo "ok $suite: glibc $has, whose pip refuses the wheel for glibc $needs" >&3
        return
    fi
    /root/venv/bin/pip install --no-index --find-links /wheels inlay inlay-onnxruntime
    mkdir /root/work
    # shellcheck disable=SC1091
    AUTOPKGTEST_TMP=/root/work . /tree/sdk/packaging/debian/tests/model
    cat >run.py <<'END'
import sys
import numpy
import inlay
import onnxruntime
from inlay._library import native

x = numpy.array([1, -2, -40], numpy.float32)
assert inlay.Session("model.onnx").run({"x": x})["y"].tolist() == [11, 18, 0]
assert onnxruntime.InferenceSession("model.onnx").run(None, {"x": x})[0].tolist() == [11, 18, 0]
assert (native is not None) == (sys.version_info >= (3, 11))
END
    /root/venv/bin/python run.py
    /root/venv/bin/inlay run model.onnx --input x=1,-2,-40 | grep -q '= 11 18 0'
    echo "ok $suite: glibc $has, $(python3 --version), wheel for glibc $needs and $(uname -m)" >&3
}

if [ "${1:-}" = --inside ]; then
    inside "$2"
    exit
fi
if [ $# -lt 2 ] || [ ! -d "$1" ]; then
    echo "usage: wheels_install.sh WHEELS SUITE..." >&2
    exit 2
fi
wheels=$(realpath -- "$1")
failed=0
for suite in "${@:2}"; do
    "$tree/sdk/packaging/chroot.sh" --bind "$wheels:/wheels" --bind "$tree:/tree" "$suite" \
        bash /tree/tests/wheels_install.sh --inside "$suite" || failed=1
done
exit $failed
