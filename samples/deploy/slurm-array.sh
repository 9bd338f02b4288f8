#!/bin/bash
# Batch processing on a cluster: runs a model once for each line of a list, in an array of jobs. Completed lines are
# skipped, so that the same command resumes an interrupted array.
#   sbatch --array=0-15 slurm-array.sh MODEL.onnx LIST OUT_DIR
#
# Each line of LIST has the arguments of `inlay run` after the model, such as --input image=/data/1.npy. The outputs of
# line N are stored in OUT_DIR/N.
#SBATCH --job-name=inlay
#SBATCH --cpus-per-task=4
#SBATCH --mem=4G
#SBATCH --requeue
set -euo pipefail
[ $# -eq 3 ] || { echo "usage: sbatch --array=0-N slurm-array.sh MODEL.onnx LIST OUT_DIR" >&2; exit 2; }
model=$1 list=$2 out=$3
task=${SLURM_ARRAY_TASK_ID:-0} first=${SLURM_ARRAY_TASK_MIN:-0} tasks=${SLURM_ARRAY_TASK_COUNT:-1}
mkdir -p "$out"

failed=0 line=0
while read -r -a arguments; do
    line=$((line + 1))
    # Each job processes its share of the lines, except those that are complete.
    if [ $((line % tasks)) -ne $(((task - first) % tasks)) ] || [ -e "$out/$line" ]; then
        continue
    fi
    rm -rf "$out/.$line".* # left by an interrupted job
    part=$out/.$line.$$
    # The folder gets its final name when it is complete.
    if inlay run "$model" "${arguments[@]}" --intra-threads "${SLURM_CPUS_PER_TASK:-1}" --outputs "$part" >"$part.log" 2>&1; then
        mv "$part" "$out/$line"
        rm -f "$part.log" "$out/$line.failed"
    else
        mv "$part.log" "$out/$line.failed"
        rm -rf "$part"
        failed=$((failed + 1))
    fi
done <"$list"
[ "$failed" -eq 0 ] || { echo "$failed lines failed; see $out/*.failed" >&2; exit 1; }
