"""Reads the calls between the files of each library, which includes do not show: a header of a low folder may declare a
function that a high folder defines.

    calls.py SOURCE_DIR [LIST]      LIST: instead of the file `calls` next to this script

The list has one line per library, `folder: circles ...; elsewhere; upward`:
    circles     the sizes of its circles of .c files that call each other, largest first
    elsewhere   the number of functions that a header declares although another folder defines them
    upward      the number of functions of a higher folder that a lower folder calls. The lists of includes (edges,
                provider_edges) have the order: a folder calls only itself and folders above it in the list.
A number above that of the list is a fault; so is one below it, so that the list is lowered. A library that is not
listed has none of the three. Calls through function pointers are not calls by name. Files libc.c, which define
functions of the C library for modules without one, are left out."""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'')
DEFINITION = re.compile(r"^(?!typedef|extern|return|else|#)([A-Za-z_][\w *]*?[ *])(\w+)\([^;{]*?\)\s*\{", re.M)
DECLARATION = re.compile(r"^(?!static|typedef|return|#)[A-Za-z_][\w *]*?[ *](\w+)\([^;{}]*\)[^;{}()]*;", re.M)
CALL = re.compile(r"(?<![\w.>])([A-Za-z_]\w*)\s*\(")
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.M)
STATIC_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(?:\\\n)?[ \t]*static\b", re.M)


def circles(graph):
    """The sets of vertices that reach each other (Tarjan's algorithm, without recursion), largest first."""
    number, low, stack, open_set, found = {}, {}, [], set(), []
    for root in graph:
        if root in number:
            continue
        work = [(root, iter(sorted(graph[root])))]
        number[root] = low[root] = len(number)
        stack.append(root)
        open_set.add(root)
        while work:
            vertex, targets = work[-1]
            for target in targets:
                if target not in number:
                    number[target] = low[target] = len(number)
                    stack.append(target)
                    open_set.add(target)
                    work.append((target, iter(sorted(graph[target]))))
                    break
                if target in open_set:
                    low[vertex] = min(low[vertex], number[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[vertex])
                if low[vertex] == number[vertex]:
                    part = stack[stack.index(vertex):]
                    del stack[stack.index(vertex):]
                    open_set.difference_update(part)
                    if len(part) > 1:
                        found.append(sorted(part))
    return sorted(found, key=len, reverse=True)


def libraries(source):
    """The folders of libraries and plug-ins, and the list of includes that orders their sub-folders."""
    for name in ("runtime", "formats", "insight", "tools", "shared", "texts", "probe", "serve"):
        yield f"host/{name}", "edges", ("" if name in ("runtime", "insight", "tools") else name + "/")
    for path in sorted((source / "providers").iterdir()):
        if path.is_dir():
            yield f"providers/{path.name}", "provider_edges", path.name + "/"
    yield "sdk/kit", None, ""
    yield "sdk/bindings/onnxruntime", None, ""


def listed_folders(name):
    """The folders of a list of includes, from the lowest on."""
    if name is None:
        return []
    return [line.split(":")[0] for line in (HERE / name).read_text().splitlines() if line and line[0] != "#"]


class Library:
    def __init__(self, source, folder, order, prefix, macros, static_macros):
        self.folder = folder
        self.top = source / folder
        self.order = listed_folders(order)
        self.prefix = prefix
        self.text = {}
        for path in self.top.rglob("*"):
            if path.suffix in (".c", ".h", ".inc") and path.is_file() and path.name != "libc.c":
                self.text[path] = STRING.sub('""', COMMENT.sub(" ", path.read_text(errors="replace")))
        self.home, self.own = {}, {}
        for path, text in self.text.items():
            if path.suffix != ".c":
                continue
            self.own[path] = set()
            for kind, name in DEFINITION.findall(text):
                if name in macros:
                    continue
                if kind.startswith("static") or static_macros.intersection(kind.split()):
                    self.own[path].add(name)
                else:
                    self.home[name] = path
        self.calls = {path: {} for path in self.own}
        for path in self.own:
            for name in set(CALL.findall(self.text[path])) - self.own[path]:
                if self.home.get(name, path) != path:
                    self.calls[path].setdefault(self.home[name], []).append(name)

    def room(self, path):
        """The longest listed folder that contains the file; its number in the list."""
        name = self.prefix + str(path.relative_to(self.top).parent)
        name = name.removesuffix("/.")
        while name and name not in self.order:
            name = name.rpartition("/")[0]
        return self.order.index(name) if name else None

    def upward(self):
        for path, targets in self.calls.items():
            for target, names in targets.items():
                low, high = self.room(path), self.room(target)
                if low is not None and high is not None and low < high:
                    for name in sorted(names):
                        yield f"{path.relative_to(self.top)} of {self.order[low]} calls {name}() of {self.order[high]}"

    def declared_elsewhere(self):
        for path, text in self.text.items():
            if path.suffix == ".h":
                for name in sorted(set(DECLARATION.findall(text))):
                    if name in self.home and self.home[name].parent != path.parent:
                        yield f"{path.relative_to(self.top)} declares {name}() of {self.home[name].relative_to(self.top)}"


def read_list(path):
    allowed = {}
    for line in path.read_text().splitlines():
        if line and line[0] != "#":
            folder, _, numbers = line.partition(":")
            allowed[folder] = [[int(number) for number in part.split()] for part in numbers.split(";")]
    return allowed


def read_macros(source):
    """All names of macros, and those of macros for functions that are static."""
    macros, static_macros = set(), set()
    for folder in ("host", "providers", "sdk"):
        for path in (source / folder).rglob("*"):
            if path.suffix in (".c", ".h", ".inc") and path.is_file():
                text = COMMENT.sub(" ", path.read_text(errors="replace"))
                macros.update(MACRO.findall(text))
                static_macros.update(STATIC_MACRO.findall(text))
    return macros, static_macros


def main():
    source = pathlib.Path(sys.argv[1])
    list_path = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else HERE / "calls"
    allowed, faults, macros = read_list(list_path), [], read_macros(source)
    for folder, order, prefix in libraries(source):
        library = Library(source, folder, order, prefix, *macros)
        found = circles(library.calls)
        lines = [" ".join(str(path.relative_to(library.top)) for path in part) for part in found]
        elsewhere, upward = list(library.declared_elsewhere()), list(library.upward())
        limits = allowed.pop(folder, [[], [0], [0]])
        for what, number, limit, details in (
                ("circles of files that call each other", [len(part) for part in found], limits[0], lines),
                ("functions declared in a header of another folder", [len(elsewhere)], limits[1], elsewhere),
                ("calls to a higher folder (move the function, or call it through a table)", [len(upward)], limits[2],
                 upward)):
            if number != limit:
                faults.append(f"{folder}: {what}: {number}, the list says {limit}")
                faults += ["    " + line for line in details]
    faults += [f"{list_path.name} lists {folder}, which is not a library" for folder in allowed]
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


sys.exit(main())
