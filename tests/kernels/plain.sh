#!/bin/bash
# The plugin of the provider reference contains no instruction of AVX or AVX-512: its results are the same on every CPU. The
# plugin of the provider cpu contains such instructions, so the pattern finds them.
#   plain.sh REFERENCE_PLUGIN CPU_PLUGIN
set -euo pipefail

pattern=$'%[yz]mm|\tv[a-z0-9]+ .*%xmm'
count() { objdump -d "$1" | grep -cE "$pattern" || true; }

reference=$(count "$1")
cpu=$(count "$2")
if [ "$reference" -ne 0 ]; then
    echo "$reference instructions of $1 are of AVX:"
    objdump -d "$1" | grep -m 5 -E "$pattern" || true
    exit 1
fi
if [ "$cpu" -eq 0 ]; then
    echo "no instruction of $2 is of AVX: the pattern is wrong"
    exit 1
fi
