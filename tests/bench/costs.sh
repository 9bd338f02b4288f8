#!/bin/bash
# costs.sh [-t "1 2"] [-s SECONDS] [-p PROVIDERS] [-k] FOLDER...
#
# Compares predicted with measured times of the models in each FOLDER (<name>/model.onnx, or the folder itself),
# before and after `inlay tune --machine`, in a temporary cache folder. Inputs come from inputs.npz next to a model, or are
# random. The CPU time of a thread counts if it is less than the median, down to the shortest run, so that other load
# on the machine has little effect. The worst model is printed last; above a factor of 1.5 in either direction, the
# script fails.
#   -k keeps an existing calibration: no "before", and no new profile is measured.
set -u
threads="1 2" seconds=1 providers="" keep=0
while getopts "t:s:p:k" flag; do
    case $flag in
    t) threads=$OPTARG ;;
    s) seconds=$OPTARG ;;
    p) providers=$OPTARG ;;
    k) keep=1 ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { echo "usage: costs.sh [-t THREADS] [-s SECONDS] [-p PROVIDERS] [-k] FOLDER..." >&2; exit 2; }
inlay=${INLAY:-$(dirname "$0")/../../build/release/bin/inlay}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cache=${COSTS_CACHE:-$work/cache}
mkdir -p "$cache"
common=(--cache-dir "$cache" --quiet)
[ -z "$providers" ] || common+=(--providers "$providers")

# Writes the inputs of a model as .npy files: NAME -> folder.
inputs_of() {
    local to=$work/inputs/$1
    [ -f "$2/inputs.npz" ] || return 0
    if [ ! -d "$to" ]; then
        mkdir -p "$to"
        python3 - "$2/inputs.npz" "$to" <<'PY' || return 0
import sys, zipfile
z = zipfile.ZipFile(sys.argv[1])
for name in z.namelist():
    open(sys.argv[2] + "/" + name.replace("/", "_").replace(":", "_"), "wb").write(z.read(name))
PY
    fi
    echo "--inputs $to"
}

# Writes one line per model into $work/lines: error factor, name, predicted, measured, ratio.
measure() {
    local t=$1 model name
    : > "$work/lines"
    for folder in "${folders[@]}"; do
        model=$folder/model.onnx name=$(basename "$folder")
        # shellcheck disable=SC2046
        "$inlay" bench "$model" $(inputs_of "$name" "$folder") "${common[@]}" --intra-threads "$t" --seconds "$seconds" \
            --json 2> /dev/null > "$work/bench.json" || { echo "$name: failed" >&2; continue; }
        python3 - "$name" "$t" "$work/bench.json" >> "$work/lines" <<'PY'
import json, sys
name, t, j = sys.argv[1], int(sys.argv[2]), json.load(open(sys.argv[3]))
took = min(j["median_ms"], max(j["cpu_ms"] / t, j["min_ms"]))
ratio = j["predicted_ms"] / took
off = max(ratio, 1 / ratio) if ratio > 0 else 1e9
print("%10.3f %-34s predicted %10.3f ms  measured %10.3f ms  ratio %7.2f" % (off, name, j["predicted_ms"], took, ratio))
PY
    done
    sort -n "$work/lines" | cut -c 12-
    tail -1 <(sort -n "$work/lines") | awk '{ exit $1 > 1.5 }'
}

folders=()
for arg in "$@"; do
    if [ -f "$arg/model.onnx" ]; then
        folders+=("$arg")
    else
        for d in "$arg"/*/; do [ -f "$d/model.onnx" ] && folders+=("${d%/}"); done
    fi
done
bad=0
for t in $threads; do
    if [ $keep -eq 0 ]; then
        rm -rf "${cache:?}/costs"
        echo "== $t thread(s), by the providers' own models"
        measure "$t" || true
        "$inlay" tune --machine --threads "$t" "${common[@]}" || exit 1
    fi
    echo "== $t thread(s), calibrated"
    measure "$t" || bad=1
done
exit $bad
