#!/bin/sh
# Uses an installation like a plugin author: builds a provider, an operator and a program with it, outside of the
# tree, with CMake and with pkg-config, and runs a model with all of them.
#   package.sh BUILD_DIR SOURCE_DIR CC GENERATOR
set -eu
build=$1 source=$2 cc=$3 generator=$4
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

die() {
    echo "package.sh: $*" >&2
    exit 1
}
quietly() { # COMMAND...: prints its output only if it fails
    "$@" >"$tmp/log" 2>&1 || { cat "$tmp/log"; die "failed: $*"; }
}

# An installation can be moved: it contains no absolute paths.
first=$build/installed
mkdir "$tmp/elsewhere"
cp -a "$first" "$tmp/elsewhere/inlay"
prefix=$tmp/elsewhere/inlay
lib=$(dirname "$(find "$prefix" -name libinlay.so)")
for file in bin/inlay libexec/inlay/inlay-probe include/inlay/inlay.h include/inlay/plugin.h include/inlay/kit.h \
    include/inlay/graph_view.h include/inlay/execution.h include/inlay/host.h include/inlay/cost.h \
    include/inlay/kit_kernel.h include/inlay/kit_table.h include/inlay/kit_node.h include/inlay/kit_call.h \
    include/inlay/types.h include/inlay/note.h include/inlay/status.h; do
    [ -e "$prefix/$file" ] || die "$file is not installed"
done
for page in inlay inlay-run inlay-plugin-check; do
    ! command -v help2man >/dev/null || grep -q '^\.SH DESCRIPTION' "$prefix/share/man/man1/$page.1" ||
        die "$page has no manual page"
done
[ -e "$lib/inlay/plugins/inlay-reference.so" ] || die "the reference provider is not installed"
[ -e "$prefix/include/inlay/inlay.hpp" ] || die "include/inlay/inlay.hpp is not installed"
# The replacement for ONNX Runtime's library finds libinlay relative to its own location.
drop_in=$lib/inlay/onnxruntime/libonnxruntime.so.1
if [ -e "$build/lib/inlay/onnxruntime/libonnxruntime.so.1" ]; then
    [ -e "$drop_in" ] || die "libonnxruntime.so.1 is not installed"
    for file in "$drop_in" "${drop_in%/*}/libinlay_ep.so"; do
        ldd "$file" | grep -q "libinlay.so.1 => $lib/" || die "$file does not find libinlay"
    done
fi
if grep -rl "$first" "$prefix" >/dev/null; then
    die "these files contain the first installation path: $(grep -rl "$first" "$prefix" | tr '\n' ' ')"
fi

configure() { # SOURCE BUILD ARGUMENTS...
    from=$1 into=$2
    shift 2
    quietly cmake -S "$from" -B "$into" -G "$generator" -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" \
        -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "$@"
    quietly cmake --build "$into"
}
plugins=
samples='provider_skeleton provider_tvm_ffi device_skeleton devices_meet custom_op custom_op_cpp'
[ ! -e "$build/samples/plugins/xnnpack.so" ] || samples="$samples provider_xnnpack"
[ ! -e "$build/samples/plugins/oxide.so" ] || samples="$samples provider_rust"
for sample in $samples; do
    # The installed copy, moved, so that it cannot use neighbouring files.
    cp -r "$prefix/share/inlay/samples/$sample" "$tmp/$sample"
    configure "$tmp/$sample" "$tmp/build-$sample"
    ! grep '"command"' "$tmp/build-$sample/compile_commands.json" | grep -qv -- ' -O[23]' ||
        die "$sample is built without optimisation unless its reader sets CMAKE_BUILD_TYPE"
    for plugin in "$tmp/build-$sample"/*.so; do
        names=$(nm -D --defined-only "$plugin" | awk '{ print $NF }' | tr '\n' ' ')
        [ "$names" = "inlay_plugin_open " ] || die "$plugin exports '$names'"
    done
    [ "$sample" = provider_tvm_ffi ] || plugins=$plugins${plugins:+:}$tmp/build-$sample # that one needs a library
done

consumer=$source/tests/package/consumer
configure "$consumer" "$tmp/build-consumer" -DSUPPORT_DIR="$source/tests/support"
"$tmp/build-consumer/consumer" "$plugins" "$tmp/model.onnx" >"$tmp/out" || die "the program built with CMake failed"

export PKG_CONFIG_PATH="$lib/pkgconfig"
# shellcheck disable=SC2046,SC2086
quietly "$cc" -I"$source/tests/support" "$consumer/consumer.c" $(pkg-config --cflags --libs inlay) \
    -Wl,-rpath,"$lib" -o "$tmp/consumer"
"$tmp/consumer" "$plugins" "$tmp/model.onnx" >"$tmp/out2" || die "the program built with pkg-config failed"
cmp "$tmp/out" "$tmp/out2"
# shellcheck disable=SC2046,SC2086
quietly "$cc" -shared "$tmp/custom_op/moving_average.c" $(pkg-config --cflags --libs inlay-kit) \
    -o "$tmp/moving_average.so"
[ "$(nm -D --defined-only "$tmp/moving_average.so" | awk '{ print $NF }')" = inlay_plugin_open ] ||
    die "the plugin built with pkg-config exports other symbols than inlay_plugin_open"

for arguments in "providers" "check $tmp/model.onnx" "run $tmp/model.onnx --input x=random" "explain $tmp/model.onnx"; do
    # shellcheck disable=SC2086
    quietly "$prefix/bin/inlay" $arguments --plugin-dirs "$plugins"
    cp "$tmp/log" "$tmp/$(echo "$arguments" | cut -d' ' -f1).txt"
done
for provider in reference skeleton chip blend moving_average fast_average; do
    grep -q "$provider" "$tmp/providers.txt" || die "inlay providers does not list $provider"
done
echo "an installation of $(find "$prefix" -type f | wc -l) files serves plugins and programs"
