#!/bin/sh
# Adds the source as a folder of another project, as FetchContent does, and links a plugin and the headers of the library
# there. The library itself is configured only: its build is that of the tests.
#   subproject.sh SOURCE_DIR CC GENERATOR
set -eu
source=$1 compiler=$2 generator=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

mkdir "$folder/app"
cat >"$folder/app/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(app VERSION 7.0 LANGUAGES C)
add_subdirectory($source inlay EXCLUDE_FROM_ALL)
add_executable(app app.c)
target_link_libraries(app PRIVATE inlay_headers inlay_kit)
add_executable(runs app.c)
target_link_libraries(runs PRIVATE inlay::inlay)
END
cat >"$folder/app/app.c" <<'END'
#include <inlay/inlay.h>
#include <inlay/kit.h>

int main(void)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    return inlay_fail(&diag, INLAY_IO_ERROR, "%s", "as stated") == INLAY_IO_ERROR ? 0 : 1;
}
END
cmake -S "$folder/app" -B "$folder/build" -G "$generator" -DCMAKE_C_COMPILER="$compiler" >"$folder/log" 2>&1 || {
    tail -n 30 "$folder/log"
    echo "FAIL: a project that adds the source as a folder cannot be configured"
    exit 1
}
cmake --build "$folder/build" --target app >"$folder/log" 2>&1 || {
    tail -n 30 "$folder/log"
    echo "FAIL: a program of a project that adds the source as a folder cannot be linked"
    exit 1
}
"$folder/build/app"
