#!/usr/bin/python3
"""Texts by JSON schemas as clients write them (zod, pydantic, the standard's examples), and by random combinations of
them, are valid for python3-jsonschema with its formats.
    schemas.py SCHEMA_TEXTS [TEXTS [TOKENIZER]]

TEXTS: how many of each kind. TOKENIZER: a tokenizer.json, whose masks choose the tokens of the texts. Exit code 77: python3-jsonschema is not installed."""
import decimal
import ipaddress
import json
import random
import re
import subprocess
import sys
import urllib.parse

try:
    import jsonschema
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TEXTS = int(sys.argv[2]) if len(sys.argv) > 2 else 60
SCHEMAS_OF_KIND = 6
LARGEST = 2 ** 53 - 1
EMAIL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"
ISO = (r"^(?:(?:\d\d[2468][048]|\d\d[13579][26]|\d\d0[48]|[02468][048]00|[13579][26]00)-02-29|"
       r"\d{4}-(?:(?:0[13578]|1[02])"
       r"-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|(?:02)-(?:0[1-9]|1\d|2[0-8])))"
       r"T(?:(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?:Z))$")
ANY_UUID = r"^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12})$"
DECIMAL = r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"
DURATION = (r"^P(?:(\d+W)|(?!.*W)(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?"
            r"(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?)$")
HOSTNAME = (r"^(?=.{1,253}\.?$)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
            r"(?:\.[a-zA-Z0-9](?:[-0-9a-zA-Z]{0,61}[0-9a-zA-Z])?)*\.?$")
BASE64 = r"^$|^(?:[0-9a-zA-Z+/]{4})*(?:(?:[0-9a-zA-Z+/]{2}==)|(?:[0-9a-zA-Z+/]{3}=))?$"

choice, number = random.choice, random.randint


def record(properties, **more):
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False,
            **more}


def word():
    return {"type": "string", "maxLength": number(1, 9)}


def bounded(kind):
    low = number(-1000, 1000) if kind == "integer" else number(-4000, 4000) / choice([1, 4, 10, 1000])
    high = low + (number(0, 300) if kind == "integer" else number(1, 900) / choice([1, 10, 100]))
    names = choice([("minimum", "maximum"), ("exclusiveMinimum", "maximum"), ("minimum", "exclusiveMaximum")])
    return {"type": kind, names[0]: low, names[1]: high + 2 * (kind == "integer")}


def tagged(count):
    return [record({"kind": {"type": "string", "const": f"k{i}"}, choice("abc"): simple()}) for i in range(count)]


def simple():
    return choice([word(), bounded("integer"), bounded("number"), {"type": "boolean"}, {"type": "null"},
                   {"enum": ["red", "green", 7, None]}])


def condition():
    return {**record({"kind": {"enum": ["a", "b", "c"]}, "value": {"type": ["string", "integer"]}}),
            "if": {"properties": {"kind": {"const": "a"}}, "required": ["kind"]},
            "then": {"properties": {"value": {"type": "string", "minLength": number(1, 3)}}},
            "else": {"properties": {"value": {"type": "integer", "maximum": number(0, 9)}}}}


def recursive():
    return {"$ref": "#/$defs/node", "$defs": {"node": record({"value": simple(), "next": {"anyOf": [
        {"$ref": "#/$defs/node"}, {"type": "null"}]}})}}


KINDS = {
    "zod string": word, "zod int": lambda: {"type": "integer", "minimum": -LARGEST, "maximum": LARGEST},
    "zod positive": lambda: {"type": "integer", "exclusiveMinimum": 0, "maximum": LARGEST},
    "zod number": lambda: bounded("number"), "zod boolean": lambda: {"type": "boolean"},
    "zod null": lambda: {"type": "null"},
    "zod literal": lambda: {"const": choice(["a", 5, True, 2.5])},
    "zod enum": lambda: {"type": "string", "enum": ["x", "yy", "z\"\\"]},
    "zod email": lambda: {"type": "string", "format": "email", "pattern": EMAIL},
    "zod url": lambda: {"type": "string", "format": "uri"},
    "zod uuid": lambda: {"type": "string", "format": "uuid", "pattern": ANY_UUID},
    "zod datetime": lambda: {"type": "string", "format": "date-time", "pattern": ISO},
    "zod date": lambda: {"type": "string", "format": "date"}, "zod time": lambda: {"type": "string", "format": "time",
                         "pattern": r"^(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?$"},
    "time": lambda: {"type": "string", "format": "time"},
    "zod duration": lambda: {"type": "string", "format": "duration", "pattern": DURATION},
    "zod hostname": lambda: {"type": "string", "format": "hostname", "pattern": HOSTNAME},
    "zod ipv4": lambda: {"type": "string", "format": "ipv4"}, "zod ipv6": lambda: {"type": "string", "format": "ipv6"},
    "zod base64": lambda: {"type": "string", "format": "base64", "contentEncoding": "base64", "pattern": BASE64},
    "zod regex": lambda: {"type": "string", "pattern": "^[A-Z]{2}-\\d+$", "minLength": 5, "maxLength": number(6, 12)},
    "zod array": lambda: {"type": "array", "items": simple(), "minItems": number(0, 2), "maxItems": number(2, 5)},
    "zod tuple": lambda: {"type": "array", "prefixItems": [simple(), simple()]},
    "zod object": lambda: record({"a": simple(), "b": simple(), "c": simple()}),
    "zod optional": lambda: {**record({"a": simple(), "b": simple()}), "required": ["b"]},
    "zod union": lambda: {"anyOf": [simple(), record({"x": simple()}), {"type": "null"}]},
    "zod discriminated": lambda: {"oneOf": tagged(3)},
    "zod intersection": lambda: {"allOf": [{"type": "object", "properties": {"a": simple()}, "required": ["a"]},
                                           {"type": "object", "properties": {"b": simple()}, "required": ["b"]}]},
    "zod record": lambda: {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": simple()},
    "zod record of enum": lambda: {"type": "object", "propertyNames": {"type": "string", "enum": ["p", "q"]},
                                   "additionalProperties": simple()},
    "zod multipleOf": lambda: {"type": choice(["integer", "number"]), "multipleOf": number(2, 40)},
    "pydantic step": lambda: {**bounded("number"), "multipleOf": choice([0.5, 0.25, 0.01])},
    "pydantic decimal": lambda: {"anyOf": [{"type": "number"}, {"type": "string", "pattern": DECIMAL}]},
    "pydantic hostname": lambda: {"type": "string", "format": "hostname"},
    "pydantic regex": lambda: {"type": "string", "format": "regex"},
    "pydantic set of literals": lambda: {"type": "array", "items": {"enum": list("abcdefghij")[:number(2, 10)]},
                                         "uniqueItems": True, "minItems": number(0, 2)},
    "pydantic optional": lambda: {"anyOf": [bounded("number"), {"type": "null"}], "default": None, "title": "T"},
    "pydantic ref": lambda: {"$ref": "#/$defs/a", "description": "d", "$defs": {"a": bounded("integer")}},
    "pydantic all": lambda: {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": record({"v": simple()})}},
    "recursive": recursive, "if": condition,
    "not": lambda: {"type": ["integer", "string", "null"], "not": {"enum": [0, 1, "a", None]}},
    "bounds of both": lambda: {"allOf": [bounded("integer"), {"type": "number", "not": {"const": 3}}]},
    "overlapping oneOf": lambda: {"oneOf": [bounded("integer"), {"type": "integer", "minimum": number(-99, 9)}]},
    "overlapping objects": lambda: {"oneOf": [
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["b"]}]},
    "pattern properties": lambda: {"type": "object", "patternProperties": {"^x_": simple(), "_y$": {"type": "null"}},
                                   "additionalProperties": choice([False, {"type": "boolean"}])},
    "numbers of properties": lambda: {"type": "object", "properties": {name: simple() for name in "abcd"},
                                      "minProperties": number(0, 2), "maxProperties": number(2, 4)},
    "dependent": lambda: {"type": "object", "properties": {name: simple() for name in "abc"},
                          "dependentRequired": {"a": ["b"], "b": ["c"]}},
    "contains": lambda: {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 20},
                         "contains": {"minimum": 5, "maximum": 6}, "minContains": number(1, 2),
                         "maxItems": number(2, 6)},
    "several contains": lambda: {
        "type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "maxItems": number(3, 6),
        "allOf": [{"contains": {"minimum": number(4, 8)}, "maxContains": number(1, 3)},
                  {"contains": {"multipleOf": number(2, 4)}, "minContains": number(0, 2)}]},
    "not contains": lambda: {"type": "array", "items": {"enum": [1, 2, None]}, "maxItems": number(3, 6), "not": {
        "contains": {"const": 1}, "minContains": number(1, 2), "maxContains": number(2, 4)}},
    "overlapping multiples": lambda: {"type": choice(["integer", "number"]), "oneOf": [
        {"multipleOf": choice([2, 0.5, 0.03])}, {"multipleOf": choice([3, 1.5, 0.02])}]},
    "not an array or an object": lambda: {"type": ["array", "object"], "items": {"enum": [1, 2]}, "maxItems": 3,
                                          "properties": {"a": {"enum": [1, 2]}, "b": {}},
                                          "not": {"enum": [[1], {"a": 1}, [], {}, [1, 2], 3][number(0, 2):]}},
    "not a format": lambda: {"type": "string", "maxLength": number(9, 40), "not": {
        "format": choice(["date", "time", "date-time", "email", "ipv4", "ipv6", "uri", "hostname"])}},
    "not a tuple": lambda: {"type": "array", "items": {"enum": [1, None]}, "maxItems": 4,
                            "not": {"prefixItems": [{"const": choice([1, None])} for _ in range(number(1, 3))]}},
    "not dependent": lambda: {"type": "object", "properties": {name: simple() for name in "abc"}, "not": choice([
        {"dependentRequired": {"a": ["b", "c"]}}, {"dependentSchemas": {"b": {"required": ["a"]}}},
        {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}}])},
    "lengths": lambda: {"type": "string", "minLength": number(0, 3), "maxLength": choice([3, 1500, 100000])},
}


def has_host(text):
    parts = urllib.parse.urlsplit(text)
    return bool(re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", parts.scheme) and parts.hostname) and (parts.port or 1) > 0


CHECKS = jsonschema.FormatChecker()
CHECKS.checks("uri")(lambda text: not isinstance(text, str) or has_host(text))
CHECKS.checks("ipv6")(lambda text: not isinstance(text, str) or bool(ipaddress.IPv6Address(text)))
CHECKS.checks("hostname")(lambda text: not isinstance(text, str) or len(text) <= 253 and all(
    re.fullmatch(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)", label) for label in text.split(".")))
CHECKS.checks("date-time")(lambda text: not isinstance(text, str) or bool(
    re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)", text)))
CHECKS.checks("time")(lambda text: not isinstance(text, str) or bool(
    re.fullmatch(r"\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?", text)))
CHECKS.checks("duration")(lambda text: not isinstance(text, str) or bool(
    re.fullmatch(r"P(?!$)(\d+W|(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+S)?)?)", text)))


def main():
    random.seed(20261127)
    named = [(name, make()) for name, make in KINDS.items() for _ in range(SCHEMAS_OF_KIND)]
    kinds = list(KINDS)
    for _ in range(40):  # one kind within another
        inner = KINDS[choice([kind for kind in kinds if "$" not in json.dumps(KINDS[kind]())])]
        named.append(("combinations", choice([
            lambda: record({"a": inner(), "b": simple()}), lambda: {"type": "array", "items": inner(), "maxItems": 3},
            lambda: {"anyOf": [inner(), record({"z": inner()})]}, lambda: {"allOf": [inner(), inner(), {}]}])()))
    lines = "".join(json.dumps(schema) + "\n" for _, schema in named)
    program = subprocess.run([sys.argv[1], str(max(1, TEXTS // SCHEMAS_OF_KIND)), *sys.argv[3:]], input=lines, text=True,
                             stdout=subprocess.PIPE)
    if program.returncode != 0:
        return 1
    counts, wrong = {}, 0
    for (name, schema), line in zip(named, program.stdout.splitlines()):
        answer = json.loads(line)
        total, refused = counts.setdefault(name, [0, 0])
        if "refused" in answer:
            counts[name][1] += 1
            if name != "combinations" or "no value matches" not in answer["refused"]:
                print(f"{name}: {json.dumps(schema)} is refused: {answer['refused']}")
                wrong += 1
            continue
        validator = jsonschema.Draft202012Validator(json.loads(json.dumps(schema), parse_float=decimal.Decimal),
                                                    format_checker=CHECKS)
        for text in answer["texts"]:
            try:
                validator.validate(json.loads(text, parse_float=decimal.Decimal))
                counts[name][0] += 1
            except (ValueError, jsonschema.ValidationError) as error:
                wrong += 1
                print(f"{name}: {json.dumps(schema)}: {text[:200]}: {str(error).splitlines()[0][:200]}")
    print(", ".join(f"{name} {total}" for name, (total, _) in counts.items()))
    print(f"{sum(total for total, _ in counts.values())} texts of {len(named)} schemas are valid, {wrong} wrong")
    return wrong > 0


sys.exit(main())
