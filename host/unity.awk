# Groups C files that can be compiled as one translation unit: prints "GROUP KEY FILE" for every file. Compiled one by one,
# the host, the operators and the regions take twice the time, most of it for headers and processes.
#   awk -f unity.awk -v lines=N -v headers=HEADERS LIST
# LIST: a line "KEY FILE" for each file; files of one group have one key. HEADERS: the names of all headers. N: lines of a
# group at most.
#
# Two files may share a group if neither of them, and no header that it includes, has a name that the other one keeps to
# itself: a macro, a static function or variable, a type, an enumerator. So grouping changes no meaning. A name of a function
# counts where '(' follows, names of members only against macros, all others wherever they occur. Declarations are found
# by the layout of clang-format: in a file they begin in the first column. A file that defines macros before its last
# #include, for a header that reads them, is alone.

# The line without comments, strings and character constants. in_comment: a comment began in an earlier line.
function code(text,    out, at) {
    out = ""
    while (text != "") {
        if (in_comment) {
            at = index(text, "*/")
            if (!at)
                return out
            in_comment = 0
            text = substr(text, at + 2)
        } else if (match(text, /\/\*|\/\/|"([^"\\]|\\.)*"|'([^'\\]|\\.)*'/)) {
            out = out substr(text, 1, RSTART - 1) " "
            if (substr(text, RSTART, 2) == "//")
                return out
            in_comment = substr(text, RSTART, 2) == "/*"
            text = substr(text, RSTART + (in_comment ? 2 : RLENGTH))
        } else {
            return out text
        }
    }
    return out
}

# The file keeps a name to itself.
function keep(name) {
    if (name ~ /^[.@A-Za-z_]/ && name !~ /^(struct|union|enum|static|const)$/ && !((file, name) in is_kept)) {
        is_kept[file, name] = kept_by_any[name] = 1
        kept[file] = kept[file] " " name
    }
}

# It keeps the name that a declaration begins with; text: its first line up to a character after that name.
function keep_declared(text,    after) {
    gsub(/(__attribute__|[A-Z][A-Z_0-9]+)\(.*\) /, "", text)
    if (match(text, /[A-Za-z_][A-Za-z_0-9]* *[(\[=;,{]/)) {
        after = substr(text, RSTART + RLENGTH - 1, 1)
        text = substr(text, RSTART, RLENGTH - 1)
        sub(/ *$/, "", text)
        keep(text (after == "(" ? "(" : ""))
    }
}

# Notes that it defines a type. text: "struct TAG {"
function define_tag(text,    words) {
    split(text, words, /[ {]+/)
    tags[file] = tags[file] " @" words[2]
    definitions["@" words[2]]++
}

# Whether a header that is included there, directly or not, has the name. asked: the name and a file, for headers in circles
function is_in_header(from, name, asked,    words, i) {
    for (i = split(includes[from], words, " "); i; i--) {
        if ((words[i], name) in seen)
            return 1
        if (!((asked, words[i]) in visited)) {
            visited[asked, words[i]] = 1
            if (is_in_header(words[i], name, asked))
                return 1
        }
    }
    return 0
}

# The file keeps the types that it defines, but for those that a header of its own declares and nothing else defines.
function keep_tags(    words, i) {
    for (i = split(tags[file], words, " "); i; i--)
        if (definitions[words[i]] > 1 || !is_in_header(file, words[i], file SUBSEP words[i]))
            keep(words[i])
}

# Notes the names of a line of code. A function's has '(' at its end, a member's '.' in front,
# a tag '@'.
function note_line(file, line,    token, before) {
    while (match(line, /[A-Za-z_][A-Za-z_0-9]*\(?|->|[^ \t]/)) {
        token = substr(line, RSTART, RLENGTH)
        line = substr(line, RSTART + RLENGTH)
        if (token ~ /^[A-Za-z_]/) {
            if (before == "." || before == "->")
                note_name(file, "." token)
            else if (before ~ /^(struct|union|enum)$/)
                note_name(file, "@" token)
            else
                note_name(file, token)
            if (before == "*" && line ~ /^\) *\(/) # a pointer to a function
                note_name(file, token "(")
            if (token ~ /\($/ && before != "." && before != "->")
                note_name(file, substr(token, 1, length(token) - 1))
        }
        before = token
    }
}

function note_name(file, name) {
    if (!((file, name) in seen)) {
        seen[file, name] = 1
        names[file] = names[file] " " name
    }
}

# Notes what a file includes. name: as written after #include
function note_include(file, line) {
    if (match(line, /"[^"]+"/)) {
        line = substr(line, RSTART + 1, RLENGTH - 2)
        sub(/^.*\//, "", line)
        includes[file] = includes[file] " " line
    }
}

# Reads a file: the headers that it includes, its names, and those that it keeps to itself.
function read_file(    raw, line, words, count, i, in_enum, declares, defines) {
    in_comment = in_enum = declares = defines = 0
    while ((getline raw < file) > 0) {
        size[file]++
        if (raw ~ /^#[ \t]*include/) {
            if (defines)
                alone[file] = 1
            note_include(file, raw)
            continue
        }
        line = code(raw)
        if (line ~ /^#[ \t]*define/) {
            defines = 1
            words[1] = line
            sub(/^#[ \t]*define[ \t]*/, "", words[1])
            sub(/[^A-Za-z_0-9].*/, "", words[1])
            keep(words[1])
            keep("." words[1])
            keep(words[1] "(")
        } else if (line ~ /^[A-Za-z_}]/) {
            if (line ~ /^(typedef )?(static )?(const )?enum/)
                in_enum = 1
            if (match(line, /(struct|union|enum) [A-Za-z_0-9]+ *\{/))
                define_tag(substr(line, RSTART, RLENGTH))
            if (line ~ /^} *[A-Za-z_]/ || line ~ /(^|[ (])static / || line ~ /^typedef /)
                declares = 1
            if (line ~ /^[A-Z][A-Z_0-9]*\(/) # a macro that declares
                for (i = split(line, words, /[^A-Za-z_0-9]+/); i > 1; i--)
                    keep(words[i])
        }
        if (declares && line !~ /^#/ && line ~ /[([=;,{]/) {
            keep_declared(line)
            declares = 0
        }
        if (in_enum) {
            in_enum = line !~ /}/
            words[1] = line
            sub(/^.*\{/, "", words[1])
            for (i = split(words[1], words, ","); i; i--) {
                sub(/^[ \t]*/, "", words[i])
                sub(/[^A-Za-z_0-9].*/, "", words[i])
                keep(words[i])
            }
        }
        note_line(file, line)
    }
    close(file)
}

# Reads a header: the headers that it includes, and its names that are followed by what follows a declared one. Headers of
# one name count as one.
function read_header(path,    base, line, name, words) {
    base = path
    sub(/^.*\//, "", base)
    in_comment = 0
    while ((getline line < path) > 0) {
        if (line ~ /^#[ \t]*include/)
            note_include(base, line)
        line = code(line)
        if (match(line, /(struct|union|enum) [A-Za-z_0-9]+ *\{/)) {
            split(substr(line, RSTART, RLENGTH), words, /[ {]+/)
            definitions["@" words[2]]++
        }
        while (match(line, /(struct|union|enum) [A-Za-z_0-9]+|[A-Z][A-Z_0-9]+|[A-Za-z_][A-Za-z_0-9]*(\(|;|\[)/)) {
            name = substr(line, RSTART, RLENGTH)
            line = substr(line, RSTART + RLENGTH)
            sub(/^.* /, "@", name)
            sub(/[;[]$/, "", name)
            note_name(base, name)
        }
    }
    close(path)
}

# Notes that a file has the names of a header or of itself, and of all headers included there, that any file keeps.
function note_names(file, from,    words, i) {
    if ((file, from) in noted)
        return
    noted[file, from] = 1
    for (i = split(names[from], words, " "); i; i--)
        if (words[i] in kept_by_any && !((file, words[i]) in has)) {
            has[file, words[i]] = 1
            all[file] = all[file] " " words[i]
        }
    for (i = split(includes[from], words, " "); i; i--)
        note_names(file, words[i])
}

# Whether a file may join a group.
function fits(file, group,    words, i) {
    if (closed[group] || key_of[group] != key[file] || sum[group] + size[file] > lines)
        return 0
    for (i = split(kept[file], words, " "); i; i--)
        if ((group, words[i]) in group_has)
            return 0
    for (i = split(group_kept[group], words, " "); i; i--)
        if ((file, words[i]) in has)
            return 0
    return 1
}

BEGIN {
    while ((getline header < headers) > 0)
        read_header(header)
}

{
    file = $0
    sub(/^[^ ]* /, "", file)
    files[NR] = file
    key[file] = $1
    read_file()
}

END {
    for (f = 1; f <= NR; f++) {
        file = files[f]
        keep_tags()
    }
    for (f = 1; f <= NR; f++) {
        file = files[f]
        note_names(file, file)
        group = 1
        while (group <= groups && (alone[file] || !fits(file, group)))
            group++
        if (group > groups)
            groups = group
        closed[group] = alone[file]
        key_of[group] = key[file]
        sum[group] += size[file]
        group_kept[group] = group_kept[group] kept[file]
        for (i = split(all[file], words, " "); i; i--)
            group_has[group, words[i]] = 1
        print group, key[file], file
    }
}
