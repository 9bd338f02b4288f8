"""Compares the results of pytest on ONNX Runtime, on inlay and, of some tests, on a newer ONNX Runtime.

    suites.py worse PREFIX      prints the tests that fail on inlay alone, as the argument -k of pytest
    suites.py compare PREFIX    prints counts and differences; exit code 1: a test fails on inlay alone

PREFIX.theirs.xml, PREFIX.ours.xml and, if it exists, PREFIX.newer.xml are files of pytest's option --junitxml."""
import os
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter

SIDES = {"theirs": "ONNX Runtime", "ours": "inlay", "newer": "newer ONNX Runtime"}
BAD = ("failed", "not collected", "absent")


def results(path):
    """The outcome of each test and the first line of its message; a file that cannot be collected is one test."""
    found = {}
    for case in ElementTree.parse(path).iter("testcase") if os.path.exists(path) else ():
        outcome, message = "passed", ""
        for child in case:
            if child.tag in ("failure", "error", "skipped"):
                outcome = "skipped" if child.tag == "skipped" else "failed"
                message = (child.get("message") or "").partition("\n")[0]
                if "collection" in message:
                    outcome = "not collected"
        found[f"{case.get('classname')}::{case.get('name')}"] = outcome, message
    return found


def main(verb, prefix):
    theirs, ours, newer = (results(f"{prefix}.{side}.xml") for side in SIDES)
    differ = [test for test in sorted(theirs.keys() | ours.keys())
              if theirs.get(test, ("absent", ""))[0] != ours.get(test, ("absent", ""))[0]]
    worse = [test for test in differ if ours.get(test, ("absent", ""))[0] in BAD]
    if verb == "worse":
        print(" or ".join(sorted({test.rpartition("::")[2].partition("[")[0] for test in worse})))
        return 0
    name = os.path.basename(prefix)
    for side, found in ("theirs", theirs), ("ours", ours):
        counts = Counter(outcome for outcome, _ in found.values())
        print(f"{name}: {SIDES[side]}: " + ", ".join(f"{counts[key]} {key}" for key in sorted(counts)))
    alone = 0
    for test in differ:
        (before, reason), (after, message) = theirs.get(test, ("absent", "")), ours.get(test, ("absent", ""))
        also = newer.get(test, ("absent", ""))[0]
        alone += after in BAD and also not in ("failed", "not collected")
        print(f"  {test}: {before} -> {after}" + (f", {also} on the {SIDES['newer']}" if test in newer else "") +
              f": {message or reason}"[:300])
    print(f"{name}: {alone} fail on inlay alone")
    return 1 if alone or not theirs or not ours else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
