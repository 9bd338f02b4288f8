"""Finds places for faults in a C source, and creates the changed line."""
import re
from typing import NamedTuple


class Site(NamedTuple):
    line: int  # from 0
    kind: str
    begin: int  # columns of the replaced text
    end: int
    text: str  # the new text


# Each pair: a pattern in the code of a line (group 1 is replaced), and its replacements.
SWAPS = [
    ("comparison", r" (<) ", ["<=", ">="]),
    ("comparison", r" (<=) ", ["<", ">"]),
    ("comparison", r" (>) ", [">=", "<="]),
    ("comparison", r" (>=) ", [">", "<"]),
    ("comparison", r" (==) ", ["!="]),
    ("comparison", r" (!=) ", ["=="]),
    ("logic", r" (&&) ", ["||"]),
    ("logic", r" (\|\|) ", ["&&"]),
    ("logic", r"(!)[\w(]", [""]),
    ("operator", r" (\+) ", ["-"]),
    ("operator", r" (-) ", ["+"]),
    ("operator", r" (\*) ", ["+"]),
    ("operator", r" (/) ", ["*"]),
    ("operator", r" (%) ", ["/"]),
    ("operator", r" (<<) ", [">>"]),
    ("operator", r" (>>) ", ["<<"]),
    ("operator", r" (&) ", ["|"]),
    ("operator", r" (\|) ", ["&"]),
    ("operator", r" (\+=) ", ["-=", "="]),
    ("operator", r" (-=) ", ["+="]),
    ("operator", r" (\*=) ", ["="]),
    ("operator", r" (\|=) ", ["="]),
    ("operator", r" (&=) ", ["="]),
    ("constant", r"\b(true)\b", ["false"]),
    ("constant", r"\b(false)\b", ["true"]),
    ("bound", r"\bfor \([^;]*; \w+ < ()[^;]+;", ["1 + "]),
    ("bound", r"\bfor \([^;]*; \w+ < [^;]+?();", [" - 1"]),
]
SWAPS = [(kind, re.compile(pattern), texts) for kind, pattern, texts in SWAPS]
NUMBER = re.compile(r"(?<![\w.])(\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|0[xX][0-9a-fA-F]+|\d+)([uUlLfF]*)(?![\w.])")
CONDITION = re.compile(r"\b(?:if|while) \((?=.*\)(?: \{)?\s*$)")
# A whole statement on a line: a call, an assignment, a jump. Declarations begin with two words, or a word and stars.
STATEMENT = re.compile(r"^\s*(?:[A-Za-z_*(][^;={]*\([^;]*\)|[*(]*[A-Za-z_][\w.\->\[\]() +*]*[-+*/|&^%<>]*=[^=][^;]*"
                       r"|(?:\+\+|--)?[A-Za-z_][\w.\->\[\]]*(?:\+\+|--)?|break|continue);\s*$")
DECLARATION = re.compile(r"^\s*(?:(?:static|const|struct|union|enum|unsigned|signed|extern|register|typedef|goto|return"
                         r"|else|case|default)\b|[A-Za-z_]\w*\s+\**\s*[A-Za-z_]\w*\s*(?:[=;,\[(]|$))")
# Without these calls a process only leaks memory, which the build with sanitizers detects, but not this one.
RELEASE = re.compile(r"^\s*(?:\(void\))?\w*(?:free|destroy|deinit|unref|release|close)\(")
SIZE = re.compile(r"^\s*(?:static |const )*[A-Za-z_]\w* \**[A-Za-z_]\w*\[[^\]]*\](?:;| = |,)")


def code_of(text):
    """Replaces comments, strings, characters and preprocessor lines by blanks; columns do not change."""
    token = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*',
                       re.S | re.M)
    return token.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def other_number(digits):
    """Returns values near a literal."""
    if digits[:2] in ("0x", "0X"):
        return ["0x%x" % (int(digits, 16) ^ 1), "0x%x" % (int(digits, 16) << 1)]
    if re.fullmatch(r"\d+", digits):
        n = int(digits)
        return [str(n + 1), str(n - 1)] if n > 0 else ["1"]
    value = float(digits)
    return ["1.0"] if value == 0 else ["%r" % (value * 2), "%r" % (value * 1.001)]


def sites(text):
    """Returns every fault that can be planted in a file, in order."""
    found = []
    lines = code_of(text).split("\n")
    depth = 0
    for number, line in enumerate(lines):
        inside = depth > 0
        depth += line.count("{") - line.count("}")
        if not line.strip():
            continue
        for kind, pattern, texts in SWAPS:
            for m in pattern.finditer(line):
                found += [Site(number, kind, m.start(1), m.end(1), t) for t in texts]
        if not SIZE.match(line):
            for m in NUMBER.finditer(line):
                found += [Site(number, "constant", m.start(1), m.end(1), t) for t in other_number(m.group(1))]
        for m in CONDITION.finditer(line):
            found.append(Site(number, "condition", m.end(), m.end(), "0 && "))
        if inside and STATEMENT.match(line) and not DECLARATION.match(line) and not RELEASE.match(line):
            begin = len(line) - len(line.lstrip())
            found.append(Site(number, "dropped line", begin, len(line.rstrip()), ";"))
    return found


def plant(text, site):
    """Returns the text with the fault."""
    lines = text.split("\n")
    line = lines[site.line]
    lines[site.line] = line[:site.begin] + site.text + line[site.end:]
    return "\n".join(lines)
