#!/bin/sh
# samples/chat: each answer is that to all messages before it; a model without a template is refused.
#   chat.sh CHAT WRITE_MODELS
set -eu

chat=$1 write_models=$2
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
