#!/bin/bash
# samples/chat and `inlay chat`: each answer is that to all messages before it; a model without a template is refused.
# `inlay tokenize`; the examples of --help; Ctrl-C stops `inlay generate`.
#   chat.sh CHAT WRITE_MODELS INLAY
set -eu

chat=$1 write_models=$2 inlay=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export INLAY_REPRODUCIBLE=1 INLAY_CACHE_DIR="$folder/cache" INLAY_STATE=old=new

mkdir -p "$folder/count/1" "$folder/vectors/1"
"$write_models" "$folder" texts
{
    printf '{"normalizer":null,"decoder":{"type":"ByteLevel"},'
    printf '"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"added_tokens":[],"model":{"type":"BPE","merges":[],"vocab":{"A":65'
    for letter in B C D E F G H I J K L M N O P Q R S T U V W X Y Z a b c d; do
        printf ',"%s":%d' "$letter" "'$letter"
    done
    printf '}}}'
} >"$folder/count/1/tokenizer.json"
printf '{"eos_token_id":90,"do_sample":false}' >"$folder/count/1/generation_config.json"
# The model says the letters from the one whose number is the length of the prompt, to Y.
if printf 'a' | "$chat" "$folder/count/1/model.onnx" 2>"$folder/refused"; then
    echo "a model without a template is accepted"
    exit 1
fi
grep -q 'no chat_template' "$folder/refused"
printf '{"chat_template":"{%% for m in messages %%}{{ m.content[:2] }}{%% endfor %%}"}' \
    >"$folder/count/1/tokenizer_config.json"
printf 'ab\nc\nd\n' | "$chat" "$folder/count/1/model.onnx" >"$folder/said"
printf 'BCDEFGHIJKLMNOPQRSTUVWXY\nEFGHIJKLMNOPQRSTUVWXY\nHIJKLMNOPQRSTUVWXY\n' | diff - "$folder/said"
model=$folder/count/1/model.onnx
printf 'ab\nc\nd\n' | "$inlay" chat "$model" | diff "$folder/said" -
# In a terminal: the answer is printed before the next line is read, and lines that begin with a slash are commands.
printf 'ab\n/none\n/quit\n' | script -qec "'$inlay' chat '$model'" /dev/null | tr -d '\r' >"$folder/terminal"
grep -n -o -e 'BCDEFGHIJKLMNOPQRSTUVWXY' -e 'there is no command' "$folder/terminal" | cut -d: -f2 >"$folder/order"
printf 'BCDEFGHIJKLMNOPQRSTUVWXY\nthere is no command\n' | diff - "$folder/order"
printf 'ab\n' | "$inlay" chat "$model" --system cdc --tokens 3 --json | tr -d ' \n' >"$folder/json"
printf '{"messages":[{"role":"system","content":"cdc"},{"role":"user","content":"ab"},%s]}' \
    '{"role":"assistant","content":"DEF"}' | diff - "$folder/json"
printf '["x","y"]' >"$folder/wrong.json"
printf 'abc' | "$inlay" generate "$model" --stop KL | diff - <(echo CDEFGHIJ)
if "$inlay" generate "$model" --prompt a --schema "$folder/wrong.json" 2>"$folder/refused"; then
    echo "a schema that is none is accepted"
    exit 1
fi
grep -q 'schema' "$folder/refused"
# One line says what is wrong with standard input or with flags, and the exit code is not 0; lines may end as on Windows.
refused() { # PART COMMAND...
    local part=$1
    shift
    if "$@" >/dev/null 2>"$folder/refused"; then
        echo "$*: accepted" && exit 1
    fi
    [ "$(wc -l <"$folder/refused")" = 1 ] && grep -q -e "$part" "$folder/refused" && return
    echo "$*: $(cat "$folder/refused")" && exit 1
}
printf 'ab\r\nc\r\nd' | "$inlay" chat "$model" | diff "$folder/said" -
refused 'standard input: Is a directory' "$inlay" chat "$model" </
refused 'a NUL at byte 1' "$inlay" chat "$model" < <(printf 'a\0b\n')
refused '--min-tokens 4 is larger than --tokens 3' "$inlay" generate "$model" --prompt a --tokens 3 --min-tokens 4
refused '--schema and --grammar exclude' "$inlay" chat "$model" --schema "$folder/wrong.json" --grammar "$folder/wrong.json"
"$inlay" tokenize "$model" --text 'aZ' | diff - <(printf '97\ta\n90\tZ\n')
# Each example of --help runs, in a folder with the files that it names; the tokens of this model are all of ASCII.
examples=$folder/examples
mkdir -p "$examples/model/onnx"
{
    printf '{"normalizer":null,"decoder":{"type":"ByteLevel"},'
    printf '"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"added_tokens":[],"model":{"type":"BPE","merges":[],"vocab":{"Ġ":32'
    for ((i = 33; i < 127; i++)); do
        printf -v letter "\\$(printf %o $i)"
        case $letter in [\"\\]) letter=\\$letter ;; esac
        printf ',"%s":%d' "$letter" $i
    done
    printf '}}}'
} >"$examples/tokenizer.json"
cp "$folder/count/1/"{generation_config,tokenizer_config}.json "$examples"
cp "$model" "$examples/model.gguf" # a file is known by its contents
cp "$examples/"*.json "$examples/model"
printf '{}' >"$examples/model/config.json"
cp "$model" "$examples/model/onnx/model_q4.onnx"
printf '{"type":"integer","minimum":0,"maximum":9}' >"$examples/number.json"
printf '{"type":"object","properties":{"name":{"enum":["Ann"]}},"required":["name"],"additionalProperties":false}' \
    >"$examples/person.json"
printf 'ab\n' >"$examples/text.txt"
ran=0
for verb in chat generate tokenize; do
    while read -r line; do
        case $line in *--image*) continue ;; esac # needs a vision part: formats_vision runs it with one
        (cd "$examples" && PATH=$(dirname "$inlay"):$PATH bash -o pipefail -c "$line" <text.txt >"$folder/said") ||
            { echo "$line: failed" && exit 1; }
        [ -s "$folder/said" ] || { echo "$line: said nothing" && exit 1; }
        ran=$((ran + 1))
    done < <(COLUMNS=500 "$inlay" "$verb" --help | sed -n '/^Examples:/,/^$/s/^  //p')
done
[ $ran -ge 8 ]
code=0
set -m # for a process that does not ignore SIGINT
"$inlay" generate "$model" --prompt a --ignore-ends >"$folder/long" &
until [ -s "$folder/long" ] || ! kill -0 $!; do
    sleep 0.05
done
kill -INT $!
wait $! || code=$?
[ $code -eq 130 ] || { echo "Ctrl-C gave exit code $code" && exit 1; }
[ "$(tail -c 1 "$folder/long" | wc -l)" -eq 1 ] # it ended by itself
