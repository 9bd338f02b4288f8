#!/bin/sh
# Merges several archives into one, with weak symbols for the parts that can be excluded: a program includes the parts that it
# references. The file PARTS gets the lines of LISTED, and one line for each part in the object files:
#   set NAME FAMILY...       needed if one of the families is; from the annotations of providers/simd/optional.h
#   data PREFIX FAMILY...    with one of the families, all kernels of this prefix are needed; from the same annotations
#   function NAME            needed if it is called, which a first run reports; from the same annotations
#   level NAME               for AVX-512: needed unless the program is for AVX2 only; by the suffix of the name
#   baseline NAME            in plain C: needed if there is no region of cpu; by the suffix of the name
#   kernel NAME              KERNEL_PART() of providers/simd/vec.h; by the prefix of the name
#   type NAME SIGNATURE      for WebAssembly: the signature of a function that can be excluded, see wasm/objects.mjs
# Programs in C need no unwind tables: they are removed.
#   merge.sh AR NM OBJCOPY READELF LISTED PARTS OUTPUT ARCHIVE...
# For WebAssembly, OBJCOPY is wasm/objects.mjs, and READELF is not used.
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
case $objcopy in
*.mjs) node "$objcopy" notes "$output" ;;
*) "$readelf" -p .bundle_parts "$output" 2>/dev/null | sed -n 's/^ *\[ *[0-9a-f]*\]  //p' ;;
esac | grep . | sort -u >"$output.notes"
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
        note[$1 == "data" ? $0 : $2] = $0
        next
    }
    { symbol[$2] = 1 }
    $1 ~ /[TDRB]/ { defined[$2] = 1 }
    END {
        for (name in note) {
            if (note[name] !~ /^data / && !(name in defined))
                unknown = unknown "\n    " name
            print note[name]
        }
        if (unknown != "") {
            print "OPTIONAL_WITH() names an unknown family of the provider cpu, or an unknown function:" unknown | "cat >&2"
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
awk '$1 != "table" && $1 != "level" && $1 != "data" { print $2 }' "$parts" | sort -u >"$output.weak"
case $objcopy in
*.mjs)
    node "$objcopy" types "$output" | awk '
        FNR == NR { part[$2] = $1 == "kernel" || $1 == "set" || $1 == "function"; next }
        part[$2]' "$parts" - | sort -u >"$output.types"
    cat "$output.types" >>"$parts"
    node "$objcopy" weaken "$output.weak" "$output"
    rm -f "$output.types"
    ;;
*)
    echo kit_build_id >>"$output.weak"
    "$objcopy" --weaken-symbols="$output.weak" --remove-section=.eh_frame --remove-section=.rela.eh_frame \
        --remove-section=.bundle_parts "$output"
    ;;
esac
rm -f "$output.weak" "$output.symbols" "$output.notes" "$output.parts"
