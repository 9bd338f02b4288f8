#!/bin/sh
# One archive of several, with weak symbols for what PARTS says can be left out: a
# program has what it names, and the rest of the archive does not ask for it. PARTS is LISTED and the parts of kernels,
# which their names tell. Nobody unwinds a program in C: the tables for that are left out.
#   merge.sh AR NM OBJCOPY LISTED PARTS OUTPUT ARCHIVE...
set -eu
ar=$1
nm=$2
objcopy=$3
listed=$4
parts=$5
output=$6
shift 6
rm -f "$output"
{
    echo "create $output"
    for archive; do
        echo "addlib $archive"
    done
    echo save
    echo end
} | "$ar" -M
cp "$listed" "$parts"
"$nm" --defined-only "$output" 2>/dev/null | awk '$2 == "T" && $3 ~ /^part_/ { print "kernel", $3 }' | sort -u >>"$parts"
awk '$1 != "table" && $1 != "level" { print $2 }' "$parts" | sort -u >"$output.weak"
echo kit_build_id >>"$output.weak"
"$objcopy" --weaken-symbols="$output.weak" --remove-section=.eh_frame --remove-section=.rela.eh_frame "$output"
rm -f "$output.weak"
