#!/bin/bash
# Tests and times the vulkan provider on a machine with a GPU, which needs neither packages nor a network.
#
#   tests/gpu.sh pack DIR [BUILD]   gathers here what the run there needs: programs of BUILD (default build/release),
#                                   their libraries, ONNX's node cases, and these scripts
#   DIR/gpu.sh [OUT]                runs there, and writes logs and table.txt to OUT (default DIR/out)
#
# Models with random weights are written by networks.py, where python3 has onnx; with --models, pack writes them into
# DIR, which then takes 2 GB. Times are medians of `inlay bench`, with the tiles of measured times and of estimates;
# PyTorch is timed, too, if it is there and has CUDA. At the end, table.txt has the measured times of all tiles
# and of sums of parts of k, and which tile each product took. Every step has a time limit, so a device that hangs
# costs that step only. The exit code is 1 if there is no device, a result was wrong, or a step ran nothing on the
# device. Variables of the environment:
#
#   DEVICE    option vulkan.device (default auto)
#   TILES     option vulkan.tiles (default auto; measure: also on a CPU driver)
#   ONLY      the steps, of: cases networks peer check
#   MODELS    names of networks.py
#   CASES_S, BENCH_S, CHECK_S    seconds for the cases, for each timing, for plugin-check
set -u
here=$(cd "$(dirname "$0")" && pwd)

pack() {
    local models='' out build data=/usr/share/libonnx-testdata/data
    [ "${1:-}" = --models ] && { models=yes; shift; }
    out=$1
    build=${2:-$here/../build/release}
    mkdir -p "$out/bin" "$out/lib" "$out/plugins"
    cp "$build/bin/inlay" "$out/bin/"
    cp "$build"/lib/inlay/plugins/inlay-{vulkan,cpu,reference}.so "$out/plugins/"
    # The C library is the machine's own.
    ldd "$build/bin/inlay" "$out"/plugins/*.so | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
        grep -vE '/(libc|libm|libdl|libpthread|libgcc_s|libstdc\+\+)\.so' | xargs -r cp -Lt "$out/lib"
    # NVIDIA's driver is found by its libGLX, which opens libraries of the packages libglvnd0 and libxext6.
    ldconfig -p | awk '$1 ~ /^lib(vulkan.so.1|GLX.so.0|GLdispatch.so.0|EGL.so.1|Xext.so.6)$/ { print $NF }' |
        xargs -r cp -Lt "$out/lib"
    strip "$out"/bin/* "$out"/lib/* "$out"/plugins/*
    cp "$here/gpu.sh" "$here"/gpu/*.py "$out/"
    tar -C "$data" -cJf "$out/cases.tar.xz" node simple pytorch-converted pytorch-operator
    cp "$here/conformance/wrong_data.txt" "$out/"
    if [ -n "$models" ]; then
        /usr/bin/python3 "$here/gpu/networks.py" "$out/models" || return 1
    fi
    du -sh "$out"
}

if [ "${1:-}" = pack ]; then
    shift
    set -e
    pack "$@"
    exit
fi

out=${1:-$here/out}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH=$here/lib INLAY_PLUGIN_DIRS=$here/plugins INLAY_CACHE_DIR=$work/cache
vulkan=(--providers "vulkan,cpu,reference" --policy priority --option "vulkan.device=${DEVICE:-auto}")
models=$here/models
failed=0
wanted() { [[ " ${ONLY:-cases networks peer check} " == *" $1 "* ]]; }
say() { echo "$*" | tee -a "$out/table.txt"; }

: >"$out/table.txt"
timeout 60 "$here/bin/inlay" providers >"$out/device.log" 2>&1
say "$(grep -E '^ *(device device=|no device)' "$out/device.log")"
if ! grep -q '^ *device device=' "$out/device.log"; then
    say "no Vulkan device: nothing is tested"
    exit 1
fi
if ! [ -d "$models" ]; then
    models=$work/models
    # shellcheck disable=SC2086
    (cd "$work" && python3 "$here/networks.py" "$models" ${MODELS:-} >"$out/networks.log" 2>&1; touch "$work/written") &
else
    touch "$work/written"
fi
if wanted cases; then
    mkdir "$work/cases"
    tar -C "$work/cases" -xJf "$here/cases.tar.xz"
    begin=$SECONDS
    timeout "${CASES_S:-120}" "$here/bin/inlay" test "${vulkan[@]}" --option reference.preview=true "$work"/cases/* \
        >"$out/cases.log" 2>&1
    code=$?
    sed -nE 's/^FAIL ([^:]*): .*/\1/p' "$out/cases.log" | sort -u >"$work/failed"
    sed -E '/^#/d; s/[[:space:]].*//' "$here/wrong_data.txt" | sort -u >"$work/excused"
    new=$(comm -23 "$work/failed" "$work/excused" | tr '\n' ' ')
    say "node cases: $(tail -n 1 "$out/cases.log"), code $code, $((SECONDS - begin)) s; wrong: ${new:-none}"
    [ -z "$new" ] && [ $code -le 1 ] && grep -qE '^[1-9][0-9]* passed' "$out/cases.log" || failed=1
fi
if wanted networks; then
    say "$(printf '%-22s %10s %12s %10s %8s %10s  %s' model 'vulkan ms' 'estimates ms' 'cpu ms' TFLOP/s dispatches \
        'largest error against cpu')"
    # shellcheck disable=SC2086
    for model in ${MODELS:-$(cd "$here" && sed -nE "s/^    '([a-z0-9_]+)': lambda.*/\1/p" networks.py)}; do
        while [ ! -e "$models/$model/what.json" ] && [ ! -e "$work/written" ]; do sleep 0.2; done
        path=$models/$model
        bounds=(--rtol 1e-3 --atol 1e-3)
        case $model in *f16*) bounds=(--rtol 2e-2 --atol 3e-2) ;; esac
        timeout 60 "$here/bin/inlay" run "$path/model.onnx" --inputs "$path" --outputs "$work/expected" --providers \
            cpu,reference --quiet >"$out/$model.log" 2>&1
        timeout 60 "$here/bin/inlay" run "$path/model.onnx" --inputs "$path" --expect "$work/expected" "${bounds[@]}" \
            "${vulkan[@]}" --option "vulkan.tiles=${TILES:-auto}" --verbose >>"$out/$model.log" 2>&1
        code=$?
        rm -rf "$work/expected"
        error=$(grep -oE 'largest error [^,]*|every element is equal' "$out/$model.log" | tail -1)
        if [ $code != 0 ] || [ -z "$error" ]; then
            error="WRONG or failed, code $code: $(tail -n 1 "$out/$model.log" | cut -c1-100)"
        elif ! grep -q 'vulkan: region of' "$out/$model.log"; then
            error="WRONG: nothing ran on the device"
        fi
        case $error in WRONG*) failed=1 ;; esac
        for tiles in "${TILES:-auto}" estimate; do
            timeout 60 "$here/bin/inlay" bench "$path/model.onnx" --inputs "$path" --seconds "${BENCH_S:-0.5}" --json \
                "${vulkan[@]}" --option "vulkan.tiles=$tiles" >"$out/$model.$tiles.json" 2>>"$out/$model.log"
        done
        dispatches=$(sed -nE 's/.*vulkan: region of .*: ([0-9]+) dispatches.*/\1/p' "$out/$model.log" |
            awk '{ n += $1 } END { print n + 0 }')
        timeout 60 "$here/bin/inlay" bench "$path/model.onnx" --inputs "$path" --seconds "${BENCH_S:-0.5}" --json \
            --providers cpu,reference >"$out/$model.cpu.json" 2>>"$out/$model.log"
        row=$(awk -v model="$model" -v dispatches="$dispatches" '
            function value(line) { sub(/.*: /, "", line); sub(/[,}].*/, "", line); return line + 0 }
            FILENAME ~ /what.json/ { repeats = $0; sub(/.*repeats": /, "", repeats); repeats += 0
                                     flops = $0; sub(/.*flops": /, "", flops); flops += 0 }
            /"median_ms"/ { ms[++n] = value($0) }
            END { t = n ? ms[1] / repeats : 0
                  printf "%-22s %10.4f %12.4f %10.4f %8.2f %10d", model, t, ms[2] / repeats, ms[3] / repeats,
                         t ? flops / t / 1e9 : 0, dispatches }' \
            "$path/what.json" "$out/$model.${TILES:-auto}.json" "$out/$model.estimate.json" "$out/$model.cpu.json")
        say "$row  ${error#largest error }"
        [ "$models" = "$here/models" ] || rm -f "$path/model.onnx"
    done
    say "Measured ns: of a chunk of k of one tile, and of each of many; of a dispatch of sums of parts of k:"
    cat "$out"/*.log | sed -nE 's/.*vulkan: (tiles-|sums of parts)/\1/p' | grep -v measured | sort -u |
        tee -a "$out/table.txt"
    say "Products:"
    cat "$out"/*.log | sed -nE 's/.*vulkan: (product of)/\1/p' | sort | uniq -c | tee -a "$out/table.txt"
fi
if wanted peer && python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    say "PyTorch on the same GPU, ms:"
    timeout 150 python3 "$here/peer.py" 2>"$out/peer.log" | tee -a "$out/table.txt"
fi
if wanted check; then
    timeout "${CHECK_S:-60}" "$here/bin/inlay" plugin-check "$here/plugins/inlay-vulkan.so" --quick --no-timing \
        --compile-budget 8 >"$out/check.log" 2>&1
    code=$? # 124: the time was up
    say "plugin-check: code $code, $(tail -n 1 "$out/check.log")"
    grep '^FAIL' "$out/check.log" | tee -a "$out/table.txt"
    case $code in 0 | 124) ;; *) failed=1 ;; esac
fi
exit $failed
