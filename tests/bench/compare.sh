#!/bin/bash
# Compares inlay with other runtimes: the same models and inputs, interleaved runs, outputs compared.
#   compare.sh [--peer ort,torch,script,compiled,opencv,ncnn] [--models NAME|FILE.onnx|all|npm|more,...] [--threads 1,2]
#              [--rounds N] [--seconds S] [--providers LIST] [--tune] [--strict] [--errors FILE.json] [--dir DIR]
#              [--batch N] [--md FILE] [--svg FILE] [--json FILE] [--inlay FILE] [--sid] [--ncnn DIR]
#              [--grow NAME=START+STEP,...] [--peaks]
#              [--rows FILE.json,...]: prints the table of earlier runs, to measure a few models at a time
# Models are those of tests/models/export_models.py, exported below DIR (default build/models) if they are missing, or
# files; `npm`: models of npm packages, `all`: both; `more`: further networks of export_models.py. Peers: ort is ONNX
# Runtime 1.30 from npm; torch, script and compiled are Debian's torch, eager, TorchScript and torch.compile; opencv is
# OpenCV's dnn. With --sid, the last four are those of Debian sid, in a system that sdk/packaging/chroot.sh keeps. ncnn
# times the networks of its benchmark that are also models here; its DIR has benchncnn and params/. --tune adds inlay
# after `inlay tune MODEL`, --strict inlay with precision strict, --errors the largest errors against float64, from
# networks_accuracy.py --json. --grow times runs in which these axes grow by STEP each, like `inlay bench --grow`: the
# cost of new sizes. --peaks prints only peak memory, of two runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
for arg in "$@"; do
    case $arg in -h | --help) sed -n '2,16s/^# *//p' "$0"; exit 0 ;; esac
done
sh "$root/tests/install.sh" models npm
exec /usr/bin/python3 "$here/compare.py" "$@"
