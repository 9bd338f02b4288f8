#!/bin/bash
# With --reproducible cpu ONNX's cases have the same bits on every instruction level of this CPU. libm's code is that of the
# level, too (GLIBC_TUNABLES), and so is the number of threads another one.
#   bits.sh [--other COMMAND] INLAY FOLDER...     folders with cases; COMMAND: an inlay for another architecture
set -u
other=
if [ "$1" = --other ]; then
    other=$2
    shift 2
fi
inlay=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work
failed=0

complain() {
    echo "FAIL $1"
    failed=1
}

# $1: name of the result; the rest: flags and folders. Cases with random numbers of a random seed are left out.
program=$inlay
run() {
    "$program" test --hash --reproducible cpu --cache-dir= --option reference.preview=true "${@:2}" >"$work/out" 2>&1
    [ $? -le 1 ] || complain "$1: $(tail -n 1 "$work/out")"
    grep '^hash' "$work/out" | grep -vE '^hash [^ ]*(bernoulli|random_(normal|uniform)|multinomial)' >"$work/$1"
}

run widest --intra-threads 1 "$@"
least=$(wc -l <"$work/widest")
[ "$least" -ge 1000 ] || complain "only $least cases ran"
case $(uname -m) in
x86_64)
    GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F run avx2 --isa avx2 --intra-threads 1 "$@"
    GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX,-AVX512F run baseline --isa baseline --intra-threads 2 "$@"
    levels='avx2 baseline'
    ;;
*)
    levels=
    ;;
esac
if [ -n "$other" ]; then
    program=$other
    run other --intra-threads 1 "$@"
    levels="$levels other"
fi
for level in $levels; do
    diff "$work/widest" "$work/$level" >"$work/diff" ||
        complain "$level: other bits in $(grep '^>' "$work/diff" | sed 's/^> hash \([^:]*\).*/\1/' | tr '\n' ' ')"
done

# A provider that does not promise it is left out with a reason, and refused if it is named.
model=$(find "$1" -name model.onnx | sort | head -n 1)
"$inlay" explain "$model" --reproducible cpu --cache-dir= >"$work/out" 2>&1
grep -q 'prepost: its results are not the same on every CPU' "$work/out" || complain "explain does not name prepost"
"$inlay" explain "$model" --reproducible cpu --cache-dir= --providers prepost,cpu,reference >"$work/out" 2>&1 &&
    complain "provider prepost was not refused"
grep -q 'not the same on every CPU' "$work/out" || complain "no reason: $(tail -n 1 "$work/out")"
for value in --reproducible --reproducible=yes "--reproducible 1" "--reproducible=0"; do
    # shellcheck disable=SC2086
    "$inlay" explain "$model" --cache-dir= $value >"$work/out" 2>&1 || complain "$value: $(tail -n 1 "$work/out")"
done
[ $failed = 0 ] && echo "$least cases have the same bits on every level${other:+ and with $other}"
exit $failed
