#!/usr/bin/env python3
"""Resolves names in documents and comments: paths, files, functions, options, verbs and settings.

  names.py ROOT   one line for each name that does not resolve; exit code 1 if there is one

In Markdown, names are words in `backquotes`; in comments of C, words that look like a file (tiles.c) or a function
(plan_build()). A path may start at the root, at the document's folder, or at one of the folders around it."""
import fnmatch
import os
import re
import shutil
import subprocess
import sys

root = sys.argv[1]
here = os.path.dirname(os.path.abspath(__file__))


def tracked():
    """Lists the files of the project, from git, or from the disk in a copy without a repository."""
    list_files = ["git", "-C", root, "ls-files", "-co", "--exclude-standard"]
    git = subprocess.run(list_files, capture_output=True, text=True) if shutil.which("git") else None
    if git is not None and git.returncode == 0:
        names = git.stdout.split("\n")
    else:
        names = [os.path.relpath(os.path.join(d, f), root) for d, _, fs in os.walk(root) for f in fs]
    return [f for f in names if f and not f.startswith("build/") and os.path.isfile(os.path.join(root, f))]


files = tracked()
paths = set(files)
for f in files:
    while "/" in f:
        f = os.path.dirname(f)
        paths.add(f)
basenames = {os.path.basename(p) for p in paths}
text = {}
for f in files:
    with open(os.path.join(root, f), errors="replace") as stream:
        text[f] = stream.read()

COMMENT = re.compile(r"/\*.*?\*/|(?<!:)//[^\n]*", re.S)
C = (".c", ".h", ".inc", ".def", ".hpp", ".cpp")
DOCUMENTS = [f for f in files if f.endswith(".md")]
SOURCES = [f for f in files if not f.endswith(".md") and not f.startswith("sdk/abi/")]

# Every word of every source: a name in a document must be one of them. Comments of C do not count.
words = set()
for f in SOURCES:
    body = COMMENT.sub(" ", text[f]) if f.endswith(C) else text[f]
    words.update(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", body))
    words.update(re.findall(r"--[a-z][a-z0-9-]+", body))
    words.update("--" + name for name in re.findall(r'"([a-z][a-z0-9]*(?:-[a-z0-9]+)+)"', body))
verbs = set(re.findall(r"^VERB\((\w+)", text.get("host/tools/cli/verbs.def", ""), re.M))
verbs = {v.replace("_", "-") for v in verbs}

stems = {os.path.splitext(os.path.basename(f))[0] for f in files}
words |= stems | {"test_" + word for word in words}

# Names of other projects, of systems and of formats.
with open(os.path.join(here, "foreign.txt")) as stream:
    foreign = [line.split("#")[0].strip() for line in stream]
foreign = [line for line in foreign if line]


def is_foreign(name):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in foreign)


def path_exists(name, document):
    """Does the path exist, relative to the document's folder or one around it? * and {a,b} as in a shell."""
    name = name.rstrip("/")
    braces = re.match(r"(.*?)\{([^{}]*)\}(.*)$", name)
    if braces:
        return all(path_exists(braces[1] + part + braces[3], document) for part in braces[2].split(","))
    folder = os.path.dirname(document)
    while True:
        whole = os.path.normpath(os.path.join(folder, name))
        if whole in paths or ("*" in whole and fnmatch.filter(paths, whole)):
            return True
        if not folder:
            break
        folder = os.path.dirname(folder)
    # Roots of include paths.
    for base in ("host", "host/runtime", "host/insight", "host/tools", "providers", "sdk", "sdk/include", "sdk/include/inlay", "tests"):
        whole = os.path.join(base, name)
        if whole in paths or ("*" in whole and fnmatch.filter(paths, whole)):
            return True
    if "/" in name:
        return any(path.endswith("/" + name) for path in paths)
    return bool("*" in name and fnmatch.filter(basenames, name)) or name in basenames


EXTENSION = r"(?:c|h|inc|def|cpp|hpp|py|sh|cjs|md|txt|yaml|comp|glsl|js|ld)"
wrong = []


def report(document, offset, name, kind):
    if not is_foreign(name):
        line = text[document].count("\n", 0, offset) + 1
        wrong.append(f"{document}:{line}: there is no {kind} {name}")


def anchors(document):
    """The anchors of a document's headings: lower case, without punctuation, with hyphens for spaces."""
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", text[document], re.M)}


def check_markdown(document):
    body = re.sub(r"```.*?```", lambda m: re.sub(r"[^\n]", " ", m.group()), text[document], flags=re.S)
    for link in re.finditer(r"\]\(([^)#:]*)(?:#([^)]*))?\)", body):
        target = os.path.normpath(os.path.join(os.path.dirname(document), link[1])) if link[1] else document
        if target not in paths:
            report(document, link.start(), link[1], "file")
        elif link[2] and target in DOCUMENTS and link[2] not in anchors(target):
            report(document, link.start(), f"{link[1]}#{link[2]}", "heading")
    for quoted in re.finditer(r"`([^`\n]+)`", body):
        word, at = quoted[1].strip(), quoted.start()
        if re.fullmatch(rf"[\w./*{{}},-]+\.{EXTENSION}", word) or re.fullmatch(r"[\w.*{},-]+(?:/[\w.*{},-]+)*/", word):
            if not path_exists(word, document):
                report(document, at, word, "file")
            continue
        call = re.fullmatch(r"(\w+)\(\)", word)
        if call:
            if call[1] not in words:
                report(document, at, call[1], "function")
            continue
        verb = re.match(r"inlay ([a-z][a-z-]+)(?: |$)", word)
        if verb and verb[1] not in verbs | {"help"}:
            report(document, at, verb[1], "verb")
        for option in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", word):
            setting = option[2:].replace("-", "_")
            if option not in words and setting not in words and option[2:] not in words:
                report(document, at, option, "option")
        if re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+", word) and word not in words:
            report(document, at, word, "name")


def check_comments(source):
    for comment in COMMENT.finditer(text[source]):
        body = comment.group()
        for name in re.finditer(rf"(?<![\w./*-])[\w-]+(?:/[\w-]+)*\.{EXTENSION}\b(?![\w/(])", body):
            if not path_exists(name.group(), source):
                report(source, comment.start() + name.start(), name.group(), "file")
        for name in re.finditer(r"(?<![\w.:>])([a-z]\w*_\w+)\(\)", body):
            if name[1] not in words:
                report(source, comment.start() + name.start(), name[1], "function")


def check_headings(document):
    """A quoted heading of a named file, as in: see "How plugins are loaded" in plugins.md; or of the same file, as in: see
    "Values"."""
    blocks = [(0, text[document])] if document in DOCUMENTS else [
        (comment.start(), comment.group()) for comment in COMMENT.finditer(text[document])]
    for start, body in blocks:
        for found in re.finditer(r'"([A-Z][^"\n]{3,60})"\s+(?:\*\s+)?in\s+(?:\*\s+)?`?([\w./-]+\.(?:md|h))\b', body):
            named = [f for f in files if ("/" + f).endswith("/" + found[2])]
            if not any(found[1] in text[f].replace(f'"{found[1]}"', "") for f in named):
                report(document, start + found.start(), f'"{found[1]}" in {found[2]}', "heading")
        for found in re.finditer(r'[Ss]ee\s+(?:\*\s+)?"([A-Z][^"\n]{3,60})"(?!\s+(?:\*\s+)?in\b)', body):
            if found[1] not in text[document].replace(f'"{found[1]}"', ""):
                report(document, start + found.start(), f'"{found[1]}" in this file', "heading")


def check_index(index):
    """The index has a link to each page beside it."""
    for page in DOCUMENTS:
        name = os.path.basename(page)
        if os.path.dirname(page) == os.path.dirname(index) and page != index and f"({name}" not in text[index]:
            report(index, 0, name, "row with a link to")


for document in DOCUMENTS + [f for f in SOURCES if f.endswith(C)]:
    check_headings(document)
if "sdk/docs/pages/index.md" in text:
    check_index("sdk/docs/pages/index.md")
for document in DOCUMENTS:
    if not document.startswith("sdk/abi/") and document != "CHANGELOG.md":
        check_markdown(document)
for source in SOURCES:
    if source.endswith(C):
        check_comments(source)
print("\n".join(wrong), end="\n" if wrong else "")
sys.exit(1 if wrong else 0)
