#!/bin/bash
# Calls the server with OpenAI's client for Node.js.
#   openai.sh INLAY_SERVE WRITE_MODELS PACKAGES
#
# npm fetches the client into the folder PACKAGES once. Exit code 77: no Node.js or npm, no access to the registry, or a
# server without tokenizers.
set -euo pipefail
here=$(dirname "$(realpath -- "$0")")
# shellcheck source=tests/serve/common.sh
. "$here/../common.sh"
fetch_packages "$3" "$here/../npm.json"
writer=$2
write_texts() { # FOLDER: the models that count and embed, in which the token of a character is its code
    mkdir -p "$1/count/1" "$1/vectors/1"
    "$writer" "$1" texts
    node -e '
const vocab = {};
for (let code = 33; code < 127; code++) vocab[String.fromCharCode(code)] = code;
const byte_level = { type: "ByteLevel", add_prefix_space: false };
const tokenizer = { normalizer: null, pre_tokenizer: byte_level, decoder: byte_level, added_tokens: [],
                    model: { type: "BPE", merges: [], vocab } };
const letters = "{% for m in messages %}{{ m.role[0:1] + m.content }}{% endfor %}";
const fs = require("fs");
for (const model of ["count", "vectors"])
    fs.writeFileSync(`${process.argv[1]}/${model}/tokenizer.json`, JSON.stringify(tokenizer));
fs.writeFileSync(`${process.argv[1]}/count/config.yaml`, "options: [state=old=new]\n");
fs.writeFileSync(`${process.argv[1]}/count/config.json`, JSON.stringify({ eos_token_id: 122 }));
fs.writeFileSync(`${process.argv[1]}/count/tokenizer_config.json`, JSON.stringify({ chat_template: letters }));
' "$1"
}
start_server "$1" write_texts
node "$here/client.js" "$3" "http://$rest/v1" || fail "the client reports an error"
stop_server
