#!/bin/bash
# Sets up a fresh Debian 12 or 13, builds, and runs every test: an optimised build, and one with AddressSanitizer and
# UndefinedBehaviorSanitizer. The last lines are 'N skipped: BUILD/TEST ...' and 'N passed, N failed'; the exit code is 0 only if
# nothing failed.
#
#   tests/run.sh            release and asan
#   tests/run.sh --all      also tsan, and a build with Clang
#   tests/run.sh PRESET...  these presets of CMakePresets.json
#
# About 30 minutes on two idle cores without caches: each build takes about 5 of them. Needs the network only for
# missing Debian packages and, once per build, for the npm packages of tests/serve (npm.json; those tests are skipped
# if the registry cannot be reached). Uses ccache if it is installed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

presets=(release asan)
with_clang=
if [ "${1:-}" = --all ]; then
    presets=(release asan tsan)
    with_clang=yes
elif [ $# -gt 0 ]; then
    presets=("$@")
fi

# Published models are tested in the optimised build only (tests/models).
# shellcheck disable=SC2086
sh tests/install.sh models serve npm xnnpack ${with_clang:+clang} || exit 1
echo "set up after $SECONDS s"
jobs=$(nproc)
launcher=()
if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
fi

passed=0
failed=0
skipped=()

# Configures and builds in build/$1 and counts the tests that pass, fail and are skipped there. $1: name of the build, $2: preset, the rest:
# further arguments for cmake
check() {
    local name=$1 preset=$2 log=build/$1/run.log start=$SECONDS summary total wrong absent
    shift 2
    echo "== $name"
    mkdir -p "build/$name"
    if ! cmake --preset "$preset" -B "build/$name" -DINLAY_TESTS=ON "${launcher[@]}" "$@" >"$log" 2>&1 ||
        ! cmake --build "build/$name" -j "$jobs" >>"$log" 2>&1; then
        tail -n 40 "$log"
        echo "$name: the build failed"
        failed=$((failed + 1))
        return
    fi
    echo "$name: built in $((SECONDS - start)) s"
    # A test may use every core, so few run concurrently: three, because some tests only wait.
    ctest --test-dir "build/$name" -j 3 --output-on-failure --no-tests=error 2>&1 | tee "$log"
    summary=$(grep -E 'tests passed, [0-9]+ tests? failed out of [0-9]+' "$log")
    if [ -z "$summary" ]; then
        echo "$name: no test ran"
        failed=$((failed + 1))
        return
    fi
    wrong=$(sed -E 's/.*, ([0-9]+) tests? failed out of.*/\1/' <<<"$summary")
    total=$(sed -E 's/.*out of ([0-9]+).*/\1/' <<<"$summary")
    # ctest counts skipped tests as passed, and lists them after the summary.
    mapfile -t absent < <(sed -nE 's/^\t *[0-9]+ - (.*) \(Skipped\).*/\1/p' "$log")
    failed=$((failed + wrong))
    passed=$((passed + total - wrong - ${#absent[@]}))
    skipped+=("${absent[@]/#/$name/}")
}

for preset in "${presets[@]}"; do
    check "$preset" "$preset"
done
if [ -n "$with_clang" ]; then
    check clang release -DCMAKE_C_COMPILER=clang
fi
echo "${#skipped[@]} skipped${skipped[*]:+: ${skipped[*]}}"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
