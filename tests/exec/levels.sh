#!/bin/bash
# With reproducible=cpu random graphs have the same bits on every instruction level and number of threads. libm's code is that
# of the level, too.
#   levels.sh TEST_RANDOM_BITS CASES    cases of each family of test_random_bits.c
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

INLAY_ISA=auto "$1" 7 "$2" 1 >"$work/auto" || exit 1
GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F INLAY_ISA=avx2 "$1" 7 "$2" 3 >"$work/avx2" || exit 1
GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX,-AVX512F INLAY_ISA=baseline "$1" 7 "$2" 2 >"$work/baseline" || exit 1
[ -s "$work/auto" ] || exit 1
for level in avx2 baseline; do
    if ! diff "$work/auto" "$work/$level"; then
        echo "the results of level $level differ (above)"
        exit 1
    fi
done
echo "$(wc -l <"$work/auto") graphs have the same bits on every level"
