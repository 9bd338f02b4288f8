#!/usr/bin/env python3
"""CPU seconds of the tests of a build, each run alone: suite.py BUILD [REGEX] [--top N]

Prints the tests that take most, a line for each folder of tests/, and the sum. A test is charged for the processes that
it waited for, directly or through others. Tests that set up a fixture run before those that need it."""
import argparse
import collections
import json
import os
import re
import resource
import subprocess
import sys
import time


def variables(build):
    """The environment that ctest gives to tests, as tests/CMakeLists.txt writes it."""
    found = {}
    with open(os.path.join(build, "tests/environment.cmake")) as file:
        for name, text in re.findall(r"set\(ENV\{(\w+)\} \"?([^\")]*)\"?\)", file.read()):
            found[name] = text
    return found


def properties(test):
    return {p["name"]: p["value"] for p in test["properties"]}


def used():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime, children.ru_stime


def run(test, environment):
    own = properties(test)
    for setting in own.get("ENVIRONMENT", []):
        name, _, text = setting.partition("=")
        environment = {**environment, name: text}
    before, start = used(), time.monotonic()
    done = subprocess.run(test["command"], cwd=own["WORKING_DIRECTORY"], env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True)
    after = used()
    if done.returncode not in (0, own.get("SKIP_RETURN_CODE", 0)) and "PASS_REGULAR_EXPRESSION" not in own:
        print(f"{test['name']}: exit code {done.returncode}", file=sys.stderr)
    return after[0] - before[0], after[1] - before[1], time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=os.path.abspath)
    parser.add_argument("regex", nargs="?", default=".")
    parser.add_argument("--top", type=int, default=40)
    arguments = parser.parse_args()
    shown = subprocess.run(["ctest", "--test-dir", arguments.build, "--show-only=json-v1"], check=True,
                           capture_output=True, text=True).stdout
    tests = [test for test in json.loads(shown)["tests"]
             if re.search(arguments.regex, test["name"]) and "command" in test]
    tests.sort(key=lambda test: "FIXTURES_SETUP" not in properties(test))
    environment = {**os.environ, **variables(arguments.build)}
    rows, folders = [], collections.defaultdict(lambda: [0, 0.0, 0.0])
    for test in tests:
        user, system, wall = run(test, environment)
        rows.append((user + system, system, wall, test["name"]))
        folder = os.path.relpath(properties(test)["WORKING_DIRECTORY"], os.path.join(arguments.build, "tests"))
        for name in (folder.split("/")[0] if not folder.startswith("..") else "(elsewhere)", "(all)"):
            folders[name][0] += 1
            folders[name][1] += user + system
            folders[name][2] += system
    print(f"{'CPU s':>8} {'system':>8} {'wall s':>8}  test")
    for total, system, wall, name in sorted(rows, reverse=True)[:arguments.top]:
        print(f"{total:8.1f} {system:8.1f} {wall:8.1f}  {name}")
    print(f"\n{'CPU s':>8} {'system':>8} {'tests':>8}  folder")
    for name, (count, total, system) in sorted(folders.items(), key=lambda item: -item[1][1]):
        print(f"{total:8.1f} {system:8.1f} {count:8}  {name}")


if __name__ == "__main__":
    main()
