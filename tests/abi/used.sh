#!/bin/bash
# Checks that a test uses each field of each public struct in plugin.h, inlay.h, text.h and the headers that they include.
# Each test is compiled with headers in which the fields are renamed: the fields that the compiler then reports as
# missing are used there. An unknown member may hide errors about others, so the fields found get their names back,
# and the rest is searched for again.
#   used.sh SOURCE_DIR COMPILER      writes STRUCT.FIELD FILE for each to stdout
set -uo pipefail
source=$1
compiler=$2
rounds=4
case $("$compiler" --version) in
*clang*) flags=(-ferror-limit=0) ;;
*) flags=(-ftrack-macro-expansion=0) ;;
esac
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
cd "$source" || exit 1
export LC_ALL=C

# The fields of all structs, as STRUCT FIELD. Removes comments; the name of a function pointer is in parentheses.
cat sdk/include/inlay/{status,types,host,cost,graph_view,execution,plugin,inlay,text}.h | tr '\n' ' ' | sed -E 's#/\*([^*]|\*+[^*/])*\*+/# #g' |
    grep -oE 'typedef struct (inlay_[a-z_]+) \{[^}]*\} \1;' | while read -r _ _ struct _ body; do
    tr ';' '\n' <<<"${body%\}*}" | sed -E 's/\(\*(const )?([a-z_0-9]+)(\[[0-9]+\])?\)\(.*/\2/; s/\[[^]]*\]//g' |
        tr ',' '\n' | sed -nE "s/.*\b([a-z][a-z_0-9]*) *\$/$struct \1/p"
done | grep -vE ' (reserved[0-9]*|host_use)$' | sort -u >"$tmp/all"
[ "$(wc -l <"$tmp/all")" -gt 400 ] || { echo "FAIL: only $(wc -l <"$tmp/all") fields were read in the headers" && exit 1; }

# Copies the headers and renames the fields listed in $1.
rename() {
    rm -rf "$tmp/include" && cp -r sdk/include "$tmp/include" || exit 1
    awk '{ of[$1] = of[$1] "s/\\b" $2 "\\b/lost_" $2 "/;" } END { for (s in of) print "/^typedef struct " s " [{]/,/^[}] " s ";/{" of[s] "}" }' \
        "$1" >"$tmp/script"
    sed -E -i -f "$tmp/script" "$tmp"/include/inlay/*.h
}

# The tests that mention a public header or struct; the tests of the ABI come first.
grep -rlE 'inlay/|inlay_' tests --include='*.c' --include='*.h' | grep -vE 'abi/(layout|surface)\.c$|/(mutants|bench)/' |
    awk '{ print ($0 ~ "^tests/abi/" ? 0 : $0 ~ "^tests/(api|contract|plugin|check|hostile)/" ? 1 : 2), $0 }' |
    sort | cut -d' ' -f2 >"$tmp/files"
rooms=$(find tests providers -mindepth 1 -maxdepth 2 -type d | sed 's/^/-I/')

: >"$tmp/found"
cp "$tmp/all" "$tmp/left"
for ((round = 0; round < rounds && $(wc -l <"$tmp/left") > 0; round++)); do
    rename "$tmp/left"
    cut -d' ' -f2 "$tmp/left" | sort -u >"$tmp/names"
    xargs grep -lwFf "$tmp/names" <"$tmp/files" >"$tmp/tried"
    # Uses in inline functions of the headers do not count.
    # shellcheck disable=SC2086,SC2016
    xargs -P2 -I{} sh -c '"$0" -std=c11 -D_GNU_SOURCE -fsyntax-only "$@" {} 2>&1 |
        sed "s#^#{} #"' "$compiler" "${flags[@]}" -I"$tmp/include" -Ihost/runtime -Ihost/insight -Ihost/tools -Ihost -Iops -Itests/support $rooms <"$tmp/tried" |
        sed -nE "s#^([^ ]+) \1:.*error: '(struct )?(inlay_[a-z_]+)'.* has no member named '([a-z_0-9]+)'.*#\3 \4 \1#p;
                 s#^([^ ]+) \1:.*error: no member named '([a-z_0-9]+)' in '(struct )?(inlay_[a-z_]+)'.*#\4 \2 \1#p;
                 s#^([^ ]+) \1:.*error: field designator '([a-z_0-9]+)' .*type '(const )?(struct )?(inlay_[a-z_]+)'.*#\5 \2 \1#p" |
        sort -u | awk 'NR == FNR { want[$1 " " $2]; next } ($1 " " $2) in want' "$tmp/left" - >"$tmp/round"
    [ -s "$tmp/round" ] || break
    cat "$tmp/round" >>"$tmp/found"
    awk 'NR == FNR { seen[$1 " " $2]; next } !($0 in seen)' "$tmp/found" "$tmp/all" >"$tmp/left"
done

sed -E 's/ /./' "$tmp/found" | sort
if [ -s "$tmp/left" ]; then
    echo "FAIL: no test uses these fields: write one, or remove them from the header"
    sed -E 's/^/    /; s/ ([a-z_0-9]+)$/.\1/' "$tmp/left"
    exit 1
fi
echo "$(wc -l <"$tmp/all") fields, each used"
