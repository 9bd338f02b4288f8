#!/bin/bash
# Runs the programs of Debian that use ONNX Runtime, unmodified, on Debian's library and on inlay's, and compares
# the results: GStreamer's onnxinference, PipeWire's filter graph, COLMAP, TopFD (toppic), the speech of calibre
# (Piper), and YARF's cursor detector (Python).
#   debian.sh BUILD WORK [SUITE]
# BUILD is a release build; WORK a folder; SUITE sid by default: Debian 13 has only the first. Needs root, debootstrap,
# the network (3 GB, kept by sdk/packaging/chroot.sh), python3-numpy and python3-onnx. Prints a line per result: 'ok',
# 'FAIL' or 'skipped', the program and the largest difference; the last line is 'N passed, N failed'.
set -euo pipefail
here=$(dirname "$(realpath -- "$0")")
tree=$here/../../..
own=/work/own # where the programs find inlay's library

# Runs a command on ONNX Runtime ("theirs") or on inlay ("ours").
on() { # SIDE COMMAND...
    local side=$1
    shift
    if [ "$side" = ours ]; then
        set -- env LD_LIBRARY_PATH=$own:/build/lib:/work/libraries PYTHONPATH=/python \
            INLAY_LIBRARY=/build/lib/libinlay.so.1 LD_DEBUG=libs LD_DEBUG_OUTPUT=/work/loaded "$@"
    fi
    timeout 120 "$@"
}

# The programs: each writes its results into $1, a folder.
gstreamer() {
    GST_REGISTRY=$1/registry on "$2" python3 /tests/programs.py gstreamer /work/video.onnx "$1/result.npy"
    rm "$1/registry"
}
pipewire_() {
    local server wireplumber player
    export XDG_RUNTIME_DIR=$1 PIPEWIRE_RUNTIME_DIR=$1
    on "$2" pipewire -c /tests/pipewire.conf &
    server=$!
    sleep 1
    wireplumber &
    wireplumber=$!
    sleep 2
    pw-cat -p --target filter_in /work/tone.wav &
    player=$!
    sleep 2
    timeout 4 pw-record --target out -P '{ stream.capture.sink=true }' --rate 16000 --channels 1 --format f32 \
        "$1/out.wav" || true
    kill $player $wireplumber $server
    wait || true
    python3 /tests/programs.py recorded "$1/out.wav" "$1/result.npy"
}
colmap_() {
    on "$2" colmap feature_extractor --FeatureExtraction.use_gpu 0 --FeatureExtraction.type ALIKED_N16ROT \
        --AlikedExtraction.n16rot_model_path /work/features.onnx --database_path "$1/db" --image_path /work/pictures
    python3 /tests/programs.py features "$1/db" "$1/result.npy"
}
topfd_() {
    cp /work/proteins.mzML "$1"
    (cd "$1" && on "$2" topfd -u 1 proteins.mzML)
    sed -i '/Timestamp/d' "$1"/*.msalign
}
piper() { on "$2" python3 /tests/programs.py piper /work/voice.onnx "$1/result.npy"; }
yarf() { on "$2" python3 /tests/programs.py yarf /work/cursor.onnx "$1/result.npy"; }

inside() {
    local name side file failed=0 passed=0 library
    local packages=(gstreamer1.0-plugins-bad gstreamer1.0-plugins-base gir1.2-gst-plugins-bad-1.0
        gir1.2-gst-plugins-base-1.0 python3-gi python3-numpy)
    local programs=(gstreamer)
    echo 'Acquire::Check-Valid-Until "false";' >/etc/apt/apt.conf.d/99valid # of a mirror that has not been updated
    if [ "$1" = sid ]; then
        programs+=(pipewire_ colmap_ topfd_ piper yarf)
        packages+=(pipewire pipewire-bin libspa-0.2-modules wireplumber colmap toppic calibre-bin espeak-ng-data
            python3-onnxruntime python3-pil)
    fi
    {
        apt-get update -q
        apt-get install -q -y --no-install-recommends "${packages[@]}" libcyaml1 libjansson4 libprotobuf-c1 libelf1t64 \
            libgomp1
        if [ "$1" = sid ]; then (cd /work && apt-get download -q yarf && dpkg -x yarf_*.deb yarf); fi
    } >/work/log 2>&1 || { tail -n 5 /work/log; exit 1; }
    # inlay's library by the name that the programs need, and what it links and this Debian lacks.
    mkdir -p $own /work/libraries
    library=(/usr/lib/*/libonnxruntime.so.1.??)
    ln -sf /build/lib/inlay/onnxruntime/libonnxruntime.so.1 "$own/$(basename "${library[0]}")"
    for file in /build/lib/libinlay.so.1 /build/lib/inlay/plugins/inlay-{cpu,reference,prepost}.so; do
        ldd "$file" | awk '/not found/ { print $1 }'
    done | sort -u | while read -r file; do
        [ ! -e "/host/$file" ] || cp -L "/host/$file" /work/libraries/
    done
    for name in "${programs[@]}"; do
        rm -f /work/loaded.*
        for side in theirs ours; do
            mkdir -p "/work/$name.$side"
            if ! "$name" "/work/$name.$side" $side >"/work/$name.$side.log" 2>&1; then
                echo "FAIL ${name%_}: $side: $(grep -v Schema "/work/$name.$side.log" | tail -n 1)"
                failed=$((failed + 1))
                continue 2
            fi
        done
        if ! grep -qs 'calling init: .*/libinlay[.]so' /work/loaded.*; then
            echo "FAIL ${name%_}: it did not load inlay's library"
            failed=$((failed + 1))
        elif python3 /tests/programs.py compare "${name%_}" "/work/$name.theirs" "/work/$name.ours"; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
        fi
    done
    echo "$passed passed, $failed failed"
    [ $failed = 0 ]
}

if [ "${1:-}" = --inside ]; then
    inside "$2"
    exit
fi
[ $# -ge 2 ] || { echo "usage: debian.sh BUILD WORK [SUITE]" >&2; exit 2; }
build=$(realpath -- "$1")
suite=${3:-sid}
rm -rf "$2"
mkdir -p "$2"
work=$(realpath -- "$2")
/usr/bin/python3 -B "$here/inputs.py" "$work"
mkdir "$work/python"
cp -r "$tree/sdk/bindings/python/inlay" "$tree/sdk/bindings/python-onnxruntime/onnxruntime" "$work/python"
exec "$tree/sdk/packaging/chroot.sh" --keep programs --bind "$work:/work" --bind "$build:/build" \
    --bind "$here:/tests" --bind "$work/python:/python" --bind /usr/lib/x86_64-linux-gnu:/host \
    "$suite" bash /tests/debian.sh --inside "$suite"
