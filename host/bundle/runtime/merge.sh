#!/bin/sh
# One archive of several, without what talks to oneDNN, and with weak symbols for what PARTS says can be left out: a
# program has what it names, and the rest of the archive does not ask for it.
#   merge.sh AR OBJCOPY PARTS OUTPUT ARCHIVE...
set -eu
ar=$1
objcopy=$2
parts=$3
output=$4
shift 4
rm -f "$output"
{
    echo "create $output"
    for archive; do
        echo "addlib $archive"
    done
    echo save
    echo end
} | "$ar" -M
for member in $("$ar" t "$output"); do
    case $member in
    dn.c.o | dn_opaque.c.o | dn_v[0-9]*.c.o) "$ar" d "$output" "$member" ;;
    esac
done
awk '$1 != "table" && $1 != "level" { print $2 }' "$parts" | sort -u >"$output.weak"
"$objcopy" --weaken-symbols="$output.weak" "$output"
rm -f "$output.weak"
