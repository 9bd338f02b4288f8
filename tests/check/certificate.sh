#!/bin/bash
# `inlay plugin-check --certificate` and option trust: a plugin with a planted defect runs the nodes for which its results
# are right, and no others.
#   certificate.sh INLAY PLUGIN SOURCE DATA   the executable; planted.so; its source, for the numbers of the defects; a
#                                             folder of ONNX test cases
set -u
inlay=$1 plugin=$2 source=$3 data=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0
# The provider precedes reference, whatever its price.
common=(--no-config --cache-dir "" --probe never --intra-threads 1 --plugin-dirs "$plugin" --policy priority
    --providers planted,reference)

complain() {
    failed=1
    echo "$*"
    tail -n 5 out err 2>/dev/null
}

# certify FILE GLOB FAULT   writes the certificate of the operators; prints the exit code
certify() {
    "$inlay" plugin-check "$plugin" --quick --no-timing --group random --op "$2" --option "fault=$3" --certificate "$1" \
        >out 2>err </dev/null
    echo $?
}

# says FILE FILTER   jq's filter is true for the certificate
says() {
    jq -e "$2" "$1" >/dev/null 2>err || complain "$1: $2"
}

# runs FAULT FILE   ONNX's test cases of Gemm run right with the certificate; prints how many of them the plugin runs
runs() {
    local folder count=0
    local options=("${common[@]}" --option "planted.fault=$1" --trust "$2")

    for folder in "$data"/node/test_gemm_*; do
        "$inlay" test "$folder" --rtol 1e-3 --atol 1e-4 "${options[@]}" >out 2>err </dev/null ||
            complain "wrong: fault $1, ${folder##*/}" >&2
        "$inlay" explain "$folder/model.onnx" --json "${options[@]}" >out 2>err </dev/null
        count=$((count + $(jq '[.providers[] | select(.name == "planted") | .nodes] | add // 0' out)))
    done
    echo $count
}

# refuses PATTERN OPTION...   a session with these options ends with one line
refuses() {
    local pattern=$1
    shift
    "$inlay" explain "$data/node/test_gemm_alpha/model.onnx" "${common[@]}" "$@" >out 2>err </dev/null &&
        complain "no error like '$pattern'"
    { [ "$(wc -l <err)" = 1 ] && grep -q -- "$pattern" err; } || complain "not an error like '$pattern'"
}

number() {
    sed -n '/^enum fault/,/^};/s/^    \([A-Z_0-9]*\),$/\1/p' "$source" | grep -nx "$1" | awk -F: '{print $1 - 1}'
}

alpha=$(number GEMM_ALPHA)
[ "$(certify good.trust Gemm 0)" = 0 ] || complain 'a plugin without a defect fails'
says good.trust '(.sha256 | length) == 64 and .providers[0].options == [{name: "fault", value: "0", sha256: null}]'
says good.trust '.providers[0] | .failed == null and (.operators | length) == 1'
says good.trust '.providers[0].operators[0] | .operator == "Gemm" and .differed == 0 and .outside == null and .differences == []'
says good.trust '.providers[0].operators[0] | (.forms | index("transA 1")) != null and .largest_error < 1e-4 and .amounts.elements > 1000'
good=$(runs 0 good.trust)
[ "$good" -ge 8 ] || complain "a certificate without differences leaves $good nodes"

[ "$(certify alpha.trust Gemm "$alpha")" = 1 ] || complain 'a defect passes'
says alpha.trust '.providers[0].operators[0] | .differed > 20 and .outside == null and (.differences | length) > 0'
some=$(runs "$alpha" alpha.trust)
{ [ "$some" -ge 4 ] && [ "$some" -lt "$good" ]; } || complain "$some nodes stay instead of some of $good"
"$inlay" explain "$data/node/test_gemm_alpha/model.onnx" "${common[@]}" --option "planted.fault=$alpha" --trust alpha.trust \
    --node 'Gemm#0' >out 2>err </dev/null
grep -q 'outside what was checked: .*alpha' out || complain 'explain does not say why a node is outside'

# Another file, other options, and files that are no certificates.
refuses 'written for provider planted with fault=0, the session has no such setting' --trust good.trust
refuses 'with fault=0, the session has 1' --trust good.trust --option planted.fault=1
refuses 'without option narrow' --trust good.trust --option planted.fault=0 --option planted.narrow=1
sed 's/"sha256":"[0-9a-f]*"/"sha256":"00"/' good.trust >other.trust
refuses 'another build of plugin' --trust other.trust --option planted.fault=0
refuses 'No such file' --trust none.trust
for change in '.providers[0].operators[0].forms |= reverse' '.providers[0].operators[0].forms[0] = 1' 'del(.seed)' \
    '.more = 1' '.inlay_certificate = 2' '.providers[0].operators[0].together[0] = [999]' \
    '.providers[0].operators[0].amounts.elements = -1' '.providers[0].operators[0].remainders = []' '.providers = {}'; do
    jq "$change" good.trust >bad.trust
    refuses 'option trust: bad.trust: .*plugin-check --certificate' --trust bad.trust --option planted.fault=0
done
exit $failed
