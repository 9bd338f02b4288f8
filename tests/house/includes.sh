#!/bin/sh
# Do the folders of a source tree include only what lies below them?
#
#   includes.sh ROOT EDGES   one line an #include that is not allowed; exit code 1 if there is one
#
# EDGES lists what each folder of host/ may include (see the file `edges` beside this script). Beyond the host:
# providers include no header of the host, ops neither of the two, sdk nothing but itself. The picture in
# host/README.md must have every folder of EDGES, each above all that it includes.
set -eu
root=$1
edges=$2

# Prints FILE:LINE:"HEADER" for each quoted include below the given folders, vendored and generated files left out.
includes() {
    (cd "$root" && find "$@" -type f \( -name '*.[ch]' -o -name '*.inc' -o -name '*.def' \) \
        -exec grep -HnoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"[^"]+"' {} +) |
        sed -E 's/#[[:space:]]*include[[:space:]]*//; s/[[:space:]]+"/"/' | sort
}

# The folders of the host as includes name them, as a pattern for awk.
folders=$(cd "$root/host" && for folder in runtime/*/ tools/*/ probe/ serve/; do
    [ ! -d "$folder" ] || basename "$folder"
done | sort | tr '\n' ' ')
wrong=$(mktemp)
trap 'rm -f "$wrong"' EXIT

# The list itself: every folder once, nothing that is not above it; every folder of the host is in it.
awk -v folders="$folders" '
    /^#/ || /^$/ { next }
    {
        folder = $1; sub(/:$/, "", folder)
        if (folder in seen) print FILENAME ":" FNR ": " folder " is listed twice"
        for (i = 2; i <= NF; i++)
            if (!($i in seen)) print FILENAME ":" FNR ": " folder " would include " $i ", which is not listed above it"
        seen[folder] = 1
    }
    END {
        n = split(folders, f, " ")
        for (i = 1; i <= n; i++) if (!(f[i] in seen)) print FILENAME ": the folder " f[i] " of host is not listed"
    }' "$edges" >"$wrong"

# The picture: the first fenced block of host/README.md, top floor first. What stands behind three spaces at the end of
# a line and is no folder is a remark.
awk -v folders="$folders" '
    FNR == 1 { files++ }
    files == 1 && /^```/ { fence++; next }
    files == 1 && fence == 1 {
        n = split(folders, f, " ")
        line = $0; gsub(/[^a-z]+/, " ", line); m = split(line, w, " ")
        for (i = 1; i <= n; i++) for (k = 1; k <= m; k++) if (w[k] == f[i]) floor[f[i]] = FNR
    }
    files == 2 && !/^#/ && !/^$/ {
        folder = $1; sub(/:$/, "", folder)
        if (!(folder in floor)) { print "host/README.md: the picture lacks " folder; next }
        for (i = 2; i <= NF; i++)
            if ($i in floor && floor[$i] <= floor[folder])
                print "host/README.md: the picture does not have " $i " below " folder
    }' "$root/host/README.md" "$edges" >>"$wrong"

includes host | awk -v folders="$folders" -v list="$edges" '
    BEGIN {
        n = split(folders, f, " "); for (i = 1; i <= n; i++) is_folder[f[i]] = 1
        while ((getline line < list) > 0) {
            if (line ~ /^#/ || line == "") continue
            m = split(line, w, " "); sub(/:$/, "", w[1])
            for (i = 2; i <= m; i++) may[w[1], w[i]] = 1
        }
    }
    {
        split($0, part, ":"); split(part[1], path, "/")
        from = path[2] == "runtime" || path[2] == "tools" ? path[3] : path[2]
        header = part[3]; gsub(/"/, "", header)
        to = header; if (!sub(/\/.*/, "", to)) next # a header of the same folder, or of ops/
        if (header ~ /^\.\.?\// )
            print part[1] ":" part[2] ": includes " header "; write the path from host/runtime or host/tools"
        else if (to in is_folder && to != from && !((from, to) in may))
            print part[1] ":" part[2] ": " from " may not include " header \
                "; move the declaration down, or the code up (allowed: tests/house/edges)"
    }' >>"$wrong"

# Between the buildings. What is there to be included is known by its folder: base/..., ops/schema.h ...
includes providers ops sdk | awk -v folders="$folders" '
    BEGIN { n = split(folders, f, " "); for (i = 1; i <= n; i++) is_folder[f[i]] = 1 }
    {
        split($0, part, ":"); split(part[1], path, "/"); from = path[1]
        header = part[3]; gsub(/"/, "", header)
        to = header; if (!sub(/\/.*/, "", to)) next
        # a folder below providers/ may have the name of one of the host
        own = from "/" path[2] "/" header
        if (from == "providers" && system("test -e " root "/" own) == 0) next
        if (to == "host" || to in is_folder)
            print part[1] ":" part[2] ": " from " may not include " header ", which is the host'"'"'s"
        else if (from != "providers" && to ~ /^(providers|reference|openblas|onednn|common|cpu|simd|prepost)$/)
            print part[1] ":" part[2] ": " from " may not include " header ", which is a provider'"'"'s"
    }' root="$root" >>"$wrong"

cat "$wrong"
[ ! -s "$wrong" ]
