# What scripts that call `inlay` share: a folder of their own with models in it, and a count of what went wrong.
#   . verbs.bash INLAY MAKE_MODELS     the executable; the program that writes the models into a folder
# From here the working directory is that folder, which goes away at the end, and so does what is put into $TMPDIR.
# shellcheck disable=SC2034 # those who read this file use it
inlay=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work
checks=0 wrong=0
"$2" "$work" || exit 1
cd "$work" || exit 1

# complain TEXT...   something is wrong; the last command left its output in the files out and err.
complain() {
    wrong=$((wrong + 1))
    echo "WRONG: $*"
    head -c 900 out err
}

# finish   the last line of a script: tells, and its exit code is the test's.
finish() {
    echo "$checks checks, $wrong wrong"
    [ $wrong -eq 0 ]
}
