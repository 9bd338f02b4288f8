# Compiles rules to C tables: awk -f compile.awk OPS... ../rule_conditions.def FILE.rules... > rules_table.c
#
# OPS: the C files of ops/ with the rows of operators (ops/schema.h). README.md describes the notation of the rules. A rule
# that the schemas contradict, or that uses what it does not bind, is an error: "FILE:LINE: what is wrong", exit code 1.
# The tables are nested initialisers of the structs in passes/rules.h.

function fail(text) {
    if (!failed_at[place])
        print place ": " text > "/dev/stderr"
    failed_at[place] = failed = 1
}

# ---- the schemas of operators

# The names of a comma-separated list "name:type, ...".
function read_formals(text, key, kind,    list, count, i, name, type) {
    count = split(text, list, / *, */)
    for (i = 1; i <= count; i++) {
        name = type = list[i]
        sub(/:.*/, "", name)
        sub(/^[^:]*:/, "", type)
        gsub(/ /, "", type)
        formal[key, kind, i] = type
        if (name ~ /[*%]/)
            most[key, kind] = 999
        else if (name !~ /\?/)
            least[key, kind] = i
    }
    formals[key, kind] = count
    if (!((key, kind) in most))
        most[key, kind] = count
}

# A row: "A:T, B?:T -> Y:T; T=@float, U=int64; axis:i=1, mode:s".
function read_row(op, version, signature,    key, parts, sides, list, count, i) {
    key = op SUBSEP version
    versions[op] = versions[op] " " version
    gsub(/'[^']*'/, "", signature)
    gsub(/\{[^}]*\}|\[[^]]*\]/, "", signature)
    split(signature, parts, ";")
    split(parts[1], sides, "->")
    gsub(/^ +| +$/, "", sides[1])
    gsub(/^ +| +$/, "", sides[2])
    read_formals(sides[1], key, "in")
    read_formals(sides[2], key, "out")
    count = split(parts[2], list, / *, */)
    for (i = 1; i <= count; i++) {
        gsub(/ /, "", list[i])
        if (split(list[i], sides, "=") == 2)
            types[key, sides[1]] = sides[2]
    }
    while (match(parts[3], /[a-zA-Z_]+:[a-z]+/)) {
        split(substr(parts[3], RSTART, RLENGTH), list, ":")
        attr[key, list[1]] = list[2]
        attrs[key] = attrs[key] " " list[1]
        parts[3] = substr(parts[3], RSTART + RLENGTH)
    }
}

# One row of a C file: { "Add", 14, 0, "A:T, ...", infer }
function read_row_text(domain, row,    op, version, signature) {
    match(row, /\{ "[A-Za-z0-9]+", [0-9]+, [A-Z_0-9| ]+, */)
    op = version = substr(row, RSTART, RLENGTH)
    row = substr(row, RSTART + RLENGTH)
    gsub(/^\{ "|".*/, "", op)
    sub(/^[^,]*, /, "", version)
    sub(/,.*/, "", version)
    while (match(row, /^ *("[^"]*"|[A-Z_]+)/)) { # strings, and macros that stand for strings
        signature = signature unquoted(substr(row, RSTART, RLENGTH))
        match(row, /^ *("[^"]*"|[A-Z_]+)/)
        row = substr(row, RSTART + RLENGTH)
    }
    read_row(domain == "ai.onnx" ? op : domain "." op, version + 0, signature)
}

# The text of a string, or of a macro that stands for strings.
function unquoted(word,    all, rest, length_of) {
    sub(/^ */, "", word)
    if (word ~ /^"/)
        return substr(word, 2, length(word) - 2)
    rest = macro_text[word]
    while (match(rest, /^ *("[^"]*"|[A-Z_]+)/)) {
        length_of = RLENGTH
        all = all unquoted(substr(rest, 1, length_of))
        rest = substr(rest, length_of + 1)
    }
    return all
}

# ---- tokens

function lex(text) {
    token_count = 0
    for (;;) {
        sub(/^ +/, "", text)
        if (text == "")
            break
        if (match(text, /^([a-z]+\.)*[A-Z][A-Za-z0-9]*(-[0-9]+\+?)?/) || match(text, /^[a-z_][a-z0-9_]*/) ||
            match(text, /^-?[0-9][0-9.]*(e-?[0-9]+)?(\/[0-9.]+)?/) || match(text, /^'[^']*'/) ||
            match(text, /^(->|[][(),;=:|$?])/)) {
            token[++token_count] = substr(text, 1, RLENGTH)
            text = substr(text, RLENGTH + 1)
        } else {
            fail("'" substr(text, 1, 1) "' has no meaning here")
            break
        }
    }
    token[token_count + 1] = ""
    at = 1
}

function take(what) {
    if (token[at] != what) {
        fail("'" what "' is expected before '" token[at] "'")
        at = token_count + 1
        return 0
    }
    at++
    return 1
}

function is_name(text) { return text ~ /^[a-z_]/ }
function is_number(text) { return text ~ /^-?[0-9]/ }
function is_op(text) { return text ~ /^([a-z]+\.)*[A-Z]/ }

# ---- definitions

function define(text,    name, list, body, count, i, at_body) {
    match(text, /^define +[a-z_][a-z_0-9]*\(/)
    if (RSTART != 1 || !match(text, /\) *=/))
        return fail("a definition is written 'define name(parameters) = ...'")
    at_body = RSTART + RLENGTH
    name = substr(text, 1, RSTART - 1)
    body = substr(text, at_body)
    sub(/^define +/, "", name)
    count = split(substr(name, index(name, "(") + 1), list, / *, */)
    sub(/\(.*/, "", name)
    body = expand(body)
    for (i = 1; i <= count; i++)
        while (match(" " body " ", "[^A-Za-z0-9_.']" list[i] "[^A-Za-z0-9_.']"))
            body = substr(body, 1, RSTART - 1) "\001" i "\002" substr(body, RSTART + length(list[i]))
    bodies[name] = body
    parameters[name] = count
    names = names (names == "" ? "" : "|") name
}

# Replaces the calls of definitions in a text.
function expand(text,    start, name, depth, c, i, list, count, body, from) {
    while (names != "" && match(text, "(^|[^A-Za-z0-9_.])(" names ")\\(")) {
        start = substr(text, RSTART, 1) ~ /[a-z]/ && RSTART == 1 ? 1 : RSTART + 1
        from = RSTART + RLENGTH
        name = substr(text, start, from - start - 1)
        depth = 1
        count = 0
        for (i = from; depth > 0 && i <= length(text); i++) {
            c = substr(text, i, 1)
            depth += (c == "(" || c == "[") - (c == ")" || c == "]")
            if (depth == 0 || (depth == 1 && c == ",")) {
                list[++count] = substr(text, from, i - from)
                gsub(/^ +| +$/, "", list[count])
                from = i + 1
            }
        }
        if (depth > 0 || count != parameters[name]) {
            fail(name " has " parameters[name] " parameters")
            return ""
        }
        body = bodies[name]
        for (; count > 0; count--)
            gsub("\001" count "\002", list[count], body)
        text = substr(text, 1, start - 1) "(" body ")" substr(text, i)
    }
    return text
}

# ---- variables

# The slot of a variable. kind: "v" a value, "n" a number. binds: the first use is here.
function slot_of(name, kind, binds) {
    if (!(name in slot)) {
        if (!binds)
            fail("'" name "' is not bound")
        slot[name] = slots++
        kind_of[name] = kind
        if (slots > 24)
            fail("a rule has at most 24 variables")
    } else if (kind_of[name] != kind) {
        fail("'" name "' is both a value and a number")
    }
    return slot[name]
}


# The near miss of a check: a text that follows it in the rule, or else this one.
function why(text) {
    if (token[at] ~ /^'/)
        text = substr(token[at], 2, length(token[at++]) - 2)
    return is_reported ? ", .why = \"" text "\"" : ""
}

function c_number(text) { return text ~ /\// ? "1.0 * " text : text ~ /^-?[0-9]+$/ ? text ".0" : text }

# ---- operators

# Splits "Mul-7+" into op_name, op_version (0: none) and op_newer.
function split_op(text) {
    op_name = op_version = text
    op_newer = text ~ /\+$/
    sub(/-[0-9]+\+?$/, "", op_name)
    op_version = match(text, /-[0-9]+/) ? substr(text, RSTART + 1, RLENGTH - 1) + 0 : 0
    if (!(op_name in versions))
        fail("there is no operator " op_name)
}

# The key of the schema in force at a version; 0: the newest.
function schema_at(op, version,    list, count, i, best) {
    count = split(versions[op], list, " ")
    best = ""
    for (i = 1; i <= count; i++)
        if (version == 0 || list[i] + 0 <= version)
            best = list[i]
    if (best == "" && count > 0)
        fail(op " has no version " version)
    return op SUBSEP best
}

function c_op(    domain, name) {
    domain = op_name
    name = op_name
    sub(/^.*\./, "", name)
    if (!sub(/\.[A-Za-z0-9]*$/, "", domain))
        domain = "ai.onnx"
    return ".domain = \"" domain "\", .text = \"" name "\""
}

# Checks a pattern of the operator against the versions that it matches. mentioned: " axis keepdims ".
function check_pattern(op, version, newer, count, mentioned,    list, n, i, k, names_of, m, fits, known) {
    n = split(versions[op], list, " ")
    for (i = 1; i <= n; i++) {
        if (version > 0 && (newer ? list[i] + 0 < version : list[i] + 0 != version))
            continue
        known = 1
        fits = fits || (count >= least[op, list[i], "in"] + 0 && count <= most[op, list[i], "in"])
        m = split(attrs[op, list[i]], names_of, " ")
        for (k = 1; k <= m; k++)
            if (names_of[k] != "consumed_inputs" && index(mentioned, " " names_of[k] " ") == 0)
                fail(op "-" list[i] " has an attribute " names_of[k] ": state its value, or its name for any")
    }
    if (!known && n > 0)
        fail(op " has no version " version)
    else if (!fits && n > 0)
        fail(op " does not have " count " inputs")
}

# ---- patterns: each function returns the initialiser of a term without its braces

# They set begins to the bits of the operators that the matched value may come from: RULE_LETTER, 1 for none.
function pattern(    first, count, all, letters) {
    first = single()
    if (token[at] != "|")
        return first
    all = "{ " first " }"
    letters = begins
    for (count = 1; token[at] == "|"; count++) {
        at++
        all = all ", { " single() " }"
        letters = letters " | " begins
    }
    begins = letters
    return ".kind = RULE_EITHER, .count = " count ", .args = (const rule_term[]){ " all " }"
}

function single(    once, label, fields, text) {
    if (token[at] == "once") {
        at++
        once = ", .once = true"
    }
    if (is_name(token[at]) && token[at + 1] == ":") {
        label = ", .label = 1 + " slot_of(token[at], "v", 1)
        at += 2
    }
    text = token[at]
    if (text == "(") {
        at++
        fields = pattern()
        take(")")
    } else if (text == "$") {
        at += 2
        begins = "1u"
        fields = ".kind = RULE_SCALAR, .slot = " slot_of(token[at - 1], "n", 1) why(token[at - 1] " is not one constant")
    } else if (is_number(text)) {
        at++
        begins = "1u"
        fields = ".kind = RULE_NUMBER, .number = " c_number(text) why("a constant is not " text)
    } else if (text == "product") {
        fields = product()
        begins = "~0u"
    } else if (is_op(text)) {
        fields = op_pattern()
    } else if (is_name(text)) {
        at++
        fields = ".kind = RULE_VALUE, .slot = " slot_of(text == "_" ? "_" slots : text, "v", 1)
        if (token[at] == "?") {
            at++
            fields = fields ", .optional = true"
        }
        fields = fields why(text " is another value there")
        begins = "~0u"
    } else {
        fail("a pattern is expected before '" text "'")
        at = token_count + 1
    }
    return fields once label
}

# product(0.5, a, b): the factors of a product in any order, its constants multiplied
function product(    number, count, all) {
    at++
    take("(")
    number = token[at++]
    if (!is_number(number))
        fail("product() begins with its constant")
    if (nesting++ == 0) {
        note_anchor("Mul")
        note_anchor("Div")
    }
    for (count = 0; token[at] == ","; count++) {
        at++
        all = all (count > 0 ? ", " : "") "{ " pattern() " }"
    }
    nesting--
    take(")")
    return ".kind = RULE_PRODUCT, .number = " c_number(number) ", .count = " count \
        ", .args = (const rule_term[]){ " all " }" why("a factor is not " number)
}

function op_pattern(    op, version, newer, head, count, all, each, text, mentioned, name, found, attr_count, first, inputs) {
    split_op(token[at++])
    op = op_name
    version = op_version
    newer = op_newer
    head = c_op()
    if (nesting++ == 0)
        note_anchor(op)
    if (!take("("))
        return head
    for (count = 0; token[at] != ")" && token[at] != ";" && at <= token_count; count++) {
        if (count > 0)
            take(",")
        first = at
        all = all (count > 0 ? ", " : "") "{ " pattern() " }"
        inputs = inputs (count > 0 ? ", " : "") begins
        text = ""
        for (; first < at; first++)
            text = text " " token[first]
        each[count] = text
    }
    nesting--
    mentioned = " "
    while (token[at] == ";" || (token[at] == "," && mentioned != " ")) {
        name = token[at + 1]
        at += 2
        mentioned = mentioned name " "
        if (!has_attr(op, name))
            fail(op " has no attribute " name)
        if (token[at] == "=") {
            at++
            found = found (attr_count > 0 ? ", " : "") attr_pattern(name)
            attr_count++
        }
    }
    take(")")
    check_pattern(op, version, newer, count, mentioned)
    begins = head
    sub(/^.*\.text = "/, "", begins)
    begins = "RULE_LETTER('" substr(begins, 1, 1) "')"
    return ".kind = RULE_OP, " head (version > 0 ? ", .first = " version ", .last = " (newer ? 255 : version) : ", .last = 255") \
        (count > 0 ? ", .count = " count ", .args = (const rule_term[]){ " all " }" : "") \
        (nesting == 0 && count > 0 && count <= 2 ? ", .inputs = { " inputs " }" : "") \
        (op ~ /^(Add|Mul)$/ && count == 2 && each[0] != each[1] ? ", .commutes = true" : "") \
        (attr_count > 0 ? ", .attr_count = " attr_count ", .attrs = (const rule_attr[]){ " found " }" : "")
}

function has_attr(op, name,    list, n, i) {
    n = split(versions[op], list, " ")
    for (i = 1; i <= n; i++)
        if ((op, list[i], name) in attr)
            return attr[op, list[i], name]
    return ""
}

# The value of attribute `name` in a pattern or, with its kind, in a result.
function attr_pattern(name, kind,    text) {
    text = token[at++]
    if (is_number(text))
        return "{ .name = \"" name "\", .kind = RULE_ATTR_NUMBER, .number = " c_number(text) why(name " is not " text) is_int(kind) " }"
    if (text ~ /^'/)
        return "{ .name = \"" name "\", .kind = RULE_ATTR_TEXT, .text = \"" substr(text, 2, length(text) - 2) "\"" \
            why(name " is not " substr(text, 2, length(text) - 2)) " }"
    if (text == "[")
        return "{ .name = \"" name "\", .kind = RULE_ATTR_INTS" ints() " }"
    if (is_name(text))
        return "{ .name = \"" name "\", .kind = RULE_ATTR_SLOT, .slot = " slot_of(text, "n", kind == "") is_int(kind) " }"
    return fail("a value of " name " is expected before '" text "'")
}

function is_int(kind) { return kind == "i" ? ", .is_int = true" : "" }

# The rest of a list of integers "1, 2 ]" as fields.
function ints(    all, count) {
    for (count = 0; token[at] != "]" && at <= token_count; count++) {
        if (count > 0)
            take(",")
        if (!is_number(token[at]))
            fail("'" token[at] "' is not an integer")
        all = all (count > 0 ? ", " : "") token[at++]
    }
    take("]")
    return count == 0 ? "" : ", .count = " count ", .ints = (const int64_t[]){ " all " }"
}

# ---- results

function result(    text, fields, from, number) {
    text = token[at]
    if (is_name(text) && token[at + 1] == ":") {
        at += 2
        label_outputs[text] = 1
        fields = is_op(token[at]) ? op_result(text) : result()
        return fields ", .label = 1 + " slot_of(text, "v", 1)
    }
    if (text == "(") {
        at++
        fields = result()
        take(")")
        return fields
    }
    if (text == "[") {
        at++
        return ".kind = RULE_LIST" ints()
    }
    if (text == "_") {
        at++
        return ".kind = RULE_OMITTED"
    }
    if (is_number(text)) {
        at++
        return ".kind = RULE_NUMBER, .number = " c_number(text)
    }
    if (text == "cast" || text == "given") {
        at++
        take("(")
        if (text == "cast") {
            fields = ".kind = RULE_CAST, .args = (const rule_term[]){ { " result() " } }"
            take(",")
            fields = fields ", " (token[at] in dtypes ? ".dtype = INLAY_" toupper(token[at]) : \
                                  ".slot = " slot_of(token[at], "v", 0))
            at++
        } else {
            from = token[at++]
            if (token[at] == "=") {
                number = token[at + 1]
                at += 2
            }
            fields = ".kind = RULE_GIVEN, .slot = " slot_of(from, number == "" ? "v" : "n", 0)
            if (number != "")
                fields = fields ", .compares = true, .number = " c_number(number)
            take(",")
            fields = fields ", .args = (const rule_term[]){ { " result() " }, "
            take(",")
            fields = fields "{ " result() " } }"
        }
        take(")")
        return fields
    }
    if (is_name(text)) {
        at++
        if (kind_of[text] == "n")
            return ".kind = RULE_SCALAR, .slot = " slot_of(text, "n", 0)
        return ".kind = RULE_VALUE, .slot = " slot_of(text, "v", 0) output_index(text)
    }
    return op_result("")
}

# "[2]" after a label: its output 2
function output_index(name,    k) {
    if (token[at] != "[")
        return ""
    k = token[at + 1]
    at += 2
    take("]")
    if (k + 0 >= label_outputs[name] + 0)
        fail("'" name "' has no output " k)
    return ", .output = " k
}

# label: the variable of the result, whose other outputs can be read; "": none
function op_result(label,    op, version, newer, head, key, count, all, given, i, outputs, kinds, name, found, attr_count, kind) {
    if (!is_op(token[at])) {
        fail("an operator is expected before '" token[at] "'")
        at = token_count + 1
        return ""
    }
    split_op(token[at++])
    op = op_name
    version = op_version
    newer = op_newer
    head = c_op()
    key = schema_at(op, version)
    if (op !~ /\./ && version > highest)
        highest = version
    if (!take("("))
        return ""
    for (count = 0; token[at] != ")" && token[at] != ";" && at <= token_count; count++) {
        if (count > 0)
            take(",")
        given[count + 1] = token[at] != "_"
        all = all (count > 0 ? ", " : "") "{ " result() " }"
    }
    name = ""
    while (token[at] == ";" || (token[at] == "," && name != "")) {
        name = token[at + 1]
        at += 2
        kind = attr[key, name]
        if (kind == "")
            fail(op (version > 0 ? "-" version : "") " has no attribute " name)
        if (token[at] == "=") {
            at++
            found = found (attr_count > 0 ? ", " : "") attr_pattern(name, kind)
        } else {
            found = found (attr_count > 0 ? ", " : "") "{ .name = \"" name "\", .kind = RULE_ATTR_COPY }"
            if (!has_attr(root, name))
                fail(root " has no attribute " name " to copy")
        }
        attr_count++
    }
    take(")")
    if (count < least[key, "in"] + 0 || count > most[key, "in"] + 0)
        fail(op " does not have " count " inputs")
    outputs = label == "" ? 1 : formals[key, "out"]
    for (i = 1; i <= outputs; i++)
        kinds = kinds (i > 1 ? ", " : "") out_type(op, key, i, count, given)
    if (label != "")
        label_outputs[label] = outputs
    return ".kind = RULE_OP, " head ", .first = " version (newer ? ", .newer = true" : "") \
        ", .outputs = " outputs ", .types = (const uint8_t[]){ " kinds " }" \
        (count > 0 ? ", .count = " count ", .args = (const rule_term[]){ " all " }" : "") \
        (attr_count > 0 ? ", .attr_count = " attr_count ", .attrs = (const rule_attr[]){ " found " }" : "")
}

# The type of output i: that of an input, or a type that the schema states.
function out_type(op, key, i, count, given,    type, k) {
    type = formal[key, "out", i]
    for (k = 1; k <= count; k++)
        if (formal[key, "in", k > formals[key, "in"] ? formals[key, "in"] : k] == type && given[k])
            return "RULE_LIKE + " (k - 1)
    if ((key, type) in types)
        type = types[key, type]
    if (type in dtypes)
        return "INLAY_" toupper(type)
    fail("the type of output " (i - 1) " of " op " depends on an omitted input or an attribute")
    return "INLAY_UNDEFINED"
}

# ---- rules

function conditions(    all, name, count, i, letters, slots_of, number, binds, kind) {
    for (count = 0; at <= token_count; count++) {
        if (count > 0)
            take(",")
        name = token[at++]
        if (!(name in letters_of)) {
            fail("there is no condition '" name "'; rule_conditions.def lists them")
            return ""
        }
        if (!take("("))
            return ""
        letters = letters_of[name]
        slots_of = ""
        number = ""
        for (i = 1; i <= length(letters); i++) {
            if (i > 1)
                take(",")
            kind = substr(letters, i, 1)
            if (is_number(token[at]) && kind == "n") {
                number = c_number(token[at])
            } else if (is_name(token[at])) {
                binds = kind ~ /[NV]/
                slots_of = slots_of (i > 1 ? ", " : "") slot_of(token[at], tolower(kind), binds)
            } else {
                fail("'" token[at] "' is no argument of " name)
            }
            at++
        }
        take(")")
        all = all (count > 0 ? ", " : "") "{ rule_if_" name ", \"" reason[name] "\", { " (slots_of == "" ? "0" : slots_of) " }, " (number == "" ? 0 : number) " }"
    }
    return count == 0 ? "" : ", .condition_count = " count ", .conditions = (const rule_condition[]){ " all " }"
}

# PATTERN [where name = PATTERN, ..] -> RESULT, .. [if CONDITION, ..] [why 'text']
function rule(text,    i, arrow, cond, end, fields, count, all, name, clauses, refusal) {
    for (i in slot)
        delete slot[i]
    for (i in label_outputs)
        delete label_outputs[i]
    is_reported = match(text, / why '[^']*'$/)
    refusal = is_reported ? substr(text, RSTART + 6, RLENGTH - 7) : ""
    if (is_reported)
        text = substr(text, 1, RSTART - 1)
    lex(expand(text default_conditions(text)))
    slots = highest = 0
    slot_of("out", "v", 1)
    for (i = 1; i <= token_count; i++) {
        if (token[i] == "->")
            arrow = i
        if (token[i] == "if" && arrow && !cond)
            cond = i
    }
    if (!arrow)
        return fail("a rule has a pattern, '->' and a result")
    end = token_count
    root = ""
    nesting = 0
    fields = ".pattern = { " pattern() " }"
    nesting = 1
    if (token[at] == "where") {
        for (count = 0; count == 0 || token[at] == ","; count++) {
            name = token[++at]
            clauses = clauses (count > 0 ? ", " : "") "{ .kind = RULE_EITHER, .count = 1, .slot = " slot_of(name, "v", 0)
            at++
            take("=")
            clauses = clauses ", .args = (const rule_term[]){ { " pattern() " } } }"
        }
        fields = fields ", .clause_count = " count ", .clauses = (const rule_term[]){ " clauses " }"
    }
    take("->")
    i = at
    if (cond) {
        at = cond + 1
        fields = fields conditions()
        token_count = cond - 1
        token[cond] = ""
    }
    at = i
    if (token[at] == "refuse") {
        fields = fields ", .refusal = \"" substr(token[at + 1], 2, length(token[at + 1]) - 2) "\""
        at += 2
    } else {
        for (count = 0; count == 0 || token[at] == ","; count++) {
            if (count > 0)
                at++
            all = all (count > 0 ? ", " : "") "{ " result() " }"
        }
        fields = fields ", .result_count = " count ", .results = (const rule_term[]){ " all " }"
    }
    if (at <= token_count)
        fail("'" token[at] "' is left over")
    if (refusal != "")
        fields = fields ", .near_miss = \"" refusal "\""
    fields = fields ", .slot_count = " slots
    rules[set] = rules[set] "    { /* " place_of_line " */ " fields (highest ? ", .opset = " highest : "") " },\n"
    rule_count[set]++
}

# The conditions of all rules of the pass, after those of the rule.
function default_conditions(text) {
    return pass_conditions[set] == "" ? "" : (text ~ / if / ? ", " : " if ") pass_conditions[set]
}

# The rule may begin at a node of that operator.
function note_anchor(name) {
    if (root == "")
        root = name
    sub(/^.*\./, "", name)
    if (!((set, name) in anchors)) {
        anchor_names[set] = anchor_names[set] " " name
        anchors[set, name] = rule_count[set] + 0
        anchor_count[set, name] = 1
    } else if ((", " anchors[set, name] ",") !~ (", " (rule_count[set] + 0) ",")) {
        anchors[set, name] = anchors[set, name] ", " (rule_count[set] + 0)
        anchor_count[set, name]++
    }
}

# A whole statement: a definition, the beginning of a pass, or a rule.
function statement(text, file, line,    words) {
    gsub(/[ \t]+/, " ", text)
    sub(/ $/, "", text)
    if (text == "")
        return
    place = file ":" line
    place_of_line = file ":" line
    sub(/^.*\//, "", place_of_line)
    if (text ~ /^define /) {
        define(text)
    } else if (text ~ /^(pass|decompose) [a-z_]+( if .*)?$/) {
        split(text, words, " ")
        set = words[2]
        if (set in decomposes)
            fail("pass " set " begins twice")
        decomposes[set] = words[1] == "decompose"
        sub(/^[a-z]+ [a-z_]+( if )?/, "", text)
        pass_conditions[set] = text
        sets[++set_count] = set
    } else if (set == "") {
        fail("a rule belongs to a pass: 'pass NAME' comes first")
    } else {
        rule(text)
    }
}

function write_set(name,    list, n, i, k, swap, letters) {
    print "static const rewrite_rule rules_" name "[] = {\n" rules[name] "};\n"
    n = split(anchor_names[name], list, " ")
    for (i = 2; i <= n; i++) # sorted, for the search
        for (k = i; k > 1 && list[k - 1] > list[k]; k--) {
            swap = list[k]
            list[k] = list[k - 1]
            list[k - 1] = swap
        }
    print "static const rule_anchor anchors_" name "[] = {"
    for (i = 1; i <= n; i++) {
        letters = letters " | RULE_LETTER('" substr(list[i], 1, 1) "')"
        print "    { \"" list[i] "\", " anchor_count[name, list[i]] ", (const uint16_t[]){ " anchors[name, list[i]] " } },"
    }
    print "};\n"
    print "const rule_set rule_set_" name " = { rules_" name ", anchors_" name ", " n ", 0u" letters ", " \
        (decomposes[name] ? "true" : "false") " };\n"
    if (decomposes[name]) # the pass has its own file, which calls rules_apply()
        return
    print "static inlay_status match_" name "(struct rewrite *rewrite, graph_node *node)"
    print "{\n    return rules_apply(&rule_set_" name ", rewrite, node);\n}\n"
    print "inlay_status pass_" name "(pass_ctx *ctx, bool *out_changed)"
    print "{\n    return rewrite_each_graph(ctx, match_" name ", out_changed);\n}\n"
}

BEGIN {
    split("float double float16 bfloat16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool", words, " ")
    for (i in words)
        dtypes[words[i]] = 1
}

FNR == 1 {
    if (text != "")
        statement(text, last_file, start)
    text = ""
    last_file = FILENAME
}

FILENAME ~ /\.c$/ {
    sub(/\\$/, "")
    if ($0 ~ /^#define [A-Z_]+ /) {
        macro = $2
        macro_text[macro] = $0
        sub(/^#define [A-Z_]+ +/, "", macro_text[macro])
    } else if (macro != "" && $0 ~ /^ /) {
        macro_text[macro] = macro_text[macro] $0
    } else {
        macro = ""
    }
    if ($0 ~ /^    \{ "[A-Za-z0-9]+", [0-9]+,/) {
        row_text[++row_count] = $0
        in_row = 1
    } else if (in_row) {
        row_text[row_count] = row_text[row_count] $0
    }
    if ($0 ~ /\},$/)
        in_row = 0
    if ($0 ~ /^const op_table op_/) {
        split($0, words, "\"")
        for (i = 1; i <= row_count; i++)
            read_row_text(words[2], row_text[i])
        row_count = 0
    }
    next
}

FILENAME ~ /\.def$/ {
    if ($0 ~ /^CONDITION\(/) {
        split($0, words, "\"")
        gsub(/^CONDITION\(|, $/, "", words[1])
        letters_of[words[1]] = words[2]
        reason[words[1]] = words[4]
    }
    next
}

{
    sub(/(^|[ \t])#.*/, "")
    if ($0 ~ /^[ \t]/) {
        text = text " " $0
    } else {
        statement(text, FILENAME, start)
        text = $0
        start = FNR
    }
}

END {
    if (text != "")
        statement(text, last_file, start)
    if (failed)
        exit 1
    print "/* Generated by compile.awk. */\n#include \"passes/rules.h\"\n"
    for (i = 1; i <= set_count; i++)
        write_set(sets[i])
}
