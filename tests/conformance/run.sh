#!/bin/bash
# Runs all of ONNX's cases. Fails if a case fails that is not listed in wrong_data.txt, if fewer cases pass than
# passed.txt states, or if a provider declines a node that it has offered, when it compiles it or when the sizes are
# known: what a provider does not run is refused in assess. The last line is the result.
#   run.sh INLAY DATA [FLAG...]    flags for inlay test
set -u
inlay=$1
data=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
least=$(cat "$here/passed.txt")

folders=()
for folder in node simple pytorch-converted pytorch-operator; do
    folders+=("$data/$folder")
    if [ ! -d "$data/$folder" ]; then
        echo "$data/$folder does not exist: install libonnx-testdata"
        exit 1
    fi
done
log=$(mktemp)
trap 'rm -f "$log"' EXIT
output=$("$inlay" test --verbose --option reference.preview=true "$@" "${folders[@]}" 2>"$log")
code=$?
if grep 'is assigned again' "$log"; then
    echo "a provider declines nodes that it has offered (above)"
    exit 1
fi
last=$(tail -n 1 <<<"$output")
if [ $code -gt 1 ] || ! [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
    echo "$last"
    tail -n 5 "$log"
    echo "inlay test ended with $code"
    exit 1
fi
passed=${BASH_REMATCH[1]} failed=${BASH_REMATCH[2]} skipped=${BASH_REMATCH[3]}

wrong=$(sed -nE 's/^FAIL ([^:]*): .*/\1/p' <<<"$output" | sort -u)
excused=$(sed -E '/^#/d; s/[[:space:]].*//' "$here/wrong_data.txt" | sort -u)
new=$(comm -23 <(echo "$wrong") <(echo "$excused"))
if [ -n "$new" ]; then
    grep '^FAIL' <<<"$output"
    echo "$last"
    exit 1
fi
if [ "$passed" -lt "$least" ]; then
    grep '^skip' <<<"$output"
    echo "passed.txt requires $least passed cases, but only $passed passed; skipped: the $skipped above"
    exit 1
fi
if [ "$passed" -gt "$least" ]; then
    echo "passed.txt may be raised from $least"
fi
echo "$passed passed, $skipped skipped, $failed excused in wrong_data.txt"
