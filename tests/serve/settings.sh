#!/bin/sh
# Every setting of the server is in samples/deploy/serve.yaml with the default in --help, and the server accepts the file,
# both unchanged and with all settings uncommented.
#   settings.sh INLAY_SERVE INLAY SOURCE_DIR
set -eu
serve=$1 inlay=$2 source=$3
file=$source/samples/deploy/serve.yaml
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

grep -oE '^SETTING\([a-z_]+, [A-Z]+, "[^"]*"' "$source/host/serve/base/settings.def" |
    sed -E 's/SETTING\(([a-z_]+), [A-Z]+, "([^"]*)"/\1 \2/' >"$tmp/settings"
[ -s "$tmp/settings" ] || { echo "settings.def has no settings"; exit 1; }
while read -r name value; do
    if ! grep -qxF "#$name: ${value:-\"\"}" "$file"; then
        echo "samples/deploy/serve.yaml does not have #$name: ${value:-\"\"}"
        failed=1
    fi
done <"$tmp/settings"

# Without models, the only error must be the missing models, not a setting.
sed -E 's/^#([a-z_]+:)/\1/' "$file" >"$tmp/all.yaml"
for one in "$file" "$tmp/all.yaml"; do
    "$serve" "$tmp/none" --no-config --serve-config "$one" >"$tmp/out" 2>&1 && code=0 || code=$?
    if [ "$code" -ne 3 ] || ! grep -q "none: No such file" "$tmp/out"; then
        echo "with $one: exit code $code, $(cat "$tmp/out")"
        failed=1
    fi
done

# A word that is wrong is answered by one line: a flag that does not exist with the nearest one, and a flag's value is not
# taken for a flag.
refuses() { # LINE WORD...: the words after the models
    line=$1
    shift
    "$serve" "$@" >"$tmp/out" 2>&1 && code=0 || code=$?
    if [ "$code" -ne 2 ] || [ "$(cat "$tmp/out")" != "$serve: $line" ]; then
        echo "$*: exit code $code, $(cat "$tmp/out")"
        failed=1
    fi
}
refuses "unknown option '--max-bacth'; did you mean '--max-batch'?" "$tmp/none" --max-bacth 3
refuses "option '--max-b' is ambiguous: '--max-batch' or '--max-body-bytes'" "$tmp/none" --access-log --none --max-b 3
refuses "unknown option '--batch'; try --max-batch=N" "$tmp/none" --batch 2
refuses "unknown option '--model-repository'; try the name of the file or folder alone, without an option" \
    --model-repository="$tmp/none"
refuses "unknown option '-np'; try --max-sequences=N" "$tmp/none" -np 4
refuses "option '--port' needs a value: --port N" "$tmp/none" --port
refuses "option '--verbose' takes no value" "$tmp/none" --verbose=1
refuses "unknown option '-x'; $serve --help-all lists the options" "$tmp/none" -x
serve_name=$(basename "$serve")
for words in '' "$tmp/none $tmp/other" '--option isa'; do
    "$serve" $words >"$tmp/out" 2>&1 && code=0 || code=$?
    if [ "$code" -ne 2 ] || [ "$(wc -l <"$tmp/out")" -ne 1 ] || ! grep -q "^$serve_name: " "$tmp/out"; then
        echo "'$words': exit code $code, $(cat "$tmp/out")"
        failed=1
    fi
done

# So is a key of a file, at its line. The log names the file.
printf '# ours\nmax_queue: 7\n\nmax_btach: 3\n' >"$tmp/wrong.yaml"
printf 'zzzzzz: 3\n' >"$tmp/none.yaml"
for one in "wrong.yaml:4: unknown key 'max_btach'; did you mean 'max_batch'?" \
    "none.yaml:1: unknown key 'zzzzzz'; \`inlay serve --help-all\` lists the settings"; do
    file=$tmp/${one%%:*}
    "$serve" "$tmp/none" --no-config --serve-config "$file" >"$tmp/out" 2>&1 && code=0 || code=$?
    if [ "$code" -ne 2 ] || ! grep -qF "$tmp/$one" "$tmp/out" || ! grep -q "settings: $file\$" "$tmp/out"; then
        echo "${one%%:*}: exit code $code, $(cat "$tmp/out")"
        failed=1
    fi
done

# inlay config check lists all mistakes of such a file, without a server.
PATH=$(dirname "$serve"):$PATH
printf 'port: 80\nmax_btach: 3\nmax_queue: many\nrollout: no\nlisten: [a]\nport: 81\n' >"$tmp/serve.yaml"
cat >"$tmp/expected" <<END
$tmp/serve.yaml:6: duplicate key 'port', first in line 1
$tmp/serve.yaml:2: unknown key 'max_btach'; did you mean 'max_batch'?
$tmp/serve.yaml:3: max_queue must be a number from 1 to 1000000, not 'many'
$tmp/serve.yaml:4: rollout must be off, canary or shadow, not 'no'
$tmp/serve.yaml:5: listen must be one value
END
"$inlay" config check "$tmp/serve.yaml" >"$tmp/out" 2>&1 && code=0 || code=$?
if [ "$code" -ne 3 ] || ! cmp "$tmp/expected" "$tmp/out"; then
    echo "inlay config check: exit code $code, $(cat "$tmp/out")"
    failed=1
fi
# Under another name, and with files that do not exist, whose settings a start names, too.
printf 'port: 80\ntoken_file: %s\ntls_key: ""\n' "$tmp/absent" >"$tmp/other.yaml"
if [ "$("$inlay" config check "$tmp/other.yaml")" != \
    "$tmp/other.yaml:2: token_file: $tmp/absent: No such file or directory" ]; then
    echo "inlay config check other.yaml: $("$inlay" config check "$tmp/other.yaml")"
    failed=1
fi
# Every file that has to exist is checked, and no other.
sed -n -E 's/^SETTING\(([a-z_]+), (READ|PATH),.*/\1: \/absent/p' "$source/host/serve/base/settings.def" >"$tmp/serve.yaml"
"$inlay" config check "$tmp/serve.yaml" >"$tmp/out" && failed=1
if [ "$(grep -c ': /absent: No such file or directory$' "$tmp/out")" -ne "$(grep -c '^SETTING([a-z_]*, READ,' "$source/host/serve/base/settings.def")" ]; then
    echo "inlay config check: files of settings: $(cat "$tmp/out")"
    failed=1
fi
cp "$tmp/all.yaml" "$tmp/serve.yaml"
if [ "$("$inlay" config check "$tmp/serve.yaml")" != "$tmp/serve.yaml: ok" ]; then
    echo "inlay config check refuses all settings with their defaults"
    failed=1
fi

# And a variable of the environment, but none of those that are read.
INLAY_MAX_BTACH=3 INLAY_MAX_BATCH=3 INLAY_LIBRARY=none "$serve" "$tmp/none" --no-config >"$tmp/out" 2>&1 || true
if [ "$(grep -c "no effect" "$tmp/out")" -ne 1 ] || ! grep -q "INLAY_MAX_BTACH has.* mean INLAY_MAX_BATCH?" "$tmp/out"; then
    echo "INLAY_MAX_BTACH: $(cat "$tmp/out")"
    failed=1
fi

# The rest of a long line is not a token.
printf '# %0600d\n' 0 >"$tmp/tokens"
chmod 600 "$tmp/tokens"
if ! "$serve" "$tmp/none" --no-config --token-file "$tmp/tokens" 2>&1 | grep -q "tokens:1: a line must have at most"; then
    echo "a long line in a file of tokens is accepted"
    failed=1
fi

# The unit of systemd does not restart a server whose settings are wrong: exit code 2.
printf 'user-0123456789abcdef\n' >"$tmp/tokens"
chmod 644 "$tmp/tokens"
for flags in "--token-file $tmp/tokens" "--admin-token-file $tmp/absent" \
    "--tls-cert $tmp/absent --tls-key $tmp/absent"; do
    # shellcheck disable=SC2086
    "$serve" "$tmp/none" --no-config $flags >"$tmp/out" 2>&1 && code=0 || code=$?
    if [ "$code" -ne 2 ] || ! grep -qE "(/tokens: other users may read|(admin_token_file|tls_cert): [^:]*/absent: No such file)" "$tmp/out"; then
        echo "$flags: exit code $code, $(cat "$tmp/out")"
        failed=1
    fi
done
exit $failed
