#!/bin/bash
# With reproducible=cpu random graphs have the same bits on every instruction level and number of threads. libm's code is that
# of the level, too.
#   levels.sh TEST_RANDOM_BITS CASES [COMMAND...]    cases of each family of test_random_bits.c; COMMAND: the same program for
#                                                    another architecture
set -u
program=$1
cases=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

INLAY_ISA=auto "$program" 7 "$cases" 1 >"$work/auto" || exit 1
GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F INLAY_ISA=avx2 "$program" 7 "$cases" 3 >"$work/avx2" || exit 1
GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX,-AVX512F INLAY_ISA=baseline "$program" 7 "$cases" 2 >"$work/baseline" ||
    exit 1
levels='avx2 baseline'
if [ $# -gt 0 ]; then
    "$@" 7 "$cases" 1 >"$work/other" || exit 1
    levels="$levels other"
fi
[ -s "$work/auto" ] || exit 1
for level in $levels; do
    if ! diff "$work/auto" "$work/$level"; then
        echo "the results of level $level differ (above)"
        exit 1
    fi
done
echo "$(wc -l <"$work/auto") graphs have the same bits on every level"
