#!/bin/sh
# Checks that the folders of providers/ include only lower folders.
#
#   provider_includes.sh ROOT EDGES   prints one line per forbidden #include; exit code 1 if there are any
#
# EDGES lists the folders that each folder may include (the file `provider_edges` next to this script). Headers are
# included by their path from providers/. Other headers belong to the SDK or are generated.
set -eu
root=$1
edges=$2
wrong=$(mktemp)
trap 'rm -f "$wrong"' EXIT

(cd "$root" && {
    find providers -type f \( -name '*.[ch]' -o -name '*.inc' -o -name '*.def' \)
    echo
    find providers -type f \( -name '*.[ch]' -o -name '*.inc' -o -name '*.def' \) \
        -exec grep -HnoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"[^"]+"' {} + | sort -t: -k1,1 -k2,2n
}) | awk -v list="$edges" '
    # The longest listed folder that contains the file.
    function home(path) {
        while (sub(/\/[^\/]*$/, "", path)) if (path in listed) return path
        return ""
    }
    # The header is next to the file, or in its provider.
    function is_near(path, header, folder_of_file, first) {
        folder_of_file = path; sub(/[^\/]*$/, "", folder_of_file)
        first = path; sub(/^providers\//, "", first); sub(/\/.*/, "", first)
        return folder_of_file header in is_file || "providers/" first "/" header in is_file
    }
    BEGIN {
        while ((getline line < list) > 0) {
            number++
            if (line ~ /^#/ || line == "") continue
            count = split(line, word, " "); sub(/:$/, "", word[1])
            if (word[1] in listed) print list ":" number ": " word[1] " is listed twice"
            for (i = 2; i <= count; i++) {
                if (!(word[i] in listed))
                    print list ":" number ": " word[1] " would include " word[i] ", which is not listed above it"
                may[word[1], word[i]] = 1
            }
            listed[word[1]] = 1
            if (word[1] ~ /\//) { top = word[1]; sub(/\/.*/, "", top); parted[top] = 1 }
        }
    }
    $0 == "" { files_read = 1; next }
    !files_read {
        is_file[$0] = 1
        folder = $0; sub(/^providers\//, "", folder)
        if (!sub(/\/[^\/]*$/, "", folder)) next
        top = folder; sub(/\/.*/, "", top)
        if (!(folder in listed) && (top in parted || !(top in listed)) && !(folder in named)) {
            print list ": the folder " folder " of providers is not listed"
            named[folder] = 1
        }
        next
    }
    {
        split($0, part, ":")
        header = part[3]; sub(/^[^"]*"/, "", header); sub(/"$/, "", header)
        if (header ~ /^\.\.?\// || is_near(part[1], header)) {
            print part[1] ":" part[2] ": includes " header "; write the path from providers"
            next
        }
        path = part[1]; sub(/^providers\//, "", path); from = home(path)
        to = "providers/" header in is_file ? home(header) : ""
        if (from != "" && to != "" && to != from && !((from, to) in may))
            print part[1] ":" part[2] ": " from " may not include " header " of " to \
                "; move the declaration down, or the code up (allowed: tests/house/provider_edges)"
    }' >"$wrong"

cat "$wrong"
[ ! -s "$wrong" ]
