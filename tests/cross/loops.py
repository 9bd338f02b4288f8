#!/usr/bin/env python3
"""Checks the inner loops of compiled arm64 kernels, because an emulator cannot measure times.

    loops.py [--list] RULES OBJECT...

An inner loop is the code from a label to a branch back to it, without another such branch in between. For each
function, the loop with most vector multiplications and additions (fmla, sdot, usmmla, ...) counts: it must contain few other
instructions and keep its sums in registers. A vector load from or store to the stack is a spill. A line of RULES:
name of the object, pattern of functions, minimum share of multiplications and additions in the loop, maximum number
of spills; the first matching line applies. --list prints the loop of every function. The last line is 'N passed, N
failed'.
"""
import fnmatch
import os
import re
import subprocess
import sys

MULTIPLIES = re.compile(r"^(fmla|fmls|sdot|udot|smlal2?|umlal2?|usdot|sudot|smmla|ummla|usmmla|bfmmla|bfdot)$")
BRANCH = re.compile(r"^(b|b\.\w+|cbnz|cbz|tbnz|tbz)$")

def instructions(objdump, path):
    """Yields (function, [(address, name, operands)]) of an object."""
    text = subprocess.run([objdump, "-d", "--no-show-raw-insn", path], check=True, capture_output=True, text=True).stdout
    function, lines = None, []
    for line in text.splitlines():
        head = re.match(r"^[0-9a-f]+ <(.+)>:$", line)
        if head:
            if function:
                yield function, lines
            function, lines = head.group(1), []
            continue
        part = re.match(r"^ *([0-9a-f]+):\s+(\S+)\s*(.*)$", line)
        if part:
            lines.append((int(part.group(1), 16), part.group(2), part.group(3)))
    if function:
        yield function, lines


def inner_loops(lines):
    """Ranges of indices into lines."""
    at = {address: i for i, (address, _, _) in enumerate(lines)}
    back = []
    for i, (address, name, operands) in enumerate(lines):
        target = re.search(r"\b([0-9a-f]+) <", operands) if BRANCH.match(name) else None
        if target and int(target.group(1), 16) <= address and int(target.group(1), 16) in at:
            back.append((at[int(target.group(1), 16)], i))
    for first, last in back:
        if not any((f, l) != (first, last) and first <= f and l <= last for f, l in back):
            yield first, last


def spills(name, operands):
    return name in ("ldr", "str", "ldp", "stp", "ldur", "stur") and re.match(r"^[qv]\d", operands) and "[sp" in operands


def hottest(lines):
    """Returns the inner loop with most multiplications and additions as (instructions, those, spills), or None."""
    best = None
    for first, last in inner_loops(lines):
        body = lines[first : last + 1]
        counts = (len(body), sum(1 for _, name, _ in body if MULTIPLIES.match(name)),
                  sum(1 for _, name, operands in body if spills(name, operands)))
        if best is None or (counts[1], -counts[0]) > (best[1], -best[0]):
            best = counts
    return best


def main():
    show = sys.argv[1:2] == ["--list"]
    arguments = sys.argv[2:] if show else sys.argv[1:]
    if len(arguments) < 2:
        sys.exit(__doc__)
    objdump = os.environ.get("OBJDUMP", "aarch64-linux-gnu-objdump")
    with open(arguments[0], encoding="utf-8") as file:
        rules = [line.split() for line in file if line.strip() and not line.startswith("#")]
    judged = [0] * len(rules)
    passed = failed = 0
    for path in arguments[1:]:
        name = os.path.basename(path).split(".")[0]
        for function, lines in instructions(objdump, path):
            loop = hottest(lines)
            if show and loop and loop[1] > 0:
                print(f"  {name} {function}: {loop[1]} of {loop[0]} multiply and add, {loop[2]} spills")
            rule = next((i for i, r in enumerate(rules) if r[0] == name and fnmatch.fnmatchcase(function, r[1])), None)
            if rule is None:
                continue
            judged[rule] += 1
            least, most = float(rules[rule][2]), int(rules[rule][3])
            if loop is None or loop[1] < least * loop[0] or loop[2] > most:
                print(f"FAIL {name} {function}: {loop}, expected a share of {least} and at most {most} spills")
                failed += 1
            else:
                passed += 1
    for rule, count in zip(rules, judged):
        if count == 0:
            print(f"FAIL {rule[0]}: no function is called {rule[1]}")
            failed += 1
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


main()
