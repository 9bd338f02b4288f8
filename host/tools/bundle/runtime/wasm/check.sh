#!/bin/bash
# Checks for the programs and libraries that the toolchain wasm32.cmake needs: check.sh [CLANG]. Exit code 3: one is missing.
set -euo pipefail
clang=${1:-clang}
for program in "$clang:clang" wasm-ld:lld llvm-ar:llvm node:nodejs; do
    if ! command -v "${program%:*}" >/dev/null; then
        echo "check.sh: ${program%:*} is missing: apt-get install ${program#*:}" >&2
        exit 3
    fi
done
try=$(mktemp -d)
trap 'rm -rf "$try"' EXIT
echo 'int main(void) { return 0; }' >"$try/main.c"
if ! "$clang" --target=wasm32-wasi "$try/main.c" -o "$try/main.wasm" 2>"$try/log"; then
    echo "check.sh: $(head -n 1 "$try/log"): apt-get install wasi-libc libclang-rt-dev-wasm32" >&2
    exit 3
fi
