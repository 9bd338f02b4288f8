#!/bin/bash
# Measures this machine and writes its page, machines/KIND.md: the roofs of its kind of CPU, single operators and networks
# compared with ONNX Runtime, the rows below 1.0, and those that fell since the last page of this kind.
#   machine.sh [--match GLOB,...] [--models NAME|npm|all,...] [--threads 1,2] [--rounds N] [--seconds S] [--inlay FILE]
#              [--page FILE.md]
# --models none leaves the networks out; --match none the operators: rows of the last page that are left out stay, and so
# do its columns of other numbers of threads, and what was written by hand below "Outputs differ". About 40 minutes on two
# idle cores, of which the export of the networks takes 5 for the first time.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
for arg in "$@"; do
    case $arg in -h | --help) sed -n '2,9s/^# *//p' "$0"; exit 0 ;; esac
done
unset OPENBLAS_CORETYPE # which kernels a user chooses says nothing of the machine
root=$(cd "$here/../.." && pwd)
[ -x "$root/build/models/peer/ort_bench" ] || "$root/tests/models/peer/setup.sh" "$root/build/models/peer"
exec /usr/bin/python3 "$here/machine.py" "$@"
