#!/bin/bash
# Run by conda-build, in the sources, with PREFIX and CMAKE_ARGS.
set -euo pipefail
# shellcheck disable=SC2086
cmake -S . -B build -G Ninja ${CMAKE_ARGS:-} -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$PREFIX" \
    -DCMAKE_INSTALL_LIBDIR=lib -DINLAY_NODE=OFF -DINLAY_ONEDNN=OFF -DINLAY_OPENBLAS=OFF -DINLAY_PYTHON_EXTENSION=OFF \
    -DINLAY_SAMPLES=OFF -DINLAY_SERVE=OFF -DINLAY_VULKAN=OFF -DINLAY_WERROR=OFF
cmake --build build ${CPU_COUNT:+-j "$CPU_COUNT"}
cmake --install build
