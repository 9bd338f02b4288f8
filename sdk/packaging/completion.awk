# Generates the completion of a shell from the output of flags.sh; -v shell=bash, zsh or fish.

# Completion of an argument: words (WORD WORD...), "model", "file", "any" (unknown), or "" for none.
function values(argument,    words) {
    if (argument ~ /^\[?=?[a-z0-9]+(\|[a-z0-9]+)+\]?$/) {
        words = argument
        gsub(/[=\[\]]/, "", words)
        gsub(/\|/, " ", words)
        return words
    }
    if (argument ~ /^(MODEL|A B)$/)
        return "model"
    if (argument ~ /FILE|PATH|DIR|MODELS/)
        return "file"
    return argument == "" ? "" : "any"
}

{
    verb = $1
    if ($4 == "") { # the verb itself
        verbs[++verb_count] = verb
        summary[verb] = $2
        operand[verb] = values($6)
        next
    }
    # Verbs that have the session's flags all have the same ones.
    key = $3 == "session" && verb != "serve" ? "session" : verb
    if (key == "session")
        has_session[verb] = 1
    if (seen[key, $4]++)
        next
    list[key] = list[key] " " $4
    value_of[key, $4] = values($6)
    name_of[key, $4] = $6
    short_of[key, $4] = $5
    text_of[key, $4] = $7
    if (value_of[key, $4] == "")
        next
    if (!($4 in kind))
        flags[++flag_count] = $4
    if (kind[$4] == "" || kind[$4] == "any") # prefer the most specific verb
        kind[$4] = value_of[key, $4]
}

# ------------------------------------------------------------------ bash

function bash_flags(key,    n, flag, i, out) {
    n = split(list[key], flag, " ")
    for (i = 1; i <= n; i++)
        out = out " " flag[i] (value_of[key, flag[i]] != "" ? "=" : "")
    return substr(out, 2)
}

function bash(    i, flag, files, others) {
    print "# bash completion of inlay"
    print "_inlay_flags() {"
    print "    local session='" bash_flags("session") "'"
    print "    case $1 in"
    for (i = 1; i <= verb_count; i++)
        print "    " verbs[i] ") echo '" bash_flags(verbs[i]) "'" (has_session[verbs[i]] ? " \"$session\"" : "") " ;;"
    print "    esac"
    print "}"
    print "# What the argument of a flag is: words, or file, or any."
    print "_inlay_values() {"
    print "    case $1 in"
    for (i = 1; i <= flag_count; i++) {
        flag = flags[i]
        if (kind[flag] == "file")
            files = files (files == "" ? "" : " | ") flag
        else if (kind[flag] == "any")
            others = others (others == "" ? "" : " | ") flag
        else
            print "    " flag ") echo '" kind[flag] "' ;;"
    }
    print "    " files ") echo file ;;"
    print "    " others ") echo any ;;"
    print "    esac"
    print "}"
    print "_inlay_operand() {"
    print "    case $1 in"
    for (i = 1; i <= verb_count; i++)
        if (operand[verbs[i]] ~ /model|file/)
            print "    " verbs[i] ") echo " operand[verbs[i]] " ;;"
    print "    esac"
    print "}"
    print "_inlay() {"
    print "    local cur=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]} i=$COMP_CWORD flag='' values=''"
    print "    COMPREPLY=()"
    print "    if [ \"$COMP_CWORD\" -eq 1 ]; then"
    printf "        COMPREPLY=($(compgen -W '"
    for (i = 1; i <= verb_count; i++)
        printf "%s ", verbs[i]
    print "help --help --version' -- \"$cur\"))"
    print "        return"
    print "    fi"
    print "    if [ \"$verb\" = help ]; then"
    printf "        COMPREPLY=($(compgen -W '"
    for (i = 1; i <= verb_count; i++)
        printf "%s ", verbs[i]
    print "exit-codes' -- \"$cur\"))"
    print "        return"
    print "    fi"
    print "    # --flag=NAME=value arrives as separate words, split at each '='."
    print "    while [ \"$i\" -gt 2 ] && [[ ${COMP_WORDS[i]} == = || ${COMP_WORDS[i - 1]} == = ]]; do"
    print "        i=$((i - 1))"
    print "    done"
    print "    [ \"$cur\" != = ] || cur=''"
    print "    flag=${COMP_WORDS[i]}"
    print "    [ \"$i\" -lt \"$COMP_CWORD\" ] && [[ $flag == --* ]] || flag=${COMP_WORDS[i - 1]}"
    print "    values=$(_inlay_values \"$flag\")"
    print "    if [ -z \"$values\" ]; then"
    print "        if [[ $cur == -* ]]; then"
    print "            COMPREPLY=($(compgen -W \"$(_inlay_flags \"$verb\")\" -- \"$cur\"))"
    print "            [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null"
    print "            return"
    print "        fi"
    print "        values=$(_inlay_operand \"$verb\")"
    print "    fi"
    print "    case $values in"
    print "    '' | any) ;;"
    print "    model)"
    print "        compopt -o filenames 2>/dev/null"
    print "        mapfile -t COMPREPLY < <(compgen -f -X '!*.onnx' -- \"$cur\"; compgen -d -- \"$cur\")"
    print "        ;;"
    print "    file)"
    print "        compopt -o filenames 2>/dev/null"
    print "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")"
    print "        ;;"
    print "    *) COMPREPLY=($(compgen -W \"$values\" -- \"$cur\")) ;;"
    print "    esac"
    print "}"
    print "complete -F _inlay inlay"
}

# ------------------------------------------------------------------ zsh

function zsh_text(text) {
    gsub(/'/, "'\\''", text)
    gsub(/[:\[\]\\]/, "\\\\&", text)
    return text
}

function zsh_action(what) {
    if (what == "model")
        return "_files -g \"*.onnx(-.)\""
    if (what == "file")
        return "_files"
    return what == "any" ? " " : "(" what ")"
}

function zsh_specs(key,    n, flag, i, f, v) {
    n = split(list[key], flag, " ")
    for (i = 1; i <= n; i++) {
        f = flag[i]
        v = value_of[key, f]
        printf "    '*%s[%s]%s'\n", f (v != "" ? "=" : ""), zsh_text(text_of[key, f]),
            v == "" ? "" : ":" zsh_text(substr(name_of[key, f], 2)) ":" zsh_action(v)
    }
}

function zsh(    i, v) {
    print "#compdef inlay"
    print "# zsh completion of inlay"
    print "_inlay_verbs() {"
    print "  local -a verbs=("
    for (i = 1; i <= verb_count; i++)
        print "    '" verbs[i] ":" zsh_text(summary[verbs[i]]) "'"
    print "    'help:show the manual of a verb'"
    print "  )"
    print "  _describe verb verbs"
    print "}"
    print "_inlay() {"
    print "  local -a session=("
    zsh_specs("session")
    print "  ) own=()"
    print "  if (( CURRENT == 2 )); then"
    print "    _inlay_verbs"
    print "    return"
    print "  fi"
    print "  local verb=$words[2] operand=''"
    print "  case $verb in"
    for (i = 1; i <= verb_count; i++) {
        v = verbs[i]
        print "  " v ")"
        print "    own=("
        zsh_specs(v)
        print "    )"
        if (!has_session[v])
            print "    session=()"
        if (operand[v] ~ /model|file/)
            print "    operand='*:file:" zsh_action(operand[v]) "'"
        print "    ;;"
    }
    print "  help)"
    print "    _inlay_verbs"
    print "    return"
    print "    ;;"
    print "  *) return 1 ;;"
    print "  esac"
    print "  shift words"
    print "  (( CURRENT-- ))"
    print "  _arguments -S $own $session $operand"
    print "}"
    print "_inlay \"$@\""
}

# ------------------------------------------------------------------ fish

function fish_text(text) {
    gsub(/\\/, "\\\\", text)
    gsub(/'/, "\\'", text)
    return text
}

function fish_flags(key, condition,    n, flag, i, f, v, short) {
    n = split(list[key], flag, " ")
    for (i = 1; i <= n; i++) {
        f = flag[i]
        v = value_of[key, f]
        short = short_of[key, f] == "" ? "" : " -s '" substr(short_of[key, f], 2) "'"
        print "complete -c inlay -n '" condition "' -l " substr(f, 3) short \
            (v == "" ? "" : v == "file" ? " -rF" : v == "any" ? " -x" : " -x -a '" v "'") \
            " -d '" fish_text(text_of[key, f]) "'"
    }
}

function fish(    i, v, with_session) {
    print "# fish completion of inlay"
    print "complete -c inlay -f"
    for (i = 1; i <= verb_count; i++) {
        v = verbs[i]
        print "complete -c inlay -n __fish_use_subcommand -a " v " -d '" fish_text(summary[v]) "'"
        fish_flags(v, "__fish_seen_subcommand_from " v)
        if (has_session[v])
            with_session = with_session " " v
        if (operand[v] ~ /model|file/)
            print "complete -c inlay -n '__fish_seen_subcommand_from " v "' -F"
    }
    print "complete -c inlay -n __fish_use_subcommand -a help -d 'show the manual of a verb'"
    fish_flags("session", "__fish_seen_subcommand_from" with_session)
}

END {
    if (shell == "bash")
        bash()
    else if (shell == "zsh")
        zsh()
    else
        fish()
}
