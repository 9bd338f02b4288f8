# Functions of the scripts that cross-build. They set $build first, the folder of the build, and $emulator, the command
# that runs its programs.
# shellcheck shell=bash disable=SC2154

# $1: folder, $2: targets, the rest: options of CMake
build() {
    local launcher=() log=$build/run.log
    if command -v ccache >/dev/null; then
        launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
    fi
    mkdir -p "$build"
    # shellcheck disable=SC2086
    if ! cmake --preset release -B "$1" "${launcher[@]}" "${@:3}" >"$log" 2>&1 ||
        ! cmake --build "$1" -j "$(nproc)" --target $2 >>"$log" 2>&1; then
        tail -n 40 "$log"
        echo "${0##*/}: the build failed"
        exit 1
    fi
    echo "built in $1 after $SECONDS s"
}

# Makes $inlay, a script that runs the executable inlay of $build, with an empty cache: crashes of an earlier run are not
# remembered. The helper that probes new plugins, which inlay starts, becomes a script, too.
emulate() {
    local probe=$build/libexec/inlay/inlay-probe
    [ "$(head -c 2 "$probe")" = '#!' ] || mv "$probe" "$probe.emulated"
    printf '#!/bin/sh\nexec %s "$0.emulated" "$@"\n' "$emulator" >"$probe"
    chmod +x "$probe"
    export XDG_CACHE_HOME=$build/cache
    rm -rf "$XDG_CACHE_HOME"
    mkdir -p "$XDG_CACHE_HOME"
    inlay=$build/inlay
    printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$emulator" "$build/bin/inlay" >"$inlay"
    chmod +x "$inlay"
}

passed=0
failed=0
# $1: description, the rest: the command
try() {
    local what=$1 start=$SECONDS out
    shift
    if out=$("$@" 2>&1); then
        passed=$((passed + 1))
        echo "pass $what ($((SECONDS - start)) s): $(tail -n 1 <<<"$out")"
    else
        failed=$((failed + 1))
        echo "FAIL $what"
        tail -n 30 <<<"$out"
    fi
}

# Prints the last line; 0 if nothing failed.
finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}

# Prints the path of count_plugin.c, compiled for the first version of the interface that this qemu supports.
make_plugin() {
    local version plugin=$build/count_plugin.so
    for version in 1 2 3 4 5; do
        "${CC:-cc}" -std=c11 -Wall -Wextra -Werror -O2 -fPIC -shared -DPLUGIN_VERSION=$version tests/cross/count_plugin.c \
            -o "$plugin" || return
        # shellcheck disable=SC2086
        if $emulator -plugin "$plugin" "$build/bin/count_kernels" none 0 >/dev/null 2>&1; then
            echo "$plugin"
            return
        fi
    done
    echo "$emulator supports none of the versions of count_plugin.c" >&2
    return 1
}

# $1: rules of count.py. Counts the instructions of count_kernels, and writes the table to $build/count.md, too.
count() {
    local plugin
    # shellcheck disable=SC2086
    plugin=$(make_plugin) && python3 tests/cross/count.py "$1" "$plugin" $emulator "$build/bin/count_kernels" |
        tee "$build/count.md"
}
