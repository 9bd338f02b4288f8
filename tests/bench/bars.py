#!/usr/bin/env python3
"""Draws the table "Compared with other runtimes" of results.md as a picture, and checks the figures of README.md.

  bars.py          writes bars.svg beside this file
  bars.py --check  fails if bars.svg, or a figure of README.md or results.md, is not that of the table"""
import math
import pathlib
import re
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
PUBLISHED = 21  # the last rows, from npm
WIDTH, ROW, LEFT, SQUARE = 390, 26, 96, 15  # pixels: the picture, so that a telephone shows it unscaled, and its parts
EDGES = (0, 1, 1.1, 1.2, 1.3, 1.5, 2, 3, math.inf)

HEAD = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"
font-family="sans-serif" font-size="14">
<title>How many models run how many times as fast as on the fastest of ONNX Runtime, OpenCV and ncnn</title>
<style>
text {{ fill: #1f2328; }} .bar {{ fill: #2f6f4f; }} .npm {{ fill: #7a5ba6; }}
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
    """A square for each model, in a row for each interval of ratios."""
    lines = [HEAD.format(width=WIDTH, height=ROW * (len(EDGES) + 2)),
             '<text x="0" y="16">Times as fast as the best other, one thread of a Zen 4</text>\n']
    for i, (low, high) in enumerate(zip(EDGES, EDGES[1:])):
        y = ROW * (i + 1) + 4
        kinds = ["bar" if k < len(table) - PUBLISHED else "npm"
                 for k, (_, ratio) in enumerate(table) if low <= ratio < high]
        label = f"below {high}" if low == 0 else f"{low} to {high}" if high < math.inf else f"above {low}"
        lines.append(f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{label}</text>')
        lines += [f'<rect class="{kind}" x="{LEFT + SQUARE * k}" y="{y + 2}" width="{SQUARE - 2}" height="{ROW - 10}"/>'
                  for k, kind in enumerate(kinds)]
        lines.append(f'<text x="{LEFT + SQUARE * len(kinds) + 6}" y="{y + 14}">{len(kinds)}</text>\n')
    y = ROW * len(EDGES) + 14
    for line, (kind, text) in enumerate((("bar", f"a model exported by PyTorch ({len(table) - PUBLISHED})"),
                                         ("npm", f"a model published on npm ({PUBLISHED})"))):
        lines.append(f'<rect class="{kind}" x="0" y="{y + 20 * line}" width="{SQUARE - 2}" height="{ROW - 10}"/>'
                     f'<text x="{SQUARE + 6}" y="{y + 20 * line + 13}">{text}</text>\n')
    return "".join(lines) + "</svg>\n"


def mean(ratios):
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))


def main():
    table = rows()
    ratios = [ratio for _, ratio in table]
    drawn = draw(table)
    if sys.argv[1:] != ["--check"]:
        (HERE / "bars.svg").write_text(drawn)
        return
    wrong = []
    if (HERE / "bars.svg").read_text() != drawn:
        wrong.append("tests/bench/bars.svg is not that of the table: run bars.py")
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
