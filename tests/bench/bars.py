#!/usr/bin/env python3
"""Draws the table "Compared with other runtimes" of results.md as bars, and checks the figures that README.md states.

  bars.py          writes bars.svg beside this file
  bars.py --check  fails if bars.svg, or a figure of README.md or results.md, is not that of the table"""
import math
import pathlib
import re
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
PUBLISHED = 21  # the last rows, from npm
ROW, LEFT, SCALE = 15, 250, 110  # pixels: the height of a row, the width of the names, and a ratio of 1

HEAD = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11">
<title>Time of the fastest of ONNX Runtime, OpenCV and ncnn, divided by the time of inlay, on one thread</title>
<style>
text {{ fill: #1f2328; }} .bar {{ fill: #2f6f4f; }} .npm {{ fill: #7a5ba6; }} .one {{ stroke: #8c959f; }}
@media (prefers-color-scheme: dark) {{ text {{ fill: #e6edf3; }} .bar {{ fill: #57ab7d; }} .npm {{ fill: #a68bd3; }} }}
</style>
"""


def rows():
    """Pairs of a model and the ratio on one thread, in the order of the table."""
    text = (HERE / "results.md").read_text().split("## Compared with other runtimes", 1)[1].split("\n## ", 1)[0]
    found = []
    for line in text.split("\n"):
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 6 and (ratio := re.match(r"\d+\.\d+", cells[3])):
            found.append((cells[1].rstrip(" *"), float(ratio.group())))
    return found


def draw(table):
    longest = max(ratio for _, ratio in table)
    width, height = LEFT + round(longest * SCALE) + 60, ROW * (len(table) + 2)
    lines = [HEAD.format(width=width, height=height),
             f'<text x="{LEFT}" y="11">1 = as fast as the fastest other runtime; one thread of a Zen 4</text>\n']
    ordered = sorted(table[:-PUBLISHED], key=lambda row: -row[1]) + sorted(table[-PUBLISHED:], key=lambda row: -row[1])
    for i, (name, ratio) in enumerate(ordered):
        y = ROW * (i + 1) + 4
        kind = "bar" if i < len(table) - PUBLISHED else "npm"
        lines.append(f'<text x="{LEFT - 6}" y="{y + 10}" text-anchor="end">{name}</text>'
                     f'<rect class="{kind}" x="{LEFT}" y="{y + 1}" width="{ratio * SCALE:.1f}" height="{ROW - 4}"/>'
                     f'<text x="{LEFT + ratio * SCALE + 4:.1f}" y="{y + 10}">{ratio:.2f}</text>\n')
    x = LEFT + SCALE
    lines.append(f'<line class="one" x1="{x}" x2="{x}" y1="{ROW}" y2="{height - ROW}"/>\n')
    lines.append(f'<text x="{LEFT}" y="{height - 3}">green: exported by PyTorch; violet: published on npm</text>\n</svg>\n')
    return "".join(lines)


def mean(ratios):
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))


def main():
    table = rows()
    ratios = [ratio for _, ratio in table]
    drawn = draw(table)
    if sys.argv[1:] != ["--check"]:
        (HERE / "bars.svg").write_text(drawn)
        return
    wrong = [] if (HERE / "bars.svg").read_text() == drawn else ["tests/bench/bars.svg is not that of the table: run bars.py"]
    # The sentences say these figures of one thread, rounded to two digits.
    figures = {"mean": mean(ratios), "median": statistics.median(ratios), "PyTorch": mean(ratios[:-PUBLISHED]),
               "published": mean(ratios[-PUBLISHED:])}
    for name in ("README.md", "tests/bench/results.md"):
        text = " ".join((HERE.parents[1] / name).read_text().split())
        if f"{len(table)} models" not in text:
            wrong.append(f"{name} does not say that there are {len(table)} models")
        wrong += [f"{name} does not state the {what}, {value:.2f}" for what, value in figures.items()
                  if f"{value:.2f}" not in text and f"{math.floor(value * 100) / 100:.2f}" not in text]
    sys.exit("\n".join(wrong) or 0)


main()
