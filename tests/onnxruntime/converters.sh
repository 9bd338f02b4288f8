#!/bin/sh
# Runs the tests of sklearn-onnx or onnxmltools with inlay's Python package onnxruntime. By hand:
#   converters.sh LIBINLAY CHECKOUT COMMON [TEST...]
# CHECKOUT is one of https://github.com/onnx/sklearn-onnx (1.14 for Debian 12) and https://github.com/onnx/onnxmltools,
# COMMON one of https://github.com/microsoft/onnxconverter-common. Needs python3-onnx, python3-sklearn, python3-pandas,
# python3-parameterized and python3-pytest. TEST: files of CHECKOUT, and options of pytest (default: tests).
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
cd "$work/checkout"
export INLAY_LIBRARY="$library" PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH="$bindings/python:$bindings/python-onnxruntime:$PWD:$common${PYTHONPATH:+:$PYTHONPATH}"
/usr/bin/python3 -m pytest -q -p no:cacheprovider --continue-on-collection-errors "$@"
