#!/usr/bin/env python3
"""Counts the instructions of kernels for each multiply-add, because an emulator cannot measure times.

    count.py RULES PLUGIN EMULATOR... PROGRAM

PLUGIN is the compiled count_plugin.c, EMULATOR a qemu of the user mode with its options, PROGRAM count_kernels. Each kernel runs once and three times; half of the
difference is its own number of instructions. A line of RULES: kernel, the kernel that it is compared with, the maximum
ratio of their instructions for each multiply-add. The last line is 'N passed, N failed'.
"""
import subprocess
import sys
import tempfile


def instructions(command, plugin, name, times):
    """The number of instructions that the program executes."""
    with tempfile.NamedTemporaryFile("r") as log:
        options = ["-plugin", plugin, "-d", "plugin", "-D", log.name]
        subprocess.run([*command[:-1], *options, command[-1], name, str(times)], check=True)
        return int(log.read().split("instructions ")[1].split()[0])


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    plugin, command = sys.argv[2], sys.argv[3:]
    with open(sys.argv[1], encoding="utf-8") as file:
        rules = {line.split()[0]: line.split()[1:] for line in file if line.strip() and not line.startswith("#")}
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    counts, passed, failed = {}, 0, 0
    print("| kernel | instructions for a multiply-add | ratio | bound |\n|---|---|---|---|")
    for line in listed.splitlines():
        name, units = line.split()
        once, thrice = (instructions(command, plugin, name, n) for n in (1, 3))
        counts[name] = (thrice - once) / 2 / int(units)
        base, bound = rules.get(name, (None, None))
        ratio = counts[name] / counts[base] if base else None
        print(f"| {name} | {counts[name]:.4f} |" + (f" {ratio:.3f} of {base} | {bound} |" if base else "  |  |"))
        if base and ratio <= float(bound):
            passed += 1
        elif base:
            print(f"FAIL {name}: {ratio:.3f} of {base}, at most {bound} expected")
            failed += 1
    for name in rules.keys() - counts.keys():
        print(f"FAIL no kernel is called {name}")
        failed += 1
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


main()
