#!/usr/bin/python3
"""Grammars of random alternatives that forbid further members allow exactly the objects that python3-jsonschema does,
and those with patterns of names allow no others.
    schema_closed.py SCHEMA_INSTANCES [SCHEMAS]

Each schema is compared on all objects of four names and two values. Exit code 77: python3-jsonschema is not
installed."""
import itertools
import json
import random
import subprocess
import sys

try:
    import jsonschema
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

NAMES, VALUES = "abcd", (1, "x")
OBJECTS = [{name: value for name, value in zip(NAMES, values) if value is not None}
           for values in itertools.product((None, *VALUES), repeat=len(NAMES))]

choice = random.choice


def some(least=0):
    return sorted(random.sample(NAMES, random.randint(least, 3)))


def closed():
    """An object without further members; a part of its members is optional."""
    names = some(1)
    schema = {"type": "object", "properties": {name: choice([{}, {"const": 1}, {"type": "string"}]) for name in names},
              "required": [name for name in names if random.random() < 0.25], "additionalProperties": False}
    if random.random() < 0.2: # the last one by a pattern, as the grammar writes these after the others
        schema["properties"].pop(names[-1])
        schema["patternProperties"] = {f"^{names[-1]}$": True}
    elif random.random() < 0.2:
        schema["minProperties"] = random.randint(1, 2)
    return schema


def opened():
    return {"type": "object", "properties": {name: {"enum": list(VALUES)} for name in NAMES}, "required": some()[:1]}


KINDS = (lambda: {"oneOf": [closed() for _ in range(random.randint(2, 4))]},
         lambda: {**opened(), "oneOf": [closed(), closed(), {"required": some(1)}]},
         lambda: {**opened(), "not": closed()},
         lambda: {**opened(), "allOf": [{"not": closed()} for _ in range(random.randint(2, 3))]},
         lambda: {**opened(), "not": {"anyOf": [closed(), closed()]}},
         lambda: {"enum": OBJECTS, "not": closed()},
         lambda: {**opened(), "not": {"enum": random.sample(OBJECTS, random.randint(1, 3))}},
         lambda: {**opened(), "not": {"oneOf": [closed(), {"required": some(1)}, opened()][random.randint(0, 1):]}},
         lambda: {**opened(), "if": closed(), "then": {"required": some(1)}, "else": {"maxProperties": 2}})


def named():
    """An object with rules for names that it does not list; of those that break them, a part is generated."""
    return choice([
        {"patternProperties": {choice(["^[ab]$", "[cd]", "a|c"]): choice([{"type": "string"}, {"const": 1}, False])}},
        {"properties": {name: {} for name in some(1)}, "additionalProperties": {"type": choice(["string", "integer"])}},
        {"propertyNames": choice([{"pattern": "[abc]"}, {"enum": some(1)}, {"not": {"enum": some(1)}}])}])


IN_PART = (lambda: {**opened(), "not": named()}, lambda: {"type": "object", "not": named()},
           lambda: {**opened(), "oneOf": [named(), named()]}, lambda: {"oneOf": [closed(), {"type": "object", **named()}]})


def main():
    random.seed(20261130)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 330
    kinds = KINDS + IN_PART
    schemas = [kinds[i % len(kinds)]() for i in range(count)]
    lines, wrong, allowed = [], 0, [0, 0]
    for schema in schemas:
        validator = jsonschema.Draft202012Validator(schema)
        lines.append({"id": "", "schema": schema,
                      "tests": [{"data": one, "valid": validator.is_valid(one)} for one in OBJECTS]})
    done = subprocess.run([sys.argv[1]], input="".join(json.dumps(line) + "\n" for line in lines), text=True,
                          stdout=subprocess.PIPE, check=True).stdout.splitlines()
    for i, (line, answer) in enumerate(zip(lines, done, strict=True)):
        result, valid = answer.split("\t")[1], [one["valid"] for one in line["tests"]]
        # Members that patterns describe meet several of these schemas together, or none.
        in_part = i % len(kinds) >= len(KINDS) or "patternProperties" in json.dumps(line["schema"])
        if "refused" in result:
            partly = "supported only in part" in result
            good = (partly or "no value matches" in result) and (not any(valid) or partly and in_part)
        else:
            allowed[in_part] += result.count("V")
            good = "X" not in result and (in_part or "r" not in result)
        if not good:
            at = next((k for k, letter in enumerate(result) if letter in "rX"), 0)
            wrong += 1
            print(f"{json.dumps(line['schema'])}: {result}, {json.dumps(line['tests'][at])}")
    print(f"{count} schemas, {allowed[False]} and {allowed[True]} objects allowed, {wrong} schemas wrong")
    return wrong > 0 or not all(allowed)


sys.exit(main())
