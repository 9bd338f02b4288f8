#!/bin/bash
# inlay bundle --target wasm32: modules, their wrapper and types, compared with `inlay run` by the verb.
#   wasm.sh INLAY MAKE_MODELS BUILD_DIR    exit code 77: a program is missing
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$3
# shellcheck disable=SC2015
bash "$here/../../host/tools/bundle/runtime/cross.sh" --target wasm32 "$build" >"$build/wasm.log" 2>&1 || {
    code=$?
    tail -n 20 "$build/wasm.log"
    [ $code -ne 3 ] || exit 77
    exit 1
}
# shellcheck source=tests/support/verbs.bash
. "$here/../support/verbs.bash" "$1" "$2"

# does FILTER ARGUMENT...   the module is created, and FILTER of jq holds for --json.
does() {
    local filter=$1
    shift
    checks=$((checks + 1))
    "$inlay" bundle "$@" --target wasm32 --no-config --quiet --json >out 2>err </dev/null ||
        complain "inlay bundle $*: failed"
    meets out "$filter" "inlay bundle $*"
}

# fails CODE TEXT ARGUMENT...   one line on stderr contains TEXT, and no file remains.
fails() {
    local code=$1 text=$2 got
    shift 2
    checks=$((checks + 1))
    "$inlay" bundle "$@" --no-config --quiet >out 2>err </dev/null
    got=$?
    if [ $got -ne "$code" ] || [ "$(wc -l <err)" != 1 ] || ! grep -qF -- "$text" err || compgen -G 'none*' >/dev/null; then
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

# ---- results within the rounding errors of the session's kernels, which use other instructions
for model in mlp branches bytes table attention encoder loose recurrent upsample reduced deconvolution winograd loop \
    fibonacci; do
    does '.tried and .difference < 2e-5 and .arena_bytes > 0' $model.onnx -o $model.wasm
done
does '.tried and .difference < 2e-5' scans.onnx -o scans.wasm --set n=50
does '.tried and .difference < 2e-5' net.onnx -o net.wasm --dim N=2
does '.tried and .difference < 2e-5 and .weight_bytes > 1000' net.onnx -o apart.wasm --dim N=2 --separate-weights
does '.tried and .difference < 2e-5 and .packs_at_start == 0' winograd.onnx -o all_packs.wasm --size 100
does ".tried and .difference < 2e-5 and .memory_bytes <= 1.1 * $((2 * 64 * 64 * 9 * 4))" winograd.onnx -o least.wasm --memory 1.1

# ---- the same bits as a session on any CPU
does '.tried and .same' net.onnx -o uniform.wasm --dim N=2 --reproducible cpu
for model in recurrent encoder; do
    does '.tried and .same' $model.onnx -o uniform.wasm --reproducible cpu
done

# ---- the files: a module, a wrapper of about 5 KB, types
holds "the wrapper is small" sh -c '[ "$(stat -c %s net.mjs)" -lt 6000 ]'
holds "the code of an MLP is small" sh -c '[ "$(stat -c %s mlp.wasm)" -lt 200000 ]'
holds "types" grep -qx '  "s": BigInt64Array' branches.d.mts
holds "the wrapper" node "$here/wrapper.mjs" "$work"
if command -v tsc >/dev/null; then
    cat >use.mts <<'END'
import { load } from './branches.mjs'
const model = await load('branches.wasm')
const y: Float32Array = model.run({ x: new Float32Array(16), s: BigInt64Array.of(1n) }).y
// @ts-expect-error an input is missing
model.run({ x: y })
END
    holds "TypeScript accepts the types" tsc --noEmit --strict --target es2022 --module nodenext use.mts
fi

# ---- mistakes
fails 2 "--library and --object are for C programs" mlp.onnx -o none.wasm --target wasm32 --library
fails 2 "there is no folder for the files beside it" mlp.onnx -o - --target wasm32
fails 2 "write it to such a name" mlp.onnx -o none.mjs --target wasm32
fails 2 "--separate-weights needs --target wasm32" mlp.onnx -o none --separate-weights
fails 2 "--for native needs a target of this machine" mlp.onnx -o none.wasm --target wasm32 --for native
fails 3 "cannot find 'no-such-clang'; install clang, lld" mlp.onnx -o none.wasm --target wasm32 --cc no-such-clang
cat >without_linker <<'END'
#!/bin/sh
exec clang "$@" -fuse-ld=/no/wasm-ld
END
chmod +x without_linker
fails 3 "install lld" mlp.onnx -o none.wasm --target wasm32 --cc ./without_linker

finish
