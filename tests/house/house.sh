#!/bin/bash
# Sources include lower layers only, use existing names, and have no unused functions; planted faults are found.
#   house.sh SOURCE_DIR
set -uo pipefail
source=$1
here=$source/tests/house
failed=0

fail() {
    echo "FAIL: $*"
    failed=1
}

sh "$here/includes.sh" "$source" "$here/edges" || fail "the tree has forbidden includes (above)"

sh "$here/provider_includes.sh" "$source" "$here/provider_edges" ||
    fail "providers have forbidden includes (above)"

python3 "$here/calls.py" "$source" || fail "calls between folders have changed (above; allowed: tests/house/calls)"
# A family of operators is known by its kind: its address is a symbol of a higher folder.
addresses() { grep -rnE 'family [!=]= &' "$1/providers/cpu"; }
addresses "$source" && fail "families are compared by address; compare family->kind (above)"

sh "$here/stations.sh" "$source" || fail "host/ARCHITECTURE.md names something that does not exist (above)"

# Nothing but what is planted.
out=$(python3 "$here/uncalled.py" "$source" --planted)
[ "$out" = "host/planted.c: nothing calls planted()" ] ||
    fail "functions that nothing calls: delete them, except planted(), which has to be found: $out"

python3 "$here/names.py" "$source" || fail "names that were replaced are used again (above)"

python3 "$here/form.py" "$source" || fail "lines are too long, comments are banners, or scripts not executable (above)"
[ "$(python3 "$here/form.py" "$source" --planted | wc -l)" = 3 ] || fail "planted faults of form were not found"

out=$(python3 "$here/messages.py" "$source" --planted)
[ "$out" = "planted.c:1: which value, or which limit? too many things" ] ||
    fail "messages name no value or limit, besides that of planted.c, which has to be found: $out"

python3 "$here/generators.py" "$source" || fail "tests have random number generators of their own (above)"

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
"$here/subject.sh" "cpu: round sums once" || fail "a good subject of a commit is refused (above)"
out=$("$here/subject.sh" "cpu: sums of halves; docs name everything that this commit has changed since")
[ "$(wc -l <<<"$out")" = 3 ] || fail "a subject without a verb, with two changes and too long: $out"
out=$("$here/subject.sh" "round sums once") && fail "a subject without an area: $out"
printf '# text of git\n\ncpu: sums of halves\n' >"$copy/message"
"$here/hooks/commit-msg" "$copy/message" 2>/dev/null && fail "the hook accepts a subject without a verb"
printf "Merge branch 'sums'\n" >"$copy/message"
"$here/hooks/commit-msg" "$copy/message" || fail "the hook refuses the subject of a merge"

mkdir -p "$copy/ops" "$copy/sdk" "$copy/providers/reference"
for folder in "$source"/host/{runtime,insight,tools}/*/ "$source"/host/{codecs,formats,library,shared,texts,probe,serve,web,platform}/; do
    mkdir -p "$copy/${folder#"$source"/}"
done
cp "$source/host/README.md" "$copy/host/"
cp "$here/edges" "$copy/edges"

check() { sh "$here/includes.sh" "$copy" "$copy/edges"; }

# Expects that check fails with one line that matches $1. $2: the planted fault
expect() {
    local out
    if out=$(check); then
        fail "$2 was not noticed"
    elif [ "$(wc -l <<<"$out")" != 1 ] || ! grep -qE "$1" <<<"$out"; then
        fail "$2 gave: $out"
    fi
}

# $1: file, $2: header, $3: pattern of the message
plant() {
    printf '/* planted */\n#include <stddef.h>\n  #  include "%s"\n' "$2" >"$copy/$1"
    expect "^$1:3: $3" "$1 with $2"
    rm "$copy/$1"
}

sh "$here/includes.sh" "$copy" "$copy/edges" || fail "a tree without sources is wrong"
plant host/runtime/plan/x.c exec/watch.h 'plan may not include exec/watch.h'
mkdir "$copy/host/runtime/exec/device"
plant host/runtime/exec/device/x.c exec/loop/runner.h 'exec/device may not include exec/loop/runner.h'
plant host/runtime/session/x.c plan/layout/planner.h 'session may not include plan/layout/planner.h'
plant host/runtime/plugin/x.h exec/threads.h 'plugin may not include exec/threads.h'
plant host/runtime/config/x.h plugin/plugin.h 'config may not include plugin/plugin.h'
plant host/runtime/model/x.c formats/gguf.h 'model may not include formats/gguf.h'
plant host/tools/check/x.c cli/cases.h 'check may not include cli/cases.h'
plant host/insight/profile/x.c explain/page.h 'profile may not include explain/page.h'
plant host/runtime/base/x.def graph/graph.h 'base may not include graph/graph.h'
plant host/runtime/base/x.c ../graph/graph.h 'includes ../graph/graph.h'
mkdir "$copy/host/serve/http"
plant host/serve/http/x.c serve/exchange/exchange.h 'serve/http may not include serve/exchange/exchange.h'
mkdir "$copy/host/texts/grammar"
plant host/texts/grammar/x.c serve/model/model.h 'texts/grammar may not include serve/model/model.h'
plant host/texts/grammar/x.c prepost/text/text.h 'texts/grammar may not include prepost/text/text.h'
plant host/runtime/exec/x.c simd/instances.h 'exec may not include simd/instances.h'
plant host/tools/quantize/x.c cpu/provider.h 'quantize may not include cpu/provider.h'
plant providers/reference/x.c graph/graph.h 'providers may not include graph/graph.h'
mkdir "$copy/providers/remote"
plant providers/remote/x.c graph/graph.h 'providers may not include graph/graph.h'
plant host/probe/x.c remote/proxy.h 'probe may not include remote/proxy.h'
plant host/runtime/plugin/x.c remote/shared.h 'plugin may not include remote/shared.h'
plant host/runtime/session/x.c explain/explain.h 'session may not include explain/explain.h'
plant host/library/x.c remote/proxy.h 'library may not include remote/proxy.h'
plant ops/x.inc base/arena.h 'ops may not include base/arena.h'
plant sdk/x.h reference/kernels.h 'sdk may not include reference/kernels.h'

# Allowed includes pass, and mistakes in the list and in the picture are reported.
printf '#include "base/arena.h"\n#include "graph.h"\n#include "inlay/types.h"\n' >"$copy/host/runtime/graph/x.c"
sh "$here/includes.sh" "$copy" "$copy/edges" || fail "allowed includes are refused"
mkdir "$copy/host/tools/attic"
expect 'the folder attic of host is not listed' 'a folder that is not listed'
rmdir "$copy/host/tools/attic"
mkdir "$copy/host/runtime/exec/attic"
touch "$copy/host/runtime/exec/attic/x.c"
expect 'the folder exec/attic of host is not listed' 'a sub-folder that is not listed'
rm -r "$copy/host/runtime/exec/attic"
sed -i 's/explain//' "$copy/host/README.md"
expect 'the picture lacks explain' 'a folder that is not in the picture'
cp "$source/host/README.md" "$copy/host/"
sed -i '/^| `exec.loop/d' "$copy/host/README.md"
expect 'the table of sub-folders lacks exec/loop' 'a sub-folder that is not in the table'
cp "$source/host/README.md" "$copy/host/"
sed -i 's/^base:.*/base: threads/; s/^threads:.*/threads:/' "$copy/edges"
if out=$(sh "$here/includes.sh" "$copy" "$copy/edges"); then
    fail "an upward edge in the list was not found"
fi
grep -q 'base would include threads, which is not listed above it' <<<"$out" || fail "the list: $out"
grep -q 'the picture does not have threads below base' <<<"$out" || fail "the picture: $out"

# The same for providers/.
check() { sh "$here/provider_includes.sh" "$copy" "$copy/provider_edges"; }
cp "$here/provider_edges" "$copy/"
for header in cpu/{region/build,choice/kernels,convolution/tiles,matrix/sgemm,provider} common/spans operators/args reference/regex \
    simd/vec; do
    mkdir -p "$copy/providers/$(dirname $header)"
    touch "$copy/providers/$header.h"
done
check || fail "providers without includes are rejected"
plant providers/cpu/region/x.c cpu/choice/kernels.h 'cpu/region may not include cpu/choice/kernels.h of cpu/choice'
plant providers/cpu/choice/x.c cpu/convolution/tiles.h \
    'cpu/choice may not include cpu/convolution/tiles.h of cpu/convolution'
plant providers/cpu/matrix/x.h cpu/provider.h 'cpu/matrix may not include cpu/provider.h of cpu'
plant providers/common/x.c operators/args.h 'common may not include operators/args.h of operators'
plant providers/operators/x.c reference/regex.h 'operators may not include reference/regex.h of reference'
plant providers/reference/x.inc cpu/choice/kernels.h 'reference may not include cpu/choice/kernels.h of cpu/choice'
plant providers/simd/x.c common/spans.h 'simd may not include common/spans.h of common'
plant providers/cpu/region/x.c ../choice/kernels.h 'includes ../choice/kernels.h'
plant providers/cpu/region/x.c choice/kernels.h 'includes choice/kernels.h; write the path from providers'
plant providers/cpu/convolution/x.c tiles.h 'includes tiles.h; write the path from providers'
printf '#include "cpu/choice/kernels.h"\n#include "cpu/convolution/tiles.h"\n#include "inlay/kit.h"\n#include "simd/vec.h"\n' \
    >"$copy/providers/cpu/convolution/x.c"
check || fail "allowed includes of providers are rejected"
mkdir "$copy/providers/"{attic,cpu/attic}
touch "$copy/providers/attic/x.c"
expect 'the folder attic of providers is not listed' 'a provider that is not listed'
rm -r "$copy/providers/attic"
touch "$copy/providers/cpu/attic/x.c"
expect 'the folder cpu/attic of providers is not listed' 'a sub-folder of a provider that is not listed'
rm -r "$copy/providers/cpu/attic"
sed -i 's/^simd:.*/simd: common/' "$copy/provider_edges"
expect 'simd would include common, which is not listed above it' 'an edge upwards in the list of providers'

# Calls: a function that a low folder declares and calls and a high one defines, in a circle of two files.
mkdir -p "$copy/calls/host" "$copy/calls/sdk" "$copy/calls/providers/cpu/"{region,choice}
printf 'void choice_y(void);\n' >"$copy/calls/providers/cpu/region/x.h"
printf '#include "region/x.h"\nvoid region_x(void)\n{\n    choice_y();\n}\n' >"$copy/calls/providers/cpu/region/x.c"
printf 'void choice_y(void)\n{\n    region_x();\n}\n' >"$copy/calls/providers/cpu/choice/y.c"
printf '# none\n' >"$copy/none"
out=$(python3 "$here/calls.py" "$copy/calls" "$copy/none") && fail "a planted circle of calls was not found"
[ "$out" = "providers/cpu: circles of files that call each other: [2], the list says []
    choice/y.c region/x.c
providers/cpu: functions declared in a header of another folder: [1], the list says [0]
    region/x.h declares choice_y() of choice/y.c
providers/cpu: calls to a higher folder (move the function, or call it through a table): [1], the list says [0]
    region/x.c of cpu/region calls choice_y() of cpu/choice" ] || fail "calls.py said: $out"
printf 'providers/cpu: 2; 1; 1\n' >"$copy/none"
python3 "$here/calls.py" "$copy/calls" "$copy/none" || fail "listed calls are rejected (above)"
printf 'void choice_y(void)\n{\n}\n' >"$copy/calls/providers/cpu/choice/y.c"
python3 "$here/calls.py" "$copy/calls" "$copy/none" >/dev/null && fail "a list with too high a number was not noticed"

# A comparison with the address of a family.
mkdir -p "$copy/providers/cpu"
echo '    return row->family == &cpu_conv;' >"$copy/providers/cpu/planted.c"
addresses "$copy" >/dev/null || fail "a comparison with the address of a family was not found"
rm "$copy/providers/cpu/planted.c"

# Replaced names, and a typedef with a word that variables need.
printf 'static int rg_count; /* rg_count */\ntypedef struct graph {\n    int count;\n} graph;\n' >"$copy/host/planted.c"
out=$(python3 "$here/names.py" "$copy") && fail "a replaced name was not found"
[ "$out" = "host/planted.c:1: rg_count is called cpu_count today
host/planted.c:2: write struct graph without a typedef, for variables of that name" ] || fail "names.py said: $out"
rm "$copy/host/planted.c"

# Random number generators of a test: of each kind, and no other arithmetic.
mkdir -p "$copy/tests/ops"
cat >"$copy/tests/ops/planted.c" <<'END'
    *seed = *seed * 1664525u + 1013904223; /* x = x * 1103515245 + 12345 */
    dice->state = dice->state * UINT64_C(6364136223846793005) + 1;
    x ^= x << 13;
    z = (state += 0x9e3779b97f4a7c15u);
    i = rand_r(&seed) + (int)random();
    sum = sum * 10 + digit, hash = hash * 31 + c, hash ^= hash >> 29, random_bits(&seed);
END
out=$(python3 "$here/generators.py" "$copy") && fail "a random number generator of a test was not found"
[ "$(cut -d: -f2 <<<"$out" | tr '\n' ' ')" = "1 2 3 4 5 5 " ] || fail "generators.py said: $out"

# A page that names a missing file or function.
printf '| a station | `base/arena.c` `arena_gone()`, `base/gone.c` |\n' >"$copy/host/ARCHITECTURE.md"
cp "$source/host/runtime/base/arena.c" "$copy/host/runtime/base/"
out=$(sh "$here/stations.sh" "$copy") && fail "a missing function was not found"
[ "$out" = "host/ARCHITECTURE.md: host/runtime/base/arena.c has no arena_gone()
host/ARCHITECTURE.md: there is no host/runtime/base/gone.c" ] || fail "stations.sh said: $out"
exit $failed
