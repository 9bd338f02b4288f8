#!/bin/bash
# inlay sign, inlay verify and the server's model_trust: a model that was changed, lost or gained a file is refused with a
# message that names it.
#   signing.sh INLAY MAKE_MODELS [INLAY_SERVE PLUGINS]     the executables; the folder of the reference provider
set -u
# shellcheck source=tests/support/verbs.bash
. "$(dirname "$0")/../support/verbs.bash" "$1" "$2"

# succeeds VERB ARGUMENT..., signs MODEL [FLAG...], verifies MODEL   must succeed; signs and verifies with the keys of this test.
succeeds() {
    checks=$((checks + 1))
    "$inlay" "$@" --json >out 2>err </dev/null || complain "inlay $*"
}
signs() { succeeds sign "$@" --key key.pem; }
verifies() { succeeds verify "$@" --key pub.pem; }

# refuses CODE TEXT VERB ARGUMENT...   checks the exit code and the one line on stderr.
refuses() {
    local code=$1 text=$2 got
    shift 2
    checks=$((checks + 1))
    "$inlay" "$@" >out 2>err </dev/null
    got=$?
    if [ $got -ne "$code" ] || [ "$(wc -l <err)" != 1 ] || ! grep -qF -- "$text" err || [ -s out ]; then
        complain "inlay $*: exit code $got; not '$text' in"
    fi
}

# has COUNT   the files in the JSON of the last command.
has() {
    checks=$((checks + 1))
    jq -e ".files == $1" out >/dev/null 2>&1 || complain "not $1 files in"
}

for name in key other; do
    openssl genpkey -algorithm ed25519 -out $name.pem && openssl pkey -in $name.pem -pubout -out $name.pub || exit 1
done
mv key.pub pub.pem
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out ec.pem && openssl pkey -in ec.pem -pubout -out ec.pub || exit 1
model=$(find . -name 'clean*.onnx' | sort | head -1)
cp "$model" m.onnx

# ---- one file
refuses 3 'is not signed: there is no m.onnx.sig; run: inlay sign m.onnx --key KEY.pem' verify m.onnx --key pub.pem
signs m.onnx
has 1
verifies m.onnx
has 1
succeeds verify m.onnx --key other.pub,pub.pem
refuses 1 'm.onnx.sig: was not made by other.pub' verify m.onnx --key other.pub
refuses 2 'ec.pub: is not a public Ed25519 key in PEM' verify m.onnx --key ec.pub
refuses 2 'ec.pem: is not a private Ed25519 key in PEM' sign m.onnx --key ec.pem
refuses 2 'pub.pem: is not a private Ed25519 key' sign m.onnx --key pub.pem
refuses 3 'none.pem: No such file' verify m.onnx --key none.pem
cp m.onnx n.onnx
cp m.onnx.sig n.onnx.sig
refuses 1 'n.onnx: is not in the signature n.onnx.sig' verify n.onnx --key pub.pem
printf '\0' >>m.onnx
refuses 1 'm.onnx: has changed since it was signed; restore' verify m.onnx --key pub.pem
cp n.onnx m.onnx
verifies m.onnx
rm m.onnx
ln -s n.onnx m.onnx
refuses 1 'm.onnx: is a symbolic link' verify m.onnx --key pub.pem
rm m.onnx
refuses 3 'm.onnx: No such file' verify m.onnx --key pub.pem
cp n.onnx m.onnx

# ---- the signature itself: each beginning of it, each changed part
bytes=$(stat -c %s m.onnx.sig)
cp m.onnx.sig whole
for cut in 0 1 $((bytes / 4)) $((bytes / 2)) $((bytes * 3 / 4)) $((bytes - 3)); do
    head -c "$cut" whole >m.onnx.sig
    refuses 1 'm.onnx.sig: is not a signature of a model' verify m.onnx --key pub.pem
done
jq '.signatures = []' whole >m.onnx.sig
refuses 1 'm.onnx.sig: was not made by pub.pem' verify m.onnx --key pub.pem
jq '.signatures[0].sig |= .[:40]' whole >m.onnx.sig
refuses 1 'm.onnx.sig: was not made by pub.pem' verify m.onnx --key pub.pem
jq '.payload |= (@base64d | sub("sha256"; "sha255") | @base64)' whole >m.onnx.sig
refuses 1 'm.onnx.sig: was not made by pub.pem' verify m.onnx --key pub.pem
jq '.payloadType = "text/plain"' whole >m.onnx.sig
refuses 1 'it has no in-toto statement' verify m.onnx --key pub.pem
mv whole elsewhere.sig
rm m.onnx.sig
succeeds verify m.onnx --key pub.pem --signature elsewhere.sig
signs m.onnx -o named.sig
succeeds verify m.onnx --key pub.pem --signature named.sig

# ---- the format: openssl accepts the signature of DSSE's encoding, and the digests are those of sha256sum
jq -r .payload named.sig | base64 -d >statement
jq -r '.signatures[0].sig' named.sig | base64 -d >signature
{ printf 'DSSEv1 28 application/vnd.in-toto+json %d ' "$(stat -c %s statement)"; cat statement; } >encoded
checks=$((checks + 1))
openssl pkeyutl -verify -pubin -inkey pub.pem -rawin -in encoded -sigfile signature >out 2>err || complain "openssl: not valid"
checks=$((checks + 1))
digest=$(sha256sum m.onnx | cut -d ' ' -f 1)
jq -e --arg digest "$digest" '._type == "https://in-toto.io/Statement/v1" and .predicateType ==
    "https://model_signing/signature/v1.0" and .predicate.resources == [{name: "m.onnx", algorithm: "sha256", digest:
    $digest}]' statement >out || complain "the statement differs"

# ---- external data
for model in *.onnx; do # the first that has a large tensor
    "$inlay" optimize "$model" -o ext.onnx --external ext.bin --level 0 --quiet >out 2>err </dev/null
    [ -s ext.bin ] && break
done
if [ -s ext.bin ]; then
    signs ext.onnx
    has 2
    verifies ext.onnx
    cp ext.bin kept.bin
    printf x | dd of=ext.bin bs=1 conv=notrunc 2>/dev/null
    refuses 1 'ext.bin: has changed since it was signed' verify ext.onnx --key pub.pem
    rm ext.bin
    refuses 3 'ext.bin: is missing' verify ext.onnx --key pub.pem
    ln -s kept.bin ext.bin
    refuses 1 'ext.bin: is a symbolic link' verify ext.onnx --key pub.pem
else
    complain "no external data was written"
fi

# ---- a folder
mkdir -p f/1/data
cp m.onnx f/1/model.onnx
printf weights >f/1/data/w.bin
printf '{}' >f/tokenizer.json
printf 'max_batch: 1\n' >f/config.yaml
signs f
has 4
verifies f
verifies f/
signs f
has 4
printf 'max_batch: 2\n' >f/config.yaml
refuses 1 'f/config.yaml: has changed' verify f --key pub.pem
printf 'max_batch: 1\n' >f/config.yaml
printf new >f/1/added.txt
refuses 1 'f/1/added.txt: is not in the signature f/model.sig; remove the file' verify f --key pub.pem
rm f/1/added.txt
mkdir f/1/sub
cp f/model.sig f/1/model.sig
refuses 1 'f/1/model.sig: is not in the signature' verify f --key pub.pem
rm f/1/model.sig
verifies f
mv f/tokenizer.json kept.json
refuses 3 'f/tokenizer.json: is missing; restore' verify f --key pub.pem
ln -s ../kept.json f/tokenizer.json
refuses 1 'f/tokenizer.json: is a symbolic link' verify f --key pub.pem
refuses 1 'f/tokenizer.json: is a symbolic link' sign f --key key.pem
rm f/tokenizer.json
mv kept.json f/tokenizer.json
mv f/1/data kept
ln -s ../../kept f/1/data
refuses 1 'f/1/data: is a symbolic link' verify f --key pub.pem
rm f/1/data
mv kept f/1/data
mv f/tokenizer.json swap
mv f/config.yaml f/tokenizer.json
mv swap f/config.yaml
refuses 1 'f/config.yaml: has changed' verify f --key pub.pem
mv f/tokenizer.json swap
mv f/config.yaml f/tokenizer.json
mv swap f/config.yaml
verifies f
mkfifo f/pipe
refuses 1 'f/pipe: is a device' verify f --key pub.pem
rm f/pipe
mkdir empty
refuses 3 'empty: the folder has no files to sign' sign empty --key key.pem
cp f/model.sig m.onnx.sig
refuses 1 'm.onnx: is not in the signature' verify m.onnx --key pub.pem

# ---- a package, which moves as one file
"$inlay" pack m.onnx --variants fp32 -o p.pkg >out 2>err </dev/null || complain "no package was made"
signs p.pkg
tar cf p.tar p.pkg
rm -r p.pkg
tar xf p.tar
verifies p.pkg
sed -i 's/"error": 0/"error": 1/' p.pkg/manifest.json
refuses 1 'p.pkg/manifest.json: has changed' verify p.pkg --key pub.pem

# ---- the command line
for line in 'sign m.onnx' 'verify m.onnx'; do
    checks=$((checks + 1))
    # shellcheck disable=SC2086
    "$inlay" $line >out 2>err </dev/null
    if [ $? -ne 2 ] || ! grep -q 'no key given: name its file with --key' err; then
        complain "inlay $line"
    fi
done

# ---- the server loads only models that are signed
# serves CODE TEXT MODELS FLAG...   starts the server and waits until its log has TEXT; then it ends with that exit code.
serves() {
    local code=$1 text=$2 got pid
    shift 2
    checks=$((checks + 1))
    : >out
    "$serve" "$@" --no-config --port 0 --grpc-port -1 --cache-dir "" --plugin-dirs "$plugins" --providers reference \
        --probe never 2>err >out </dev/null &
    pid=$!
    until grep -qF -- "$text" err || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
    [ "$code" -ne 0 ] || kill $pid 2>/dev/null
    wait $pid
    got=$?
    if [ $got -ne "$code" ] || ! grep -qF -- "$text" err; then
        complain "inlay-serve $*: exit code $got; not '$text' in"
    fi
}

if [ $# -ge 4 ]; then
    serve=$3 plugins=$4
    trust=(--model-trust "other.pub,pub.pem")
    rm -f m.onnx.sig
    serves 0 'ready, models: 1' m.onnx
    serves 1 'm.onnx: is not signed: there is no m.onnx.sig; run: inlay sign m.onnx --key KEY.pem' m.onnx "${trust[@]}"
    signs m.onnx
    serves 0 'ready, models: 1' m.onnx "${trust[@]}"
    serves 1 'm.onnx.sig: was not made by other.pub' m.onnx --model-trust other.pub
    serves 1 'none.pub: No such file' m.onnx --model-trust none.pub
    printf '{}' >tokenizer.json
    serves 1 'm.onnx: a signature of one file does not include its tokenizer' m.onnx "${trust[@]}"
    rm tokenizer.json
    printf '\0' >>m.onnx
    serves 1 'm.onnx: has changed since it was signed' m.onnx "${trust[@]}"
    mkdir -p served/a
    cp -r f/1 served/a/1
    cp f/config.yaml served/a
    signs served/a
    serves 0 'ready, models: 1' served "${trust[@]}"
    cp n.onnx served/b.onnx
    serves 0 'served/b.onnx: is not signed' served "${trust[@]}" --strict 0
    rm served/b.onnx
    printf '{}' >served/a/1/tokenizer.json
    serves 0 'served/a/1/tokenizer.json: is not in the signature served/a/model.sig' served "${trust[@]}"
fi
finish
