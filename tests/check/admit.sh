#!/bin/bash
# `inlay admit`: a candidate that is right and faster is admitted for the nodes that it makes faster, and runs these only;
# one that is slower or wrong is not, and leaves no file.
#   admit.sh INLAY FOLDER   the executable; the folder with candidate.so, and with rival.so, whose provider is what there is
set -u
inlay=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
plugins="$work/it's a folder"
mkdir "$plugins"
cp "$2/rival.so" "$plugins"
fast=candidate_1_1 slow=candidate_1_100 faulty=candidate_1_1_huge
for name in $fast $slow $faulty; do
    cp "$2/candidate.so" "$plugins/$name.so"
done
failed=0
export INLAY_CACHE_DIR=$work/cache INLAY_PROVIDERS='candidate?,rival,reference' INLAY_INTRA_THREADS=1 INLAY_PROBE=never
export INLAY_PLUGIN_DIRS=$plugins/rival.so INLAY_FORBID=op:Softsign=reference XDG_CONFIG_HOME=$work/none HOME=$work

/usr/bin/python3 - <<'END' || exit 1
from onnx import TensorProto, helper, save


def write(name, count, nodes):
    value = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node(op, [a], [b], name=b) for op, a, b in nodes], "g",
                              [value("x", TensorProto.FLOAT, [count])], [value("y", TensorProto.FLOAT, [count])])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), name)


write("large.onnx", 40000, [("Softsign", "x", "a"), ("Abs", "a", "b"), ("Softsign", "b", "y")])
write("other.onnx", 30000, [("Softsign", "x", "y")])
END

complain() {
    failed=1
    echo "$*"
    cat out err
}

# admit NAME CODE [OPTION...]
admit() {
    local name=$1 code=$2
    shift 2
    "$inlay" admit "$plugins/$name.so" --model large.onnx -o "a $name.trust" --quick --budget-s 0.2 --seconds 0.1 \
        "$@" >out 2>err </dev/null
    local got=$?
    [ $got = "$code" ] || complain "$name: exit code $got, not $code"
}

# nodes MODEL: how many nodes the candidate runs with the certificate
nodes() {
    "$inlay" explain "$1" --json --plugin-dirs "$plugins/$fast.so:$plugins/rival.so" --trust "a $fast.trust" >out 2>err </dev/null ||
        complain "explain $1"
    jq '[.providers[] | select(.name == "candidate") | .nodes] | add // 0' out
}

admit $fast 0
words=$(sed -n 's/^admitted for [0-9]* nodes*: //p' out)
eval "set -- $words"
[ "$*" = "--plugin-dirs $plugins/$fast.so --trust a $fast.trust" ] && [ $# = 4 ] || complain "no words of a shell: $words"
[ "$(nodes large.onnx)" = 2 ] || complain "it does not run its nodes"
[ "$(nodes other.onnx)" = 0 ] || complain "it runs a node for which it was not admitted"
admit $slow 1 --json
jq -e '.failed == 0 and (.admitted | not) and (.models[0].admitted | not) and .nodes == 0' out >/dev/null ||
    complain "slow: what it says"
admit $faulty 1
grep -q 'not admitted: .* checks failed' out || complain "faulty: why"
for name in $slow $faulty; do
    [ ! -e "a $name.trust" ] || complain "$name: there is a certificate"
done
admit $fast 1 --option candidate.fault=huge # the checks have the options that the sessions have
grep -q 'not admitted: .* checks failed' out || complain "a fault that an option chooses"
admit $fast 0 --option candidate.fault=none
words=$(sed -n 's/^admitted for [0-9]* nodes*: //p' out)
[[ $words == *" --option candidate.fault=none" ]] || complain "the words have no option: $words"
jq -e '.providers[0].options | length == 1 and .[0].name == "fault" and .[0].value == "none"' "a $fast.trust" >/dev/null ||
    complain "the certificate does not name the option"
cp "$plugins/$faulty.so" . # a path that no session would load is refused before the checks, which would find the fault
"$inlay" admit $faulty.so --model large.onnx -o x >out 2>err </dev/null
[ $? = 2 ] && grep -q 'is in the working directory' err || complain "a plugin in the working directory"
"$inlay" admit "$plugins/none.so" --model large.onnx -o x >out 2>err </dev/null
[ $? = 3 ] && grep -q "none.so.: No such file" err || complain "no plugin"
chmod o+w "$plugins/$faulty.so"
"$inlay" admit "$plugins/$faulty.so" --model large.onnx -o x >out 2>err </dev/null
[ $? = 2 ] && grep -q 'chmod' err || complain "a plugin that others can change"
"$inlay" admit "$plugins/$fast.so" --model large.onnx -o a:b >out 2>err </dev/null
[ $? = 2 ] && grep -q "':' separates certificates" err || complain "a colon in the certificate's name"
"$inlay" admit "$plugins/$fast.so" -o x >out 2>err </dev/null
[ $? = 2 ] && grep -q -- '--model' err || complain "no model"
[ $failed = 0 ] && echo "1 admitted, 2 not"
exit $failed
