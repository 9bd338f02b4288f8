#!/bin/bash
# The documentation builds, and its reference contains every verb, every flag, every option and every function of
# inlay.h; no page contains a path of the machine that built it; with Chromium, the lints of site.py hold.
#   site.sh INLAY SOURCE_DIR [OUTPUTS]
# OUTPUTS: what the test docs_pages recorded.
set -uo pipefail
inlay=$1 source=$2 outputs=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong=0

complain() {
    echo "FAIL $*"
    wrong=$((wrong + 1))
}
INLAY_DOCS_PICTURES=no "$source/sdk/docs/build.sh" "$inlay" "$work/site" ${outputs:+"$outputs"} >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
text() {
    sed -e 's/<[^>]*>/\n/g' -e 's/&lt;/</g; s/&gt;/>/g; s/&quot;/"/g; s/&#x27;/'"'"'/g; s/&amp;/\&/g' "$work/site/$1.html"
}
text verbs >"$work/verbs"
text options >"$work/options"
text api >"$work/api"
while IFS=$'\t' read -r verb group flag; do
    case $group in
    own)
        case $flag in --help | --help-all | --usage) continue ;; esac
        grep -qF -- "$flag" "$work/verbs" || complain "verbs: $verb $flag is missing"
        ;;
    session)
        name=${flag#--}
        case $name in
        config | no-config | option | json | quiet | verbose | help | help-all | usage) ;;
        *) grep -qxF -- "${name//-/_}" "$work/options" || complain "options: ${name//-/_} is missing" ;;
        esac
        ;;
    esac
done < <("$source/sdk/packaging/flags.sh" "$inlay" |
    awk -F '\t' -v OFS='\t' '$4 != "" && $1 != "serve" && !seen[$1 $4]++ { print $1, $3, $4 }')
for name in $(grep -oE '\binlay_[a-z0-9_]+\(' "$source/sdk/include/inlay/inlay.h" | tr -d '(' | sort -u); do
    grep -qw "$name" "$work/api" || complain "api: $name is missing"
done
! grep -rlE "$source|/tmp/tmp|/root/|/home/" "$work/site" --include='*.html' >"$work/log" ||
    complain "pages contain paths of this machine: $(tr '\n' ' ' <"$work/log")"
sed "s|<[^>]*>||g" "$work/site/api-cpp.html" >"$work/cpp"
for name in Session Context Value; do
    grep -q "id=\"${name,}\"" "$work/site/api-python.html" || complain "api-python: $name is missing"
    grep -q "class $name {" "$work/cpp" || complain "api-cpp: $name is missing"
done
# A list in a comment is a list on the page, with the further lines of its items.
item=$(tr '\n' ' ' <"$work/site/abi.html" | grep -oE '<li>(<p>)?Growth\..*' | head -c 400)
[[ $item == *"was compiled"* && $item != *"<pre"* ]] || complain "abi: the general rules are not a list"
! grep -nF '`' "$work/verbs" "$work/options" >"$work/log" || complain "backquotes on a page: $(head -n 3 "$work/log")"
# Each page with commands is tested.
for page in "$source"/sdk/docs/pages/*.md; do
    name=$(basename "$page" .md)
    ! grep -q '^    \$ ' "$page" || grep -qw -- "$name" "$source/tests/docs/CMakeLists.txt" ||
        complain "no test runs the commands of $name.md"
done
if command -v chromium >/dev/null; then
    /usr/bin/python3 -B "$source/tests/docs/site.py" "$work/site" || wrong=$((wrong + 1))
fi
echo "$(find "$work/site" -maxdepth 1 -name '*.html' | wc -l) pages, $(du -sk "$work/site" | cut -f1) KiB, $wrong wrong"
[ $wrong -eq 0 ]
