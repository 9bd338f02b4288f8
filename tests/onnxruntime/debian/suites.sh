#!/bin/bash
# Runs the test suites of other projects in Debian sid, with Debian's ONNX Runtime (python3-onnxruntime) and with
# inlay's Python package onnxruntime in its place, and compares the results of each test.
#   suites.sh BUILD WORK SOURCES [SUITE]...      SUITE: onnxmltools, hummingbird, skl2onnx; by default all
# BUILD is a release build; WORK a folder for results. SOURCES has the sources: the folders sklearn-onnx, onnxmltools,
# hummingbird and onnxconverter-common; for tests of LightGBM, which Debian lacks, a folder lightgbm with its Python
# package and its library. Needs root, debootstrap and the network (4 GB, kept by
# sdk/packaging/chroot.sh). Prints counts and each test whose result differs; exit code 1: a test fails on inlay alone.
# With ORT_LIBRARY, the library of ONNX Runtime 1.30, these tests run with it as well: its results are those to match
# where Debian's version is older.
set -euo pipefail
here=$(dirname "$(realpath -- "$0")")
tree=$here/../../..

# Runs the tests of a suite on ONNX Runtime ("theirs"), on inlay ("ours"), or on the newer ONNX Runtime ("newer").
tests_on() { # SIDE SUITE [ARGUMENT OF PYTEST]...
    local side=$1 suite=$2 folder=$2 tests=tests
    shift 2
    case $suite in
    skl2onnx) folder=sklearn-onnx ;;
    hummingbird) tests='tests/test_backends.py tests/test_extra_conf.py tests/test_onnxml_*.py' ;; # those of ONNX
    esac
    cp -r "/sources/$folder" "/tmp/$suite" # tests write into their folder
    # Tests of hummingbird give skl2onnx the types of onnxmltools, which it took when they were written.
    [ "$suite" != hummingbird ] || cp /tests/suites_types.py "/tmp/$suite/conftest.py"
    (
        cd "/tmp/$suite"
        export PYTHONPATH=$PWD:/sources/sklearn-onnx:/sources/onnxmltools:/sources/hummingbird
        PYTHONPATH+=:/sources/onnxconverter-common:/sources/lightgbm:/work/shim
        if [ "$side" != theirs ]; then
            export PYTHONPATH=/python:$PYTHONPATH INLAY_LIBRARY=/build/lib/libinlay.so.1
        fi
        if [ "$side" = newer ]; then
            export INLAY_ONNXRUNTIME_LIBRARY=/work/newer.so
        fi
        # shellcheck disable=SC2086
        python3 -m pytest -q -p no:cacheprovider --continue-on-collection-errors --timeout 300 \
            --junitxml "/work/$suite.$side.xml" "$@" $tests >"/work/$suite.$side.log" 2>&1 || true
    )
    rm -r "/tmp/$suite"
}

inside() {
    local suite worse failed=0
    echo 'Acquire::Check-Valid-Until "false";' >/etc/apt/apt.conf.d/99valid # of a mirror that has not been updated
    {
        apt-get update -q
        apt-get install -q -y --no-install-recommends python3-onnxruntime python3-onnx python3-sklearn python3-xgboost \
            python3-libsvm python3-torch python3-pandas python3-dill python3-psutil python3-pytest \
            python3-pytest-timeout libcyaml1 libjansson4 libprotobuf-c1 libelf1t64 libgomp1
    } >/work/log 2>&1 || { tail -n 5 /work/log; exit 1; }
    export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
    # The package libsvm as others install it, from Debian's modules.
    mkdir -p /work/shim/libsvm
    cp /usr/lib/python3/dist-packages/svm*.py /work/shim/libsvm
    touch /work/shim/libsvm/__init__.py
    for suite in "$@"; do
        rm -f "/work/$suite".*.xml
        tests_on theirs "$suite"
        tests_on ours "$suite"
        worse=$(python3 /tests/suites.py worse "/work/$suite")
        [ -z "$worse" ] || [ ! -e /work/newer.so ] || tests_on newer "$suite" -k "$worse"
        python3 /tests/suites.py compare "/work/$suite" || failed=1
    done
    exit $failed
}

if [ "${1:-}" = --inside ]; then
    inside "${@:2}"
fi
[ $# -ge 3 ] || { echo "usage: suites.sh BUILD WORK SOURCES [SUITE]..." >&2; exit 2; }
build=$(realpath -- "$1") sources=$(realpath -- "$3")
mkdir -p "$2"
work=$(realpath -- "$2")
shift 3
[ $# -gt 0 ] || set -- onnxmltools hummingbird skl2onnx
rm -rf "$work/python" "$work/newer.so"
[ -z "${ORT_LIBRARY:-}" ] || cp -L "$ORT_LIBRARY" "$work/newer.so"
mkdir "$work/python"
cp -r "$tree/sdk/bindings/python/inlay" "$tree/sdk/bindings/python-onnxruntime/onnxruntime" "$work/python"
exec "$tree/sdk/packaging/chroot.sh" --keep suites --bind "$work:/work" --bind "$build:/build" --bind "$here:/tests" \
    --bind "$work/python:/python" --bind "$sources:/sources" sid bash /tests/suites.sh --inside "$@"
