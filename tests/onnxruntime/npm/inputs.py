"""Draws pictures for the cases: a page of text, and a figure in front of a background.
inputs.py OUT"""
import pathlib
import sys

from PIL import Image, ImageDraw, ImageFont

LINES = """The first line of this page is plain.
Numbers: 31, 4159 and 26535 in a row.
Prices of 12.50 and 7.99 were paid.
Nobody expected rain on Tuesday.
A parcel left Hamburg at noon.
Please sign both copies below.
Total amount due: 1,284.00 EUR
Invoice 2024-0193, page 2 of 3""".splitlines()


def page():
    font = ImageFont.truetype("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", 28)
    image = Image.new("RGB", (760, 60 + 62 * len(LINES)), "white")
    draw = ImageDraw.Draw(image)
    for i, line in enumerate(LINES):
        draw.text((40, 40 + 62 * i), line, fill="black", font=font)
    return image


def figure():
    """A person in front of sky and grass."""
    image = Image.new("RGB", (640, 480))
    draw = ImageDraw.Draw(image)
    for y in range(480):
        draw.line((0, y, 640, y), (120, 160 + y // 8, 250 - y // 2) if y < 300 else (60, 140 - y // 8, 50))
    draw.ellipse((180, 220, 460, 640), (150, 40, 45))
    draw.rectangle((290, 190, 350, 260), (205, 160, 130))
    draw.ellipse((250, 70, 390, 250), (224, 180, 150))
    draw.pieslice((245, 60, 395, 200), 180, 360, (60, 40, 30))
    for x in (292, 338):
        draw.ellipse((x, 140, x + 14, 152), "black")
    draw.arc((290, 170, 350, 215), 20, 160, (120, 40, 40), 4)
    return image


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[1])
    page().save(out / "page.png")
    figure().save(out / "figure.png")
