#!/bin/bash
# Builds every target of tests/fuzz into $OUT, with its corpus as NAME_seed_corpus.zip and the shared libraries that the
# machines lack on which OSS-Fuzz runs them. OSS-Fuzz sets SRC, WORK, OUT, CC, CFLAGS and LIB_FUZZING_ENGINE; without it,
# only SRC (a folder with inlay/), WORK and OUT need be set, and the engine is libFuzzer with AddressSanitizer.
set -euo pipefail
source=$SRC/inlay
flags=(-DCMAKE_BUILD_TYPE=RelWithDebInfo)
if [ -z "${LIB_FUZZING_ENGINE:-}" ]; then
    flags+=(-DINLAY_SANITIZE=fuzzer-no-link,address,undefined)
fi
cmake -S "$source" -B "$WORK/inlay" -G Ninja -DCMAKE_C_COMPILER="${CC:-clang}" -DCMAKE_CXX_COMPILER="${CXX:-clang++}" \
    -DINLAY_TESTS=ON -DINLAY_FUZZ=ON -DINLAY_FUZZ_ENGINE="${LIB_FUZZING_ENGINE:--fsanitize=fuzzer}" \
    -DINLAY_SAMPLES=OFF "${flags[@]}"
cmake --build "$WORK/inlay" --target fuzz_targets
mkdir -p "$OUT/lib"
while read -r target corpus; do
    cp "$WORK/inlay/bin/$target" "$OUT/"
    rm -f "$OUT/${target}_seed_corpus.zip"
    (cd "$source/tests/fuzz/corpus/$corpus" && zip -q -r "$OUT/${target}_seed_corpus.zip" .)
    ldd "$OUT/$target" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' |
        grep -vE '/lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s)\.so' | xargs -r cp -L -n -t "$OUT/lib"
    # shellcheck disable=SC2016
    patchelf --set-rpath '$ORIGIN/lib' "$OUT/$target"
done <"$WORK/inlay/fuzz_targets.txt"
