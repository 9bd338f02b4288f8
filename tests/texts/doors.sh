#!/bin/bash
# The same seed gives the same text through every door: `inlay generate`, samples/generate (inlay/text.h), C++, Python and
# Node. Doors that were not built are left out. That of the server is compared by test_text.c.
#   doors.sh INLAY GENERATE DOORS_CPP WRITE_MODELS SOURCE_DIR [PYTHON] [NODE]
# An empty path: not built.
set -euo pipefail
inlay=$1 generate=$2 cpp=$3 write_models=$4 source=$5 python=${6:-} node=${7:-}
here=$(dirname "$(realpath "$0")")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export INLAY_REPRODUCIBLE=1 INLAY_CACHE_DIR="$folder/cache"

mkdir -p "$folder/count/1" "$folder/vectors/1"
"$write_models" "$folder" decoders
"$write_models" "$folder" texts
{
    printf '{"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"added_tokens":[],'
    printf '"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","merges":[],"vocab":{"!":33'
    for code in {35..91} {93..126}; do
        # shellcheck disable=SC2059
        printf ",\"\\x$(printf %x "$code")\":$code"
    done
    printf '}}}'
} >"$folder/tokenizer.json"
cp "$folder/tokenizer.json" "$folder/vectors/1/"

model=$folder/masked.onnx vectors=$folder/vectors/1/model.onnx
for case in "a 3" "hello 4" "zyx 5"; do
    read -r prompt seed <<<"$case"
    "$inlay" generate "$model" --prompt "$prompt" --temperature 0.7 --top-p 0.9 --seed "$seed" --tokens 60 >"$folder/cli"
    [ "$(wc -c <"$folder/cli")" -ge 40 ] || { echo "the text is short: $(cat "$folder/cli")"; exit 1; }
    for door in "${generate:+c}" "${cpp:+cpp}" "${python:+python}" "${node:+node}"; do
        case $door in
        c) "$generate" "$model" --temperature 0.7 --top-p 0.9 --seed "$seed" --tokens 60 "$prompt" 2>"$folder/log" ;;
        cpp) "$cpp" "$model" "$prompt" "$seed" ;;
        python) "$python" "$here/doors.py" "$model" "$vectors" "$prompt" "$seed" ;;
        node) "$node" "$here/doors.js" "$source/sdk/bindings/node" "$model" "$vectors" "$prompt" "$seed" ;;
        *) continue ;;
        esac >"$folder/door"
        [ "$(cat "$folder/door")" = "$(cat "$folder/cli")" ] || {
            echo "$door: another text of '$prompt' than inlay generate"
            diff "$folder/cli" "$folder/door"
            exit 1
        }
        echo "$door: the same text"
    done
done
