#!/bin/sh
# Prints every flag of every verb, one per line, as the program reports them in --help-all: the tables of verbs and options
# (host/tools/cli, host/runtime/config/options.def) are the only source.
#   flags.sh INLAY
# Columns, separated by tabs: verb, its summary, group (own or session), flag, short form, argument, text. The first line
# of a verb has no flag, and the verb's arguments (MODEL) in the sixth column.
set -eu
inlay=$1
# Lines are not wrapped.
export COLUMNS=32000 LC_ALL=C
tab=$(printf '\t')

"$inlay" --help | sed -n -E 's/^  ([a-z][a-z-]*) +(.*)/\1\t\2/p' | while IFS=$tab read -r verb summary; do
    [ "$verb" != help ] || continue
    # A verb whose program is not installed has no flags.
    { "$inlay" "$verb" --help-all </dev/null 2>/dev/null || true; } |
        awk -v OFS='\t' -v verb="$verb" -v summary="$summary" '
            BEGIN { group = "own" }
            /^Usage: / && !seen++ {
                sub(/^Usage: inlay [^ ]+ *(\[OPTION\.\.\.\])? */, "")
                print verb, summary, group, "", "", $0, ""
            }
            /^Session options/ { group = "session" }
            match($0, /^ +(-[^-], )?--[a-z][a-z-]*/) {
                name = substr($0, RSTART, RLENGTH)
                text = substr($0, RSTART + RLENGTH)
                short = argument = ""
                sub(/^ +/, "", name)
                if (name ~ /^-[^-],/) {
                    short = substr(name, 1, 2)
                    name = substr(name, 5)
                }
                if (match(text, /^\[?=[^ ]+/)) {
                    argument = substr(text, RSTART, RLENGTH)
                    text = substr(text, RSTART + RLENGTH)
                }
                sub(/^ +/, "", text)
                print verb, summary, group, name, short, argument, text
            }'
done
