#!/bin/bash
# The verbs for model files on the command line: doctor, edit, diff, reduce, inspect --graph, run --watch,
# bench --sweep, extract --partition, cache export and import.
#   modelkit.sh INLAY MAKE_MODELS PLUGINS   the executable; the program that writes the models; the folder with planted.so
set -u
plugins=$3
# shellcheck source=tests/support/verbs.bash
. "$(dirname "$0")/../support/verbs.bash" "$1" "$2"
# With a limit of CPU time, Linux advances the clock of CPU time only at timer ticks: measured times must not become 0.
ulimit -t 3600
common=(--no-config --cache-dir "" --intra-threads 1 --providers reference --probe never)

# does CODE FILTER VERB ARGUMENT...   checks the exit code, and the JSON output with a jq filter.
does() {
    local code=$1 filter=$2 got
    shift 2
    checks=$((checks + 1))
    "$inlay" "$@" --json >out 2>err </dev/null
    got=$?
    [ $got -eq "$code" ] || complain "inlay $*: exit code $got"
    meets out "$filter" "inlay $*"
}

# says CODE PATTERN VERB ARGUMENT...   checks the exit code, and a line of stdout.
says() {
    local code=$1 pattern=$2 got
    shift 2
    checks=$((checks + 1))
    "$inlay" "$@" >out 2>err </dev/null
    got=$?
    if [ $got -ne "$code" ] || ! grep -qE -- "$pattern" out; then
        complain "inlay $*: exit code $got; nothing like '$pattern' in"
    fi
}

# fails CODE TEXT VERB ARGUMENT...   checks the message on stderr, one line, and that no out.onnx* was written.
fails() {
    local code=$1 text=$2 got
    shift 2
    checks=$((checks + 1))
    rm -f out.onnx
    "$inlay" "$@" --quiet >out 2>err </dev/null
    got=$?
    if [ $got -ne "$code" ] || [ "$(wc -l <err)" != 1 ] || ! grep -qF -- "$text" err || compgen -G 'out.onnx*' >/dev/null; then
        complain "inlay $*: exit code $got; not '$text' in"
    fi
}

# ---- doctor: reports the code of every planted fault; a model written by --fix computes the same
quick=(--seconds 0 --quiet)
while read -r file code severity fixable; do
    exit_code=$([ "$severity" = note ] && echo 0 || echo 1)
    does "$exit_code" "[.findings[].code] | index(\"$code\") != null" doctor "$file.onnx" "${common[@]}" "${quick[@]}"
    if [ "$fixable" = yes ]; then
        does 0 ".findings[0].fixed and .written.fixed == 1 and .written.samples == 3 and .written.tolerance <= 1e-5" \
            doctor "$file.onnx" --fix -o out.onnx "${common[@]}" "${quick[@]}"
        does 0 '.findings == []' doctor out.onnx "${common[@]}" "${quick[@]}"
        # Compares on samples that --fix did not use, with shapes that are legal for the fixed model.
        does 0 '.samples == 8 and (.outputs | length > 0 and all(.[]; .max_error != null and .max_error <= 1e-5))' \
            compare out.onnx "$file.onnx" "${common[@]}" --quiet
    else
        "$inlay" doctor "$file.onnx" --fix -o out.onnx "${common[@]}" "${quick[@]}" >out 2>err </dev/null
        [ $? -eq 0 ] && [ -s out.onnx ] || complain "inlay doctor $file.onnx --fix did not write the model as it is"
        does 0 '.changes == []' diff "$file.onnx" out.onnx
    fi
    rm -f out.onnx
done <<'END'
dropout training-dropout warning no
batch_norm training-batch-norm warning no
casts cast-chain warning yes
needless cast-needless note yes
float64 float64 warning no
constant_node constant-node-huge warning yes
loop loop-constant note no
open_axis axis-is-constant warning yes
open_output axis-is-constant warning yes
traced traced-constant warning no
indexes int64 note yes
twice weights-twice warning yes
unused weights-unused warning yes
inputs weights-are-inputs warning yes
nan weights-not-finite error no
dead dead-channels note no
scale quant-scale error no
saturated quant-saturated warning no
narrow quant-range-unused warning no
channels quant-per-tensor warning no
old_opset opset-old note no
attention attention-not-fused note no
END
for i in 0 1 2 3 4 5 6 7 8 9; do
    does 0 '.findings == []' doctor "clean$i.onnx" "${common[@]}" "${quick[@]}"
done
does 0 'length >= 20 and all(.[]; .code and .fix and (.severity | IN("note", "warning", "error")))' doctor --list
says 0 '^error  *weights-not-finite  ' doctor --list
says 0 '^clean1.onnx: no findings$' doctor clean1.onnx "${common[@]}" "${quick[@]}"
says 1 "^warning weights-twice: 'w2' has the same elements as 'w1'; keep one copy .*\[--fix\]$" doctor twice.onnx \
    "${common[@]}" "${quick[@]}"
says 1 '^0 errors, 1 warning, 0 notes; --fix -o FILE fixes 1$' doctor twice.onnx "${common[@]}" "${quick[@]}"
does 1 '.measured and .run_ms > 0 and .findings[0].cost == "measured" and .findings[0].cost_ms > 0' \
    doctor float64.onnx "${common[@]}" --seconds 0.05 --quiet
does 0 '.written.before_ms > 0 and .written.after_ms > 0' doctor twice.onnx --fix -o out.onnx "${common[@]}" \
    --seconds 0.05 --quiet
# The written model has its functions inlined, and a message says so.
does 0 '.written.fixed == 1' doctor function.onnx --fix -o out.onnx "${common[@]}" "${quick[@]}"
does 0 '.functions == [] and .operators[0].operator == "Add" and .initializers == 0' inspect out.onnx
does 1 '[.changes[] | select(.side == "a") | .in] | index("function my.twice nodes") != null' diff function.onnx out.onnx
rm -f out.onnx
# A node that a provider refuses, between two of its regions.
two=(--no-config --cache-dir "" --probe never --intra-threads 1 --plugin-dirs "$plugins" --providers "planted,reference" --policy priority)
does 0 '[.findings[] | select(.code == "region-split")] | length == 1 and .[0].nodes == ["Exp#1"] and .[0].cost_ms > 0' \
    doctor split.onnx "${two[@]}" --seconds 0.02 --quiet
# If another provider can run all nodes in about the same time, there is no finding.
does 0 '[.findings[] | select(.code == "region-split")] == []' doctor split.onnx "${two[@]}" --policy cost \
    --pin Add#0=planted --pin Relu#2=planted --seconds 0.02 --quiet
# Missing or truncated external data is a finding, with the exit code for files.
"$inlay" doctor twice.onnx --fix -o ext.onnx --external ext.data "${common[@]}" "${quick[@]}" >/dev/null
does 0 '.findings == []' doctor ext.onnx "${common[@]}" "${quick[@]}"
rm ext.data
does 3 '.findings[0].code == "external-data-missing" and .error.code' doctor ext.onnx "${common[@]}" "${quick[@]}"
says 3 '^error   external-data-missing: ' doctor ext.onnx "${common[@]}" "${quick[@]}"
# A fix that would change the results is not written.
fails 1 'nothing was written, because the fixed model computes something else' doctor noise.onnx --fix -o out.onnx \
    "${common[@]}" --seconds 0
fails 2 'expected a number' doctor casts.onnx --seconds soon
fails 3 'no-such.onnx' doctor no-such.onnx "${common[@]}"
fails 3 'nowhere' doctor twice.onnx --fix -o nowhere/out.onnx "${common[@]}" "${quick[@]}"
# Without findings the unchanged model is written, with exit code 0.
says 0 '^clean.onnx: the unchanged model, because there is nothing to fix$' doctor clean1.onnx --fix -o clean.onnx \
    "${common[@]}" "${quick[@]}"

# ---- edit
cp clean1.onnx model.onnx
does 0 '.changes | length == 2' edit model.onnx --set-metadata author=me --set-metadata license=MIT=2 -o edited.onnx --quiet
does 0 '.metadata == {"author": "me", "license": "MIT=2"}' inspect edited.onnx
does 0 '.changes[0].change == "remove-metadata"' edit edited.onnx --remove-metadata license -o e2.onnx --quiet
does 0 '.metadata == {"author": "me"}' inspect e2.onnx
says 0 '^3 changes written to edited.onnx$' edit model.onnx --rename-input x=image --rename-output y=scores --fix-dim N=3 \
    -o edited.onnx
does 0 '.inputs[0].name == "image" and .inputs[0].shape == [3,64] and .outputs[0].name == "scores"' inspect edited.onnx
does 0 '.outputs[0].name == "scores" and .outputs[0].shape == [3,40]' run edited.onnx "${common[@]}"
says 0 '^1 change written' edit model.onnx --fix-dim x:0=5 -o e3.onnx
does 0 '.inputs[0].shape == [5,64]' inspect e3.onnx
fails 2 "no dimension named 'rows'; it has 'N'" edit model.onnx --fix-dim rows=1 -o out.onnx
# "batch" is the first dimension of the first input in every verb, whatever the model calls it.
does 0 . edit model.onnx --fix-dim batch=1 -o fixed.onnx
does 1 . diff model.onnx fixed.onnx
does 0 '.assumed == [{"name": "N", "size": 8}]' explain model.onnx --dim batch~=8 "${common[@]}"
for verb in explain run; do
    does 0 . $verb model.onnx --dim batch=2 "${common[@]}"
    does 0 . $verb model.onnx --dim x:0=2 "${common[@]}"
    fails 2 "axis 1 of input 'x' has the fixed size 64" $verb model.onnx --dim x:1=64 "${common[@]}" # is fixed
    fails 2 "no dimension named 'x:'" $verb model.onnx --dim x:=64 "${common[@]}"
    fails 2 "no dimension named 'rows'; it has 'N'" $verb model.onnx --dim rows=2 "${common[@]}"
    fails 2 "no dimension named 'M'; did you mean 'N'?" $verb model.onnx --dim M=2 "${common[@]}"
    fails 2 "no dimension named 'M'; all its dimensions are fixed" $verb fixed.onnx --dim M=2 "${common[@]}"
done
fails 2 "did you mean 'x'" edit model.onnx --rename-input xx=z -o out.onnx
fails 2 'another value already has the name' edit model.onnx --rename-input x=h -o out.onnx
fails 2 'would be invalid' edit clean4.onnx --fix-dim x:1=5 -o out.onnx
fails 2 "no metadata 'author'" edit model.onnx --remove-metadata author -o out.onnx
fails 3 'nowhere' edit model.onnx --fix-dim N=1 -o nowhere/out.onnx
fails 3 'no-such.onnx' edit no-such.onnx --fix-dim N=1 -o out.onnx

# ---- diff
does 0 '.equal and .changes == [] and .weights == []' diff model.onnx model.onnx
does 1 '(.equal | not) and ([.changes[] | select(.in == "graph inputs") | .text] == ["x: float[N, 64]", "image: float[3, 64]"])' \
    diff model.onnx edited.onnx
says 1 '^- x: float\[N, 64\]$' diff model.onnx edited.onnx
says 1 '^\+ author = me$' diff model.onnx e2.onnx --context 0 --color never
says 1 '^~ w2: 2048 of 2048 elements differ, by at most 0.65, 2 relative$' diff twice.onnx twice_other.onnx
fails 3 'no-such.onnx' diff model.onnx no-such.onnx
says 1 '^\+ author = me$' diff model.onnx e2.onnx --html d.html
grep -q '^</html>$' d.html || complain 'diff --html writes a page'
fails 3 'nowhere' diff model.onnx e2.onnx --html nowhere/d.html

# ---- inspect --graph
for kind in html dot; do
    says 0 '^nodes: ' inspect loop.onnx --graph "g.$kind"
    grep -q Tanh "g.$kind" || complain "inspect --graph g.$kind"
done
grep -q '^</html>$' g.html || complain 'inspect --graph writes a page'
fails 2 'ends in .html or .dot' inspect loop.onnx --graph out.svg
fails 3 'nowhere' inspect loop.onnx --graph nowhere/g.html

# ---- run --watch
does 0 '.watched | length == 1 and .[0].op == "Tanh" and .[0].inputs[0].shape == [1,96] and .[0].outputs[0].shape == [1,96]' \
    run model.onnx --watch op:Tanh "${common[@]}" --quiet
does 0 '.outputs | length == 1' run model.onnx --watch 'op:*' "${common[@]}" --quiet
says 0 '^  output h: float\[1, 96\]' run model.onnx --watch op:MatMul "${common[@]}" --quiet
fails 2 'no node of the main graph matches' run model.onnx --watch nope "${common[@]}"

# ---- reduce: the check fails for parts with a Tanh in them
cat >has_tanh.sh <<'END'
#!/bin/sh
"$INLAY_EXE" inspect "$1" --json | jq -e '[.operators[].operator] | index("Tanh") == null' >/dev/null || { echo has Tanh; exit 3; }
END
chmod 755 has_tanh.sh
export INLAY_EXE=$inlay
does 0 '.nodes == 1 and .of == 3 and .exit_code == 3 and (.stopped | not)' \
    reduce model.onnx --check ./has_tanh.sh --text 'has Tanh' -o small.onnx --quiet
does 0 '.nodes == 1 and .operators[0].operator == "Tanh"' inspect small.onnx
does 0 '.outputs[0].shape == [1,96]' run small.onnx "${common[@]}" --quiet
fails 2 'does not fail for the whole model' reduce model.onnx --check true -o out.onnx
fails 2 'does not print the text' reduce model.onnx --check ./has_tanh.sh --text 'has Relu' -o out.onnx
fails 2 'cannot be run' reduce model.onnx --check ./no-such-command -o out.onnx
does 0 '.exit_code == 124 and .tries == 1 and .nodes == 1' reduce model.onnx --check 'sleep 60; :' --timeout 0.05 --tries 2 -o small.onnx --quiet

# The fourth call of the check sends SIGINT (Ctrl-C); the smallest part so far is written.
cat >interrupts.sh <<'END'
#!/bin/sh
echo x >>calls
while [ ! -s pid ]; do sleep 0.01; done
[ "$(wc -l <calls)" -ne 4 ] || { kill -INT "$(cat pid)"; sleep 5; }
exec ./has_tanh.sh "$1"
END
chmod 755 interrupts.sh
rm -f calls pid small.onnx
checks=$((checks + 1))
"$inlay" reduce clean1.onnx --check ./interrupts.sh -o small.onnx --json --quiet >out 2>err </dev/null &
echo $! >pid
wait $!
got=$?
if [ $got -ne 130 ] || ! jq -e '.stopped and .nodes < .of' out >/dev/null || [ ! -e small.onnx ]; then
    complain "inlay reduce stopped: exit code $got"
fi

# ---- extract: globs, and stages by provider whose sequence equals the whole model
does 0 '.[0].nodes == 3' extract model.onnx --outputs 'y*' -o part.onnx "${common[@]}" --quiet
does 0 '.[0].nodes == 2' extract constant_node.onnx --nodes op:MatMul -o part.onnx "${common[@]}" --quiet # and Constant
does 0 '.inputs | map(.name) == ["x"]' inspect part.onnx
fails 2 'no value of the main graph matches' extract model.onnx --outputs 'q*' -o out.onnx "${common[@]}"
does 0 'length == 1 and .[0].nodes == 3 and .[0].provider == "reference"' \
    extract model.onnx --partition -o stage.onnx "${common[@]}" --quiet

does 0 'map(.provider) == ["planted", "reference", "planted"] and map(.nodes) == [1, 1, 1]' \
    extract split.onnx --partition -o stage.onnx "${two[@]}" --quiet
# chain MODEL STAGE...   checks that the stages, run in sequence, compute the same as the model.
chain() {
    "$inlay" run "$1" "${common[@]}" --quiet --outputs whole >/dev/null
    rm -rf flow && mkdir flow
    for stage in "${@:2}"; do
        inputs=()
        for name in $("$inlay" inspect "$stage" --json | jq -r '.inputs[].name'); do
            [ ! -e "flow/$name.npy" ] || inputs+=(--input "$name=flow/$name.npy")
        done
        "$inlay" run "$stage" "${common[@]}" --quiet "${inputs[@]}" --outputs flow >/dev/null 2>err || complain "stage $stage"
    done
    checks=$((checks + 1))
    for f in whole/*.npy; do
        cmp -s "$f" "flow/$(basename "$f")" || complain "stages of $1: $(basename "$f")"
    done
    rm -rf whole
}
chain split.onnx stage.0.onnx stage.1.onnx stage.2.onnx
does 0 'map(.provider) == ["reference", "host"]' extract clean5.onnx --partition -o branch.onnx "${common[@]}" --quiet
chain clean5.onnx branch.0.onnx branch.1.onnx
does 0 'length == 3' extract clean2.onnx --split 3 -o third.onnx "${common[@]}" --quiet
chain clean2.onnx third.0.onnx third.1.onnx third.2.onnx

# ---- bench --sweep
fast=(--seconds 0.03 --warmup 1 --quiet --no-config --cache-dir "" --probe never --providers reference)
does 0 '[.points[] | [.batch, .threads]] as $p | ($p | any(. == [4,1])) and ($p | any(. == [1,2]))
    and (.points | all(.low <= .items_per_s and .items_per_s <= .high and .p95_ms >= .median_ms))
    and (.best as $b | .points | any(.items_per_s == $b.items_per_s and .batch == $b.batch and .threads == $b.threads))' \
    bench model.onnx --sweep batch=1..4,threads=1..2 --csv s.csv --html s.html "${fast[@]}"
[ "$(head -n 1 s.csv)" = 'batch,threads,items_per_s,low,high,median_ms,p95_ms,p99_ms,runs,joules_per_item,best' ] ||
    complain 's.csv'
[ "$(grep -c ',1$' s.csv)" -ge 1 ] || complain 's.csv has a best line'
grep -q '<polyline' s.html && grep -q '^</html>$' s.html || complain 's.html'
# Two curves in each of the two pictures, although their names differ only in the last byte.
does 0 '.points | length == 4' bench long_name.onnx \
    --sweep threads=1/2,a_dimension_whose_name_has_63_bytes_xxxxxxxxxxxxxxxxxxxxxxxxxxx=1/2 --html s.html "${fast[@]}"
[ "$(grep -o '<polyline' s.html | wc -l)" = 4 ] || complain 's.html has four curves'
does 1 '.best == null and (.points | all(.fits | not))' bench model.onnx --sweep N=1/2 --latency-ms 0.0000001 "${fast[@]}"
does 0 '.points | map(.threads) | .[0] == 1 and . == unique' bench model.onnx --sweep threads=1..N "${fast[@]}"
does 0 '.points | length == 1' bench model.onnx --sweep callers=2 "${fast[@]}"
says 0 '^best: batch 8: ' bench model.onnx --sweep batch=8 "${fast[@]}"
fails 2 "no dimension named 'rows'; it has 'N'" bench model.onnx --sweep rows=1..4
fails 2 'expected NAME=FIRST..LAST' bench model.onnx --sweep batch=0..4
fails 2 'expected NAME=FIRST..LAST' bench model.onnx --sweep batch
fails 2 'require --sweep' bench model.onnx --csv x.csv
fails 3 'nowhere' bench model.onnx --sweep batch=1 --csv nowhere/s.csv "${fast[@]}"
echo 1 >meter
does 0 '.joules_per_run > 0' bench model.onnx --runs 3 --energy='sh -c "cat meter; echo 5 >meter"' "${fast[@]}"
does 0 '.energy.not_available | test("did not print")' bench model.onnx --runs 3 --energy='sh -c "echo 5; exit 3"' "${fast[@]}"
does 0 '.energy.not_available | test("did not print")' bench model.onnx --runs 3 --energy='echo joules' "${fast[@]}"

# ---- cache export and import
mkdir -p kept/costs kept/packs other
chmod 700 kept kept/* other
printf '{"format": 0}' >kept/costs/machine.json
printf pack >kept/packs/p.pack
does 0 '.files == 1 and .bytes == 13' cache export fleet.cache --cache-dir "$work/kept"
does 0 '.files == 1 and .kept == 0' cache import fleet.cache --cache-dir "$work/other"
cmp -s kept/costs/machine.json other/costs/machine.json || complain 'cache import'
does 0 '.files == 0 and .kept == 1' cache import fleet.cache --cache-dir "$work/other"
does 0 '.files == 1 and .kept == 0' cache import fleet.cache --replace --cache-dir "$work/other"
does 0 '.files == 2' cache export fleet.cache --all --cache-dir "$work/kept"
does 0 '.files == 1 and .kept == 1' cache import fleet.cache --cache-dir "$work/other"
[ "$(cat other/packs/p.pack)" = pack ] || complain 'cache import --all'
does 0 '.valid and .files == 2 and .packed == 1 and .compiled == 0' cache check fleet.cache
says 0 '^fleet.cache: valid on this machine: 0 compiled regions, 1 packed weights' cache check fleet.cache
head -c -1 fleet.cache >short.cache
fails 3 'damaged: has ' cache check short.cache
fails 3 'No such file' cache check nowhere.cache
sed 's/"order":"l/"order":"L/' fleet.cache >foreign.cache
fails 3 'damaged: wrong checksum' cache import foreign.cache --cache-dir "$work/other"
head -c 200 fleet.cache >cut.cache
fails 3 'damaged' cache import cut.cache --cache-dir "$work/other"
# A complete file from another machine, and a file with paths outside of the folder.
forge() {
    local head
    head=$(tail -c +129 fleet.cache | head -n 1 | jq -c "$1")
    { echo "$head"; tail -c +129 fleet.cache | tail -n +2; } >body
    { printf '%-127s\n' "inlay-cache 1 $(sha256sum body | cut -d ' ' -f 1) ${#head}"; cat body; } >forged.cache
}
forge '.'
does 0 '.kept == 2' cache import forged.cache --cache-dir "$work/other"
forge '.cpu = "Z80"'
fails 4 "on another machine, 'Z80'" cache import forged.cache --cache-dir "$work/other"
fails 4 "on another machine, 'Z80'" cache check forged.cache
forge '.inlay = "9.9"'
fails 4 'packed weights of inlay 9.9' cache import forged.cache --cache-dir "$work/other"
fails 4 'packed weights of inlay 9.9' cache check forged.cache
# One file for several kinds of machines: only the parts for this one are imported.
forge '.cpu = "Z80" | .threads = 3'
cp forged.cache z80.cache
forge '.cpu = "6502"'
does 0 '.parts == 2 and .repeated == 1' cache merge z80.cache fleet.cache fleet.cache -o both.cache
does 0 '.valid and .files == 2 and ([.parts[].valid] == [false, true]) and .parts[0].cpu == "Z80" and .parts[0].threads == 3' \
    cache check both.cache
says 0 '^Z80  .* no$' cache check both.cache
does 0 '.files == 2 and .kept == 0' cache import both.cache --cache-dir "$work/merged"
does 0 '.parts == 3 and .repeated == 0' cache merge forged.cache both.cache -o three.cache
does 0 '.parts | length == 3' cache check three.cache
cmp -s <(cat forged.cache z80.cache fleet.cache) three.cache || complain 'cache merge'
does 0 '.parts == 2' cache merge forged.cache z80.cache -o elsewhere.cache
fails 4 "; it has parts for '6502', 'Z80'" cache check elsewhere.cache
fails 4 "has no part for this machine" cache import elsewhere.cache --cache-dir "$work/other"
fails 2 "parts for several machines ('Z80', " explain model.onnx --if both.cache
forge '.inlay = "9.9"'
does 0 '.parts == 2' cache merge z80.cache forged.cache -o old.cache
fails 4 'packed weights of inlay 9.9' cache check old.cache
# Damage in any part rejects the file.
for cut in 1 20 200; do
    head -c -$cut three.cache >cut.cache
    fails 3 'damaged' cache check cut.cache
    fails 3 'damaged' cache merge cut.cache -o never.cache
done
{ cat both.cache; echo more; } >longer.cache
fails 3 'damaged: no part begins at byte ' cache check longer.cache
sed 's/"Z80"/"Z81"/' both.cache >changed.cache
does 0 '.parts[0].cpu == "Z81"' cache check changed.cache
fails 3 'wrong checksum' cache import changed.cache --cache-dir "$work/other"
fails 3 'wrong checksum' cache merge changed.cache -o never.cache
{ head -c -1 fleet.cache; printf '\377'; } >spoiled.cache
fails 3 'wrong checksum' cache merge fleet.cache spoiled.cache -o never.cache # as a repeated part, too
[ ! -e never.cache ] || complain 'cache merge wrote a file from damaged ones'
# A terminal does not get what a file has in its place of a name.
forge '.cpu = "\u001b[31mred"'
"$inlay" cache merge forged.cache fleet.cache -o red.cache >/dev/null
says 0 '^\?\[31mred  .* no$' cache check red.cache
for line in "merge both.cache" "merge -o x.cache" "export x.cache -o y.cache"; do
    # shellcheck disable=SC2086 # several arguments
    "$inlay" cache $line >out 2>err
    [ $? -eq 2 ] && grep -qE 'merge requires the files to merge and -o FILE|-o belongs to merge' err || complain "cache $line"
done
forge '.files[1].name = "packs/../x"'
fails 3 'not a file of a cache' cache import forged.cache --cache-dir "$work/other"
forge '.files[1].name = "plugins/x"'
fails 3 'not a file of a cache' cache import forged.cache --cache-dir "$work/other"
sed 's/^inlay-cache 1/inlay-cache 7/' fleet.cache >future.cache
fails 3 'version 7 of the file format; this inlay reads version 1' cache import future.cache --cache-dir "$work/other"
fails 3 'not a file written by inlay cache export' cache import model.onnx --cache-dir "$work/other"
fails 3 'not a file written by inlay cache export' cache check model.onnx
"$inlay" cache export - --cache-dir "$work/kept" 2>err </dev/null | cat >piped.cache
does 0 '.files == 1' cache import piped.cache --cache-dir "$work/piped"
fails 3 'nothing to export' cache export out.onnx --cache-dir "$work/empty"
does 0 '.removed == 1' cache prune --days 0 --cache-dir "$work/kept"
does 0 '.removed == 0 and .parts[0].files == 1' cache prune --cache-dir "$work/other"
"$inlay" cache frob >out 2>err; [ $? -eq 2 ] || complain 'cache frob'

# ---- explain --if: the measurements of another machine
mkdir tuned
chmod 700 tuned
here=(--no-config --providers cpu,reference --probe never)
there=("${here[@]}" --intra-threads 1 --cache-dir "$work/tuned")
does 0 '.measured > 0' tune model.onnx --dim N=2 --budget-s 2 "${there[@]}"
does 0 '.files >= 1' cache export fleet.cache --cache-dir "$work/tuned"
measured='[.main.nodes[].offers[] | select(.price == "measured")] | length'
does 0 "$measured == 0" explain model.onnx --dim N=2 --intra-threads 1 "${here[@]}" --cache-dir ""
does 0 "($measured > 0) and .threads == 1" explain model.onnx --dim N=2 --intra-threads 1 "${here[@]}" --if fleet.cache
says 0 '^as on ' explain model.onnx --dim N=2 --intra-threads 1 "${here[@]}" --if fleet.cache
# Times are of one processor, number of threads and size: what is not in the file is refused.
fails 3 'fleet.cache has no times of model.onnx' explain model.onnx --dim N=3 "${here[@]}" --intra-threads 1 --if fleet.cache
fails 3 'for 64 threads' explain model.onnx --dim N=2 "${here[@]}" --intra-threads 64 --if fleet.cache
fails 3 'has no times of e2.onnx' explain e2.onnx "${here[@]}" --intra-threads 1 --if fleet.cache
forge '.cpu = "Z80" | .threads = 64'
fails 3 'for 64 threads' explain model.onnx --dim N=2 "${here[@]}" --if forged.cache
fails 3 'for 1 threads' explain model.onnx --dim N=2 "${here[@]}" --intra-threads 1 --if forged.cache
fails 3 'not a file written by inlay cache export' explain model.onnx "${here[@]}" --if model.onnx
fails 3 'damaged: wrong checksum' explain model.onnx "${here[@]}" --if foreign.cache

# ---- the examples of --help
export INLAY_PROVIDERS=reference INLAY_CACHE_DIR='' XDG_CONFIG_HOME=$work/none
cp model.onnx a.onnx; cp e2.onnx b.onnx; cp e2.onnx optimized.onnx
bin=$(cd "$(dirname "$inlay")" && pwd)
for verb in doctor edit diff; do
    "$inlay" "$verb" --help | sed -n "/^Examples:/,/^ *-/s/^  \(inlay $verb .*\)/\1/p" >examples
    [ "$(wc -l <examples)" -ge 3 ] || complain "$verb --help has $(wc -l <examples) examples"
    while read -r line; do
        checks=$((checks + 1))
        PATH=$bin:$PATH bash -c "$line" >out 2>err </dev/null
        [ $? -le 1 ] || complain "$line"
    done <examples
done

finish
