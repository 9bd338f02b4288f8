#!/bin/sh
# Runs the tests of sklearn-onnx or onnxmltools with inlay's Python package onnxruntime. By hand:
#   converters.sh LIBINLAY CHECKOUT COMMON [TEST...]
# CHECKOUT is one of https://github.com/onnx/sklearn-onnx (1.14 for Debian 12) and https://github.com/onnx/onnxmltools,
# COMMON one of https://github.com/microsoft/onnxconverter-common. Needs python3-onnx, python3-sklearn, python3-pandas,
# python3-parameterized and python3-pytest. TEST: files of CHECKOUT, and options of pytest (default: tests). Of
# onnxmltools 1.11.2, tests/baseline and tests/xgboost run with Debian 12 (python3-xgboost). With the variable
# INLAY_ONNXRUNTIME_LIBRARY, ONNX Runtime's own library runs the models, to judge tests that fail.
set -eu
library=$(realpath "$1")
checkout=$(realpath "$2")
common=$(realpath "$3")
bindings=$(realpath "$(dirname "$0")/../../sdk/bindings")
shift 3
[ $# -gt 0 ] || set -- tests
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$checkout" "$work/checkout"
# onnxmltools compares types of models with those of lightgbm, which Debian 12 lacks.
/usr/bin/python3 -c 'import lightgbm' 2>/dev/null ||
    printf 'class Booster:\n    pass\n' >"$work/checkout/lightgbm.py"
cd "$work/checkout"
export INLAY_LIBRARY="$library" PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH="$bindings/python:$bindings/python-onnxruntime:$PWD:$common${PYTHONPATH:+:$PYTHONPATH}"
/usr/bin/python3 -m pytest -q -p no:cacheprovider --continue-on-collection-errors "$@"
