#!/bin/sh
# Copies the object that another build compiled from the same bytes by the same command, or compiles without
# optimisation: the result runs only for a second. The arguments after LISTS are the compiler's command, run in the
# folder of the build.
#   reuse.sh OTHER LISTS COMPILER ARGUMENT...
# OTHER: the other build. LISTS: for its object OUT, LISTS/OUT.d is the list of dependencies, and LISTS/OUT has those
# that are generated during the build; they are compared here.
other=$1
lists=$2
shift 2
out=
dependencies=
before=
for argument; do
    case $before in
    -o) out=$argument ;;
    -MF) dependencies=$argument ;;
    esac
    before=$argument
done
if [ -z "$out" ] || [ ! -e "$lists/$out" ]; then
    exec "$@" -O0
fi
while read -r generated; do
    cmp -s "$other/$generated" "$generated" || exec "$@" -O0
done <"$lists/$out"
cp "$other/$out" "$out" && cp "$lists/$out.d" "$dependencies"
