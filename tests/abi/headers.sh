#!/bin/sh
# Every public header compiles on its own and together with the others, as C11, C17 and C++17, without a warning.
#   headers.sh INCLUDE_DIR
set -u
include=$1
flags="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror -fsyntax-only"
bad=0 tried=0
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

check() { # COMPILER STANDARD LANGUAGE FILE
    tried=$((tried + 1))
    # shellcheck disable=SC2086
    if ! "$1" -std="$2" -x "$3" $flags -I"$include" "$4"; then
        echo "$1 -std=$2 rejects $(cat "$4")"
        bad=$((bad + 1))
    fi
}

cat >"$tmp/use.c" <<'EOF'
/* The expansions of the macros must compile without warnings, too. */
#include "inlay/kit.h"
#include "inlay/inlay.h"
static inlay_status run(const kit_call *call)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    if (!INLAY_HAS(call->host, extension) || inlay_dtype_bits(call->in[0].dtype) == 0)
        return inlay_fail(&diag, INLAY_UNSUPPORTED, "%s", inlay_dtype_name(call->in[0].dtype));
    return INLAY_OK;
}
static const kit_kernel kernels[] = { { NULL, "Relu", 0, 0, { KIT_FLOATS, 0, 0, 0 }, { 0, 0 }, KIT_IN_PLACE, NULL, NULL,
                                        NULL, NULL, NULL, run, NULL, 0, NULL } };
static const kit_table table = { kernels, KIT_COUNT(kernels) };
static const kit_table *const tables[] = { &table };
static const kit_provider provider = { "a", "b", tables, 1, 0, NULL, NULL, NULL, 0, 0, NULL, 0 };
static const kit_plugin plugin = { "a", "1", &provider, NULL, 0, 0 };
KIT_PLUGIN(plugin)
EOF
cat >"$tmp/init.c" <<'EOC'
#include "inlay/text.h"
int use(void);
int use(void)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_run_options run = INLAY_RUN_OPTIONS_INIT;
    inlay_calibrate_options calibrate = INLAY_CALIBRATE_OPTIONS_INIT;
    inlay_tune_options tune = INLAY_TUNE_OPTIONS_INIT;
    inlay_optimize_args optimize = INLAY_OPTIMIZE_ARGS_INIT;
    inlay_text_request text = INLAY_TEXT_REQUEST_INIT;
    return (int)(text.flags + diag.error_class + run.flags + calibrate.quick + tune.runs + optimize.target_opset);
}
EOC
for header in status types note host cost graph_view execution plugin extensions inlay text check kit_call kit_node \
    kit_table kit_kernel kit kit_shapes kit_group kit_region; do
    printf '#include "inlay/%s.h"\nextern int declared; /* check.h declares nothing */\n' "$header" >"$tmp/$header.c"
done
for cc in gcc clang; do
    command -v $cc >/dev/null || continue
    for file in "$tmp"/*.c; do
        check $cc c11 c "$file"
        check $cc c17 c "$file"
    done
done
echo '#include "inlay/operator.hpp"' >"$tmp/operator.cc"
for cxx in g++ clang++; do
    command -v $cxx >/dev/null || continue
    check $cxx c++17 c++ "$tmp/operator.cc"
    check $cxx c++20 c++ "$tmp/operator.cc"
    for file in "$tmp"/*.c; do
        check $cxx c++17 c++ "$file"
    done
done
echo "$tried compilations, $bad rejected"
[ $tried -gt 0 ] && [ $bad -eq 0 ]
