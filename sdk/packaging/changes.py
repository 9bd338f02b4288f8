#!/usr/bin/python3
"""The changes of the next release, from the files of the folder changes/ (README.md there).

    changes.py                         prints the section of the next release
    changes.py --check                 a line for each file that is wrong; exit code 1 if there is one
    changes.py --release VERSION DATE  writes the section on top of CHANGELOG.md, and removes the files; a section
                                       "VERSION, not yet released" there gets the date, and the entries at its end
    --tree DIR                         another tree than the one of this script"""
import argparse
import pathlib
import re
import sys
import textwrap

KINDS = {"breaking": "Breaking", "results": "Results that change", "new": "New", "fixed": "Fixed"}
LONGEST = 600


def mistakes(folder):
    """Yields a line for each file that is not as README.md says."""
    for path in sorted(folder.iterdir()):
        if path.name == "README.md":
            continue
        kind = path.name.split(".")[-2] if path.name.count(".") == 2 else ""
        text = path.read_text().strip()
        if kind not in KINDS or not re.fullmatch(r"[a-z0-9-]+\.[a-z]+\.md", path.name):
            yield f"{path.name}: the name is not WORDS.KIND.md with one of the kinds {', '.join(KINDS)}"
        elif not text or len(text) > LONGEST:
            yield f"{path.name}: {len(text)} characters; an entry has 1 to {LONGEST}"
        elif re.search(r"^(#|- |\* |\d+\. )", text, re.M) or "\n\n" in text:
            yield f"{path.name}: an entry is one paragraph, without headings and lists"


def section(folder, title):
    """The section of a release: its entries by kind, in the order of the files' names."""
    lines = [f"## {title}"]
    for kind, heading in KINDS.items():
        entries = [path.read_text() for path in sorted(folder.glob(f"*.{kind}.md"))]
        lines += ["", f"### {heading}", ""] if entries else []
        for entry in entries:
            lines += textwrap.wrap(" ".join(entry.split()), 120, initial_indent="- ", subsequent_indent="  ",
                                   break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines + [""])


def main():
    parser = argparse.ArgumentParser(description="The changes of the next release.")
    parser.add_argument("--check", action="store_true", help="check the files")
    parser.add_argument("--release", nargs=2, metavar=("VERSION", "DATE"), help="write CHANGELOG.md")
    parser.add_argument("--tree", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    arguments = parser.parse_args()
    folder, log = arguments.tree / "sdk/packaging/changes", arguments.tree / "CHANGELOG.md"
    wrong = list(mistakes(folder))
    if wrong:
        sys.exit("\n".join(wrong))
    if arguments.check:
        return
    if arguments.release is None:
        print(section(folder, "Next release"), end="")
        return
    version, date = arguments.release
    text = log.read_text()
    if not re.fullmatch(r"\d+\.\d+\.\d+", version) or not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        sys.exit(f"changes.py: {version} {date}: expected a version such as 0.2.0 and a date such as 2026-12-31")
    heads = list(re.finditer(r"^## (.*)\n", text, re.M))
    entries = section(folder, f"{version}, {date}")
    if heads[0][1] == f"{version}, not yet released":
        end = heads[1].start() if len(heads) > 1 else len(text)
        after = text[end:]
        title, _, rest = entries.partition("\n")
        text = text[:heads[0].start()] + title + "\n" + text[heads[0].end():end].rstrip() + "\n" + rest
        text += "\n" + after if after else ""
    elif any(re.match(rf"{re.escape(version)}\b", head[1]) for head in heads):
        sys.exit(f"changes.py: CHANGELOG.md has a section {version} already")
    else:
        text = text[:heads[0].start()] + entries + "\n" + text[heads[0].start():]
    log.write_text(text)
    for path in folder.glob("*.*.md"):
        path.unlink()


main()
