#!/bin/bash
# The completion of each shell, generated from the program: bash evaluates its completion; zsh and fish parse theirs,
# if they are installed. Each contains every flag of every verb.
#   completion.sh INLAY SOURCE_DIR
set -u
inlay=$1 make=$2/sdk/packaging
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong=0

complain() {
    echo "FAIL $*"
    wrong=$((wrong + 1))
}
for shell in bash zsh fish; do
    "$make/completion.sh" "$inlay" "$shell" >"$work/$shell" 2>"$work/err" || complain "$shell: $(cat "$work/err")"
    [ ! -s "$work/err" ] || complain "$shell: $(cat "$work/err")"
    if command -v "$shell" >/dev/null; then
        "$shell" -n "$work/$shell" || complain "$shell cannot parse its completion"
    fi
done
"$make/completion.sh" "$inlay" tcsh >/dev/null 2>"$work/err"
[ $? -eq 2 ] && grep -q "no shell 'tcsh'" "$work/err" || complain "tcsh: $(cat "$work/err")"

# shellcheck disable=SC1091
source "$work/bash"
cd "$work" || exit 1
mkdir models && touch model.onnx models/other.onnx 'two words.onnx' text.txt

# completes WANTED WORD...: completing the last word gives WANTED (sorted, separated by blanks).
completes() {
    local wanted=$1 got
    shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _inlay 2>/dev/null
    got=$(printf '%s\n' "${COMPREPLY[@]}" | sort | paste -sd' ')
    [ "$got" = "$wanted" ] || complain "$*: completed to '$got', not '$wanted'"
}
completes 'profile providers' inlay pro
completes 'exit-codes' inlay help exit
completes '--outputs=' inlay run --outp
completes '--intra-threads=' inlay run --intra
completes '' inlay inspect --intra
completes 'model.onnx models two words.onnx' inlay run ''
completes 'text.txt' inlay run --input = x = te
completes 'text.txt' inlay run --input x = te
completes '0 1' inlay run --no-cpu = ''
completes 'dynamic' inlay quantize model.onnx --mode dy
completes '' inlay run --seed ''
completes 'text.txt' inlay plugin-check te

# Each completion contains all flags of --help.
"$make/flags.sh" "$inlay" | awk -F '\t' '$4 != "" { print $1, $4 }' >"$work/flags"
flags=$(wc -l <"$work/flags")
missing() { # SHELL FLAGS: flags of the program that are missing in the list
    local names
    names=$(comm -23 <(cut -d' ' -f2 "$work/flags" | sort -u) <(sort -u <<<"$2") | tr '\n' ' ')
    [ -z "$names" ] || complain "$1 has no $names"
}
missing zsh "$(grep -oE "'\*--[a-z-]+" "$work/zsh" | tr -d "'*")"
missing fish "$(grep -oE ' -l [a-z-]+' "$work/fish" | sed 's/ -l /--/')"
while read -r verb; do
    names=$(comm -23 <(awk -v verb="$verb" '$1 == verb { print $2 }' "$work/flags" | sort -u) \
        <(_inlay_flags "$verb" | tr ' ' '\n' | tr -d '=' | sort -u) | tr '\n' ' ')
    [ -z "$names" ] || complain "bash has no $verb $names"
done < <(cut -d' ' -f1 "$work/flags" | sort -u)
[ "$flags" -gt 300 ] || complain "only $flags flags were found"
echo "$flags flags, $wrong wrong"
[ $wrong -eq 0 ]
