#!/bin/sh
# samples/generate: texts that share runs are those that each prompt has alone, and the same if runs read guesses, also of
# a draft model or of a head:
#   together.sh GENERATE WRITE_MODELS
set -eu

generate=$1 write_models=$2
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

# Fails unless a guess was right, by the reports in a file, which is removed.
check_guesses()
{
    if ! grep -q '; [1-9][0-9]* of [0-9]* guesses were right' "$1"; then
        echo "$2: no guess was right"
        cat "$1"
        exit 1
    fi
    rm "$1"
}

set -- a bcdefghij kl mnopqrstuvwxyzabcdefghijkl z hello ponmlkjihgfedcba
for model in counted masked; do
    for prompt; do
        printf '%s%s\n' "$prompt" "$("$generate" "$folder/$model.onnx" --tokens 60 "$prompt" 2>"$folder/times")"
    done | sort >"$folder/alone"
    for texts in 1 3 7; do
        "$generate" "$folder/$model.onnx" --texts "$texts" --tokens 60 "$@" 2>"$folder/notes" | sort >"$folder/$texts"
        if ! diff "$folder/alone" "$folder/$texts"; then
            echo "$model, $texts texts at a time: other texts than alone"
            exit 1
        fi
    done
    if [ "$(awk '{ print length }' "$folder/alone" | sort -u | wc -l)" -lt 4 ]; then
        echo "$model: the texts should have different lengths"
        exit 1
    fi
    for prompt; do
        "$generate" "$folder/$model.onnx" --tokens 150 --ignore-end --temperature 0.3 "$prompt" 2>"$folder/times"
    done >"$folder/plain"
    for guesses in 1 6; do
        for prompt; do
            "$generate" "$folder/$model.onnx" --tokens 150 --ignore-end --temperature 0.3 --lookup "$guesses" "$prompt" \
                2>>"$folder/guesses"
        done >"$folder/guessed"
        if ! diff "$folder/plain" "$folder/guessed"; then
            echo "$model, $guesses guesses: other texts than without"
            exit 1
        fi
        check_guesses "$folder/guesses" "$model, $guesses guesses"
    done
    for draft in counted masked; do
        for prompt; do
            "$generate" "$folder/$model.onnx" --tokens 150 --ignore-end --temperature 0.3 --guesses 3 \
                --draft "$folder/$draft.onnx" "$prompt" 2>>"$folder/guesses"
        done >"$folder/drafted"
        if ! diff "$folder/plain" "$folder/drafted"; then
            echo "$model, draft model $draft: other texts than without"
            exit 1
        fi
        # A model guesses its own tokens. A text that ends among the guesses of a run does not use the later ones.
        if [ "$model" = "$draft" ] &&
            ! sed -n 's/.*; \([0-9]*\) of \([0-9]*\) guesses were right.*/\1 \2/p' "$folder/guesses" |
            awk '{ wrong += $2 - $1 > 3 } END { exit NR == 0 || wrong > 0 }'; then
            echo "$model, its own draft model: guesses are wrong"
            cat "$folder/guesses"
            exit 1
        fi
        check_guesses "$folder/guesses" "$model, draft model $draft"
    done
done
grep -q 'one after another' "$folder/notes" # masked: padding before a text would change its sums
# Heads with the embedding in their file; without embedding and product; with fewer tokens, which read two layers.
printf '{"eagle_aux_hidden_state_layer_ids":[0,7]}' >"$folder/config.json"
for pair in hidden:eagle tanh:shared layers:eagle3; do
    for prompt; do
        "$generate" "$folder/${pair%:*}.onnx" --tokens 150 --ignore-end --temperature 0.3 "$prompt" 2>"$folder/times"
    done >"$folder/plain"
    for prompt; do
        "$generate" "$folder/${pair%:*}.onnx" --tokens 150 --ignore-end --temperature 0.3 --guesses 3 \
            --draft "$folder/${pair#*:}.onnx" "$prompt" 2>>"$folder/guesses"
    done >"$folder/guessed"
    if ! diff "$folder/plain" "$folder/guessed"; then
        echo "$pair: other texts than without the head"
        exit 1
    fi
    check_guesses "$folder/guesses" "$pair"
done

if "$generate" "$folder/counted.onnx" --texts 0 a 2>"$folder/notes" || ! grep -q texts "$folder/notes"; then
    echo "0 texts at a time are accepted"
    exit 1
fi
