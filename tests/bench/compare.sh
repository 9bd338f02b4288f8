#!/bin/bash
# inlay beside its peers: the same models, the same inputs, in turn, and the outputs compared.
#   compare.sh [--peer ort,torch,script] [--models NAME|FILE.onnx|all|npm,...] [--threads 1,2] [--rounds N] [--seconds S]
#              [--providers LIST] [--tune] [--strict] [--errors FILE.json] [--dir DIR] [--batch N] [--md FILE] [--svg FILE]
#              [--json FILE] [--inlay FILE] [--grow NAME=START+STEP,...]
#              [--rows FILE.json,...]: the table of earlier runs, for measuring a few models at a time
# Models are those of tests/models/export_models.py, exported below DIR (default build/models) when they are missing, or
# files; `npm` is those that npm packages ship, `all` both. Peers: ort is ONNX Runtime 1.30 from npm, torch and script are
# Debian's torch, eager and TorchScript. --tune adds inlay after `inlay tune MODEL`, --strict inlay with precision strict,
# --errors the largest errors against float64, which networks_accuracy.py --json has found. --grow times runs whose axes
# of these names grow by STEP each, as `inlay bench --grow` does: what sizes cost that were not seen before.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
for arg in "$@"; do
    case $arg in -h | --help) sed -n '2,12s/^# *//p' "$0"; exit 0 ;; esac
done
sh "$root/tests/install.sh" models npm
exec /usr/bin/python3 "$here/compare.py" "$@"
