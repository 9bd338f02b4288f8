#!/usr/bin/env python3
"""Writes unicode_case.inc: the one-to-one mappings of letters to lower and to upper case, from Python's copy of Unicode's
tables.

    unicode_case.py >unicode_case.inc"""
import unicodedata


def mappings(change):
    """Code -> code, of characters that map to one other character."""
    letters = ((code, change(chr(code))) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    return {code: ord(text) for code, text in letters if len(text) == 1 and ord(text) != code}


def blocks(pairs):
    """Runs first, last, delta, step of codes with the same delta; runs do not overlap."""
    codes, runs = sorted(pairs), []
    while codes:
        first = codes[0]
        delta, longest = pairs[first] - first, [first]
        for step in (1, 2):
            run = [first]
            while pairs.get(run[-1] + step) == run[-1] + step + delta and (step == 1 or run[-1] + 1 not in pairs):
                run.append(run[-1] + step)
            longest = run if len(run) > len(longest) else longest
        step = longest[1] - first if len(longest) > 1 else 1
        runs.append((first, longest[-1], delta, step))
        codes = codes[len(longest):]
    assert all(a[1] < b[0] for a, b in zip(runs, runs[1:]))
    return runs


def main():
    print(f"/* Unicode {unicodedata.unidata_version}, written by unicode_case.py: first, last, delta, step. */")
    for name, change in (("lower", str.lower), ("upper", str.upper)):
        print(f"static const case_block {name}_blocks[] = {{")
        line = "   "
        for run in blocks(mappings(change)):
            text = f" {{ {run[0]:#x}, {run[1]:#x}, {run[2]}, {run[3]} }},"
            if len(line) + len(text) > 120:
                print(line)
                line = "   "
            line += text
        print(line + "\n};")


if __name__ == "__main__":
    main()
