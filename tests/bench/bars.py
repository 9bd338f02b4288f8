#!/usr/bin/env python3
"""Draws the table "Compared with other runtimes" of results.md as a picture, and checks the figures of README.md.

  bars.py          writes bars.svg beside this file
  bars.py --check  fails if bars.svg, or a figure of README.md, results.md or decoding.md, is not that of its table"""
import math
import pathlib
import re
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
PUBLISHED = 21  # the last rows, from npm
WIDTH, ROW, LEFT, SQUARE = 390, 26, 96, 15  # pixels: the picture, so that a telephone shows it unscaled, and its parts
WORDS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
EDGES = (0, 1, 1.1, 1.2, 1.3, 1.5, 2, 3, math.inf)

HEAD = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"
font-family="sans-serif" font-size="14">
<title>How many models run how many times as fast as on the fastest of ONNX Runtime, OpenCV and ncnn</title>
<style>
text {{ fill: #1f2328; }} .bar {{ fill: #2f6f4f; }} .npm {{ fill: #7a5ba6; }}
@media (prefers-color-scheme: dark) {{ text {{ fill: #e6edf3; }} .bar {{ fill: #57ab7d; }} .npm {{ fill: #a68bd3; }} }}
</style>
"""


def column(page, heading, index, pattern=r"(\d+\.\d+)"):
    """Pairs of the first cells of a row and the number in another cell, for the rows of a section that have one there."""
    text = (HERE / page).read_text().split("\n" + heading + "\n", 1)[1].split("\n#", 1)[0]
    found = []
    for line in text.split("\n"):
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > index + 1 and (number := re.match(pattern, cells[index])):
            found.append((cells[1:3], float(number.group(1))))
    return found


def rows():
    """Pairs of a model and the ratio on one thread, in the order of the table."""
    return [(names[0], ratio) for names, ratio in column("results.md", "## Compared with other runtimes", 3)]


def other_figures():
    """What README.md and the page on decoding state of further tables."""
    avx2 = [ratio for _, ratio in column("results.md", "### All providers on AVX2", 4)]
    xeon = [ratio for names, ratio in column("machines/intel-r-xeon-r-processor-family-6-model-207.md", "## Rows", 3)
            if not names[0].startswith("network ")]
    gguf = {cell: {} for cell in (5, 6)}
    for cell, ratios in gguf.items():
        for names, ratio in column("results.md", "## GGUF compared with llama.cpp", cell, r".*: (\d+\.\d+)$"):
            ratios.setdefault(names[1], []).append(ratio)
    quiet = mean([ratio for name, ratio in rows() if "*" not in name])
    q4 = [f"{mean(ratios['Q4_K']):.2f}" for ratios in gguf.values()]
    return {"README.md": [f"without these five the mean is {quiet:.2f}",
                          f"For {len(xeon)} single operators, the mean against ONNX Runtime is {mean(xeon):.2f} and the "
                          f"median {statistics.median(xeon):.2f}",
                          f"{mean(avx2):.2f} for {len(avx2)} models, of which {WORDS[sum(x < 1 for x in avx2)]} are slower",
                          f"the mean against llama.cpp is {q4[0]} for prompts and {q4[1]} for generated text "
                          f"({len(gguf[5]['Q4_K'])} small models"],
            "sdk/docs/pages/decoding.md": [f"| {kind} | {mean(gguf[5][kind]):.2f} | {mean(gguf[6][kind]):.2f} |"
                                           for kind in gguf[5]]}


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
    for name, sentences in other_figures().items():
        text = " ".join((HERE.parents[1] / name).read_text().split())
        wrong += [f"{name} does not state: {sentence}" for sentence in sentences if sentence not in text]
    sys.exit("\n".join(wrong) or 0)


main()
