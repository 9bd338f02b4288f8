"""Renders pages of Markdown as a static site: navigation, highlighted code, a search index, light and dark.

    render.py PAGES OUT [OUTPUTS]

PAGES holds the pages; contents.py lists them. OUTPUTS holds what the commands of the pages printed when the test
docs_pages ran them (PAGE.LINE), and the reports that they wrote (*.html). Commands of other pages show what the page
expects. A broken link, a page that contents.py does not list, and a command whose output is missing are errors."""
import html
import json
import pathlib
import posixpath
import re
import shutil
import sys

import markdown_it
import pygments.lexers
import pygments.token

import contents

HERE = pathlib.Path(__file__).resolve().parent
LONGEST_OUTPUT = 40  # lines; of longer outputs, the first ones are shown

# ------------------------------------------------------------------ code

KINDS = [  # Pygments' tokens, and the classes of site.css
    (pygments.token.Comment.Preproc, "key"), (pygments.token.Comment, "comment"), (pygments.token.Keyword, "key"),
    (pygments.token.Operator.Word, "key"), (pygments.token.String, "string"), (pygments.token.Number, "number"),
    (pygments.token.Name.Function, "name"), (pygments.token.Name.Class, "name"), (pygments.token.Name.Decorator, "name"),
    (pygments.token.Name.Builtin, "name"), (pygments.token.Name.Tag, "key"), (pygments.token.Name.Variable, "number"),
]
LANGUAGE_OF_SUFFIX = {"py": "python", "c": "c", "cpp": "cpp", "hpp": "cpp", "js": "javascript", "mjs": "javascript",
                      "yaml": "yaml", "json": "json", "txt": "text", "sh": "bash", "java": "java"}
GUESSES = [  # the first that occurs in a block without a language
    ("python", r"^(import \w+|from \w+ import|@inlay|def |with \w+\.|>>> )|^\w+ = inlay\."),
    ("javascript", r"^(const|let|import .* from) .*|require\("),
    ("cpp", r"#include <inlay/inlay\.hpp>|inlay::|std::"),
    ("c", r"^#include|^(static |const )?[a-z_]+ \*?\w+\(.*|inlay_\w+\(|^#define|;$"),
    ("bash", r"^(inlay|cmake|npm|pip|apt|sh|cd|export|curl|docker|ctest|tests/|samples/|[A-Z_]+=\S+ )"),
]


def language_of(code):
    for language, pattern in GUESSES:
        if re.search(pattern, code, re.M):
            return language
    return "text"


def highlighted(code, language):
    """The lines of a piece of code, as HTML."""
    lines = [""]
    lexer = pygments.lexers.get_lexer_by_name(language or "text", stripnl=False, ensurenl=False)
    for token, text in lexer.get_tokens(code):
        kind = next((name for parent, name in KINDS if token in parent), None)
        for number, piece in enumerate(text.split("\n")):
            if number:
                lines.append("")
            if piece:
                piece = html.escape(piece, quote=False)
                lines[-1] += f'<span class="{kind}">{piece}</span>' if kind else piece
    return lines


def preformatted(lines, kind=""):
    """Lines of HTML as a block; each is an element, so that a line that has to be broken is indented."""
    marked = "".join(f'<span class="line{" prompt" if line.startswith(PROMPT) else ""}">{line.removeprefix(PROMPT)}\n</span>'
                     for line in lines)
    return f'<pre class="{kind}" tabindex="0"><code>{marked}</code></pre>'


PROMPT = "\0"  # begins a line of HTML that has a prompt


def block(lines, kind=""):
    return (f'<div class="code {kind}"><button class="copy" type="button">Copy</button>'
            f"{preformatted(lines)}</div>")


def command_lines(command):
    """A command and the text that it writes into a file, which is highlighted as the file's name says."""
    written = re.match(r"cat >>? *\S*?\.(\w+) <<'END'$", command[0])
    if written and written.group(1) in LANGUAGE_OF_SUFFIX:
        body = highlighted("\n".join(command[1:-1]), LANGUAGE_OF_SUFFIX[written.group(1)])
        return [PROMPT + highlighted(command[0], "bash")[0], *body, command[-1]]
    lines = highlighted("\n".join(command), "bash")
    return [PROMPT + lines[0], *lines[1:]]


def session(text, name, first_line, outputs):
    """A session: commands as `$ command` and `> more`, each with its output if the page shows one."""
    commands, at = [], first_line
    for line in text.rstrip("\n").split("\n"):
        if line.startswith("$ "):
            commands.append((at, [line[2:]], []))
        elif line.startswith(">") and not commands[-1][2]:
            commands[-1][1].append(line[2:])
        else:
            commands[-1][2].append(line)
        at += 1
    parts, pending = [], []
    for at, command, shown in commands:
        pending += command_lines(command)
        while shown and not shown[-1]:
            shown.pop()
        shown = output_lines(shown, outputs, f"{name}.{at}") if shown else []
        if any(shown):
            parts += [block(pending, "commands"), preformatted(shown, "output")]
            pending = []
    if pending:
        parts.append(block(pending, "commands"))
    return '<div class="session">' + "".join(parts) + "</div>"


def output_lines(shown, outputs, name):
    if outputs is not None and any(outputs.glob(name.rpartition(".")[0] + ".*")):
        recorded = outputs / name
        if not recorded.is_file():
            raise SystemExit(f"{name}: the output of this command was not recorded")
        shown = recorded.read_text(errors="replace").rstrip("\n").split("\n")
        if len(shown) > LONGEST_OUTPUT:
            shown = shown[:LONGEST_OUTPUT - 2] + [f"... ({len(shown) - LONGEST_OUTPUT + 2} more lines)"]
    return [html.escape(line, quote=False) for line in shown]


# ------------------------------------------------------------------ pages


def inline_code(tokens, index, *_):
    """A name in the text; a short one is never broken, so that no flag is parted from its dashes."""
    text = tokens[index].content
    short = ' class="short"' if len(text) <= 24 else ""
    return f"<code{short}>{html.escape(text, quote=False)}</code>"


def slug(text, taken):
    """The anchor of a heading, as GitHub makes it."""
    text = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") or "section"
    number = taken.get(text, 0)
    taken[text] = number + 1
    return f"{text}-{number}" if number else text


def label_cells(tokens, start):
    """Gives each cell of a table the title of its column, and marks a table that a narrow screen shows row by row."""
    titles, longest, widths, column = [], [], [], 0
    for index in range(start + 1, len(tokens)):
        token = tokens[index]
        if token.type == "table_close":
            break
        if token.type == "tr_open":
            column = 0
        elif token.type in ("th_open", "td_open"):
            for child in tokens[index + 1].children:  # a number is not parted at the sign of its exponent
                child.content = re.sub(r"(?<=\de)-(?=\d)", "\u2011", child.content) if child.type == "text" else child.content
            text = "".join(child.content for child in tokens[index + 1].children)
            if token.type == "th_open":
                titles.append(text)
                longest.append(0)
                widths.append(0)
            elif titles[column]:
                token.attrSet("data-label", titles[column])
            words = [word for child in tokens[index + 1].children if child.type == "text" for word in child.content.split()]
            longest[column] = max(longest[column], len(text))
            widths[column] = max([widths[column], min(len(text), 14), *map(len, words)])  # code may be parted anywhere
            column += 1
    classes = ["many"] if len(longest) > 8 else []
    if longest[0] > 16 or sum(widths) > 40:
        classes.append("rows")
    tokens[start].attrSet("class", " ".join(classes))


class Page:
    """One page: its HTML, its headings, its links and its text for the search."""

    def __init__(self, name, source, outputs, sources):
        self.name, self.outputs, self.sources = name, outputs, sources
        self.headings, self.links, self.sections, taken = [], [], [], {}
        parser = markdown_it.MarkdownIt("commonmark").enable("table")
        tokens = parser.parse(source)
        for index, token in enumerate(tokens):
            if token.type == "table_open":
                label_cells(tokens, index)
            if token.type == "heading_open":
                text = "".join(child.content for child in tokens[index + 1].children if child.type in ("text", "code_inline"))
                anchor = slug(text, taken)
                token.attrSet("id", anchor)
                self.headings.append((int(token.tag[1]), anchor, text))
                self.sections.append([anchor, text, ""])
            elif token.type == "inline" and self.sections and not tokens[index - 1].type == "heading_open":
                self.sections[-1][2] += " " + re.sub(r"[`*\\]|\]\([^)]*\)", "", token.content)
            if token.type == "inline":
                self.change_links(token.children)
        parser.renderer.rules.update({
            "code_block": self.code, "fence": self.code, "code_inline": inline_code, "table_open": lambda tokens, index, *_:
            f'<div class="table"><table class="{tokens[index].attrGet("class") or ""}">',
            "table_close": lambda *_: "</table></div>", "html_block": self.report, "heading_close": self.heading_close})
        self.body = parser.renderer.render(tokens, parser.options, {})
        self.title = next((text for level, _, text in self.headings if level == 1), name)

    def change_links(self, children):
        """Makes links between Markdown files links between pages; those to other files of the source tree become text."""
        opened = []
        for child in children:
            if child.type == "link_open":
                target, _, anchor = str(child.attrs["href"]).partition("#")
                if re.match(r"\w+:", target):
                    opened.append(True)
                    continue
                page = self.page_of(target) if target else self.name
                opened.append(page is not None)
                if page is None:
                    child.hidden, child.tag, child.attrs = True, "", {}
                    child.type = "text"
                else:
                    child.attrs["href"] = (f"{page}.html" if target else "") + (f"#{anchor}" if anchor else "")
                    self.links.append((page, anchor))
            elif child.type == "link_close" and not opened.pop():
                child.type = "text"

    def page_of(self, target):
        """The page of a link's file in the source tree; generated pages link to pages by name."""
        written = (HERE / "pages" / f"{self.name}.md").is_file() or self.name in contents.READMES
        if not written and target.endswith(".md") and target[:-3] in self.sources.values():
            return target[:-3]
        origin = next((path for path, page in self.sources.items() if page == self.name), "")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
        if path in self.sources or path in contents.GENERATED:
            return self.sources.get(path) or contents.GENERATED[path]
        if origin.startswith("sdk/docs/pages"):
            raise SystemExit(f"{self.name}: there is no page {target}")
        return None

    def code(self, tokens, index, *_):
        token = tokens[index]
        language = token.info.split()[0] if token.info else ""
        if not language and token.content.startswith("$ "):
            return session(token.content, self.name + ".md", token.map[0] + 1, self.outputs)
        text = token.content.rstrip("\n")
        return block(highlighted(text, {"sh": "bash"}.get(language, language) or language_of(text)))

    def report(self, tokens, index, *_):
        """A comment that names a report of inlay: its pictures in light and dark, which open the report."""
        found = re.fullmatch(r"<!-- report (\w+\.html): (.+) -->\s*", tokens[index].content)
        if not found:
            return tokens[index].content
        file, text = found.groups()
        name = pathlib.Path(file).stem
        if self.outputs is None:
            return f"<p><em>{html.escape(text)}</em></p>"
        if not (self.outputs / file).is_file():
            raise SystemExit(f"{self.name}: no command has written {file}")
        pictures = "".join(f'<img class="{mode}" src="reports/{name}-{mode}.png" alt="{html.escape(text)}" '
                           'width="1200" height="760" loading="lazy">' for mode in ("light", "dark"))
        return (f'<p><a class="report" href="reports/{file}">{pictures}<span>{html.escape(text)}: open the page</span></a></p>\n')

    def heading_close(self, tokens, index, *_):
        opened = tokens[index - 2]
        if opened.tag == "h1":
            return "</h1>\n"
        anchor = opened.attrs["id"]
        return f' <a class="anchor" href="#{anchor}" aria-label="Link to this section">#</a></{opened.tag}>\n'

    def check_links(self, pages):
        wrong = []
        for page, anchor in self.links:
            if page not in pages:
                wrong.append(f"{self.name}: there is no page {page}")
            elif anchor and anchor not in [name for _, name, _ in pages[page].headings]:
                wrong.append(f"{self.name}: {page} has no section {anchor}")
        return wrong


def navigation(current, pages):
    out = []
    for group, names in contents.GROUPS:
        out.append(f"<h2>{group}</h2><ul>")
        for name in names:
            page = pages[name]
            here = ' aria-current="page"' if name == current else ""
            out.append(f'<li><a href="{name}.html"{here}>{html.escape(contents.SHORT.get(name, page.title))}</a>')
            parts = [(anchor, text) for level, anchor, text in page.headings if level == 2]
            if name == current and 1 < len(parts) <= 30:
                out.append("<ul>" + "".join(f'<li><a href="#{anchor}">{html.escape(text)}</a></li>' for anchor, text in parts)
                           + "</ul>")
            out.append("</li>")
        out.append("</ul>")
    return "".join(out)


def neighbours(current, pages):
    """Links to the pages before and after one."""
    order = [name for _, names in contents.GROUPS for name in names]
    if current not in order:
        return ""
    at, out = order.index(current), []
    for step, kind, text in ((-1, "prev", "Previous"), (1, "next", "Next")):
        if 0 <= at + step < len(order):
            name = order[at + step]
            out.append(f'<a rel="{kind}" href="{name}.html"><small>{text}</small> {html.escape(pages[name].title)}</a>')
    return f'<nav class="neighbours" aria-label="Neighbouring pages">{"".join(out)}</nav>'


def main():
    source, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    outputs = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
    listed = ["index"] + [name for _, names in contents.GROUPS for name in names]
    unlisted = {path.stem for path in source.glob("*.md")} ^ set(listed)
    if unlisted:
        raise SystemExit(f"contents.py and the pages differ: {' '.join(sorted(unlisted))}")
    sources = {contents.READMES.get(name, f"sdk/docs/pages/{name}.md"): name for name in listed}
    pages = {name: Page(name, (source / f"{name}.md").read_text(), outputs, sources) for name in listed}
    wrong = [message for page in pages.values() for message in page.check_links(pages)]
    if wrong:
        raise SystemExit("\n".join(wrong))
    template = (HERE / "static/page.html").read_text()
    out.mkdir(parents=True, exist_ok=True)
    for name, page in pages.items():
        filled = {"title": html.escape(page.title if name == "index" else f"{page.title} - inlay"), "body": page.body,
                  "navigation": navigation(name, pages), "neighbours": neighbours(name, pages)}
        (out / f"{name}.html").write_text(re.sub(r"\{\{(\w+)\}\}", lambda match: filled[match.group(1)], template))
    guides = {name for group, names in contents.GROUPS[:4] for name in names}
    index = [[name, pages[name].title, anchor, title, text.strip()[:1500], int(name in guides)]
             for name in listed for anchor, title, text in pages[name].sections]
    (out / "search-index.js").write_text("searchIndex = " + json.dumps(index, ensure_ascii=False, separators=(",", ":")) + ";\n")
    for file in ("site.css", "site.js"):
        shutil.copy(HERE / "static" / file, out)
    if outputs is not None:
        (out / "reports").mkdir(exist_ok=True)
        for report in outputs.glob("*.html"):
            shutil.copy(report, out / "reports")


main()
