#!/usr/bin/env python3
"""Compares a report of JUnit with the list of tests that are expected to fail.

    judge.py EXPECTED REPORT LOG

EXPECTED has a line 'Class.method: reason' for each such test. Exit 1: another test failed, a listed one passed or is
missing, or there is no report; then the end of LOG is printed."""
import os
import sys
import xml.etree.ElementTree


def read_expected(path):
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    return dict(line.split(": ", 1) for line in lines)


def main(expected_path, report_path, log_path):
    if not os.path.exists(report_path):
        with open(log_path, encoding="utf-8") as file:
            sys.exit("".join(file.readlines()[-40:]) + "java.sh: JUnit wrote no report")
    expected = read_expected(expected_path)
    passed, skipped, failed = [], [], {}
    for case in xml.etree.ElementTree.parse(report_path).getroot().iter("testcase"):
        name = case.get("classname").rsplit(".", 1)[-1] + "." + case.get("name").split("(")[0]
        problem = case.find("failure") if case.find("failure") is not None else case.find("error")
        if problem is not None:
            failed[name] = problem.get("message") or problem.get("type")
        elif case.find("skipped") is not None:
            skipped.append(name)
        else:
            passed.append(name)
    for name, why in failed.items():
        print("%s %s: %s" % ("listed" if name in expected else "FAILED", name, expected.get(name, why)))
    missing = [name for name in expected if name not in failed]
    for name in missing:
        print("FAILED %s: it is listed in expected.txt, but did not fail" % name)
    print("%d passed, %d skipped, %d failed as listed" % (len(passed), len(skipped), len(expected) - len(missing)))
    return 1 if missing or not passed or any(name not in expected for name in failed) else 0


sys.exit(main(*sys.argv[1:]))
