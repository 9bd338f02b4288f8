#!/bin/sh
# Reuses the object that another build compiled from the same bytes with the same command, or else compiles without
# optimisation, because the tests here run for a second only. Runs in the build folder with the compiler's command.
#   reuse.sh OTHER LISTS COMPILER ARGUMENT...
# OTHER: that build. LISTS: of its object OUT, LISTS/OUT.d is the list of dependencies, and LISTS/OUT has the files among
# them that are generated while building; they are compared here.
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
