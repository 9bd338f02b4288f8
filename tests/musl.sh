#!/bin/bash
# Compiles with musl-gcc (Debian's musl-tools). The SDK, the operators and the kernels of the provider reference must
# compile without a warning, or the exit code is not 0. For the rest of the host and of the providers' common part it
# lists each file that does not compile, with its first error.
#   tests/musl.sh
# Linking the host would need more: Debian builds libcyaml, libyaml, jansson, protobuf-c and libelf for glibc only, so
# that only their headers are used here. Needs a configured and built build/release (for onnx.pb-c.h).
set -euo pipefail
cd "$(dirname "$0")/.."
command -v musl-gcc >/dev/null || { echo "musl.sh: musl-gcc is missing: apt-get install musl-tools" >&2; exit 2; }
proto=build/release/host/runtime/proto
[ -e $proto/onnx.pb-c.h ] || { echo "musl.sh: $proto/onnx.pb-c.h is missing: build the preset release first" >&2; exit 2; }

room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
mkdir "$room/headers"
for header in jansson.h jansson_config.h cyaml yaml.h uthash.h utlist.h protobuf-c libelf.h gelf.h pcre2.h; do
    [ ! -e /usr/include/$header ] || ln -s /usr/include/$header "$room/headers/"
done

compile() { # FILE: writes its errors to $room/log
    local level=()
    case $1 in
    *avx512.c) level=(-march=x86-64-v4) ;;
    *avx2.c) level=(-march=x86-64-v3) ;;
    esac
    musl-gcc -std=gnu11 -Wall -Wextra -Werror -Wno-cpp -fopenmp-simd "${level[@]}" -D_GNU_SOURCE= \
        -DINLAY_VERSION='"0"' -DINLAY_PLUGIN_SUBDIR='"plugins"' -DINLAY_LIBEXEC_FROM_LIB='"libexec"' \
        -DINLAY_LIBEXEC_FROM_BIN='"libexec"' \
        -Isdk/include -Isdk/kit -Iops -Ihost/runtime -Ihost/insight -Ihost/tools -Ihost -Iproviders -I$proto \
        -isystem "$room/headers" -c "$1" -o "$room/object.o" 2>"$room/log"
}

compiled=0
failed=0
for file in sdk/kit/*.c ops/*.c ops/*/*.c providers/simd/*.c providers/operators/*.c providers/operators/*/*.c \
    providers/reference/*.c; do
    if compile "$file"; then
        compiled=$((compiled + 1))
    else
        grep -m 1 error "$room/log"
        failed=$((failed + 1))
    fi
done
echo "SDK, operators, reference: $compiled files compile with musl, $failed do not"

others=0
blocked=0
for file in providers/common/*.c host/*/*.c host/*/*/*.c host/*/*/*/*.c; do
    others=$((others + 1))
    if ! compile "$file"; then
        blocked=$((blocked + 1))
        echo "does not compile: $file: $(grep -m 1 -o 'error: .*' "$room/log")"
    fi
done
echo "host and common parts: $((others - blocked)) of $others files compile with musl"
[ "$failed" -eq 0 ]
