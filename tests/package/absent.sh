#!/bin/bash
# A part that is built in place of another one where a library is missing has each function of that part which the rest of
# its program calls; otherwise only a build without the library would notice.
#   absent.sh BUILD_DIR OBJECT...
# The objects are those of the parts NAME_none.c.
set -uo pipefail
build=$1
shift
objects=("$@") wrong=0 checked=0 seen=0

names() { # OPTIONS FILE...: the global names that nm lists
    nm "$@" 2>/dev/null | awk 'NF > 1 { print $NF }' | sort -u
}
# FOLDER has the objects of the program; the parts NAME_none.c replace those whose objects in it are listed.
check() { # FOLDER 'NAME...' OBJECT...
    local folder=$build/$1 replaced=("${@:3}") none=() others=() missing name object
    [ -d "$folder" ] || return # this build lacks the program
    seen=$((seen + 1))
    for name in $2; do
        if [ -n "$(find "$folder" -name "${name}_none.c.o")" ]; then
            return # and this one the library
        fi
    done
    if [ ! -e "$folder/$3" ]; then
        echo "$2: neither $3 nor the part for builds without the library is in $1"
        wrong=$((wrong + 1))
        return
    fi
    for name in $2; do
        for object in "${objects[@]}"; do
            [[ $object != */${name}_none.c.o ]] || none+=("$object")
        done
    done
    for object in "${replaced[@]}"; do
        others+=(! -path "$folder/$object")
    done
    checked=$((checked + ${#none[@]}))
    missing=$(comm -12 <(cd "$folder" && names --defined-only -g "${replaced[@]}") \
        <(find "$folder" -name '*.o' "${others[@]}" -print0 | xargs -0 nm -u 2>/dev/null | awk 'NF == 2 { print $2 }' |
            sort -u) | comm -23 - <(names --defined-only -g "${none[@]}"))
    [ -z "$missing" ] && return
    echo "$2 without the library: ${missing//$'\n'/, }"
    wrong=$((wrong + 1))
}
check host/texts/CMakeFiles/inlay_texts_parts.dir "tokenizer text_model" tokens/tokenizer.c.o model/text_model.c.o
check providers/prepost/text/CMakeFiles/text_tokens.dir pattern pattern.c.o pattern_syntax.c.o
check providers/reference/CMakeFiles/reference_kernels.dir regex regex.c.o regex_re2.c.o
echo "$checked of ${#objects[@]} parts checked, $wrong wrong"
[ $seen -gt 0 ] || echo "$build has none of the programs"
[ $wrong -eq 0 ] && [ $seen -gt 0 ]
