#!/usr/bin/env python3
"""draw_text.py OUT.png LINE... - a picture with a few lines of text, for ocr to read."""
import sys

from PIL import Image, ImageDraw, ImageFont

FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    font = ImageFont.truetype(FONT, 36)
    lines = sys.argv[2:]
    picture = Image.new("RGB", (760, 60 + 80 * len(lines)), (250, 248, 240))
    pen = ImageDraw.Draw(picture)
    for i, line in enumerate(lines):
        pen.text((40, 40 + 80 * i), line, font=font, fill=(30, 30, 60))
    picture.save(sys.argv[1])


if __name__ == "__main__":
    main()
