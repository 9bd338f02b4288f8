#!/bin/bash
# The plugin of the provider reference contains no instruction of AVX or AVX-512, and on arm64 none that fuses a multiplication
# with an addition: its results are the same on every CPU. The plugin of the provider cpu contains such instructions, so the
# pattern finds them. Nor does it import functions of libm whose results depend on the CPU; the plugin cpu does.
#   plain.sh OBJDUMP REFERENCE_PLUGIN CPU_PLUGIN
set -euo pipefail

objdump=$1
shift
pattern=$'%[yz]mm|\tv[a-z0-9]+ .*%xmm|\tfn?m(add|sub)\t|\tfml[as]\t'
count() { "$objdump" -d "$1" | grep -cE "$pattern" || true; }

reference=$(count "$1")
cpu=$(count "$2")
if [ "$reference" -ne 0 ]; then
    echo "$reference instructions of $1 are of AVX, or fuse a multiplication with an addition:"
    "$objdump" -d "$1" | grep -m 5 -E "$pattern" || true
    exit 1
fi
if [ "$cpu" -eq 0 ]; then
    echo "no such instruction is in $2: the pattern is wrong"
    exit 1
fi

inexact='(a?(cos|sin|tan)h?|atan2|sincos|exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|erfc?|[lt]gamma|cbrt|hypot)[fl]?'
imports() { nm -D --undefined-only "$1" | awk '{ print $2 }' | sed 's/@.*//' | grep -xE "$inexact" || true; }
if [ -n "$(imports "$1")" ]; then
    echo "$1 imports" $(imports "$1")
    exit 1
fi
if [ -z "$(imports "$2")" ]; then
    echo "$2 imports no function of libm: the pattern is wrong"
    exit 1
fi
