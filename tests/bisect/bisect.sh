#!/bin/bash
# inlay bisect names exactly the faults planted in a provider and in a pass.
#   bisect.sh INLAY PLANTED_INLAY MAKE_MODELS PLUGINS     the executable; the one with a faulty pass; the folder of planted.so
set -u
inlay=$1 planted_inlay=$2 make_models=$3 plugins=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work
checks=0 wrong=0
"$make_models" "$work" || exit 1

# finds CODE FILTER TEXT ARGUMENT...   checks the exit code, the --json output by a filter of jq, and the text by a
# pattern.
finds() {
    local code=$1 filter=$2 text=$3 got
    shift 3
    checks=$((checks + 1))
    "$inlay" bisect "$@" --json >"$work/out.json" 2>"$work/err" </dev/null
    got=$?
    if [ $got -ne "$code" ] || ! jq -e "$filter" "$work/out.json" >/dev/null 2>&1; then
        wrong=$((wrong + 1))
        echo "WRONG: inlay bisect $*: exit code $got; jq '$filter' of"
        head -c 900 "$work/out.json" "$work/err"
    fi
    "$inlay" bisect "$@" >"$work/out.txt" 2>"$work/err" </dev/null
    got=$?
    if [ $got -ne "$code" ] || ! grep -qE -- "$text" "$work/out.txt" "$work/err"; then
        wrong=$((wrong + 1))
        echo "WRONG: inlay bisect $*: exit code $got; nothing like '$text' in"
        head -c 900 "$work/out.txt" "$work/err"
    fi
}

# with FAULT VALUE   sets `run`: uses the planted provider wherever possible, with that fault in the node that
# computes VALUE.
with() {
    run=(--plugin-dirs "$plugins" --providers "planted,reference" --policy priority
        --option "planted.fault=$1" --option "planted.at=$2" --no-config --cache-dir "" --probe never)
}
node() { # VALUE OP   exactly the node that computes VALUE is named, with its operator and the difference
    echo ".stage == \"node\" and .provider == \"planted\" and (.nodes | length) == 1 and .nodes[0].op == \"$2\" and
        .value == \"$1\" and .graph == \"\""
}

several=$work/several.onnx
five=(--input "x=random:5,8")
against=(--against reference)

# ---- no fault, or nothing to compare
with element nowhere
finds 0 '.stage == "none" and .value == null and .nodes == null and .runs == 2' '^no difference$' "$several" \
    "${five[@]}" "${run[@]}" "${against[@]}"
with element d
finds 0 '.stage == "none"' '^no difference$' "$several" "${five[@]}" "${run[@]}" "${against[@]}" --atol 20
finds 0 '.stage == "none"' '^no difference$' "$several" "${five[@]}" "${run[@]}" "${against[@]}" --rtol 1e9

# ---- one element, in each node of a region: the first, a middle one, the last, and one that only one output depends on
for pair in 'a Add' 'b Abs' 'c Neg' 'd Mul' 'e Relu' 'f Add' 'g Neg' 'h Abs'; do
    set -- $pair
    with element "$1"
    finds 1 "$(node "$1" "$2")" "computed by $2 '.*' on planted$" "$several" "${five[@]}" "${run[@]}" "${against[@]}"
done
# ---- NaN, also against a list of providers, and with threads
with nan e
finds 1 "$(node e Relu)" "^value 'e' is the first that differs: \[4,7\] got nan" "$several" "${five[@]}" "${run[@]}" \
    "${against[@]}" --intra-threads 2
finds 1 "$(node e Relu)" "computed by Relu '.*' on planted$" "$several" "${five[@]}" "${run[@]}" \
    --against providers=reference
# Both runs have the fault: no difference.
finds 0 '.stage == "none"' '^no difference$' "$several" "${five[@]}" "${run[@]}" --against level=0
# The default compares with the provider reference at level 0, also if the run is at that level.
finds 1 "$(node e Relu)" "computed by Relu '.*' on planted$" "$several" "${five[@]}" "${run[@]}"
finds 1 "$(node e Relu)" "computed by Relu '.*' on planted$" "$several" "${five[@]}" "${run[@]}" --level 0
# A rule of a file may have a comma: the runs use it as it is.
printf 'forbid:\n- "Mat[M,]ul*=planted"\n' >"$work/rules.yaml"
finds 1 "$(node e Relu)" "computed by Relu '.*' on planted$" "$several" "${five[@]}" "${run[@]}" "${against[@]}" \
    --config "$work/rules.yaml"
# ---- at one shape only
with shape f
finds 1 "$(node f Add)" "computed by Add '.*' on planted$" "$several" "${five[@]}" "${run[@]}" "${against[@]}"
finds 0 '.stage == "none"' '^no difference$' "$several" --input x=random:4,8 "${run[@]}" "${against[@]}"
finds 1 "$(node f Add)" "computed by Add '.*' on planted$" "$several" --dim N=5 "${run[@]}" "${against[@]}"
# ---- when it runs in one region with another
with fused b
finds 1 '.stage == "region" and .provider == "planted" and ([.nodes[].op] == ["Add", "Abs", "Neg"]) and .graph == ""' \
    "computed by 3 nodes of one region, wrong only together: Add '.*', Abs '.*', Neg '.*' on planted$" "$several" "${five[@]}" \
    "${run[@]}" "${against[@]}"
with fused e
finds 1 '.stage == "region" and ([.nodes[].op] | index("Relu")) and (.nodes | length) > 1' 'one region, wrong only together' "$several" \
    "${five[@]}" "${run[@]}" "${against[@]}"
# ---- in bodies
with element r
finds 1 '.stage == "node" and .nodes[0].op == "Abs" and (.graph | endswith(".body"))' \
    "computed by Abs '.*' on planted, in the body .*\.body$" "$work/loop.onnx" "${run[@]}" "${against[@]}"
with nan h
finds 1 '.stage == "node" and .nodes[0].op == "Add" and (.graph | endswith(".body"))' 'in the body' "$work/loop.onnx" \
    "${run[@]}" "${against[@]}"
with element y_else
finds 1 '.stage == "node" and .nodes[0].op == "Relu" and (.graph | endswith(".else_branch"))' 'in the body' \
    "$work/branches.onnx" "${run[@]}" "${against[@]}"
with element y_then # the branch that does not run
finds 0 '.stage == "none"' '^no difference$' "$work/branches.onnx" "${run[@]}" "${against[@]}"
with element z
finds 1 "$(node z Add)" "computed by Add '.*' on planted$" "$work/branches.onnx" "${run[@]}" "${against[@]}"

# ---- a kernel that fails only after a rewrite: the rewrite is reported, but the kernel is named
with fused b
finds 1 '.stage == "region" and .pass == "no_op" and .rewrite == 1 and ([.nodes[].op] == ["Add", "Abs"])' \
    '^  since rewrite 1, pass no_op' "$work/identity.onnx" "${run[@]}"

# ---- a pass
inlay=$planted_inlay
plain=(--providers reference --no-config --cache-dir "" --probe never)
for level in "--against reference" "--against level=0" ""; do
    # shellcheck disable=SC2086
    finds 1 '.stage == "pass" and .pass == "merge_casts" and .rewrite > 1 and (.text | contains("Add"))' \
        '^first bad rewrite: [0-9]+, pass merge_casts$' "$work/rewrites.onnx" "${plain[@]}" $level
done
finds 0 '.stage == "none"' '^no difference$' "$work/rewrites.onnx" "${plain[@]}" --no-pass merge_casts
finds 0 '.stage == "none"' '^no difference$' "$work/rewrites.onnx" "${plain[@]}" --level 0
finds 1 '.stage == "pass" and .pass == "merge_casts"' 'pass merge_casts$' "$work/rewrites.onnx" "${plain[@]}" \
    --against no_pass=merge_casts
finds 1 '.stage == "pass" and .pass == "merge_casts"' 'pass merge_casts$' "$work/rewrites.onnx" "${plain[@]}" --level 1 \
    --against level=0

# ---- wrong use
finds 2 '.error.text | contains("--against torch")' 'expected reference, or NAME=VALUE' "$several" --against torch
finds 2 '.error.text | contains("lvel")' "did you mean 'level'" "$several" --against lvel=0
finds 2 '.error.text | contains("nowhere")' 'nowhere' "$several" --against providers=nowhere

left=$(find "$work" -name 'inlay-bisect-*')
[ -z "$left" ] || { wrong=$((wrong + 1)); echo "WRONG: left behind: $left"; }
echo "$checks checks, $wrong wrong"
[ $wrong -eq 0 ]
