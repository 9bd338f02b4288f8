#!/bin/bash
# Sets up a fresh Debian 12 or 13, builds, and runs every test: an optimised build, and one with AddressSanitizer and
# UndefinedBehaviorSanitizer. A test that fails is repeated once, alone, after all others of its build. If it passes
# then, it counts as passed and is listed as unstable; its first output is build/BUILD/unstable/TEST.log. The last lines
# are 'N skipped: BUILD/TEST ...', 'N unstable: BUILD/TEST ...' and 'N passed, N failed'; the exit code is 0 only if
# nothing failed.
#
#   tests/run.sh            release and asan
#   tests/run.sh --all      also tsan, and a build with Clang
#   tests/run.sh PRESET...  these presets of CMakePresets.json
#   tests/run.sh --quick [COMMIT]
#                           release, and of its tests those nearest to what changed since COMMIT (the commit before the
#                           last one), for four minutes; tests/quick.py says which are left out
#
# On two idle cores: 29 minutes with ccache, and 10 to 20 more without. README.md has the seconds of each part.
# Needs the network only for missing Debian packages and, once per build, for the npm packages of tests/serve and
# tests/node (npm.json; those tests are skipped if the registry cannot be reached). Uses ccache if it is installed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

presets=(release asan)
with_clang=
since=
if [ "${1:-}" = --quick ]; then
    presets=(release)
    since=${2:-HEAD~1}
    git rev-parse -q --verify "$since^{commit}" >/dev/null || {
        echo "run.sh: --quick $since: git knows no such commit"
        exit 2
    }
elif [ "${1:-}" = --all ]; then
    presets=(release asan tsan)
    with_clang=yes
elif [ $# -gt 0 ]; then
    presets=("$@")
fi

# Published models are tested in the optimised build only (tests/models).
sh tests/install.sh models serve npm xnnpack clang wasm || exit 1
echo "set up after $SECONDS s"
jobs=$(nproc)
launcher=()
if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
fi

passed=0
failed=0
skipped=()
unstable=()

# Copies from ctest's log of a build ($1) the output of one test ($2).
output_of() {
    awk -v name="$2" '/^[0-9]+\/[0-9]+ Testing: / { wanted = substr($0, index($0, ": ") + 2) == name } wanted' \
        "build/$1/Testing/Temporary/LastTest.log"
}

# Repeats the failed tests of a build, one at a time, and counts those that fail again. $1: name of the build, the
# rest: tests
repeat_failed() {
    local name=$1 test kept=build/$1/unstable
    shift
    mkdir -p "$kept"
    for test in "$@"; do
        output_of "$name" "$test" >"$kept/$test.log"
    done
    for test in "$@"; do
        echo "== $name: $test failed, and is repeated alone"
        if ctest --test-dir "build/$name" -R "^${test//./\\.}\$" --timeout 600 --output-on-failure \
            --no-tests=error; then
            unstable+=("$name/$test")
        else
            rm "$kept/$test.log"
            failed=$((failed + 1))
            passed=$((passed - 1))
        fi
    done
}

# Configures and builds in build/$1 and counts the tests that pass, fail and are skipped there. $1: name of the build,
# $2: preset, the rest: further arguments for cmake
check() {
    local name=$1 preset=$2 log=build/$1/run.log failures=build/$1/Testing/Temporary/LastTestsFailed.log
    local start=$SECONDS total absent chosen only=() wrong=()
    shift 2
    echo "== $name"
    mkdir -p "build/$name"
    rm -rf "build/$name/unstable" "$failures"
    if ! cmake --preset "$preset" -B "build/$name" -DINLAY_TESTS=ON "${launcher[@]}" "$@" >"$log" 2>&1 ||
        ! cmake --build "build/$name" -j "$jobs" >>"$log" 2>&1; then
        tail -n 40 "$log"
        echo "$name: the build failed"
        failed=$((failed + 1))
        return
    fi
    echo "$name: built in $((SECONDS - start)) s"
    if [ -n "$since" ]; then
        chosen=$(python3 tests/quick.py "build/$name" "$since" 240) || exit 1
        [ -n "$chosen" ] || return
        only=(-R "$chosen")
    fi
    start=$SECONDS
    # A test may use every core, so few run concurrently. Many wait for most of their time, for processes, devices and
    # time limits: six keep two cores busy. A test that hangs fails after ten minutes, and is repeated.
    ctest --test-dir "build/$name" "${only[@]}" -j 6 --timeout 600 --output-on-failure --no-tests=error 2>&1 |
        tee "$log"
    echo "$name: tested in $((SECONDS - start)) s"
    total=$(sed -nE 's/.*tests passed, [0-9]+ tests? failed out of ([0-9]+).*/\1/p' "$log")
    if [ -z "$total" ]; then
        echo "$name: no test ran"
        failed=$((failed + 1))
        return
    fi
    # ctest counts skipped tests as passed, and lists them after the summary.
    mapfile -t absent < <(sed -nE 's/^\t *[0-9]+ - (.*) \(Skipped\).*/\1/p' "$log")
    if [ -e "$failures" ]; then
        mapfile -t wrong < <(cut -d: -f2- "$failures")
    fi
    skipped+=("${absent[@]/#/$name/}")
    passed=$((passed + total - ${#absent[@]}))
    repeat_failed "$name" "${wrong[@]}"
}

for preset in "${presets[@]}"; do
    check "$preset" "$preset"
done
if [ -n "$with_clang" ]; then
    check clang release -DCMAKE_C_COMPILER=clang
fi
echo "${#skipped[@]} skipped${skipped[*]:+: ${skipped[*]}}"
echo "${#unstable[@]} unstable${unstable[*]:+: ${unstable[*]}}"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
