#!/bin/sh
# Checks that the folders of a source tree include only lower folders.
#
#   includes.sh ROOT EDGES   prints one line per forbidden #include; exit code 1 if there are any
#
# EDGES lists the folders that each folder of host/ may include (see the file `edges` next to this script); the
# longest listed prefix of a path applies. Beyond the host: providers include no header of the host, and the host none
# of theirs; ops includes neither of the two, and sdk includes only itself. Exceptions: tools include loops of
# providers/simd; texts/tokens includes prepost/text/text.h, the tokenizers, and texts/speech the headers of sound files
# and spectrograms in prepost/audio, and texts/model that of resized images, which are libraries; providers/remote, which
# is part of libinlay, includes base, threads and plugin/isolate.h; probe includes remote/shared.h, and library
# remote/remote.h.
# The picture in host/README.md must have every folder of EDGES, each above all folders that it includes; its table of
# sub-folders must have every sub-folder, in the order of EDGES.
set -eu
root=$1
edges=$2

# Prints FILE:LINE:"HEADER" for each quoted include below the given folders, except in vendored and generated files.
includes() {
    (cd "$root" && find "$@" -type f \( -name '*.[ch]' -o -name '*.inc' -o -name '*.def' \) \
        -exec grep -HnoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"[^"]+"' {} +) |
        sed -E 's/#[[:space:]]*include[[:space:]]*//; s/[[:space:]]+"/"/' | sort
}

# The folders of the host, as a pattern for awk.
folders=$(cd "$root/host" && for folder in runtime/*/ formats/ insight/*/ tools/*/ library/ codecs/ shared/ texts/ probe/ serve/ web/ platform/; do
    [ ! -d "$folder" ] || basename "$folder"
done | sort | tr '\n' ' ')
# Sub-folders of the runtime, of texts and of serve that contain C files, as FOLDER/SUB-FOLDER.
inner=$(cd "$root/host" && for folder in runtime/*/*/ texts/*/ serve/*/; do
    for file in "$folder"*.[ch]; do
        [ ! -f "$file" ] || { folder=${folder#runtime/}; echo "${folder%/}"; break; }
    done
done | sort | tr '\n' ' ')
wrong=$(mktemp)
trap 'rm -f "$wrong"' EXIT

# The list itself: every folder once, with edges to earlier folders only; it contains every folder of the host. A
# folder of which only sub-folders are listed counts as listed with the last of them.
awk -v folders="$folders" -v inner="$inner" '
    /^#/ || /^$/ { next }
    {
        folder = $1; sub(/:$/, "", folder)
        if (folder in listed) print FILENAME ":" FNR ": " folder " is listed twice"
        for (i = 2; i <= NF; i++)
            if (!($i in seen)) print FILENAME ":" FNR ": " folder " would include " $i ", which is not listed above it"
        listed[folder] = seen[folder] = 1
        sub(/\/.*/, "", folder); seen[folder] = 1
    }
    END {
        n = split(folders, f, " ")
        for (i = 1; i <= n; i++) if (!(f[i] in seen)) print FILENAME ": the folder " f[i] " of host is not listed"
        n = split(inner, f, " ")
        for (i = 1; i <= n; i++) if (!(f[i] in listed)) print FILENAME ": the folder " f[i] " of host is not listed"
    }' "$edges" >"$wrong"

# The picture: the first fenced block of host/README.md, top layer first. Other words in the block are remarks. Each
# line of the table of sub-folders begins with a sub-folder, as `a/b/`, in the order of the list.
awk -v folders="$folders" '
    FNR == 1 { files++ }
    files == 1 && /^```/ { fence++; next }
    files == 1 && fence == 1 {
        n = split(folders, f, " ")
        line = $0; gsub(/[^a-z]+/, " ", line); m = split(line, w, " ")
        for (i = 1; i <= n; i++) for (k = 1; k <= m; k++) if (w[k] == f[i]) floor[f[i]] = FNR
    }
    files == 1 && /^\| `[a-z]+\/[a-z]+\/`/ { inner = $2; gsub(/`|\/`/, "", inner); row[inner] = FNR }
    files == 2 && !/^#/ && !/^$/ {
        folder = $1; sub(/:$/, "", folder)
        if (folder ~ /\//) {
            if (!(folder in row)) print "host/README.md: the table of sub-folders lacks " folder
            else if (row[folder] < last) print "host/README.md: the table of sub-folders has " folder " too high"
            last = row[folder]
            delete row[folder]
        }
        top = folder; sub(/\/.*/, "", top)
        if (!(top in floor)) { print "host/README.md: the picture lacks " top; next }
        for (i = 2; i <= NF; i++) {
            below = $i; sub(/\/.*/, "", below)
            if (below != top && below in floor && floor[below] <= floor[top])
                print "host/README.md: the picture does not have " below " below " top
        }
    }
    END { for (inner in row) print "host/README.md: the table of sub-folders has " inner ", which is not listed" }' "$root/host/README.md" "$edges" >>"$wrong"

includes host | awk -v folders="$folders" -v list="$edges" '
    # The longest listed folder that contains the file.
    function home(path) {
        while (sub(/\/[^\/]*$/, "", path)) if (path in is_folder) return path
        return ""
    }
    # Sub-folders of the same folder are listed individually; another folder may be allowed as a whole.
    function allowed(from, to, top) {
        top = from; sub(/\/.*/, "", top)
        if ((from, to) in may) return 1
        while (sub(/\/[^\/]*$/, "", to)) if (to != top && (from, to) in may) return 1
        return 0
    }
    BEGIN {
        n = split(folders, f, " "); for (i = 1; i <= n; i++) is_folder[f[i]] = 1
        while ((getline line < list) > 0) {
            if (line ~ /^#/ || line == "") continue
            m = split(line, w, " "); sub(/:$/, "", w[1])
            is_folder[w[1]] = 1
            for (i = 2; i <= m; i++) may[w[1], w[i]] = 1
        }
    }
    {
        split($0, part, ":")
        from = part[1]; sub(/^host\/((runtime|insight|tools)\/)?/, "", from); from = home(from)
        header = part[3]; gsub(/"/, "", header)
        if (header !~ /\//) next # a header of the same folder, or of ops/
        provider = header; sub(/\/.*/, "", provider)
        if (provider ~ /^(providers|reference|openblas|ort_ep|onednn|common|cpu|vulkan)$/ ||
            (provider == "prepost" && from " " header !~ /^(texts\/tokens prepost\/text\/text.h|texts\/model prepost\/image\/resample.h|texts\/speech prepost\/audio\/(sound|spectrogram).h)$/) ||
            (provider == "remote" && from " " header !~ /^(probe remote\/shared.h|library remote\/remote.h)$/) ||
            (provider == "simd" && part[1] !~ /^host\/tools\//))
            print part[1] ":" part[2] ": " from " may not include " header ", which is a provider'"'"'s"
        to = home(header)
        if (header ~ /^\.\.?\// )
            print part[1] ":" part[2] ": includes " header "; write the path from host/runtime, host/insight or host/tools"
        else if (to != "" && to != from && !allowed(from, to))
            print part[1] ":" part[2] ": " from " may not include " header \
                "; move the declaration down, or the code up (allowed: tests/house/edges)"
    }' >>"$wrong"

# Between host, providers, ops and sdk: headers are recognised by their folder: base/..., ops/schema.h ...
includes providers ops sdk | awk -v folders="$folders" -v root="$root" '
    BEGIN {
        n = split(folders, f, " "); for (i = 1; i <= n; i++) is_folder[f[i]] = 1
        list = "cd " root " && find providers -type f 2>/dev/null"
        while ((list | getline line) > 0) exists[line] = 1
    }
    {
        split($0, part, ":"); split(part[1], path, "/"); from = path[1]
        header = part[3]; gsub(/"/, "", header)
        to = header; if (!sub(/\/.*/, "", to)) next
        # a folder of providers/ may have the same name as a folder of the host
        own = from "/" path[2] "/" header
        if (from == "providers" && own in exists) next
        if (path[2] == "remote" && (to ~ /^(base|threads)$/ || header == "plugin/isolate.h")) next
        if (to == "host" || to in is_folder)
            print part[1] ":" part[2] ": " from " may not include " header ", which is the host'"'"'s"
        else if (from != "providers" && to ~ /^(providers|reference|openblas|ort_ep|onednn|common|cpu|simd|prepost)$/)
            print part[1] ":" part[2] ": " from " may not include " header ", which is a provider'"'"'s"
    }' >>"$wrong"

cat "$wrong"
[ ! -s "$wrong" ]
