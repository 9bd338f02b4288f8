#!/bin/bash
# Locations of installations: staged in DESTDIR, unpacked from cpack's tarball in any folder, and two versions.
#   layouts.sh BUILD SOURCE_DIR CC
set -uo pipefail
build=$1 source=$2 cc=$3
work=$(realpath "$(mktemp -d)")
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache XDG_CONFIG_HOME=$work/config

die() {
    echo "layouts.sh: $*"
    [ ! -s "$work/log" ] || tail -n 20 "$work/log"
    exit 1
}
files() { (cd "$1" && find . ! -type d | sort); }
# The model of debian's tests: y = Relu(x + [10, 20, 30]).
export AUTOPKGTEST_TMP=$work
HOME_BEFORE=${HOME:-$work}
# shellcheck disable=SC1091
. "$source/sdk/packaging/debian/tests/model"
export HOME=$HOME_BEFORE

# ---- DESTDIR: the same files, and none outside it
cp -a "$build/installed" "$work/plain"
DESTDIR=$work/stage cmake --install "$build" --prefix /opt/inlay >"$work/log" 2>&1 || die "DESTDIR failed"
diff <(files "$work/plain") <(files "$work/stage/opt/inlay") >"$work/log" || die "DESTDIR has other files"
! grep -rlF "$work/stage" "$work/stage" >"$work/log" || die "these files name DESTDIR"
[ "$(ls "$work/stage")" = opt ] || die "DESTDIR has more than the prefix"

# ---- cpack: unpacked in any folder
cpack --config "$build/CPackConfig.cmake" -G TGZ -B "$work/pack" -D CPACK_STRIP_FILES=ON >"$work/log" 2>&1 ||
    die "cpack failed"
tarball=$(echo "$work"/pack/inlay-*.tar.gz)
[ -f "$tarball" ] || die "cpack wrote no tarball"
mkdir "$work/a folder"
tar -x -C "$work/a folder" -f "$tarball"
moved=$(echo "$work/a folder"/inlay-*)
diff <(files "$work/plain") <(files "$moved") >"$work/log" || die "the tarball has other files"
"$moved/bin/inlay" run model.onnx --seed 1 >"$work/log" 2>&1 || die "the unpacked program runs no model"
"$moved/bin/inlay" providers >"$work/log" 2>&1 || die "the unpacked program lists no providers"
grep -qF "$moved/" "$work/log" || die "the unpacked program finds no plugins of its own"
! grep '^/' "$work/log" | grep -vqF "$moved/" || die "the unpacked program uses plugins of another installation"
if /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
    for package in inlay onnxruntime; do
        [ -e "$moved/lib/inlay/onnxruntime" ] || [ $package = inlay ] || continue
        folders=$moved/lib/inlay/python:$moved/lib/inlay/python-onnxruntime
        env -u INLAY_LIBRARY PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$folders" /usr/bin/python3 -c "
import numpy, os, $package
x = numpy.array([1, -2, -40], numpy.float32)
if '$package' == 'inlay':
    y = inlay.Session('model.onnx').run({'x': x})['y']
else:
    y = onnxruntime.InferenceSession('model.onnx').run(None, {'x': x})[0]
assert y.tolist() == [11, 18, 0], y
assert os.path.realpath('$moved') + '/lib/libinlay.so' in open('/proc/self/maps').read()" >"$work/log" 2>&1 ||
            die "the unpacked Python package $package runs no model"
    done
fi

# ---- two installed versions: each program uses the library that it was built for, and its plugins
second=$work/second
cp -a "$work/plain" "$second"
library=$(realpath "$(find "$second" -name libinlay.so.1)")
version=$("$work/plain/bin/inlay" --version | cut -d' ' -f2)
other=${version%.*}.$((${version##*.} + 1))
sed -i "s/\\b${version//./\\.}\\x00/$other\\x00/" "$library"
cat >program.c <<'END'
#include <inlay/inlay.h>
#include <stdio.h>

int main(void)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;
    inlay_session_provider_info info = { .struct_size = sizeof info };

    if (inlay_session_create("model.onnx", NULL, &session, &diag) != INLAY_OK ||
        inlay_session_provider(session, 0, &info) != INLAY_OK) {
        fprintf(stderr, "%s\n", diag.text);
        return 1;
    }
    printf("%s %s\n", inlay_version(), info.plugin_path);
    inlay_session_destroy(session);
    return 0;
}
END
for prefix in "$work/plain" "$second"; do
    lib=$(dirname "$(find "$prefix" -name libinlay.so.1)")
    # shellcheck disable=SC2046
    PKG_CONFIG_PATH=$lib/pkgconfig "$cc" program.c $(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config --cflags --libs inlay) \
        -Wl,-rpath,"$lib" -o "program-$(basename "$prefix")" >"$work/log" 2>&1 || die "$prefix: the program is not built"
done
for _ in 1 2; do # the second time with the cache of the first
    first=$(./program-plain) || die "the first version fails"
    last=$(./program-second) || die "the second version fails"
    [ "${first%% *}" = "$version" ] && [ "${last%% *}" = "$other" ] || die "versions: $first, $last"
    [[ $first == *" $work/plain/"* && $last == *" $second/"* ]] || die "plugins: $first, $last"
done
echo "$(files "$work/plain" | wc -l) files; a tarball of $(($(stat -c %s "$tarball") / 1024)) KiB; $first; $last"
