#!/usr/bin/python3
"""Templates render as python3-jinja2 renders them with the settings of the library transformers: the files of
templates/, which use the constructions of published chat templates in words of our own, with several conversations; and
random expressions of filters, tests, methods and operators.
    templates.py TEMPLATE_TEXTS [FILE...]

FILE: more templates, for instance those of https://github.com/chujiezheng/chat_templates.
Exit code 77: python3-jinja2 is not installed."""
import copy
import glob
import itertools
import json
import os
import random
import subprocess
import sys
import time
import warnings

try:
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

EXPRESSIONS = 4000
HERE = os.path.dirname(os.path.abspath(__file__))
TOOL = {"type": "function", "function": {
    "name": "weather", "description": "Today's weather in \"a place\"", "parameters": {
        "type": "object", "required": ["place"], "properties": {
            "place": {"type": "string", "description": "A town"}, "unit": {"type": "string", "enum": ["C", "F"]},
            "days": {"type": "array", "items": {"type": "integer"}},
            "at": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": ["number", "null"]}}}}}}}
CALL = {"id": "abcdefghi", "type": "function",
        "function": {"name": "weather", "arguments": {"place": "\u00c5s <&>", "days": [1, 2], "ok": True, "none": None}}}
HELLO = [{"role": "user", "content": " Hello \u00e9\n"}]
TURNS = HELLO + [{"role": "assistant", "content": "<think>\nWell.\n</think>\n\nHi."}, {"role": "user", "content": "And?"}]
SYSTEM = [{"role": "system", "content": "Be kind.  "}]
CALLED = HELLO + [{"role": "assistant", "content": None, "tool_calls": [CALL]},
                  {"role": "tool", "content": "{\"t\": 7}", "tool_call_id": "abcdefghi"}]
TWICE = HELLO + [{"role": "assistant", "content": "Wait.", "tool_calls": [CALL, {**CALL, "id": "123456789"}]},
                 {"role": "tool", "content": "7", "tool_call_id": "abcdefghi"},
                 {"role": "tool", "content": "8", "tool_call_id": "123456789"}, {"role": "user", "content": "So?"}]
PARTS = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": " What? "}, {"type": "image"}]}]
DOCUMENTS = [{"title": "b", "text": "two", "year": 1999}, {"title": "a"}]
CONVERSATIONS = [
    {"messages": HELLO}, {"messages": SYSTEM + TURNS, "add_generation_prompt": True}, {"messages": TURNS + HELLO},
    {"messages": CALLED, "tools": [TOOL]}, {"messages": SYSTEM + TWICE, "tools": [TOOL, TOOL]},
    {"messages": SYSTEM + CALLED + [{"role": "assistant", "content": "7.", "reasoning_content": "\nSeven\n"}],
     "tools": [TOOL], "tools_in_user_message": False, "date_string": "7 Jul 2026"},
    {"messages": PARTS, "add_vision_id": True}, {"messages": SYSTEM + PARTS, "add_generation_prompt": True},
    {"messages": HELLO, "documents": DOCUMENTS, "enable_thinking": False, "add_generation_prompt": True},
    {"messages": HELLO, "tools": [{"type": "function", "function": {"name": "now", "description": "",
                                                                    "parameters": {}}}]},
    {"messages": [{"role": "judge", "content": "No."}]},
    {"messages": HELLO + [{"role": "assistant", "content": None}], "add_generation_prompt": True},
    {"messages": SYSTEM + HELLO + [{"role": "assistant", "content": "<b>&'\""}, {"role": "user", "content": "x"}],
     "tools": None},
    {"messages": HELLO + HELLO},
]

# Random expressions. Tuples are printed as lists by inlay, and only letters of ASCII change their case: no value here has
# others, or is a tuple.
VALUES = ["'Abc d'", "'<b>&'", "' x\\ny '", "''", "'\u20ac\u2603'", "'12'", "'a,b,c'", "0", "3", "-7", "2.5", "true", "false",
          "none", "missing", "[]", "[3, 1, 2]", "['b', 'A', 'c', 'a']", "[[1, 2], [3]]", "{}", "{'b': 1, 'a': [2]}", "word",
          "people", "number", "real"]
FILTERS = ["abs", "capitalize", "count", "default('d')", "default('d', true)", "escape", "first", "float", "float(1)", "indent",
           "indent(2, true)", "int", "int(5)", "join", "join('-')", "last", "length", "list", "lower", "map('upper') | list",
           "map(attribute='name') | list", "map(attribute='age', default=0) | list", "max", "min", "reject('none') | list",
           "select | list", "select('string') | list", "selectattr('age') | list", "rejectattr('name', 'equalto', 'Bo') | list",
           "replace('a', 'X')", "replace('', '-', 2)", "reverse | list", "round", "round(1, 'floor')", "safe", "sort",
           "sort(reverse=true)", "sort(attribute='name') | map(attribute='name') | list", "string", "sum", "title", "tojson",
           "tojson(indent=2)", "trim", "trim('a')", "unique | list", "upper", "attr('name')"]
TESTS = ["boolean", "defined", "divisibleby(3)", "eq 3", "even", "false", "float", "ge 2", "in [3, 'A']", "integer", "iterable",
         "lt 3", "mapping", "ne 'x'", "none", "number", "odd", "sequence", "string", "true", "undefined"]
METHODS = ["capitalize()", "count('a')", "endswith('d')", "find('c')", "get('b')", "get('z', 5)", "isdigit()", "items() | map('last') | list",
           "join(['x', 'y'])", "keys() | list", "lower()", "lstrip()", "lstrip('A')", "replace('b', 'BB')", "rsplit(',', 1)",
           "rstrip('d c')", "split()", "split(',')", "split('b', 1)", "splitlines()", "startswith('A')", "strip()", "title()",
           "upper()", "values() | list", "name", "b"]
INDEXES = ["[0]", "[-1]", "[1:]", "[:-1]", "[::2]", "[::-1]", "['b']", "[9]", "[1:2]", "[-2:]"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", ">=", "in", "not in", "and", "or"]
VARIABLES = {"word": "a'b word", "number": 12, "real": 0.1,
             "people": [{"name": "Bo", "age": 3}, {"name": "al"}, {"name": "Cy", "age": 0}]}


def expression(depth=2):
    value = random.choice(VALUES)
    for _ in range(random.randrange(depth + 1)):
        value = random.choice([
            lambda: f"{value} | {random.choice(FILTERS)}", lambda: f"({value} | {random.choice(FILTERS)})",
            lambda: f"({value}).{random.choice(METHODS)}", lambda: f"({value}){random.choice(INDEXES)}",
            lambda: f"({value}) {random.choice(OPERATORS)} ({expression(0)})",
            lambda: f"({value} if {expression(0)} else {expression(0)})",
            lambda: f"({value}) is {random.choice(['', 'not '])}{random.choice(TESTS)}"])()
    return value


class Raised(jinja2.exceptions.TemplateError):
    pass


def raise_exception(message):
    raise Raised(message)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    made.filters["tojson"] = to_json
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = time.strftime
    return made


def answer_of(jinja, template, variables):
    """The text, or the error: of raise_exception() its message, otherwise None."""
    try:
        return {"text": jinja.from_string(template).render(**copy.deepcopy(variables))}  # filters may change lists
    except Raised as error:
        return {"error": str(error)}
    except Exception:  # Python's own, too: the template's mistakes have no common class
        return {"error": None}


def is_wrong(got, want):
    """After an error of Jinja or Python every answer is right: no published template has such a mistake."""
    if "text" in want:
        return got != want
    return want["error"] is not None and want["error"] not in got.get("error", "")


def main():
    random.seed(20261127)
    cases = []
    for path in sorted(glob.glob(os.path.join(HERE, "templates", "*.jinja"))) + sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            template = file.read()
        for i, (given, more) in enumerate(itertools.product(CONVERSATIONS, [{}, {"bos_token": "<s>", "eos_token": "</s>"}])):
            cases.append((f"{os.path.basename(path)} {i}", template, {**given, **more}))
    files = len(cases)
    cases += [("expression", "{{ " + expression() + " }}", VARIABLES) for _ in range(EXPRESSIONS)]
    lines = "".join(json.dumps({"template": template, "variables": given}) + "\n" for _, template, given in cases)
    day = time.strftime("%d")
    program = subprocess.run([sys.argv[1]], input=lines, text=True, encoding="utf-8", stdout=subprocess.PIPE, check=True)
    warnings.simplefilter("ignore", SyntaxWarning)  # of Python, for the code that Jinja makes of expressions
    jinja, wrong, refused, texts = environment(), 0, 0, 0
    for (name, template, given), line in zip(cases, program.stdout.splitlines()):
        got, want = json.loads(line), answer_of(jinja, template, given)
        texts += "text" in want
        if name == "expression" and "text" in want and "not supported" in got.get("error", ""):
            refused += 1
        elif is_wrong(got, want) and day == time.strftime("%d"):
            wrong += 1
            print(f"{name}: {template if name == 'expression' else ''}\n  got  {got}\n  want {want}")
    print(f"{files} renderings of templates and {EXPRESSIONS} expressions, {texts} of them texts: {wrong} differ, "
          f"{refused} expressions are refused")
    return wrong > 0 or texts < (files + EXPRESSIONS) / 2 or refused > EXPRESSIONS / 50


sys.exit(main())
