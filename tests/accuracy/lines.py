"""Renders lines of text: words of the licences in Debian, in its DejaVu fonts, slightly rotated, with noise.

    lines.py FILE.npz [--lines 64] [--seed 1] [--width 320]     samples for inlay quantize and inlay compare --data

--chinese: words of the Chinese translations of Debian's programs, in the fonts of fonts-noto-cjk. The same seed
generates the same lines, as long as fonts, licences and translations are the same.
"""
import argparse
import gettext
import glob
import os
import random
import re

import numpy
from PIL import Image, ImageDraw, ImageFont

HEIGHT = 48


def words():
    with open("/usr/share/common-licenses/GPL-3", encoding="utf-8") as file:
        return file.read().split()


def fonts():
    return sorted(glob.glob("/usr/share/fonts/truetype/dejavu/DejaVu*.ttf"))


def chinese_words():
    found = set()
    for path in glob.glob("/usr/share/locale/zh_CN/LC_MESSAGES/*.mo"):
        try:
            with open(path, "rb") as file:
                said = gettext.GNUTranslations(file)._catalog.values()
        except (OSError, UnicodeDecodeError, ValueError):
            continue
        for text in said:
            found.update(re.findall("[\u4e00-\u9fa5]{2,8}", text if isinstance(text, str) else ""))
    if len(found) < 1000:
        raise SystemExit("Chinese lines need translations: /usr/share/locale/zh_CN")
    return sorted(found)


def chinese_fonts():
    """The fonts of Debian, or of the folder INLAY_FONTS."""
    folder = os.environ.get("INLAY_FONTS", "/usr/share/fonts/opentype/noto")
    found = sorted(glob.glob(f"{folder}/Noto*CJK-*.ttc"))
    if not found:
        raise SystemExit("Chinese lines need fonts-noto-cjk")
    return found


def draw(text, font, dice, noise, width):
    """An image [3, HEIGHT, width] with values from -1 to 1, grey to the right of the text."""
    image = Image.new("L", (2400, HEIGHT), dice.randint(200, 255))
    pen = ImageDraw.Draw(image)
    pen.text((6, dice.randint(4, 12)), text, fill=dice.randint(0, 80), font=font)
    long = min(2400, int(pen.textlength(text, font=font)) + 12)
    image = image.crop((0, 0, long, HEIGHT)).rotate(dice.uniform(-1, 1), fillcolor=230)
    long = min(width, long)
    image = image.resize((long, HEIGHT))
    pixels = numpy.full((HEIGHT, width), 127.5, numpy.float32)
    pixels[:, :long] = numpy.asarray(image, numpy.float32) + noise.normal(0, 6, (HEIGHT, long))
    return numpy.stack([pixels / 127.5 - 1] * 3).astype(numpy.float32)


def make(count, seed, width, chinese=False):
    """Images [count, 3, HEIGHT, width] and their texts."""
    dice, noise = random.Random(seed), numpy.random.default_rng(seed)
    said, types = (chinese_words(), chinese_fonts()) if chinese else (words(), fonts())
    pictures, texts = [], []
    for _ in range(count):
        at = dice.randrange(len(said) - 8)
        if chinese:
            text = "".join(dice.choice(said) for _ in range(dice.randint(1, 3)))[:width // 32]
        else:
            text = " ".join(said[at:at + dice.randint(2, 4)])[:width // 13]
        font = ImageFont.truetype(dice.choice(types), dice.randint(24, 30), index=2 if chinese else 0)  # the face for zh_CN
        pictures.append(draw(text, font, dice, noise, width))
        texts.append(text)
    return numpy.stack(pictures), texts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--lines", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--width", type=int, default=320)
    parser.add_argument("--chinese", action="store_true")
    args = parser.parse_args()
    pictures, _ = make(args.lines, args.seed, args.width, args.chinese)
    numpy.savez_compressed(args.file, x=pictures)


if __name__ == "__main__":
    main()
