#!/bin/bash
# Formatting and static analysis: clang-format, clang-tidy, cppcheck for C, shellcheck for scripts, the includes of the
# host, and the messages of commits. Prints what each tool finds; exit code 1 if one found something, 2 if a tool or the build is missing.
#
#   tests/lint.sh             files that differ from main (or from $LINT_SINCE), and of those the lines that differ
#   tests/lint.sh FILE...     these files
#   tests/lint.sh --all       every file; takes half an hour of processor time, nearly all of it clang-tidy's
#   tests/lint.sh --deep ...  the same, with clang's path-sensitive analyser: slow, and its findings need inspection
#   tests/lint.sh --format    formats every file in place, and checks nothing
#
# clang-tidy needs to know how each file is compiled: build/dev, or the build folder in $LINT_BUILD. The packages:
# sh tests/install.sh lint
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
build=${LINT_BUILD:-build/dev}
since=${LINT_SINCE:-main}
failed=0
more=()
if [ "${1:-}" = --deep ]; then
    more=('--checks=clang-analyzer-*,-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling')
    shift
fi

for tool in clang-format clang-tidy cppcheck shellcheck; do
    command -v "$tool" >/dev/null || { echo "lint.sh: $tool is missing; run: sh tests/install.sh lint"; exit 2; }
done
[ -f "$build/compile_commands.json" ] || {
    echo "lint.sh: no $build/compile_commands.json; run: cmake --preset dev"
    exit 2
}

# Files of the project that this script checks.
ours() {
    git ls-files --cached --others --exclude-standard -- "$@"
}

by_line=
if [ "${1:-}" = --format ]; then
    ours '*.c' '*.h' | xargs clang-format -i
    exit
elif [ "${1:-}" = --all ]; then
    files=$(ours '*.c' '*.h' '*.sh' '*.bash')
elif [ $# -gt 0 ]; then
    files=$(printf '%s\n' "$@")
else
    base=$(git merge-base "$since" HEAD) || { echo "lint.sh: no branch '$since': set LINT_SINCE to a commit, or name files, or --all"; exit 2; }
    files=$( (git diff --name-only --diff-filter=d "$base"; git ls-files --others --exclude-standard) | sort -u)
    by_line=yes
fi
mapfile -t sources < <(grep -E '\.c$' <<<"$files")
mapfile -t headers < <(grep -E '\.h$' <<<"$files")
mapfile -t scripts < <(grep -E '\.(ba)?sh$' <<<"$files")

# $1: name of the check, the rest: the command
check() {
    local name=$1
    shift
    echo "== $name"
    "$@" || { failed=1; echo "$name: see above"; }
}

format_lines() {
    local out
    out=$(git diff -U0 --no-color "$base" -- '*.c' '*.h' | clang-format-diff -p1) || return 1
    [ -z "$out" ] || { echo "$out"; return 1; }
}

# Only files that are compiled here have a compile command; the others (fuzzers, samples, other CPUs) are checked by
# the other tools. Options that only GCC knows are removed from the commands.
tidy() {
    local known commands status=0
    commands=$(mktemp -d)
    sed -E 's/ -(Wno-(format-truncation|maybe-uninitialized|stringop-truncation)|f(vect-cost-model=[a-z]+|no-align-(functions|jumps|loops)|no-schedule-insns|no-tree-[a-z]+))\b//g' \
        "$build/compile_commands.json" >"$commands/compile_commands.json"
    known=$(for f in "${sources[@]}"; do grep -qF "\"file\": \"$PWD/$f\"" "$build/compile_commands.json" && echo "$f"; done)
    [ -z "$known" ] || xargs clang-tidy -p "$commands" --quiet "${more[@]}" --warnings-as-errors='*' <<<"$known" 2> >(
        grep -vE '^[0-9]+ warnings? generated|^Suppressed|^Use -header-filter' >&2) || status=1
    rm -r "$commands"
    return $status
}

if [ -n "$by_line" ]; then
    check clang-format format_lines
elif [ $((${#sources[@]} + ${#headers[@]})) -gt 0 ]; then
    check clang-format clang-format --dry-run --Werror "${sources[@]}" "${headers[@]}"
fi
if [ ${#sources[@]} -gt 0 ]; then
    check cppcheck cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,performance,portability \
        --inline-suppr --suppressions-list=tests/cppcheck.txt --template=gcc --max-configs=1 \
        -I host -I host/runtime -I host/insight -I host/tools -I providers -I providers/common -I providers/cpu \
        -I providers/prepost -I sdk/include -I ops -D_GNU_SOURCE "${sources[@]}"
    check clang-tidy tidy
fi
[ ${#scripts[@]} -eq 0 ] || check shellcheck shellcheck --external-sources --severity=warning "${scripts[@]}"
check includes sh tests/house/includes.sh . tests/house/edges

# Of the commits since main: a subject with a verb (house/subject.sh), and a body if more than 20 lines change.
commits() {
    local commit faults changed status=0
    for commit in $(git rev-list --no-merges "$base..HEAD"); do
        faults=$(tests/house/subject.sh "$(git log -1 --format=%s "$commit")") ||
            { sed "s/^/${commit:0:8}: /" <<<"$faults"; status=1; }
        changed=$(git show --numstat --format= "$commit" | awk '{ n += $1 + $2 } END { print n + 0 }')
        if [ "$changed" -gt 20 ] && [ -z "$(git log -1 --format=%b "$commit")" ]; then
            echo "${commit:0:8}: changes $changed lines and has no body that says what was wrong without it"
            status=1
        fi
    done
    return $status
}
[ -z "$by_line" ] || check commits commits
exit $failed
