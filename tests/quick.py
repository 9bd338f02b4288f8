#!/usr/bin/env python3
"""Chooses the tests of a build that a change is most likely to break: quick.py BUILD COMMIT SECONDS

A change is what differs from COMMIT in the working tree, new files included. A test is reached if Ninja would build
its program, or a file that its command names, from a changed file, or if its command names a folder of one. Of the
tests that are reached, those come first whose own files changed, then those that include a header of a changed folder
or lie in a folder of its name, then those that the fewest build steps separate from the change, and short ones before
long ones. They are taken until their times in the last run (ctest's CTestCostData.txt) fill SECONDS with six at a
time. Prints a regular expression for ctest -R, or nothing if no test is reached, and on stderr what was chosen and how
many were left out."""
import collections
import json
import os
import re
import subprocess
import sys

AT_A_TIME = 6
FOLDER = 9  # steps to a test whose command names a folder with a changed file, for instance the whole tree
UNKNOWN = 3.0  # seconds of a test that has not run in this build


def output(*command, cwd=None):
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout


def changed_files(source, commit):
    names = output("git", "diff", "--name-only", "-z", commit, cwd=source)
    names += output("git", "ls-files", "--others", "--exclude-standard", "-z", cwd=source)
    return {os.path.join(source, name) for name in names.split("\0") if name}


def read_steps(build):
    """users[file]: the files that are built from it, by build.ninja and by the headers that compilers reported."""
    users = collections.defaultdict(set)
    includes = collections.defaultdict(set)
    path_of = lambda name: os.path.normpath(os.path.join(build, name.replace("$ ", " ").replace("$:", ":")))
    with open(os.path.join(build, "build.ninja")) as ninja:
        text = ninja.read().replace("$\n", "")
    for made, used in re.findall(r"^build ((?:[^:\n]|\$:)+): (\S+.*)$", text, re.M):
        sources = [path_of(name) for name in re.split(r"(?<!\$)\s+", used)[1:] if name not in ("|", "||")]
        for target in re.split(r"(?<!\$)\s+", made):
            if target not in ("", "|"):
                for source in sources:
                    users[source].add(path_of(target))
    made = None
    for line in output("ninja", "-t", "deps", cwd=build).splitlines():
        if line.startswith("    "):
            name = path_of(line.strip())
            users[name].add(made)
            includes[made].add(name)
        elif ":" in line:
            made = path_of(line.split(":")[0])
    return users, includes


def distances(users, changed):
    """The number of build steps from a changed file, for each file that is built from one."""
    distance = dict.fromkeys(changed, 0)
    queue = collections.deque(changed)
    while queue:
        name = queue.popleft()
        for user in users[name]:
            if user not in distance:
                distance[user] = distance[name] + 1
                queue.append(user)
    return distance


def main():
    build, commit, seconds = os.path.abspath(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    changed = changed_files(source, commit)
    users, includes = read_steps(build)
    distance = distances(users, changed)
    makers = collections.defaultdict(set)
    for name, targets in users.items():
        for target in targets:
            makers[target].add(name)
    costs = {}
    if os.path.exists(path := os.path.join(build, "Testing/Temporary/CTestCostData.txt")):
        with open(path) as file:
            costs = {row[0]: float(row[2]) for row in map(str.split, file) if len(row) == 3}
    folders = {os.path.dirname(name) for name in changed}
    names = {os.path.basename(folder) for folder in folders}
    changed_tests = {name for name in changed if name.startswith(os.path.join(source, "tests", ""))}
    reached = []
    tests = json.loads(output("ctest", "--test-dir", build, "--show-only=json-v1"))["tests"]
    for test in tests:
        words = {os.path.normpath(word) for word in test.get("command", []) if word.startswith("/")}
        files = {name for name in words if os.path.isfile(name)}
        known = [distance[name] for name in files if name in distance]
        known += [FOLDER for name in words - files if any(path.startswith(name + "/") for path in changed)]
        if not known:
            continue
        objects = {name for file in files for name in makers[file] if name.endswith(".o")}
        own = files | {name for file in objects for name in makers[file]}
        place = next(p["value"] for p in test["properties"] if p["name"] == "WORKING_DIRECTORY")
        near = any(os.path.dirname(name) in folders for file in objects for name in includes[file])
        rank = 0 if own & changed_tests else 1 if near or os.path.basename(place) in names else 2
        cost = costs.get(test["name"]) or UNKNOWN
        reached.append((rank, min(known), cost, test["name"]))
    chosen, used = [], 0.0
    for _, _, cost, name in sorted(reached):
        if used + cost <= seconds * AT_A_TIME:
            chosen.append(name)
            used += cost
    print(f"{len(changed)} changed files reach {len(reached)} of {len(tests)} tests; the nearest {len(chosen)}, about "
          f"{used / AT_A_TIME:.0f} s, are run, and {len(reached) - len(chosen)} are not", file=sys.stderr)
    if chosen:
        print("^(" + "|".join(map(re.escape, chosen)) + ")$")


if __name__ == "__main__":
    main()
