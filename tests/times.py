#!/usr/bin/env python3
"""Writes times.txt from the last runs of run.sh in builds: times.py BUILD...

times.txt lists the tests that take a second or more, with their longest time, six tests at a time on two cores; tests
that the builds do not have keep their times. ctest starts the longest tests first, so that none runs alone at the end;
a new build knows the times from this file (tests/CMakeLists.txt)."""
import os
import re
import sys

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "times.txt")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    with open(FILE) as file:
        before = {name: float(seconds) for name, seconds in map(str.split, file)}
    times = {}
    for build in sys.argv[1:]:
        with open(os.path.join(build, "run.log")) as file:
            for name, seconds in re.findall(r"Test +#\d+: (\S+) \.+ +Passed +([0-9.]+) sec", file.read()):
                times[name] = max(float(seconds), times.get(name, 0))
    times = {**before, **times}
    with open(FILE, "w") as file:
        for name, seconds in sorted(times.items(), key=lambda item: (-round(item[1]), item[0])):
            if seconds >= 1:
                file.write(f"{name} {seconds:.0f}\n")


if __name__ == "__main__":
    main()
