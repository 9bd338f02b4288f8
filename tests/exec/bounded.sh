#!/bin/bash
# Runs on other data execute the same number of instructions: those of five models, counted by valgrind. A compiler may
# make a branch of a selection (GCC 14: 12 of 673,401 instructions), so 0.01 % are permitted.
#   bounded.sh TEST_BOUNDED     exit code 77 without valgrind
set -u
command -v valgrind >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

count() { # SEED   prints the instructions of counted_runs()
    valgrind --tool=callgrind --toggle-collect=counted_runs --callgrind-out-file="$work/$1" "$program" "$1" \
        >"$work/out" 2>&1 || { cat "$work/out" >&2; return 1; }
    sed -n 's/^.*Collected : //p' "$work/out"
}

program=$1 counts=()
for seed in 1 12345; do
    counts+=("$(count $seed)")
done
echo "instructions: ${counts[*]}"
difference=$((counts[0] > counts[1] ? counts[0] - counts[1] : counts[1] - counts[0]))
[ "${counts[0]}" -gt 10000 ] && [ $((difference * 10000)) -le "${counts[0]}" ]
