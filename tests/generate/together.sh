#!/bin/sh
# Texts that share runs are those that each prompt has alone, and the same if runs read guesses, also of a draft model or
# of a head:
#   together.sh GENERATE TOGETHER WRITE_MODELS
set -eu

generate=$1 together=$2 write_models=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export INLAY_REPRODUCIBLE=1 INLAY_CACHE_DIR="$folder/cache"

"$write_models" "$folder" decoders
{
    printf '{"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"added_tokens":[],'
    printf '"model":{"type":"BPE","merges":[],"vocab":{'
    separator=
    for letter in a b c d e f g h i j k l m n o p q r s t u v w x y z; do
        printf '%s"%s":%d' "$separator" "$letter" "'$letter"
        separator=,
    done
    printf '}}}'
} >"$folder/tokenizer.json"
printf '{"eos_token_id":[2,30,51,64,77,90,110,125]}' >"$folder/generation_config.json"

set -- a bcdefghij kl mnopqrstuvwxyzabcdefghijkl z hello ponmlkjihgfedcba
for model in counted masked; do
    for prompt; do
        printf '%s%s\n' "$prompt" "$("$generate" "$folder/$model.onnx" --tokens 60 "$prompt" 2>"$folder/times")"
    done | sort >"$folder/alone"
    for texts in 1 3 7; do
        "$together" "$folder/$model.onnx" "$texts" 60 "$@" 2>"$folder/notes" | sort >"$folder/$texts"
        if ! diff "$folder/alone" "$folder/$texts"; then
            echo "$model, $texts texts at a time: other texts than alone"
            exit 1
        fi
    done
    for guesses in 0 1 6; do
        for prompt; do
            "$generate" "$folder/$model.onnx" --tokens 150 --ignore-end --temperature 0.3 --lookup "$guesses" "$prompt" \
                2>>"$folder/guesses"
        done >"$folder/guessed.$guesses"
        if ! diff "$folder/guessed.0" "$folder/guessed.$guesses"; then
            echo "$model, $guesses guesses: other texts than without"
            exit 1
        fi
    done
    for draft in counted masked; do
        for prompt; do
            "$generate" "$folder/$model.onnx" --tokens 150 --ignore-end --temperature 0.3 --guesses 3 \
                --draft "$folder/$draft.onnx" "$prompt" 2>"$folder/times"
            cat "$folder/times" >>"$folder/guesses"
            [ "$model" != "$draft" ] || cat "$folder/times" >>"$folder/own"
        done >"$folder/drafted"
        if ! diff "$folder/guessed.0" "$folder/drafted"; then
            echo "$model, draft model $draft: other texts than without"
            exit 1
        fi
    done
    # A model guesses its own tokens: each run makes 4, but the first and the last one.
    if [ "$(grep -c ', 3\.[89][0-9]* tokens by a run' "$folder/own")" -ne "$#" ]; then
        echo "$model, its own draft model: guesses are wrong"
        exit 1
    fi
    rm "$folder/own"
    if ! grep -q '; [1-9][0-9]* of [0-9]* guesses were right' "$folder/guesses"; then
        echo "$model: no guess was right"
        exit 1
    fi
    rm "$folder/guesses"
    if [ "$(awk '{ print length }' "$folder/alone" | sort -u | wc -l)" -lt 4 ]; then
        echo "$model: the texts should have different lengths"
        exit 1
    fi
done
# Heads with the embedding in their file; without embedding and product; with fewer tokens, which read two layers.
printf '{"eagle_aux_hidden_state_layer_ids":[0,7]}' >"$folder/config.json"
for pair in hidden:eagle tanh:shared layers:eagle3; do
    for head in none "${pair#*:}"; do
        for prompt; do
            if [ "$head" = none ]; then
                "$generate" "$folder/${pair%:*}.onnx" --tokens 150 --ignore-end --temperature 0.3 "$prompt" 2>&1
            else
                "$generate" "$folder/${pair%:*}.onnx" --tokens 150 --ignore-end --temperature 0.3 --guesses 3 \
                    --draft "$folder/$head.onnx" "$prompt" 2>>"$folder/heads"
            fi | grep -av '^prompt\|^$'
        done >"$folder/text.$head"
    done
    if ! diff "$folder/text.none" "$folder/text.$head"; then
        echo "$pair: other texts than without the head"
        exit 1
    fi
    if [ "$(grep -c ', [23]\.[0-9]* tokens by a run' "$folder/heads")" -ne "$#" ]; then
        echo "$pair: guesses are wrong"
        cat "$folder/heads"
        exit 1
    fi
    rm "$folder/heads"
done
grep -q 'one after another' "$folder/notes" # masked: padding before a text would change its sums

if "$together" "$folder/counted.onnx" 0 60 a 2>"$folder/notes" || ! grep -q usage "$folder/notes"; then
    echo "0 texts at a time are accepted"
    exit 1
fi
