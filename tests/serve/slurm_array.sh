#!/bin/sh
# The array job of samples/deploy with a program instead of `inlay` that writes its arguments: jobs share the list,
# a failing line is reported and repeated, and finished lines are not repeated.
#   slurm_array.sh SLURM_ARRAY_SH
set -eu
job=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/bin"
cat >"$tmp/bin/inlay" <<'SH'
#!/bin/sh
echo "$*" >>"$RUNS"
case $* in *bad*) [ -e "$RUNS.mended" ] || exit 1 ;; esac
while [ "$1" != --outputs ]; do shift; done
mkdir "$2"
echo done >"$2/y.npy"
SH
chmod +x "$tmp/bin/inlay"
PATH=$tmp/bin:$PATH RUNS=$tmp/runs
export PATH RUNS
for n in 1 2 3 4 bad 6 7; do echo "--input x=$n.npy"; done >"$tmp/list"

all() { # runs every job of the array; prints how many of them failed
    failed=0
    for task in 4 5 6; do
        SLURM_ARRAY_TASK_ID=$task SLURM_ARRAY_TASK_MIN=4 SLURM_ARRAY_TASK_COUNT=3 SLURM_CPUS_PER_TASK=2 \
            bash "$job" model.onnx "$tmp/list" "$tmp/out" 2>>"$tmp/errors" || failed=$((failed + 1))
    done
    echo $failed
}
fail() { echo "$1"; cat "$tmp/runs"; ls -A "$tmp/out"; exit 1; }

[ "$(all)" = 1 ] || fail "one job should have failed"
[ "$(wc -l <"$tmp/runs")" = 7 ] || fail "each line should have run once"
[ "$(find "$tmp/out" -name y.npy | wc -l)" = 6 ] || fail "six lines should be done"
[ -e "$tmp/out/5.failed" ] || fail "the failure of line 5 should be recorded"
grep -q "1 lines failed" "$tmp/errors" || fail "the failure was not reported"
: >"$RUNS.mended"
[ "$(all)" = 0 ] || fail "no job should have failed"
[ "$(wc -l <"$tmp/runs")" = 8 ] || fail "only line 5 should have run again"
[ "$(find "$tmp/out" -name y.npy | wc -l)" = 7 ] || fail "all lines should be done"
grep -q -- "model.onnx --input x=5.npy" "$tmp/runs" && fail "line 5 ran with another input"
grep -q -- "run model.onnx --input x=bad.npy --intra-threads 2 --outputs" "$tmp/runs" || fail "the arguments are wrong"
exit 0
