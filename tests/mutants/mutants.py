"""Plants faults and runs the tests that should notice them; started by tests/mutants.sh, see README.md."""
import argparse
import json
import math
import os
import random
import re
import signal
import sys
import time

import build as building
import sites as planting

QUICK = 10  # seconds for all tests of a fault, with --quick
SLOW = 12  # seconds: tests that take longer run only as first tests
HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))


def rooms_of(path):
    """Reads the table of folders: {folder: first tests}, {folder: later tests}, tests that never run."""
    first, later, never = {}, {}, []
    for line in open(path, encoding="utf-8"):
        words = line.split("#")[0].split()
        if not words:
            continue
        if words[0] == "then":
            later[words[1]] = words[2:]
        elif words[0] == "never":
            never = words[1:]
        else:
            first[words[0]] = words[1:]
    return first, later, never


def matches(patterns, name):
    return any(re.fullmatch(p, name) for p in patterns)


class FaultTester:
    """The build with its baseline, and the planted fault."""

    def __init__(self, work, fresh, hurry):
        self.hurry = hurry
        self.noticed = {}  # number of faults of a folder that a test has noticed
        self.first, self.later, never = rooms_of(os.path.join(HERE, "rooms.txt"))
        self.build = building.Build(SOURCE, work)
        self.baseline = os.path.join(work, "baseline.json")
        say("copying and building in %s" % work)
        self.build.copy()
        self.build.configure()
        good, output = self.build.make(["all"])
        if not good:
            raise SystemExit("mutants: the tree does not build:\n" + output[-2000:])
        self.build.learn()
        self.build.remember()
        if not self.build.confined:
            say("note: tests run without a sandbox (unshare -m is not permitted): a fault may write to any file of the user")
        used = [p for patterns in self.first.values() for p in patterns] if hurry else [".*"]
        self.seconds = self.times([t for t in self.build.tests if matches(used, t) and not matches(never, t)], fresh)

    def times(self, names, fresh):
        """Measures each test without faults. A test that fails is excluded."""
        known = {}
        if not fresh and os.path.exists(self.baseline):
            known = json.load(open(self.baseline, encoding="utf-8"))
        for name in names:
            if name in known:
                continue
            start = time.monotonic()
            wrong, output = self.build.test(name, 300, 300)
            known[name] = None if wrong else time.monotonic() - start
            if wrong:
                say("note: %s %s without any fault, and is excluded" % (name, wrong))
                say(output[-1500:])
        with open(self.baseline, "w", encoding="utf-8") as file:
            json.dump(known, file)
        return {name: known[name] for name in names if known[name] is not None}

    def files(self, folder):
        return sorted(f for f in self.build.used
                      if f.startswith(folder + "/") and f.endswith((".c", ".h", ".inc")))

    def stages(self, room, name):
        """Returns two lists of tests; the second has no slow ones. First are fast tests, tests that have noticed
        faults of this folder, and tests whose names share a word with the file's."""
        words = set(os.path.basename(name).split(".")[0].split("_"))

        def order(test):
            known = 4 * self.noticed.get((room, test), 0) + 8 * len(words & set(test.split("_")))
            return self.seconds[test] / (1 + known)
        quick = sorted(self.seconds, key=order)
        first = [t for t in quick if matches(self.first[room], t)]
        if self.hurry:
            room_for = [sum(self.seconds[t] for t in first[:k + 1]) <= QUICK for k in range(len(first))]
            return [t for k, t in enumerate(first) if room_for[k] or k == 0], []
        top = max((f for f in self.later if room.startswith(f)), key=len, default="")
        then = []
        for pattern in self.later.get(top, []):
            then += [t for t in quick if re.fullmatch(pattern, t) and t not in first and t not in then
                     and self.seconds[t] < SLOW]
        return first, then

    def programs(self, tests):
        return sorted({self.build.tests[t] for t in tests if self.build.tests[t]})

    def run(self, room, tests):
        """Returns the first test that notices the fault, or None."""
        for name in tests:
            wrong, _ = self.build.test(name, max(60, 20 * self.seconds[name]), max(15, 6 * self.seconds[name]))
            if wrong:
                self.noticed[room, name] = self.noticed.get((room, name), 0) + 1
                return "%s %s" % (name, wrong)
        return None

    def judge(self, room, name):
        """Tests the planted fault; returns the outcome and the test that noticed it."""
        first, then = self.stages(room, name)
        start = time.monotonic()
        good, _ = self.build.make(self.build.products + self.programs(first))
        self.built = time.monotonic() - start
        if not good:
            return "did not build", None
        if not self.build.changed():
            return "same code", None
        by = self.run(room, first)
        if by is None and then:
            self.build.make(["all"])
            by = self.run(room, then)
        return ("noticed", by) if by else ("lived", None)

    def plant(self, room, name, text, site):
        """Plants a fault, tests it, and removes it."""
        start = time.monotonic()
        self.build.write(name, planting.plant(text, site))
        try:
            outcome, by = self.judge(room, name)
        finally:
            self.build.write(name, text)
        lines = [t.split("\n")[site.line].strip() for t in (text, planting.plant(text, site))]
        return {"file": name, "line": site.line + 1, "kind": site.kind, "before": lines[0], "after": lines[1],
                "column": site.begin, "outcome": outcome, "by": by, "room": room, "built": round(self.built, 1),
                "seconds": round(time.monotonic() - start, 1)}


def choices(tester, rooms, seed):
    """Yields faults without end: a folder by the root of its size, a file by its size, then the kind and the place."""
    chance = random.Random(seed)
    weights = {}
    for room in rooms:
        sizes = {f: tester.build.read(f).count("\n") for f in tester.files(room)}
        if sizes:
            weights[room] = sizes
    used = set()
    while True:
        room = chance.choices(list(weights), [math.sqrt(sum(s.values())) for s in weights.values()])[0]
        name = chance.choices(list(weights[room]), list(weights[room].values()))[0]
        text = tester.build.read(name)
        found = planting.sites(text)
        if not found:
            continue
        kind = chance.choice(sorted({s.kind for s in found}))
        site = chance.choice([s for s in found if s.kind == kind])
        if (name, site) not in used:
            used.add((name, site))
            yield room, name, text, site


def again(tester, path):
    """Yields the living faults of an earlier run; finds lines that have moved."""
    for old in json.load(open(path, encoding="utf-8"))["faults"]:
        if old["outcome"] != "lived":
            continue
        text = tester.build.read(old["file"])
        found = [s for s in planting.sites(text)
                 if s.kind == old["kind"] and text.split("\n")[s.line].strip() == old["before"]
                 and planting.plant(text, s).split("\n")[s.line].strip() == old["after"]]
        if not found:
            say("%s:%d no longer exists: %s" % (old["file"], old["line"], old["before"]))
            continue
        yield old["room"], old["file"], text, min(found, key=lambda s: abs(s.line + 1 - old["line"]))


def say(text):
    print(text, flush=True)


def arguments():
    p = argparse.ArgumentParser(prog="tests/mutants.sh", description="Plants faults and reports those that no test notices.")
    p.add_argument("--seed", type=int, default=1, help="selects the faults (1)")
    p.add_argument("--count", type=int, default=40, help="number of faults that change the machine code and compile (40)")
    p.add_argument("--room", action="append", default=[], help="only this folder of rooms.txt; may be repeated")
    p.add_argument("--quick", action="store_true",
                   help="only the first tests of a folder, for %d seconds; repeat living faults with --again" % QUICK)
    p.add_argument("--json", metavar="FILE", help="write every fault with its result to FILE, after each fault")
    p.add_argument("--again", metavar="FILE", help="plant the living faults of an earlier --json FILE again")
    p.add_argument("--work", metavar="DIR", default=os.path.join(SOURCE, "build", "mutants"),
                   help="folder of the copy (build/mutants)")
    p.add_argument("--fresh", action="store_true", help="time every test without faults again")
    return p.parse_args()


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # runs the clean-up handlers
    known = rooms_of(os.path.join(HERE, "rooms.txt"))[0]
    unknown = [r for r in args.room if r not in known]
    if unknown:
        raise SystemExit("mutants: no room '%s' in tests/mutants/rooms.txt; there are: %s" %
                         (unknown[0], " ".join(known)))
    tester = FaultTester(os.path.abspath(args.work), args.fresh, args.quick)
    faults = []
    counts = {"noticed": 0, "lived": 0, "did not build": 0, "same code": 0}
    source = again(tester, args.again) if args.again else choices(tester, args.room or list(known), args.seed)
    for room, name, text, site in source:
        if not args.again and counts["noticed"] + counts["lived"] >= args.count:
            break
        fault = tester.plant(room, name, text, site)
        faults.append(fault)
        counts[fault["outcome"]] += 1
        say("%s  %s:%d  %s  ->  %s  (%s%.0f s)" % (fault["outcome"].upper() if fault["outcome"] == "lived"
            else fault["outcome"], name, fault["line"], fault["before"], fault["after"],
            "%s, " % fault["by"] if fault["by"] else "", fault["seconds"]))
        if args.json:
            with open(args.json, "w", encoding="utf-8") as file:
                json.dump({"seed": args.seed, "faults": faults}, file, indent=1)
    if counts["same code"]:
        say("%d others gave the same machine code and do not count" % counts["same code"])
    say("%d planted, %d noticed, %d lived, %d did not build" % (len(faults) - counts["same code"], counts["noticed"],
        counts["lived"], counts["did not build"]))
    return 1 if counts["lived"] else 0


if __name__ == "__main__":
    sys.exit(main())
