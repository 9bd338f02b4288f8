#!/bin/bash
# `inlay admit`: a candidate that is right and faster is admitted for the nodes that it makes faster, and runs these only;
# one that is slower or wrong is not, and leaves no file.
#   admit.sh INLAY FOLDER   the executable; the folder with candidate_fast.so, candidate_slow.so, candidate_faulty.so and
#                           rival.so, whose provider is what there is
set -u
inlay=$1 plugins=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
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
    "$inlay" admit "$plugins/candidate_$name.so" --model large.onnx -o "$name.trust" --quick --budget-s 0.2 --seconds 0.1 \
        "$@" >out 2>err </dev/null
    local got=$?
    [ $got = "$code" ] || complain "$name: exit code $got, not $code"
}

# nodes MODEL: how many nodes the candidate runs with the certificate
nodes() {
    "$inlay" explain "$1" --json --plugin-dirs "$plugins/candidate_fast.so:$plugins/rival.so" --trust fast.trust >out 2>err </dev/null ||
        complain "explain $1"
    jq '[.providers[] | select(.name == "candidate") | .nodes] | add // 0' out
}

admit fast 0 --json
jq -e '.admitted and .nodes >= 1 and .failed == 0 and .models[0].admitted and .models[0].with_ms < .models[0].without_ms' \
    out >/dev/null || complain "fast: what it says"
[ "$(nodes large.onnx)" = 2 ] || complain "it does not run its nodes"
[ "$(nodes other.onnx)" = 0 ] || complain "it runs a node for which it was not admitted"
admit slow 1
grep -q 'not admitted: no model is faster' out || complain "slow: why"
admit faulty 1
grep -q 'not admitted: .* checks failed' out || complain "faulty: why"
for name in slow faulty; do
    [ ! -e $name.trust ] || complain "$name: there is a certificate"
done
"$inlay" admit "$plugins/candidate_fast.so" -o x >out 2>err </dev/null
[ $? = 2 ] && grep -q -- '--model' err || complain "no model"
[ $failed = 0 ] && echo "1 admitted, 2 not"
exit $failed
