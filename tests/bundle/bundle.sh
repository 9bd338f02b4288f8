#!/bin/bash
# inlay bundle: programs and libraries, their results, omitted parts, rejected models.
#   bundle.sh INLAY MAKE_MODELS APP_C   the executable; the program that writes the models; a program that uses a library
set -u
app=$3
# shellcheck source=tests/support/verbs.bash
. "$(dirname "$0")/../support/verbs.bash" "$1" "$2"
common=(--no-config --quiet)

# does FILTER ARGUMENT...   the bundle is created, and FILTER of jq holds for --json.
does() {
    local filter=$1
    shift
    checks=$((checks + 1))
    "$inlay" bundle "$@" "${common[@]}" --json >out 2>err </dev/null || complain "inlay bundle $*: failed"
    meets out "$filter" "inlay bundle $*"
}

# fails CODE TEXT ARGUMENT...   one line on stderr contains TEXT, and no file remains.
fails() {
    local code=$1 text=$2 got
    shift 2
    checks=$((checks + 1))
    "$inlay" bundle "$@" "${common[@]}" >out 2>err </dev/null
    got=$?
    if [ $got -ne "$code" ] || [ "$(grep -vc "^Try " err)" != 1 ] || ! grep -qF -- "$text" err || compgen -G 'none*' >/dev/null; then
        complain "inlay bundle $*: exit code $got; not '$text' in"
    fi
}

# holds WHAT COMMAND...
holds() {
    local what=$1
    shift
    checks=$((checks + 1))
    "$@" >out 2>err </dev/null || complain "$what"
}

# ---- programs: bitwise equal to `inlay run` (the verb compares them), static, no allocations in runs
does '.tried and .same and .arena_bytes > 0' mlp.onnx -o mlp
holds "a program is static" sh -c '! readelf -d ./mlp | grep -q NEEDED'
holds "no allocation in runs" sh -c './mlp --info --repeat 20 | grep -qx "allocations_in_runs 0"'
does '.tried and .same' net.onnx -o net --dim N=2
does '.tried and .same' branches.onnx -o branches
does '.tried and .same' branches.onnx -o branches_set --set s=1
holds "an input that is set is removed" sh -c '! ./branches_set --help | grep -q "input 1"'
for level in avx2 auto; do
    holds "level $level" env INLAY_ISA=$level ./net --info
done
does '.tried and .same' table.onnx -o table

# ---- kernels with the same bits on every CPU: those of a session, also of one on plain C
does '.tried and .same' net.onnx -o uniform --dim N=2 --reproducible cpu
does '.tried and .same' recurrent.onnx -o uniform --reproducible cpu
does '.tried and .same' encoder.onnx -o uniform --reproducible cpu
x=$(awk 'BEGIN { for (i = 0; i < 128; i++) printf "%s%.7g", (i ? "," : ""), sin(i) / (i % 7 + 1) }')
holds "a session on plain C" "$inlay" run encoder.onnx --input "x=$x" --outputs plain_c --reproducible cpu --isa baseline \
    "${common[@]}"
holds "a program runs" sh -c "mkdir uniform_out && ./uniform -o uniform_out x=$x"
holds "the bits of plain C" cmp plain_c/z.npy uniform_out/0.npy

# ---- faults are found: a compiler that plants one
cat >planting <<'END'
#!/bin/sh
for word; do
    case $word in
    */model.c) sed -i "$in_source" "$word" ;;
    */data.s) [ -z "$in_weights" ] || head -c 100000 /dev/zero | tr '\0' "$in_weights" >"${word%.s}.bin" ;;
    esac
done
exec cc "$@"
END
chmod +x planting
export in_source='' in_weights=''
does '.same' table.onnx -o none_planted --cc ./planting
rm none_planted
in_source='1i static const char planted[64];
s/{ BUNDLE_INPUT, 1, 0u, 1u, 0 }/{ BUNDLE_DATA, 0, 0u, 1u, planted }/' # the zero point is always 0
fails 1 "output 'm' of the program differs by" table.onnx -o none --cc ./planting
does '.same | not' table.onnx -o none_planted --cc ./planting --rtol 1e9
rm none_planted
in_source='s/\.step_count = [0-9]*/.step_count = 0/'
fails 1 "output 'y' of the program differs by 1.0e+00" mlp.onnx -o none --cc ./planting
in_source='s/app_data + 64,/(const char *)64,/g' # the number of elements
fails 1 "TopK node 'TopK#1': signal 11" indices.onnx -o none --cc ./planting
in_source='' in_weights='\377' # NaN
fails 1 "output 'y' of the program differs by inf" mlp.onnx -o none --cc ./planting
in_weights=''

# ---- both branches, with files
# A .npy file of one int64: a header of 118 bytes ('v'), then the number.
npy() {
    printf '\223NUMPY\001\000v\000%-117s\n' "{'descr': '<i8', 'fortran_order': False, 'shape': (), }"
}
{ npy; printf '\001\000\000\000\000\000\000\000'; } >one.npy
{ npy; printf '\377\377\377\377\377\377\377\377'; } >minus.npy
npy >./head
mkdir -p taken other
holds "a branch" ./branches --input s=one.npy -o taken
holds "the other branch" ./branches s=minus.npy -o other
holds "a file of another size" sh -c '! ./branches s=head 2>err2 && grep -q "not a readable" err2'
holds "a file of another type" sh -c 'sed "s/<i8/<f8/" one.npy >f8.npy
    ! ./branches s=f8.npy 2>err2 && grep -q "f8.npy is {.descr.: .<f8., .*}, but input s is {.descr.: .<i8., .*}: save array.astype(.<i8.)$" err2'
holds "a folder that does not exist" sh -c '! ./branches s=one.npy -o nowhere 2>err2 && grep -q "a folder that exists" err2'
holds "types in --help" sh -c './branches --help | grep -q "^input [01]: s, 8 bytes, {.descr.: .<i8., .*shape"'
holds "an unknown input" sh -c '! ./branches t=one.npy 2>err2 && grep -q "unknown input" err2'
holds "bad flags" sh -c '! ./branches --wat 2>err2 && grep -q "unknown argument" err2'

# ---- values on the command line, outputs as text
numbers=$(seq -s , -1.5 0.25 14.25) # 64
# equal PROGRAM ONE SAME OTHER [INPUT...]   the program prints one line an output, the same for two forms of an input
equal() {
    "./$1" "$2" "${@:5}" >of_one && "./$1" "$3" "${@:5}" >of_other && cmp of_one of_other &&
        ! "./$1" "$4" "${@:5}" | cmp -s - of_other &&
        [ "$(wc -l <of_one)" = "$(./"$1" --help | grep -c "^output")" ]
}
holds "a number" equal branches s=1 s=one.npy s=minus.npy "x=$(seq -s , 16)"
holds "a negative number" equal branches s=-1 s=minus.npy s=one.npy "x=$(seq -s , 16)"
holds "a list in its shape" equal mlp "x=$numbers" "x=[[$numbers]]" "x=[${numbers/-1.5/7}]"
holds "the first elements" sh -c './mlp | grep -qx "y: float\[1,10\] =\( [-0-9.e]*\)\{8\} \.\.\."'
# Each is refused by one line with this text, and nothing else is printed.
while IFS='|' read -r program values text; do
    holds "refused values $values" sh -c '! "./$1" "$2" 2>err2 >out2 && [ ! -s out2 ] && [ "$(wc -l <err2)" = 1 ] &&
        grep -qF "$3" err2' - "$program" "$values" "$text"
done <<END
branches|s=1,2|more elements
branches|s=[1|expected a comma or the end
branches|s=[]|fewer elements
branches|s=1.5|not a readable .npy
branches|s=[1.5]|expected a comma or the end
branches|s=9223372036854775808|no number of the type
branches|s=[1]x|text after the list
branches|s=[[1]]|no number of the type
mlp|x=1,2|fewer elements
mlp|x=[[1,2]]|another length
mlp|x=[[1],2]|another length
mlp|x=[1e39]|no number of the type
END

# ---- int8 multiplications: bitwise equal on CPUs without VNNI, with and without the original weights
does '.tried and .same' bytes.onnx -o bytes
does '.tried and .same' bytes.onnx -o bytes_avx2 --for avx2
does '.tried and .same' bytes.onnx -o bytes_native --for native
INLAY_ISA=avx2 does '.tried and .same' bytes.onnx -o bytes_native_limited --for native
holds "a program for this CPU keeps the limit of INLAY_ISA" ./bytes_native_limited --info
mkdir -p here there
holds "bytes" ./bytes -o here
if command -v qemu-x86_64 >/dev/null && [ "$(uname -m)" = x86_64 ]; then
    for program in bytes bytes_avx2; do
        rm -f there/*
        holds "$program on a CPU with AVX2 only" qemu-x86_64 -cpu Haswell "./$program" -o there
        holds "$program gives the same results there" cmp here/0.npy there/0.npy
    done
    grep -qw avx512f /proc/cpuinfo &&
        holds "a program for this CPU reports another CPU" sh -c '! qemu-x86_64 -cpu Haswell ./bytes_native 2>err2 && grep -q "another kind of CPU" err2'
fi
fails 2 "avx2 or native" mlp.onnx -o none --for sse
does '.tried and .same' indices.onnx -o plain --isa baseline
if command -v qemu-x86_64 >/dev/null && [ "$(uname -m)" = x86_64 ]; then
    holds "a program without instruction sets" qemu-x86_64 -cpu qemu64 ./plain --info
fi
does '.tried and .same' bytes.onnx -o bytes --size 10
holds "weights for one kind of CPU" sh -c '[ "$(stat -c %s bytes_native)" -lt "$(stat -c %s bytes)" ]'

# ---- size: weights are stored once, unless --size permits more; other packed weights are created at the start
weights=$((2 * 64 * 64 * 9 * 4))
does ".same and .weight_bytes <= 1.16 * $weights and .packs_at_start > 0" winograd.onnx -o once
does ".same and .weight_bytes <= 1.16 * $weights" winograd.onnx -o native --for native
does ".same and .weight_bytes <= 1.01 * $weights" winograd.onnx -o least --size 1
does ".same and .weight_bytes > 1.5 * $weights and .packs_at_start == 0" winograd.onnx -o all_packs --size 100
mkdir -p packed_once packed_before
holds "equal results with packed weights" sh -c './once -o packed_once && ./all_packs -o packed_before && cmp packed_once/0.npy packed_before/0.npy'
for level in avx2 auto; do
    holds "level $level packs its weights" env INLAY_ISA=$level ./once --info
done
fails 2 "--size 0.5: expected a number from 1" mlp.onnx -o none --size 0.5

# ---- memory of weights: --memory selects kernels with smaller packed weights; small models have no default limit
does ".same and .memory_bytes > 3 * $weights" winograd.onnx -o fastest
fastest=$(jq .arena_bytes out)
does ".same and .memory_bytes > 2 * $weights and .memory_bytes <= 3 * $weights and .arena_bytes < $fastest" \
    winograd.onnx -o bounded --memory 3
does ".tried and .difference < 1e-5 and .memory_bytes <= 1.1 * $weights and .packs_at_start == 0" \
    winograd.onnx -o smallest --memory 1.1
holds "a bound that cannot be met is reported" sh -c "'$inlay' bundle mlp.onnx -o mlp_bounded --memory 1 ${common[*]} |
    grep -q 'more than --memory'"
heavy=$((4 * 256 * 256 * 9 * 4)) # the default limit; the original weights do not stay in memory
does ".tried and .packs_at_start > 0 and .memory_bytes <= 3 * $heavy" heavy.onnx -o heavy
holds "constants are released while they are packed" sh -c "./heavy --info >info && awk '
    { of[\$1] = \$2 }
    END { exit !(of[\"peak_resident_bytes\"] - of[\"arena_bytes\"] < 0.9 * $heavy) }' info"
fails 2 "--memory 0.5: expected a number from 1" mlp.onnx -o none --memory 0.5

# ---- precision and options of providers apply to the program, too
does ".same and .packs_at_start == 0" winograd.onnx -o strict --precision strict # without Winograd's algorithm
# Programs have no kernels with matrix tiles, which sessions use for this layer where the CPU has AMX.
INLAY_ISA=avx512 does ".same and .packs_at_start == 0" winograd.onnx -o plain --option cpu.winograd=0
does ".same and .packs_at_start > 0" winograd.onnx -o fast --precision fast
fails 4 "precision reduced needs libdnnl" winograd.onnx -o none --precision reduced

# ---- every part that a program may need exists, and families of kernels run
parts=$(dirname "$inlay")/../lib/inlay/bundle/$(uname -m)-linux-gnu
awk '$1 != "data" { print $2 }' "$parts/parts.txt" | sort -u | awk '
    { print "extern const char " $1 "[];"; list = list $1 ", " }
    END { print "const void *const all[] = { " list " };\nint main(void)\n{\n    return all[0] == 0;\n}" }' >all.c
holds "all parts of parts.txt link" sh -c "cc -c all.c && cc -static -no-pie all.o '$parts/libinlay_bundle.a' -lm -o all"
for model in attention encoder loose recurrent upsample reduced deconvolution; do
    does '.tried and .same' $model.onnx -o family
done
fails 4 "the size of 'y' is not fixed" open_view.onnx -o none

# ---- a failure of the linker names the symbol
cat >without_data <<'END'
#!/bin/sh
case $* in *-static*) for word; do
    shift
    case $word in */data.o) ;; *) set -- "$@" "$word" ;; esac
done ;; esac
exec cc "$@"
END
chmod +x without_data
fails 1 "undefined reference to \`app_" mlp.onnx -o none --cc ./without_data

# ---- libraries and objects: a header, five symbols, a buffer of the caller
does '.same' mlp.onnx -o libmlp.a --library --name model # a file of the build has this name, too
rm libmlp.a libmlp.h
does '.same' mlp.onnx -o libmlp.a --library
holds "only its functions are exported" sh -c '[ "$(nm libmlp.a 2>/dev/null | grep -c " [TDBR] ")" = 5 ]'
for name in bundle inlay app; do # names that the run-time part uses, too
    does '.same' bytes.onnx -o "lib$name.a" --library
    holds "functions have the given prefix" sh -c "nm lib$name.a 2>/dev/null | grep -q ' T ${name}_start_in'"
    rm "lib$name.a" "lib$name.h"
done
wraps=("-Wl,--wrap=malloc,--wrap=calloc")
mv libmlp.h mlp.h
holds "a user compiles" cc -std=c11 -Wall -Wextra -Werror -I. "$app" libmlp.a "${wraps[@]}" -lm -o app
holds "the library runs in a buffer without allocations" sh -c './app >first 2>asked && grep -qx "asked 0" asked'
holds "a buffer that is too small is an error" sh -c '! ./app 8192 2>small && grep -q "no memory\|too small" small'
does '.same' mlp.onnx -o mlp.o --object
holds "an object links" cc -std=c11 -I. "$app" mlp.o "${wraps[@]}" -lm -o app_o
holds "the object gives the same results" sh -c './app_o >second 2>asked && cmp first second'
if command -v musl-gcc >/dev/null; then
    does '.same' mlp.onnx -o mlp_musl --cc musl-gcc
    holds "the MLP with musl is below 450 KB" sh -c '[ "$(stat -c %s mlp_musl)" -lt 450000 ]'
fi
arm=$(dirname "$inlay")/../lib/inlay/bundle/aarch64-linux-gnu
if [ -d "$arm" ] && command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null; then
    does '.tried' mlp.onnx -o mlp_arm --target aarch64-linux-gnu
    holds "arm64 under qemu" qemu-aarch64 ./mlp_arm --info
else
    fails 3 "no run-time part for target 'aarch64-linux-gnu'" mlp.onnx -o none --target aarch64-linux-gnu
fi
[ -d "$(dirname "$arm")/wasm32" ] || # otherwise wasm.sh tests it
    fails 3 "with the packages clang, lld, llvm, wasi-libc" mlp.onnx -o none --target wasm32

# ---- rejected models and options
fails 2 "no output file given" mlp.onnx
fails 2 "not fixed; a bundle has fixed sizes: add --dim N=N" net.onnx -o none
fails 4 "not fixed: it depends on data" dynamic.onnx -o none
printf '%s\n' a b c d e f g h i j >labels.txt
holds "a model with labels" "$inlay" pipe mlp.onnx --post topk:2:labels.txt -o piped.onnx
fails 4 "bundle the model that was given to \`inlay pipe\`" piped.onnx -o none
does ".same" loop.onnx -o loop # unrolled
does ".same" loop.onnx -o loop0 --level 0 # not unrolled
fails 4 "scan outputs" scans.onnx -o none
does ".same and .arena_bytes > 0" scans.onnx -o scans --set n=50
does ".same" scans.onnx -o scans0 --set n=3 --level 0
does ".same" scans.onnx -o scans_none --set n=0 --level 0
does ".same and .arena_bytes > 0" fibonacci.onnx -o fibonacci
mkdir -p f0 f7
{ npy; printf '\007\000\000\000\000\000\000\000'; } >seven.npy
holds "a loop of seven iterations" sh -c './fibonacci n=seven.npy -o f7 && [ "$(od -An -tf4 -j 128 f7/0.npy | tr -s " " | cut -d " " -f 2)" = 13 ]'
holds "a loop without iterations" sh -c './fibonacci n=minus.npy -o f0 && [ "$(od -An -tf4 -j 128 f0/0.npy | tr -s " " | cut -d " " -f 2)" = 0 ]'
fails 2 "no dimension named 'M'" net.onnx -o none --dim M=2
fails 2 "with N >= 1" net.onnx -o none --dim N=0
fails 2 "no input is called 'q'" branches.onnx -o none --set q=1
fails 1 "input 's' selects a branch of an If: --set s=VALUE keeps only that one" switch.onnx -o none --dim N=4
fails 2 "cannot be the number" branches.onnx -o none --set x=1
fails 2 "cannot be combined" mlp.onnx -o none --library --object
fails 3 "cannot find 'no-such-compiler'" mlp.onnx -o none --cc no-such-compiler
fails 3 "cannot be opened" nothing.onnx -o none
fails 3 "no run-time part for target 'vax'" mlp.onnx -o none --target vax
fails 3 "unknown target 'arm64'; did you mean 'aarch64-linux-gnu'?" mlp.onnx -o none --target arm64

finish
