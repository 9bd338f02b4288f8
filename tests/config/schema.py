#!/usr/bin/env python3
"""The JSON schemas of inlay.yaml and serve.yaml accept what the programs accept, and refuse what they refuse: the
samples with every key, and for each option and setting values of every kind, also beyond its range.

  schema.py INLAY SAMPLES [INLAY_SERVE]

Exit code 77: python3-jsonschema or python3-yaml is not installed."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

INLAY, SAMPLES = sys.argv[1], pathlib.Path(sys.argv[2])
VALUES = [0, 1, 2, -1, 7, 1.5, 2**62, 2**70, "text", "fast", True, False, "on", [], ["text"], ["a=1"], {"a": 1},
          {"a": "x"}, {"name": "cpu"}, [{"name": "cpu"}], [{"options": 1}], [1, [2]]]
wrong = []


def schema_of(*command):
    schema = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema), schema["properties"]


def expect(good, text):
    if not good:
        wrong.append(text)


def uncommented(path):
    return yaml.safe_load(re.sub(r"^#([a-z_.]+:|  - |    [a-z]+:|      [a-z]+:)", r"\1", path.read_text(), flags=re.M))


check, properties = schema_of(INLAY, "config", "--schema")
for error in check.iter_errors(uncommented(SAMPLES / "inlay.yaml")):
    wrong.append(f"samples/inlay.yaml: {error.message}")
expect(check.is_valid({"reference.preview": True}), "an option of a provider")
expect(check.is_valid(None), "an empty file")
expect(not check.is_valid({"policies": "cost"}) and not check.is_valid({"a.b.c": 1}), "an unknown key is accepted")
with tempfile.TemporaryDirectory() as folder:
    files = {}
    for name, property_schema in properties.items():
        parts = property_schema, *property_schema.get("anyOf", [])
        limits = [part[key] + d for part in parts for key in ("minimum", "maximum") if key in part for d in (-1, 0, 1)]
        for value in VALUES + limits + property_schema.get("enum", []):
            path = pathlib.Path(folder) / f"{len(files)}.yaml"
            path.write_text(yaml.safe_dump({name: value}))
            files[str(path)] = (name, value, property_schema)
    said = subprocess.run([INLAY, "config", "check", "--json", *files], capture_output=True, text=True, check=False)
    for row in json.loads(said.stdout)["files"]:
        name, value, property_schema = files[row["path"]]
        valid = check.is_valid(yaml.safe_load(pathlib.Path(row["path"]).read_text()))
        parts = property_schema.get("anyOf", [])
        exact = "enum" in property_schema or any("minimum" in part for part in parts)
        expect(valid or not row["ok"], f"the schema refuses {name}: {value!r}, which inlay accepts")
        expect(row["ok"] or not valid or not exact, f"the schema accepts {name}: {value!r}; {row['mistakes']}")
    print(f"{len(files)} values of {len(properties)} options")

if len(sys.argv) > 3:
    check, properties = schema_of(sys.argv[3], "--schema")
    sample = uncommented(SAMPLES / "deploy/serve.yaml")
    for error in check.iter_errors(sample):
        wrong.append(f"samples/deploy/serve.yaml: {error.message}")
    expect(set(sample) == set(properties), f"keys of the sample: {set(sample) ^ set(properties)}")
    for name, property_schema in properties.items():
        if "maximum" in property_schema:
            expect(not check.is_valid({name: property_schema["maximum"] + 1}), f"{name} beyond its range is accepted")
    expect(not check.is_valid({"prot": 1}), "an unknown setting is accepted")
    print(f"{len(properties)} settings")
print("\n".join(wrong[:40]), end="\n" if wrong else "")
sys.exit(1 if wrong else 0)
