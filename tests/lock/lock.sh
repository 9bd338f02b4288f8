#!/bin/bash
# inlay lock --check finds planted regressions, says what changed, and reports nothing else.
#   lock.sh INLAY MAKE_MODELS PLUGINS     the executable; bin/make_bisect_models; the folder of planted.so
set -u
# shellcheck source=tests/support/verbs.bash
. "$(dirname "$0")/../support/verbs.bash" "$1" "$2"
plugins=$3
run=(--plugin-dirs "$plugins" --no-config --cache-dir "" --probe never --no-time)

# locks RECORD ARGUMENT...   writes a record
locks() {
    local record=$1
    shift
    checks=$((checks + 1))
    "$inlay" lock "$@" -o "$record" "${run[@]}" >out 2>err </dev/null || complain "inlay lock $* -o $record"
}

# finds CODE FILTER ARGUMENT...   the exit code of a check, and a filter of jq for its --json; rows() are its changes
finds() {
    local code=$1 filter=$2 got
    shift 2
    checks=$((checks + 1))
    "$inlay" lock --check "$@" "${run[@]}" --json >out 2>err </dev/null
    got=$?
    [ $got -eq "$code" ] || complain "inlay lock --check $*: exit code $got"
    meets out 'def rows: [.rows[] | select(.verdict != "same")]; def only(w): [.rows[] | select(.verdict == "regression")]
        | length > 0 and all(.what | test(w)); '"$filter" "inlay lock --check $*"
}

# edits FILTER   several.lock as another version has written it
edits() {
    jq "$1" several.lock >edited.lock
}

planted=(--providers "planted,reference" --policy priority)
locks several.lock several.onnx --dim N=5 "${planted[@]}"
jq -e '[.outputs[].values[] | split(" ") | length] == [40, 40, 40, 40]' several.lock >/dev/null || complain 'the values'

# ---- nothing changed: as a whole, in text, from another folder, with the model named, after the record moved with it
finds 0 'rows == [] and .regressions == 0 and .changes == 0 and (.rows | length) > 8' several.lock
finds 0 'rows == []' several.lock several.onnx --strict
"$inlay" lock --check several.lock "${run[@]}" >out 2>err
grep -q '^0 regressions, 0 other changes since several.lock (inlay ' out || complain 'the last line'
mkdir moved && cp several.onnx several.lock moved && cd moved || exit 1
finds 0 'rows == []' several.lock
cd .. && finds 0 'rows == []' moved/several.lock

# ---- 1 to 5: wrong kernels. A different rounding is a change, and a regression only with --strict.
for fault in element nan shape fused little; do
    at=f
    [ $fault = fused ] && at=e
    finds 1 'only("^output .f.$|^output .h.$") and (rows | any(.what == "output '"'f'"'" and .verdict == "regression"))' \
        several.lock --option planted.fault=$fault --option planted.at=$at
done
finds 1 'only("^output") and (rows | any(.is | test("relative error 5[.0-9]*e-05")))' several.lock \
    --option planted.fault=little --option planted.at=f --max-error 1e-5
finds 0 'rows | any(.what == "output '"'f'"'" and .verdict == "changed")' several.lock --option planted.fault=rounding \
    --option planted.at=f
finds 1 'only("output")' several.lock --option planted.fault=rounding --option planted.at=f --strict
finds 0 '.regressions == 0' several.lock --option planted.fault=little --option planted.at=f --max-error 1e-3

# ---- 6 to 8: a provider no longer takes a node, may not run it, is gone
finds 1 'only("^provider") and (rows | any(.was == "planted" and (.is | test("^reference, because planted no longer takes it"))))' several.lock \
    --option planted.fault=offer --option planted.at=d
finds 0 'rows | any(.was == "planted" and .is == "reference" and .verdict == "changed")' several.lock --forbid 'op:Relu=planted'
finds 1 'only("^provider of 8 nodes")' several.lock --providers reference

# ---- 9 to 12: memory of the process, of the plan, of constants; a new warning
finds 1 'only("^peak memory")' several.lock --option planted.hold=64
edits '.memory.planned_bytes += 1 | .memory.constant_bytes += 1'
finds 0 'rows | map(.what) == ["planned memory", "memory of constants"]' edited.lock
locks large.lock several.onnx --dim N=20000 --samples 1 --providers reference
finds 0 'rows == []' large.lock
jq '.memory.planned_bytes = (.memory.planned_bytes / 1.3 | floor)' large.lock >edited.lock
finds 1 'only("^planned memory")' edited.lock
jq '.memory.planned_bytes *= 1.3' large.lock >edited.lock
finds 0 'rows | any(.what == "planned memory" and .verdict == "better")' edited.lock
jq '.memory.constant_bytes = -1e6' large.lock >edited.lock
finds 1 'only("^memory of constants")' edited.lock
finds 1 'only("^warning") and (rows | any(.is | test("the planted driver is old")))' several.lock \
    --option 'planted.warn=the planted driver is old'

# ---- 13 to 16: another interface: an output that is gone, new, of another shape, of another type
edits '.outputs[0].name = "gone"'
finds 1 'only("^output .gone.") and (rows | any(.is == "missing"))' edited.lock
edits 'del(.outputs[0])'
finds 0 'rows | any(.what == "output" and .is == "f")' edited.lock
edits '.outputs[0].type = "float[5, 9]"'
finds 1 'only("^output .f.") and (rows | any(.was == "float[5, 9]" and .is == "float[5, 8]"))' edited.lock
edits '.outputs[0].type = "double[5, 8]"'
finds 1 'only("^output .f.")' edited.lock

# ---- 17 to 19: other inputs; values that are missing, or of another number
finds 1 'only("^inputs$")' several.lock --samples 1
edits '.outputs[0].sha256[0] = "0"' # other bits, the same values
finds 0 'rows | length == 1 and .[0].verdict == "changed" and (.[0].is | test("relative error 0 "))' edited.lock
edits '.outputs[0].sha256[0] = "0" | .outputs[0].values[0] |= sub(" [^ ]*$"; "")'
finds 1 'only("^output .f.") and (rows | any(.is | test("other elements")))' edited.lock
edits '.outputs[0].sha256[0] = "0" | del(.outputs[0].values)'
finds 1 'only("^output .f.") and (rows | any(.is | test("no values")))' edited.lock

# ---- 20 to 25: another version, processor, model, setting, kernel, graph: changes
edits '.made.inlay = "0.0.9"'
finds 0 'rows == [{"what": "inlay", "was": "0.0.9", "is": .rows[0].is, "verdict": "changed"}]' edited.lock
edits '.made.cpu = "a Z80"'
finds 0 'rows | length == 1 and .[0].was == "a Z80"' edited.lock
{ cat several.onnx && printf '\x32\x01x'; } >other.onnx # a doc_string
finds 0 'rows | length == 1 and .[0].what == "model file"' several.lock other.onnx
finds 0 '(rows | map(.what))[:2] == ["setting", "setting"]' several.lock --intra-threads 2
edits '.regions[].nodes |= map_values("old")'
finds 0 '.regressions == 0' edited.lock # planted.so names no kernels
locks rewrites.lock rewrites.onnx --providers reference
finds 0 'rows | any(.what == "optimised graph" and .was == "3 nodes" and .is == "6 nodes: 3 other ones, 0 gone")' \
    rewrites.lock --level 0
finds 1 'only("^output|^optimised graph")' rewrites.lock --level 0 --strict

# ---- kernels, which the provider cpu names
if [ -e "$(dirname "$inlay")/../lib/inlay/plugins/inlay-cpu.so" ]; then
    locks cpu.lock several.onnx --dim N=5 --providers cpu,reference
    finds 0 '.regressions == 0' cpu.lock
    jq '.regions[].nodes |= map_values(if . == null then . else "old" end)' cpu.lock >kernels.lock
    finds 0 'rows | any((.what | test("^kernel of")) and .was == "old" and .verdict == "changed")' kernels.lock
    finds 1 'rows | any((.what | test("^kernel of")) and .verdict == "regression")' kernels.lock --strict
fi

# ---- data: files of samples, found again beside the record
for i in 0 1 2; do
    "$inlay" run identity.onnx --seed $i --outputs samples-$i "${run[@]:0:7}" >out 2>err || complain 'samples'
    mkdir -p samples/$i && mv samples-$i/b.npy samples/$i/x.npy
done
locks data.lock several.onnx --data samples "${planted[@]}"
finds 0 'rows == [] and (.since == "data.lock")' data.lock
jq -e '.data == "samples" and (.inputs | length) == 15' data.lock >/dev/null || complain 'the samples of data.lock'
cp samples/0/x.npy samples/1/x.npy
finds 1 'only("^inputs$")' data.lock

# ---- bisection: the first region that differs from another installation, or from a command
mkdir -p here/bin && ln -s "$inlay" here/bin/inlay
cat >again.sh <<END
#!/bin/sh
exec "$inlay" run "\$1" --inputs "\$2" --outputs "\$3" --providers reference --no-config --cache-dir "" --probe never
END
chmod +x again.sh
cat >wrong.sh <<'END'
#!/bin/sh
exit 7
END
chmod +x wrong.sh
locks plain.lock several.onnx --dim N=5 --providers reference
finds 0 '.first_difference.value == null and .first_difference.values >= 2' several.lock --against command:./again.sh
for pair in 'b Abs' 'd Mul'; do
    set -- $pair
    finds 1 '.first_difference.provider == "planted" and .first_difference.relative > 1e-5 and
        .first_difference.before <= 1e-5 and (.first_difference.nodes | any(test("'"$2"' ")))' several.lock \
        --option planted.fault=element --option planted.at="$1" --against command:./again.sh
done
finds 0 '.first_difference.value == null' plain.lock --against here
finds 3 '.error.text | test("exit code 7")' plain.lock --against command:./wrong.sh
finds 2 '.error.text | test("there is no program")' plain.lock --against "$work"
left=$(find "$work" -name 'inlay-lock.*')
[ -z "$left" ] || complain "left behind: $left"

# ---- wrong use, wrong files
printf '{}' >empty.lock
finds 3 '.error.text | test("is not a file of inlay lock")' empty.lock
finds 3 '.error.text | test("several.onnx:1: not a file of inlay lock")' several.onnx
printf '{"inlay_lock": 9}' >new.lock
finds 3 '.error.text | test("use a newer inlay")' new.lock
printf '{"inlay_lock": 1}' >old.lock
finds 3 '.error.text | test("record it again")' old.lock
printf '{"inlay_lock": 1' >cut.lock
finds 3 '.error.text | test("cut.lock:1")' cut.lock
finds 3 '.error.text | test("none.lock")' none.lock
edits 'del(.model.path)'
finds 3 '.error.text | test("edited.lock: .*path.*write it again")' edited.lock
for unknown in '.limts = {}' '.limits.eror = 1' '.outputs[0].metrik = "top1"' '.memory.peak = 1' '.made.host = "x"'; do
    edits "$unknown"
    finds 3 '.error.text | test("limts|eror|metrik|peak|host")' edited.lock
done
edits '.outputs = {}'
finds 3 '.error.text | test("outputs")' edited.lock
edits '.outputs[0].metric = "nothing"'
finds 0 '(rows | any(.what | test("metric of"))) and .times_compared == false' edited.lock
edits '.settings += ["levle=1"]'
finds 3 '.error.text | test("levle")' edited.lock
edits '.settings += ["no equals"]'
finds 2 '.error.text | test("NAME=VALUE")' edited.lock
edits '.model.path = "none.onnx"'
finds 3 '.error.text | test("none.onnx")' edited.lock
for words in 'several.onnx' '-o x.lock' 'several.onnx -o x.lock --strict' '--check several.lock -o x.lock'; do
    checks=$((checks + 1))
    # shellcheck disable=SC2086
    "$inlay" lock $words "${run[@]}" >out 2>err </dev/null
    [ $? -eq 2 ] || complain "inlay lock $words"
done
finish
