# Shared code of scripts that call `inlay`: a temporary folder with models, and a count of failures.
#   . verbs.bash INLAY MAKE_MODELS     the executable; the program that writes the models into a folder
# The working directory becomes that folder, which is also $TMPDIR and is removed at the end.
# shellcheck disable=SC2034 # used by the scripts that source this file
# shellcheck source=tests/support/meets.bash
. "$(dirname "${BASH_SOURCE[0]}")/meets.bash"
inlay=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work
checks=0 wrong=0
"$2" "$work" || exit 1
cd "$work" || exit 1

# complain TEXT...   reports a failure; the files out and err contain the output of the last command.
complain() {
    wrong=$((wrong + 1))
    echo "WRONG: $*"
    head -c 900 out err
}

# finish   the last line of a script: prints the result; its exit code is that of the test.
finish() {
    unmet
    echo "$checks checks, $wrong wrong"
    [ $wrong -eq 0 ]
}
