"""Text detection: renders pages of lines, and measures the boxes that a detector finds on them:

    boxes.py cal.npz [--pages 16] [--seed 1]                                                         samples
    boxes.py FLOAT.onnx [OTHER.onnx | ort:MODEL.onnx ...] [--pages 20] [--seed 5] [--side 320]

The models are those of PP-OCR: input [1, 3, side, side], output [1, 1, side, side] of probabilities. A box is a
connected component of probabilities above 0.3. A row shows the share of lines that a box covers (intersection over
union of at least 0.3, because the boxes are those of shrunken lines), the share of the first model's boxes that is
found (at least 0.7), and the mean intersection over union of these boxes.
"""
import argparse
import random

import numpy
from PIL import Image, ImageDraw, ImageFont

import lines
import models

MEAN, DEVIATION = numpy.array([0.485, 0.456, 0.406]), numpy.array([0.229, 0.224, 0.225])


def make(count, seed, side):
    """Pages [count, 3, side, side], and the boxes of their lines: (left, top, right, bottom)."""
    dice, noise = random.Random(seed), numpy.random.default_rng(seed)
    said, types, pages, places = lines.words(), lines.fonts(), [], []
    for _ in range(count):
        image, at, found = Image.new("RGB", (side, side), (dice.randint(200, 255),) * 3), dice.randint(8, 30), []
        pen = ImageDraw.Draw(image)
        while at < side - 40:
            font = ImageFont.truetype(dice.choice(types), dice.randint(14, 26))
            start, left = dice.randrange(len(said) - 6), dice.randint(6, side // 4)
            text = " ".join(said[start:start + dice.randint(1, 3)])
            pen.text((left, at), text, fill=(dice.randint(0, 90),) * 3, font=font)
            box = pen.textbbox((left, at), text, font=font)
            found.append((box[0], box[1], min(box[2], side), box[3]))
            at = box[3] + dice.randint(14, 40)
        pixels = numpy.asarray(image, numpy.float32) + noise.normal(0, 5, (side, side, 3))
        pages.append(((pixels / 255 - MEAN) / DEVIATION).transpose(2, 0, 1).astype(numpy.float32))
        places.append(found)
    return numpy.stack(pages), places


def connected_boxes(mask):
    """Boxes of the connected components of a mask, from the runs of its rows."""
    boxes, above = [], []
    for y, row in enumerate(mask):
        edges = numpy.flatnonzero(numpy.diff(numpy.concatenate([[0], row.astype(numpy.int8), [0]])))
        now = []
        for begin, end in zip(edges[::2], edges[1::2]):
            box = [begin, y, end, y + 1]
            for run, other in above:
                if run[0] < end and run[1] > begin and other is not box:
                    box[0], box[1] = min(box[0], other[0]), min(box[1], other[1])
                    box[2], box[3] = max(box[2], other[2]), max(box[3], other[3])
                    now = [(r, box if b is other else b) for r, b in now]
                    above = [(r, box if b is other else b) for r, b in above]
                    boxes = [b for b in boxes if b is not other]
            if not any(b is box for b in boxes):
                boxes.append(box)
            now.append(((begin, end), box))
        above = now
    return [tuple(b) for b in boxes if (b[2] - b[0]) * (b[3] - b[1]) >= 40]


def intersection_over_union(a, b):
    """IoU of two boxes (left, top, right, bottom)."""
    wide, high = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    both = max(wide, 0) * max(high, 0)
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def best(boxes, others):
    """For each box the largest intersection over union with one of the others."""
    return [max((intersection_over_union(a, b) for b in others), default=0) for a in boxes]


def find(name, pages):
    model = models.open_model(name)
    key = models.Inlay(name.removeprefix("ort:"), 1).inputs[0]
    return [connected_boxes(model.run({key: page[None]})[0][0, 0] > 0.3) for page in pages], model.ms()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--pages", type=int, default=20)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--side", type=int, default=320)
    args = parser.parse_args()
    pages, places = make(args.pages, args.seed, args.side)
    if args.models[0].endswith(".npz"):
        numpy.savez_compressed(args.models[0], x=pages[:, None])
        return
    first = None
    print("| model | MiB | lines found | the same boxes | mean IoU | ms a page |\n|---|---|---|---|---|---|")
    for name in args.models:
        found, ms = find(name, pages)
        first = found if first is None else first
        there = [u for place, boxes in zip(places, found) for u in best(place, boxes)]
        same = [u for was, boxes in zip(first, found) for u in best(was, boxes)]
        print(f"{models.label(name)} | {100 * numpy.mean(numpy.array(there) >= 0.3):.1f} % | "
              f"{100 * numpy.mean(numpy.array(same) >= 0.7):.1f} % | {numpy.mean(same):.3f} | {ms:.1f} |", flush=True)


if __name__ == "__main__":
    main()
