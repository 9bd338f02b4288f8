"""OCR of text lines: the share of wrong characters, the lines with the same text as the first model, and the time of a
line.

    text.py --keys ppocr_keys_v1.txt FLOAT.onnx [OTHER.onnx | ort:MODEL.onnx ...] [--lines 200] [--seed 7] [--width 320]
            [--chinese]

The models are those of PP-OCR: input [1, 3, 48, W], output [1, T, symbols], symbol 0 is the blank.
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import lines
import models


def read(scores, keys):
    """The text of a greedy CTC decoder for scores [T, symbols]."""
    out, last = [], 0
    for symbol in scores.argmax(axis=1):
        if symbol not in (0, last):
            out.append(keys[symbol] if symbol < len(keys) else " ")
        last = symbol
    return "".join(out)


def distance(a, b):
    """The edit distance: the minimum number of insertions, deletions and replacements between a and b."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for k, y in enumerate(b, 1):
            before, row[k] = row[k], min(row[k] + 1, row[k - 1] + 1, before + (x != y))
    return row[len(b)]


def run(name, pictures, keys, threads):
    model = models.open_model(name, threads)
    key = models.Inlay(name.removeprefix("ort:"), 1).inputs[0]
    texts = [read(model.run({key: picture[None]})[0][0], keys) for picture in pictures]
    return texts, model.ms()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--keys", required=True)
    parser.add_argument("--lines", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--width", type=int, default=320)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--chinese", action="store_true")
    args = parser.parse_args()
    with open(args.keys, encoding="utf-8") as file:
        keys = [""] + [line.rstrip("\n") for line in file] + [" "]
    pictures, said = lines.make(args.lines, args.seed, args.width, args.chinese)
    first = None
    print("| model | MiB | characters wrong | the same text | ms a line |\n|---|---|---|---|---|")
    for path in args.models:
        texts, ms = run(path, pictures, keys, args.threads)
        first = texts if first is None else first
        wrong = sum(distance(a, b) for a, b in zip(said, texts)) / sum(len(a) for a in said)
        same = sum(a == b for a, b in zip(first, texts)) / len(texts)
        print(f"{models.label(path)} | {100 * wrong:.2f} % | "
              f"{100 * same:.1f} % | {ms:.2f} |", flush=True)


if __name__ == "__main__":
    main()
