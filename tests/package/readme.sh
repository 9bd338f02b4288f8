#!/bin/bash
# Runs every command of a README with an installation, and compares the output with the README.
#   readme.sh [--record DIR] README BUILD_DIR CC GENERATOR [PAGE]...
# Pages are read after the README, in the same shell. --record writes for the documentation (sdk/docs/build.sh) what each
# command printed to DIR/FILE.LINE, and copies the reports (*.html) that are in the folder of the shell at the end.
#
# A line `    $ command` of the README is run; lines `    > more` continue it. The following indented lines are the
# expected output, in which `...` stands for any text and, on a separate line, for any number of lines; times, ratios
# and blanks may differ. A command must succeed unless it ends in `# exit code N`. All commands share one shell, which
# starts in a copy of a checkout's samples/ and bindings, with the installation in ~/opt/inlay.
set -u
record=
if [ "$1" = --record ]; then
    record=$(realpath -m "$2")
    shift 2
    rm -rf "$record"
    mkdir -p "$record"
    export COLUMNS=80
fi
readme=$(realpath "$1") build=$2
tree=$(dirname "$(dirname "$(dirname "$(realpath "$0")")")")
tmp=$(realpath "$(mktemp -d)")
trap 'cd / && rm -rf "$tmp"' EXIT
export HOME=$tmp/home CC=$3 CMAKE_GENERATOR=$4 LC_ALL=C PYTHONDONTWRITEBYTECODE=1
shift 4
pages=("$readme" "$@")
export XDG_CACHE_HOME=$HOME/.cache XDG_CONFIG_HOME=$HOME/.config
mkdir -p "$HOME/opt" "$tmp/checkout/sdk"
cp -a "$build/installed" "$HOME/opt/inlay"
cp -r "$tree/samples" "$tmp/checkout/samples"
cp -r "$tree/sdk/bindings" "$tmp/checkout/sdk/bindings"
cd "$tmp/checkout" || exit 1
wrong=0
commands=0

same_form() { # stdin without machine-dependent text
    sed -E -e "s|$HOME|~|g" -e 's/[0-9.]+(e[-+]?[0-9]+)? ?(ns|us|ms|s|x|%)([^a-zA-Z]|$)/# \2\3/g' -e 's/[ \t]+/ /g' \
        -e 's/ $//'
}

# match FROM TO: do the patterns shown[FROM..] match got[TO..]?
match() {
    local s=$1 g=$2
    while [ "$s" -lt ${#shown[@]} ]; do
        if [ "${shown[s]}" = '*' ]; then
            for ((; g <= ${#got[@]}; g++)); do
                match $((s + 1)) "$g" && return 0
            done
            return 1
        fi
        [ "$g" -lt ${#got[@]} ] || return 1
        # shellcheck disable=SC2053
        [[ ${got[g]} == ${shown[s]} ]] || return 1
        s=$((s + 1)) g=$((g + 1))
    done
    [ "$g" -eq ${#got[@]} ]
}

finish() { # runs the collected command and compares its output with the README
    local want=0 code
    [ -n "$command" ] || return 0
    [[ $command =~ \#\ exit\ code\ ([0-9]+)$ ]] && want=${BASH_REMATCH[1]}
    commands=$((commands + 1))
    eval "$command" >"$tmp/out" 2>&1 </dev/null
    code=$?
    [ -z "$record" ] || sed -E -e "s|$HOME|~|g" -e 's/ +$//' "$tmp/out" >"$record/$(basename "$readme").$at"
    mapfile -t got < <(same_form <"$tmp/out")
    mapfile -t shown < <(printf '%s' "$expected" | same_form | sed -e 's/[][\\*?]/\\&/g' -e 's/\.\.\./*/g')
    if [ $code -ne "$want" ]; then
        echo "$readme:$at: exit code $code, not $want: $command"
    elif [ ${#shown[@]} -gt 0 ] && ! match 0 0; then
        echo "$readme:$at: prints something else: $command"
    else
        command=
        return 0
    fi
    sed 's/^/    /' "$tmp/out"
    wrong=$((wrong + 1))
    command=
}

command='' expected='' blank=''
for readme in "${pages[@]}"; do
    line_number=0
    while IFS= read -r line || [ -n "$line" ]; do
        line_number=$((line_number + 1))
        if [[ $line == '    $ '* ]]; then
            finish
            command=${line#'    $ '} expected='' blank='' at=$line_number
        elif [[ ($line == '    > '* || $line == '    >') && -z $expected && -n $command ]]; then
            line=${line#'    >'}
            command+=$'\n'${line# }
        elif [[ $line == '    '* && -n $command ]]; then
            expected+=$blank${line#'    '}$'\n' blank=
        elif [[ -z $line && -n $expected && -n $command ]]; then
            blank+=$'\n' # a blank line of the output, if more of it follows
        else
            finish
        fi
    done <"$readme"
    finish
done
if [ -n "$record" ]; then
    for report in *.html; do
        [ ! -e "$report" ] || sed "s|$HOME|~|g" "$report" >"$record/$report"
    done
fi
echo "$commands commands, $wrong wrong"
[ $wrong -eq 0 ] && [ $commands -gt 0 ]
