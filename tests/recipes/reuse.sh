#!/bin/sh
# Takes the object that another build made of the same bytes by the same command, or compiles, without optimising: what is
# compiled here runs for a second. The rest is the compiler's command, in the folder of the build.
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
