#!/bin/bash
# tests/run.sh repeats a failed test alone, counts what passes then as passed, and lists it as unstable; in a small project with
# a test that passes, one that is skipped, one that fails, and one that fails the first time.
#   run_test.sh SOURCE_DIR
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tests"
cp "$1/tests/run.sh" "$work/tests"
echo 'exit 0' >"$work/tests/install.sh"
cat >"$work/CMakePresets.json" <<'END'
{ "version": 6, "configurePresets": [ { "name": "release", "generator": "Ninja" }, { "name": "asan", "inherits": "release" } ] }
END
cat >"$work/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(four NONE)
enable_testing()
add_test(NAME passes.first COMMAND true)
add_test(NAME fails COMMAND false)
add_test(NAME skipped COMMAND sh -c "exit 77")
set_tests_properties(skipped PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME passes.later COMMAND sh -c "mkdir ${CMAKE_BINARY_DIR}/seen || exit 0; echo the first output; exit 1")
END
bash "$work/tests/run.sh" >"$work/out" 2>&1
code=$?
want='2 skipped: release/skipped asan/skipped
2 unstable: release/passes.later asan/passes.later
4 passed, 2 failed'
if [ $code -eq 0 ] || [ "$(tail -n 3 "$work/out")" != "$want" ]; then
    echo "exit code $code, and instead of '$want':"
    tail -n 3 "$work/out"
    exit 1
fi
for preset in release asan; do
    if ! grep -q '^the first output$' "$work/build/$preset/unstable/passes.later.log" ||
        [ "$(ls "$work/build/$preset/unstable")" != passes.later.log ]; then
        echo "$preset/unstable:"
        head -n 20 "$work/build/$preset"/unstable/*
        exit 1
    fi
done
