#!/usr/bin/python3
"""The public suites of JSON schemas with instances: no schema that is accepted allows an invalid instance, and enough of
them are accepted.
    schema_suites.py SCHEMA_INSTANCES FOLDER

Clones JSON-Schema-Test-Suite and jsonschemabench (MaskBench) into FOLDER unless they are there; ctest does not run it."""
import collections
import glob
import json
import os
import subprocess
import sys

program, folder = sys.argv[1:]
ANNOTATIONS = ("content",)  # files of keywords that do not restrict values


def clone(owner, name):
    path = os.path.join(folder, name)
    if not os.path.isdir(path):
        subprocess.run(["git", "clone", "-q", "--depth", "1", f"https://github.com/{owner}/{name}", path], check=True)
    return path


def draft(name):
    tests = os.path.join(clone("json-schema-org", "JSON-Schema-Test-Suite"), "tests", name)
    for file in sorted(glob.glob(tests + "/*.json") + glob.glob(tests + "/optional/*.json")):
        stem = os.path.basename(file)[:-5]
        if stem not in ANNOTATIONS:
            with open(file) as opened:
                for i, group in enumerate(json.load(opened)):
                    yield {"id": f"{stem}#{i}", "schema": group["schema"], "tests": group["tests"]}


def mask_bench():
    for file in sorted(glob.glob(os.path.join(clone("guidance-ai", "jsonschemabench"), "maskbench/data/*.json"))):
        with open(file) as opened:
            one = json.load(opened)
        yield {"id": os.path.basename(file)[:-5], "schema": one["schema"], "tests": one["tests"]}


def main():
    failed = False
    for name, cases, share in (("draft2020-12", draft("draft2020-12"), 0.7), ("draft7", draft("draft7"), 0.7),
                               ("MaskBench", mask_bench(), 0.96)):
        lines = [json.dumps(case) + "\n" for case in cases]
        done = subprocess.run([program], input="".join(lines), text=True, stdout=subprocess.PIPE,
                              check=True).stdout.splitlines()
        if len(done) != len(lines):
            print(f"{name}: {len(done)} results of {len(lines)} cases")
            failed = True
        results = [line.split("\t") for line in done]
        refused = collections.Counter(result[9:] for _, result in results if result.startswith("refused: "))
        accepted = [(case, result) for case, result in results if not result.startswith("refused: ")]
        letters = collections.Counter("".join(result for _, result in accepted))
        wrong = [case for case, result in accepted if "X" in result]
        print(f"{name}: {len(accepted)} of {len(results)} accepted, instances {dict(letters)}, wrong: {wrong}")
        for reason, count in refused.most_common(12):
            print(f"  {count} {reason}")
        failed |= bool(wrong) or len(lines) == 0 or len(accepted) < share * len(results)
    return failed


sys.exit(main())
