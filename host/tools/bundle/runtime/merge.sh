#!/bin/sh
# One archive of several, with weak symbols for what PARTS says can be left out: a program has what it names, and the
# rest of the archive does not ask for it. PARTS is LISTED, and what the objects tell:
#   set NAME FAMILY...       needed where one of the families is; from the notes of providers/simd/optional.h
#   function NAME            needed where somebody calls it, which a first run tells; from these notes, too
#   level NAME               for AVX-512: needed unless the program is for AVX2 alone; by the name's end
#   baseline NAME            in plain C: needed where no region of cpu is; by the name's end
#   kernel NAME              KERNEL_PART() of providers/simd/vec.h; by the name's beginning
# Nobody unwinds a program in C: the tables for that are left out.
#   merge.sh AR NM OBJCOPY READELF LISTED PARTS OUTPUT ARCHIVE...
set -eu
ar=$1
nm=$2
objcopy=$3
readelf=$4
listed=$5
parts=$6
output=$7
shift 7
rm -f "$output"
{
    echo "create $output"
    for archive; do
        echo "addlib $archive"
    done
    echo save
    echo end
} | "$ar" -M
"$nm" "$output" 2>/dev/null | awk 'NF > 1 { print $(NF - 1), $NF }' | sort -u >"$output.symbols"
"$readelf" -p .bundle_parts "$output" 2>/dev/null | sed -n 's/^ *\[ *[0-9a-f]*\]  //p' | sort -u >"$output.notes"
cp "$listed" "$parts"
awk -v notes="$output.notes" '
    FILENAME == ARGV[1] { if ($1 == "family") family[$2] = 1; next }
    FILENAME == notes {
        for (i = 3; i <= NF; i++) {
            count = split($i, of, "+")
            for (k = 1; k <= count; k++)
                if (!(of[k] in family))
                    unknown = unknown "\n    " $2 ": " of[k]
        }
        note[$2] = $0
        next
    }
    { symbol[$2] = 1 }
    $1 ~ /[TDRB]/ { defined[$2] = 1 }
    END {
        for (name in note) {
            if (!(name in defined))
                unknown = unknown "\n    " name
            print note[name]
        }
        if (unknown != "") {
            print "OPTIONAL_WITH() names what is no family of the provider cpu, or no function:" unknown | "cat >&2"
            exit 1
        }
        for (name in symbol) {
            stem = substr(name, 1, length(name) - 2)
            if (name ~ /^part_.*/) {
                if (name in defined)
                    print "kernel", name
            } else if (name ~ /_avx512(_vnni)?$/ && name in defined) {
                print "level", name
            } else if (name ~ /_c$/ && ((stem "_avx2") in defined || (stem "_neon") in defined)) {
                print "baseline", name
            }
        }
    }' "$listed" "$output.notes" "$output.symbols" >"$output.parts"
sort "$output.parts" >>"$parts"
awk '$1 != "table" && $1 != "level" { print $2 }' "$parts" | sort -u >"$output.weak"
echo kit_build_id >>"$output.weak"
"$objcopy" --weaken-symbols="$output.weak" --remove-section=.eh_frame --remove-section=.rela.eh_frame \
    --remove-section=.bundle_parts "$output"
rm -f "$output.weak" "$output.symbols" "$output.notes" "$output.parts"
